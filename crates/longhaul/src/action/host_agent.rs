//! `longhaul agent status|drain|pause|resume|forget`: asks the agent of this host.

use agent::controller::host::{Question, SessionStatus, Status, ask};
use anyhow::{Context, Result};
use api::agent::{Mode, Role};
use serde_json::json;

use crate::args::controller::fleet::AgentWhat;
use crate::args::token::StateArgs;
use crate::exit;
use crate::output::name::{bytes, rate, span};
use crate::output::{COLUMNS_MAX, print};

/// What the agent of this host is asked.
pub(crate) struct HostQuestion {
    state: StateArgs,
    question: Question,
    as_json: bool,
}

impl HostQuestion {
    /// What is written, if it is for this host and not for a controller.
    pub(super) fn of(what: &AgentWhat) -> Option<HostQuestion> {
        let (state, question, as_json) = match what {
            AgentWhat::Status { json, state } => (state, Question::Status, *json),
            AgentWhat::Forget { state } => (state, Question::Forget, false),
            AgentWhat::Drain(args) if args.host.is_none() => {
                (&args.state, Question::Drain { reason: args.reason.clone() }, args.reach.json)
            }
            AgentWhat::Pause(args) if args.host.is_none() => {
                (&args.state, Question::Pause { reason: args.reason.clone() }, args.reach.json)
            }
            AgentWhat::Resume(args) if args.host.is_none() => (&args.state, Question::Resume, args.reach.json),
            _ => return None,
        };
        Some(HostQuestion { state: state.clone(), question, as_json })
    }
}

/// Asks.
///
/// # Errors
/// When there is no such agent, or it refuses.
pub(super) fn run(HostQuestion { state, question, as_json }: HostQuestion) -> Result<u8> {
    let state_dir = state_dir(&state)?;
    let status = ask(&state_dir, &question)?;
    print(match question {
        _ if as_json => format!("{}\n", json!(status)),
        Question::Status => shown(&status),
        _ => format!("{}\n", decided(&status)),
    })?;
    Ok(exit::DONE)
}

/// The state directory alone counts: a configuration that cannot be any more must not keep its operator from draining.
fn state_dir(args: &StateArgs) -> Result<std::path::PathBuf> {
    if let Some(dir) = &args.state_dir {
        return Ok(dir.clone());
    }
    Ok(super::token::config(args)
        .context("cannot tell where the agent keeps its state: give --state-dir")?
        .state_dir()
        .to_owned())
}

fn decided(status: &Status) -> String {
    let mut running = match status.sessions.len() {
        0 => "it drives no session".to_owned(),
        1 => "it drives 1 session".to_owned(),
        n => format!("it drives {n} sessions"),
    };
    if status.served > 0 {
        running.push_str(&format!(", others drive {} with it", status.served));
    }
    if status.forgotten {
        return format!("the controller {} is dropped; {running}", status.controller);
    }
    format!("the agent {}; {running}", mode(status.mode))
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Active => "takes part",
        Mode::Draining => "drains: it takes nothing new",
        Mode::Paused => "is paused: its sessions stand still, it takes nothing new",
    }
}

fn shown(status: &Status) -> String {
    let reason = if status.reason.is_empty() { String::new() } else { format!(" ({})", status.reason) };
    let since = span(status.since_s as f64);
    let mut text = format!("controller   {}\n", status.controller);
    if let Some(fingerprint) = &status.fingerprint {
        text.push_str(&format!("fingerprint  {fingerprint}\n"));
    }
    text.push_str(&match (status.connected, status.forgotten) {
        (true, _) => format!("connected    for {since}, as {}\n", status.host),
        (false, true) => "connected    no, it was dropped: put a new token into --enrol-token-file\n".to_owned(),
        (false, false) => format!("connected    no, for {since}\n"),
    });
    if let Some(problem) = status.problem.as_ref().filter(|_| !status.forgotten) {
        text.push_str(&format!("problem      {problem}\n"));
    }
    text.push_str(&format!("mode         {}{reason}\n", mode(status.mode)));
    let served = if status.served > 0 { format!(", and {} that others drive", status.served) } else { String::new() };
    match status.sessions.len() {
        0 => text.push_str(&format!("sessions     none of its own{served}\n")),
        n => text.push_str(&format!("sessions     {n} of its own{served}\n")),
    }
    if status.sessions.is_empty() {
        return text;
    }
    text.push('\n');
    text.push_str(HEADER);
    status.sessions.iter().for_each(|session| text.push_str(&row(session)));
    text
}

const HEADER: &str = "SESSION   DONE      RATE         LEASE        FOR         WHAT\n";

fn row(session: &SessionStatus) -> String {
    let arrow = if session.role == Role::Source { "->" } else { "<-" };
    let set = if session.set_bps == 0 { "still".to_owned() } else { rate(session.set_bps) };
    let fallen = if session.fallen_back { "!" } else { "" };
    let line = format!(
        "{:<8}  {:<8}  {:<11}  {:<11}  {:<10}  {} {arrow} {}",
        session.session,
        bytes(session.bytes_done),
        rate(session.rate_bps),
        format!("{set}{fallen}"),
        session.collaboration.chars().take(10).collect::<String>(),
        session.here,
        session.other,
    );
    let line: String = line.chars().take(COLUMNS_MAX).collect();
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use api::Name;

    use super::*;

    #[test]
    fn a_status_is_read_at_a_glance() {
        let session = SessionStatus {
            session: 41,
            collaboration: "atlas".into(),
            role: Role::Source,
            here: Name(b"/data/run7".to_vec()),
            other: "dtn2".into(),
            generation: 3,
            set_bps: 8_000_000_000,
            fallen_back: true,
            rate_bps: 7_900_000_000,
            bytes_done: 123_456_789_012,
            files_done: 5,
        };
        let status = Status {
            controller: "c.example.org:4811".into(),
            problem: Some("it does not answer".into()),
            since_s: 90,
            mode: Mode::Draining,
            reason: "disks".into(),
            sessions: vec![session],
            served: 2,
            ..Status::default()
        };
        let text = shown(&status);
        for part in [
            "no, for",
            "problem      it does not answer",
            "drains: it takes nothing new (disks)",
            "8 Gb/s!",
            "1 of its own, and 2 that",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let row = text.lines().last().unwrap();
        assert_eq!(HEADER.find("WHAT"), row.find("/data/run7"), "{text}");
        assert_eq!(
            decided(&status),
            "the agent drains: it takes nothing new; it drives 1 session, others drive 2 with it"
        );
    }
}
