//! What operators and users want to read as it happens: from events of the log, once they are durable.

use std::collections::VecDeque;

use api::rest::Time;
use ledger::{Event, Moment, Phase, Reason, SessionId, TransferId};

use crate::core::Core;
use crate::views;

impl Core {
    /// Tells listeners what happened.
    pub(in crate::core) fn announce(&mut self, batch: &[(Moment, Event)]) {
        for (at, event) in batch {
            self.note(*at, event);
            if let Some((kind, subject, text)) = told(self, event) {
                self.shared.events.publish(Time::from_unix_ms(at.0), kind, &subject, text);
            }
            match event {
                Event::SessionEnded { session, .. } => drop(self.desk.sessions.remove(session)),
                Event::AgentForgotten { host } => self.let_go(host),
                _ => {}
            }
        }
    }

    /// Keeps what views and later words need.
    fn note(&mut self, at: Moment, event: &Event) {
        match event {
            Event::SessionStarted { session, transfer, .. } => {
                self.desk.sessions.insert(*session, *transfer);
                let is_new = |of: &ledger::Transfer| of.legs.iter().all(|leg| leg.done + leg.failed == 0);
                let is_new = self.state.transfers.get(transfer).is_some_and(is_new);
                if is_new && !self.desk.started.contains_key(transfer) {
                    self.desk.started.insert(*transfer, at);
                    let text = "its first session begins".to_owned();
                    self.shared.events.publish(
                        Time::from_unix_ms(at.0),
                        "transfer_started",
                        &transfer.to_string(),
                        text,
                    );
                }
            }
            Event::FilesSettled { settled, .. } => self.sampling.files_done += u64::from(settled.done),
            Event::Forgotten { transfer } => drop(self.desk.started.remove(transfer)),
            _ => {}
        }
    }

    /// Says the last words to an agent that was forgotten, and ends its connection.
    fn let_go(&mut self, host: &str) {
        let waiting = std::mem::take(&mut self.outbox);
        let (its, others): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(|(to, _)| to == host);
        self.outbox = others;
        if let Some(connected) = self.connected.get(host) {
            for (_, message) in its {
                if !connected.out.tell(message) {
                    break;
                }
            }
            self.disconnect(host);
        }
    }
}

type Told = (&'static str, String, String);

/// The kind, subject and text of an event; `None` of what nobody needs to read.
fn told(core: &Core, event: &Event) -> Option<Told> {
    transfer(core, event).or_else(|| session(core, event)).or_else(|| host(event)).or_else(|| network(core, event))
}

fn transfer(core: &Core, event: &Event) -> Option<Told> {
    let on = |kind, id: &TransferId, text: String| Some((kind, id.to_string(), text));
    match event {
        Event::Submitted { transfer, submission } => {
            let (class, by, for_whom) = (&submission.class, &submission.by, &submission.collaboration);
            let called = if submission.name.is_empty() { String::new() } else { format!("`{}`, ", submission.name) };
            on("transfer_submitted", transfer, format!("{called}class `{class}`, of `{for_whom}`, by `{by}`"))
        }
        Event::ListingDone { transfer, .. } => {
            let listing = core.state.transfers.get(transfer).map(|of| (of.listing.files, of.listing.bytes));
            let (files, bytes) = listing.unwrap_or_default();
            on("transfer_listed", transfer, format!("{files} files, {}", units::Bytes::new(bytes)))
        }
        Event::ListingFailed { transfer, cause, text, .. } => {
            on("transfer_listing_failed", transfer, format!("{}: {text}; {}", cause.words(), cause.way_out()))
        }
        Event::Paused { transfer, reason } => on("transfer_paused", transfer, reason.to_string()),
        Event::Resumed { transfer } => on("transfer_resumed", transfer, "it goes on".to_owned()),
        Event::Reclassed { transfer, class } => on("transfer_changed", transfer, format!("class `{class}`")),
        Event::UrgencySet { transfer, urgency } => on("transfer_changed", transfer, format!("urgency {urgency}")),
        Event::PageFailed { transfer, leg, files, cause, .. } => {
            let leg = u32::from(*leg) + 1;
            let text = format!("leg {leg}: {files} files: {}; {}", cause.words(), cause.way_out());
            on("transfer_files_failed", transfer, text)
        }
        Event::LegFailed { transfer, leg, reason } => {
            on("transfer_leg_failed", transfer, format!("leg {}: {reason}", u32::from(*leg) + 1))
        }
        Event::Ended { transfer, phase, reason } => on(ended(*phase), transfer, ending(core, transfer, reason)),
        _ => None,
    }
}

fn ended(phase: Phase) -> &'static str {
    match phase {
        Phase::Done => "transfer_done",
        Phase::Partly => "transfer_partly",
        Phase::Cancelled => "transfer_cancelled",
        _ => "transfer_failed",
    }
}

fn ending(core: &Core, id: &TransferId, reason: &Reason) -> String {
    let Some(transfer) = core.state.transfers.get(id) else { return reason.to_string() };
    let done: u64 = transfer.legs.iter().map(|leg| leg.done).fold(0, u64::saturating_add);
    let all = transfer.listing.files.saturating_mul(transfer.legs.len() as u64);
    format!("{reason}; {done} of {all} files in place")
}

fn session(core: &Core, event: &Event) -> Option<Told> {
    match event {
        Event::SessionStarted { session, transfer, leg, from, to, files, bytes, .. } => {
            let (leg, bytes) = (u32::from(*leg) + 1, units::Bytes::new(*bytes));
            let text = format!("transfer {transfer} leg {leg}: {files} files, {bytes}, from `{from}` to `{to}`");
            Some(("session_started", session.to_string(), text))
        }
        Event::SessionEnded { session, outcome } => {
            let of = |id: &SessionId| core.desk.sessions.get(id).map(|transfer| format!("transfer {transfer}: "));
            let whose = of(session).unwrap_or_default();
            let why = match (outcome.cause, outcome.text.as_str()) {
                (None, _) => "it came to its end".to_owned(),
                (Some(cause), "") => cause.words().to_owned(),
                (Some(cause), text) => format!("{}: {text}", cause.words()),
            };
            let host = outcome.host.as_ref().map(|host| format!(", at `{host}`")).unwrap_or_default();
            let bytes = units::Bytes::new(outcome.bytes_done);
            Some(("session_ended", session.to_string(), format!("{whose}{why}{host}; {bytes} in place")))
        }
        _ => None,
    }
}

fn host(event: &Event) -> Option<Told> {
    let on = |kind, host: &String, text: String| Some((kind, host.clone(), text));
    match event {
        Event::Enrolled { host, fingerprint, .. } => {
            on("agent_enrolled", host, format!("its key has the fingerprint {fingerprint}"))
        }
        Event::AgentBack { host } => on("agent_here", host, "it is connected".to_owned()),
        Event::AgentAway { host } => {
            on("agent_away", host, "it is not connected; its sessions go on by their leases".to_owned())
        }
        Event::AgentDecided { host, own, decision } => {
            let who = if *own { "at the host" } else { "here" };
            let what = match decision.mode {
                ledger::Mode::Active => "takes part",
                ledger::Mode::Paused => "paused",
                ledger::Mode::Draining => "draining",
            };
            let why = if decision.reason.is_empty() { String::new() } else { format!(": {}", decision.reason) };
            on("agent_mode", host, format!("{what}, decided {who}{why}"))
        }
        Event::AgentForgotten { host } => on("agent_forgotten", host, "its key opens nothing any more".to_owned()),
        Event::EnrolmentMade { enrolment, .. } => {
            let text = format!("by `{}`, good until {}", enrolment.by, enrolment.until);
            on("agent_token_made", &enrolment.host, text)
        }
        Event::EndpointSet { name, endpoint } => {
            let hosts: Vec<&str> = endpoint.hosts.iter().map(String::as_str).collect();
            let root = api::Name(endpoint.root.clone());
            on("endpoint_set", name, format!("`{root}` at {}", hosts.join(", ")))
        }
        Event::EndpointRemoved { name } => on("endpoint_removed", name, "it is no more".to_owned()),
        Event::TokenMade { name, role, by, .. } => {
            on("token_made", name, format!("by `{by}`, role {:?}", views::role(role).word()).to_lowercase())
        }
        Event::TokenGone { name } => on("token_gone", name, "it is good for nothing any more".to_owned()),
        _ => None,
    }
}

fn network(core: &Core, event: &Event) -> Option<Told> {
    match event {
        Event::NetworkSet { network, by } => {
            let text = format!("{} links, {} hosts, by `{by}`", network.links.len(), network.hosts.len());
            Some(("network_set", String::new(), text))
        }
        Event::SharesSet { shares, by } => {
            let text = format!("{} classes, {} marks, by `{by}`", shares.classes.len(), shares.marks.len());
            Some(("shares_set", String::new(), text))
        }
        Event::BookingsSet { bookings, by } => {
            Some(("bookings_set", String::new(), format!("{} bookings, by `{by}`", bookings.count)))
        }
        Event::LimitSet { resource, limit } => {
            let until = limit.until.map(|until| format!(" until {until}")).unwrap_or_default();
            let text = format!("{}{until}, by `{}`: {}", views::rate(limit.rate_bps), limit.by, limit.why);
            Some(("limit_set", views::resource_id(resource), text))
        }
        Event::LimitLifted { resource } => {
            Some(("limit_lifted", views::resource_id(resource), "it is over, or was lifted".to_owned()))
        }
        Event::LinkDown { link, evidence } => Some(("link_down", link.clone(), evidence.clone())),
        Event::LinkUp { link } => {
            let (_, text, _) = views::standing(core.state.links.get(link));
            Some(("link_up", link.clone(), text))
        }
        Event::LinkUsable { link } => Some(("link_usable", link.clone(), "its hold-down is over".to_owned())),
        _ => None,
    }
}
