//! `twin run`.

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Context, Result};
use model::scenario::Scenario;
use twin::place::Place;
use twin::scenario::{self, Mailbox, Stopper, Told};

use crate::action::block_on;
use crate::action::network;
use crate::args::twin::{DriverName, RunArgs};
use crate::drive::Signals;
use crate::exit::{self, as_usage, usage};
use crate::output::{note, print};

/// Lines of a program's output that are shown when it failed; `--json` has all that is kept.
const SHOWN_LINES: usize = 40;

pub(super) fn run(args: &RunArgs) -> Result<u8> {
    let scenario = read(&args.scenario)?;
    let driver = args.driver.map_or(scenario.driver, DriverName::driver);
    scenario.check_driver(driver).map_err(|why| usage(format!("--driver: {why}")))?;
    let name = args.name.clone().unwrap_or_else(|| format!("run-{}", std::process::id()));
    let place = Place::of(&name).map_err(as_usage)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mailbox = Mailbox::default();
    stop_on_signals(mailbox.stopper())?;
    let mut told = Ok(());
    let mut tell = |event: &Told| {
        // A reader that went away does not end the run: the twin is taken down in order.
        if told.is_ok() {
            told = tell(event, args.json);
        }
    };
    let summary = scenario::run(&scenario, driver, &place, &program, &mailbox, &mut tell);
    let summary = summary.inspect_err(|error| {
        if args.json {
            let line = serde_json::json!({ "event": "summary", "ok": false, "error": exit::one_line(error) });
            // The error itself is what is told last.
            let _ = print(format!("{line}\n"));
        }
    })?;
    if !summary.ok {
        return Ok(exit::FAILED);
    }
    told.map(|()| exit::DONE)
}

fn read(path: &Path) -> Result<Scenario> {
    let name = path.to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|error| usage(format!("cannot read {name}: {error}")))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let load = |named: &str| network::read(Path::new(named), beside).map_err(|error| exit::one_line(&error));
    Scenario::from_toml(&text, &name, load).map_err(|error| usage(error.to_string()))
}

/// From here on SIGINT, SIGTERM and SIGHUP end the run, which takes the twin down.
fn stop_on_signals(stopper: Stopper) -> Result<()> {
    let (ready, is_ready) = sync_channel(1);
    let listen = move || {
        block_on(async move {
            let mut signals = Signals::with_hangup()?;
            // Who waits for it is still there.
            let _ = ready.send(());
            signals.next().await;
            note("stopping: the twin is taken down");
            stopper.stop();
            // The handlers stay as long as the process: a second signal does not leave the twin behind.
            Ok(())
        })
    };
    thread::Builder::new().name("lh-signals".to_owned()).spawn(listen)?;
    is_ready.recv().context("cannot listen to signals")
}

fn tell(event: &Told, json: bool) -> Result<()> {
    if json {
        return print(format!("{}\n", serde_json::to_string(event)?));
    }
    print(text(event))
}

/// For people: a line of the timeline, and what a program that failed wrote.
fn text(event: &Told) -> String {
    let failed = |ok: bool| if ok { "" } else { "FAILED: " };
    let line = |seconds: f64, text: String| format!("{seconds:>8.3} s  {text}\n");
    match event {
        Told::Up { seconds, twin, network } => line(*seconds, format!("{network} is up as {twin}")),
        Told::Link { seconds, link, way, change } => {
            let way = way.map(|way| format!(" {way}")).unwrap_or_default();
            line(*seconds, format!("link {link}{way}: {}", change.join(", ")))
        }
        Told::Started { seconds, program, host, command } => {
            line(*seconds, format!("{program} starts on {host}: {}", command.join(" ")))
        }
        Told::Ended { seconds, program, exit_code, ok, stopped, why, stdout, stderr, .. } => {
            let how = match (why, exit_code) {
                (Some(why), _) => why.clone(),
                (None, _) if *stopped => "ended with the scenario".to_owned(),
                (None, Some(code)) => format!("ended with {code}"),
                (None, None) => "ended".to_owned(),
            };
            let mut text = line(*seconds, format!("{}{program}: {how}", failed(*ok)));
            if !ok {
                text += &quoted("standard output", stdout);
                text += &quoted("standard error", stderr);
            }
            text
        }
        Told::Assertion { seconds, ok, text, .. } => line(*seconds, format!("{}{text}", failed(*ok))),
        Told::Conservation { seconds, ok: true, .. } => {
            line(*seconds, "sent = delivered + dropped + queued on every link".to_owned())
        }
        Told::Conservation { seconds, broken, .. } => {
            line(*seconds, format!("FAILED: sent ≠ delivered + dropped + queued: {}", broken.join("; ")))
        }
        Told::Warning { seconds, text } => line(*seconds, text.clone()),
        Told::Failure { seconds, text } => line(*seconds, format!("FAILED: {text}")),
        Told::Summary(summary) => {
            let failures = summary.failures.len();
            let end = match failures {
                0 => format!("ok: all {} checks hold", summary.checks),
                1 => "FAILED".to_owned(),
                n => format!("FAILED: {n} failures"),
            };
            line(summary.seconds, end)
        }
    }
}

/// The last lines of what was written, set off from the timeline.
fn quoted(what: &str, written: &str) -> String {
    let lines: Vec<&str> = written.lines().collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    if shown.is_empty() {
        return String::new();
    }
    let cut = if shown.len() < lines.len() { format!(", the last {SHOWN_LINES} lines") } else { String::new() };
    let shown: String = shown.iter().map(|line| format!("              | {line}\n")).collect();
    format!("            {what}{cut}:\n{shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_last_of_what_was_written() {
        let written: String = (1..=50).map(|n| format!("line {n}\n")).collect();
        let ended = |ok: bool| Told::Ended {
            seconds: 1.5,
            program: "client".into(),
            host: "a".into(),
            exit_code: Some(1),
            ok,
            stopped: false,
            why: (!ok).then(|| "it ended with 1, not 0".into()),
            stdout: written.clone(),
            stderr: String::new(),
        };
        let shown = text(&ended(false));
        assert!(shown.starts_with("   1.500 s  FAILED: client: it ended with 1, not 0\n"), "{shown}");
        assert!(shown.contains("| line 50\n") && shown.contains("| line 11\n") && !shown.contains("| line 10\n"));
        assert_eq!(text(&ended(true)), "   1.500 s  client: ended with 1\n");
    }
}
