//! From what the mover tells of a copy to what the controller is told of its session.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use api::agent::{Cause, FileDone, Progress};
use mover::event::{Event, FileEvent, Summary};
use proto::RelPath;
use units::{Goodput, TCP4_HEADER_BYTES, TCP6_HEADER_BYTES, WireOverhead};

use super::cause::{of_file, shown};

/// Payload of a segment over a path of MTU 1500, before one was seen.
const MSS_USUAL: u32 = 1448;
/// Directories remembered of which something could not be copied; with more, whatever was not told has failed.
const BROKEN_MAX: usize = 1000;

/// What is known of a session.
pub(super) struct Report {
    /// Names and their numbers; `None` for the one file that the paths name.
    numbers: Option<BTreeMap<Vec<u8>, u32>>,
    told: Vec<bool>,
    /// Digests are asked for: a file in place is told with its own.
    digests: bool,
    /// Files in place of which the digest is awaited, with their sizes.
    awaited: BTreeMap<u32, u64>,
    /// Paths that failed: what lies beneath them is not in place.
    broken: Vec<(Vec<u8>, Cause, String)>,
    broken_more: bool,
    /// To be told.
    files: Vec<FileDone>,
    header_bytes: u32,
    /// As last told.
    progress: Progress,
    /// The mover told how it goes since the last look.
    is_fresh: bool,
    summary: Summary,
}

impl Report {
    pub(super) fn new(session: u64, names: &[RelPath], digests: bool, to: SocketAddr) -> Report {
        let numbered = names.iter().zip(0..).map(|(name, number)| (name.as_bytes().to_vec(), number)).collect();
        Report {
            numbers: (!names.is_empty()).then_some(numbered),
            told: vec![false; names.len().max(1)],
            digests,
            awaited: BTreeMap::new(),
            broken: Vec::new(),
            broken_more: false,
            files: Vec::new(),
            header_bytes: if to.is_ipv4() { TCP4_HEADER_BYTES } else { TCP6_HEADER_BYTES },
            progress: Progress { session, ..Progress::default() },
            is_fresh: false,
            summary: Summary::default(),
        }
    }

    /// Takes an event. True if a session began: what was steered before may have gone to another one.
    pub(super) fn hear(&mut self, event: Event) -> bool {
        match event {
            Event::Started(_) => return true,
            Event::Progress(now) => {
                let mss_bytes = if now.mss_bytes == 0 { MSS_USUAL } else { now.mss_bytes };
                let overhead = WireOverhead::from_mss(mss_bytes, self.header_bytes).unwrap_or(WireOverhead::NONE);
                // What is moved, as far as it left the sockets: what they hold, and greetings alone, are none. What both say
                // wobbles by a record, so the lesser of them is no measure of what the path carries: a session that has 10 Mb/s
                // would seem to leave a tenth of them.
                let acked_bps = now.acked_bps.unwrap_or(now.rate_bps);
                let moved_bps = now.rate_bps.min(acked_bps);
                let carried_bps = if now.rate_bps == 0 { 0 } else { acked_bps };
                let limit = serde_json::to_value(now.limit).ok().and_then(|limit| limit.as_str().map(str::to_owned));
                self.progress = Progress {
                    bytes_done: now.bytes_done,
                    files_done: now.files_done,
                    rate_bps: overhead.rate(Goodput::from_bps(carried_bps)).bps(),
                    goodput_bps: moved_bps,
                    streams: now.streams,
                    limit: limit.unwrap_or_default(),
                    retransmits: now.retransmits,
                    rtt_us: now.rtt_us,
                    cwnd_bytes: now.cwnd_bytes,
                    ..std::mem::take(&mut self.progress)
                };
                self.is_fresh = true;
            }
            Event::File(event) => self.file(&event),
            Event::Summary(summary) => self.summary = *summary,
            Event::Warning { text } => {
                tracing::warn!(session = self.progress.session, text = shown(&text), "a session")
            }
            Event::Reconnect { attempt, of, why } => {
                tracing::warn!(
                    session = self.progress.session,
                    attempt,
                    of,
                    why = shown(&why),
                    "a session connects again"
                );
            }
            Event::Interval(_) => {}
        }
        false
    }

    fn file(&mut self, event: &FileEvent) {
        if matches!(event.outcome, "deleted" | "would") {
            return;
        }
        let path = event.path_bytes.as_deref().unwrap_or(event.path.as_bytes());
        let cause = of_file(event);
        let text = event.why.as_deref().map(shown).unwrap_or_default();
        let number = match &self.numbers {
            None => Some(0),
            Some(numbers) => numbers.get(path).copied(),
        };
        if let Some(cause) = cause.filter(|_| self.numbers.is_some()) {
            self.broken_more |= self.broken.len() >= BROKEN_MAX;
            if !self.broken_more {
                self.broken.push((path.to_vec(), cause, text.clone()));
            }
        }
        let Some(number) = number else { return };
        if cause.is_none() && self.digests && event.digest.is_none() && !self.told[number as usize] {
            self.awaited.insert(number, event.size);
            return;
        }
        let size_bytes = cause.is_none().then_some(event.size);
        self.tell(FileDone { number, size_bytes, cause, text, digest: event.digest.clone() });
    }

    fn tell(&mut self, file: FileDone) {
        self.awaited.remove(&file.number);
        if !std::mem::replace(&mut self.told[file.number as usize], true) {
            self.files.push(file);
        }
    }

    /// The copy came to its end: what was not told is in place (directories and links are not told of one by one), unless
    /// something above it is broken.
    pub(super) fn complete(&mut self) {
        let numbers: Vec<(Vec<u8>, u32)> = match &self.numbers {
            None => Vec::new(),
            Some(numbers) => numbers.iter().map(|(name, number)| (name.clone(), *number)).collect(),
        };
        for (name, number) in numbers.into_iter().filter(|(_, number)| !self.told[*number as usize]).collect::<Vec<_>>()
        {
            let above = self.broken.iter().find(|(path, ..)| is_beneath(&name, path));
            let size_bytes = self.awaited.get(&number).copied();
            let is_awaited = size_bytes.is_some();
            let (cause, text) = match above {
                Some((_, cause, text)) if !is_awaited => (Some(*cause), text.clone()),
                None if self.broken_more && !is_awaited => {
                    (Some(Cause::Other), "too much failed to tell it all".into())
                }
                _ => (None, String::new()),
            };
            self.tell(FileDone { number, size_bytes, cause, text, digest: None });
        }
        if self.numbers.is_none() && !self.told[0] && self.awaited.contains_key(&0) {
            let size_bytes = self.awaited.get(&0).copied();
            self.tell(FileDone { number: 0, size_bytes, cause: None, text: String::new(), digest: None });
        }
    }

    /// What is to be told of files since the last call.
    pub(super) fn take_files(&mut self) -> Vec<FileDone> {
        std::mem::take(&mut self.files)
    }

    /// Whether there are numbers that [`Report::take_progress`] has not told.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// How it went since the last call. A mover that says nothing moves nothing.
    pub(super) fn take_progress(&mut self) -> Progress {
        if !std::mem::take(&mut self.is_fresh) {
            (self.progress.rate_bps, self.progress.goodput_bps) = (0, 0);
        }
        self.progress.clone()
    }

    /// The last summary that was told.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Bytes in place as far as was told.
    pub(super) fn bytes_done(&self) -> u64 {
        self.progress.bytes_done
    }
}

fn is_beneath(name: &[u8], above: &[u8]) -> bool {
    above.is_empty() || name.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(path: &str, outcome: &'static str, why: Option<&str>, digest: Option<&str>) -> Event {
        Event::File(FileEvent {
            path: path.into(),
            path_bytes: None,
            outcome,
            size: 1,
            why: why.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    fn report(names: &[&str], digests: bool) -> Report {
        let names: Vec<RelPath> = names.iter().map(|name| RelPath::new(*name).unwrap()).collect();
        Report::new(7, &names, digests, "192.0.2.1:1".parse().unwrap())
    }

    fn told(report: &mut Report) -> Vec<(u32, Option<Cause>, Option<String>)> {
        report.take_files().into_iter().map(|file| (file.number, file.cause, file.digest)).collect()
    }

    #[test]
    fn what_was_not_told_of_is_in_place_at_the_end_unless_something_above_it_broke() {
        let mut report = report(&["d", "d/a", "d/b", "e", "e/x", "ee", "f"], false);
        report.hear(event("d/a", "placed", None, None));
        report.hear(event("d/a", "failed", Some("again"), None));
        report.hear(event("d/b", "failed", Some("no (os error 28)"), None));
        report.hear(event("e", "failed", Some("cannot list (os error 13)"), None));
        assert_eq!(
            told(&mut report),
            [(1, None, None), (2, Some(Cause::NoSpace), None), (3, Some(Cause::Permission), None)]
        );
        report.hear(event("f/g", "kept", None, None));
        report.complete();
        assert_eq!(
            told(&mut report),
            [(0, None, None), (4, Some(Cause::Permission), None), (5, None, None), (6, None, None)]
        );

        let mut other = super::tests::report(&["e/x", "ee", "f"], false);
        other.hear(event("e", "failed", Some("cannot list (os error 13)"), None));
        other.complete();
        assert_eq!(told(&mut other), [(0, Some(Cause::Permission), None), (1, None, None), (2, None, None)]);
    }

    #[test]
    fn a_file_is_told_with_its_digest() {
        let mut report = report(&["a", "b", "c"], true);
        report.hear(event("a", "placed", None, None));
        report.hear(event("b", "placed", None, None));
        report.hear(event("c", "failed", Some("x"), None));
        assert_eq!(told(&mut report), [(2, Some(Cause::Other), None)]);
        report.hear(event("a", "placed", None, Some("0f")));
        assert_eq!(told(&mut report), [(0, None, Some("0f".into()))]);
        report.complete();
        assert_eq!(told(&mut report), [(1, None, None)], "without one at the end");
        let mut single = super::tests::report(&[], false);
        single.hear(event("whatever", "placed", None, None));
        single.complete();
        assert_eq!(told(&mut single), [(0, None, None)]);
    }

    #[test]
    fn sizes_are_told_of_what_is_in_place() {
        let mut report = report(&["a", "b", "c"], true);
        report.hear(event("a", "placed", None, None));
        report.hear(event("b", "placed", None, Some("0f")));
        report.hear(event("c", "failed", Some("x"), None));
        report.complete();
        let sizes: Vec<(u32, Option<u64>)> =
            report.take_files().into_iter().map(|file| (file.number, file.size_bytes)).collect();
        assert_eq!(sizes, [(1, Some(1)), (2, None), (0, Some(1))]);
    }

    #[test]
    fn rates_are_of_packets_and_silence_is_none() {
        let mut report = report(&["a"], false);
        let now = mover::event::Progress { rate_bps: 1_448_000, mss_bytes: 1448, streams: 2, ..Default::default() };
        report.hear(Event::Progress(now));
        let progress = report.take_progress();
        assert_eq!((progress.session, progress.goodput_bps, progress.rate_bps), (7, 1_448_000, 1_500_000));
        assert_eq!(report.take_progress().rate_bps, 0);
        // What was only given to the sockets is not on the wire yet.
        let (rate_bps, acked_bps) = (14_480_000, Some(1_448_000));
        let filling = mover::event::Progress { rate_bps, acked_bps, mss_bytes: 1448, ..Default::default() };
        report.hear(Event::Progress(filling));
        let progress = report.take_progress();
        assert_eq!((progress.goodput_bps, progress.rate_bps), (1_448_000, 1_500_000));
        // What the path carried is all that went over it, also where little of it was counted as file bytes in this second.
        let few = mover::event::Progress { rate_bps: 1_000_000, acked_bps, mss_bytes: 1448, ..Default::default() };
        report.hear(Event::Progress(few));
        let progress = report.take_progress();
        assert_eq!((progress.goodput_bps, progress.rate_bps), (1_000_000, 1_500_000));
        let greetings = mover::event::Progress { rate_bps: 0, acked_bps, mss_bytes: 1448, ..Default::default() };
        report.hear(Event::Progress(greetings));
        let progress = report.take_progress();
        assert_eq!((progress.goodput_bps, progress.rate_bps), (0, 0));
    }
}
