//! Counting what is known, done and failed: the numbers behind progress and summary.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proto::control::Outcome;
use proto::limits::DIGEST_CHARS_MAX;
use proto::{Entry, EntryKind, RelPath};

use crate::control::attribution::Limit;
use crate::event::{ERRORS_MAX, FileEvent, Progress, Summary};

/// Files, bytes and failures of one copy.
#[derive(Debug, Default)]
pub struct Tally {
    /// Bytes known.
    pub bytes_total: u64,
    /// Files known.
    pub files_total: u64,
    /// The manifest is complete.
    pub scanned: bool,
    /// Bytes of files that are done.
    bytes_done: u64,
    /// Bytes that landed of files that are not done.
    partial: BTreeMap<u64, u64>,
    partial_sum: u64,
    /// Files put in place.
    pub placed: u64,
    /// Files that were there.
    pub skipped: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Entries deleted.
    pub deleted: u64,
    /// Parcels sent again.
    pub repaired: u64,
    /// A failure was corruption.
    pub corrupt: bool,
    /// The first failures.
    pub errors: Vec<FileEvent>,
}

impl Tally {
    /// An entry is known.
    pub fn entry(&mut self, entry: &Entry) {
        if matches!(entry.kind, EntryKind::File(_) | EntryKind::Stream | EntryKind::HardLink { .. }) {
            self.files_total += 1;
            self.bytes_total += entry.size().unwrap_or(0);
        }
    }

    /// Bytes of a file have landed (or were there from an earlier run).
    pub fn landed(&mut self, index: u64, bytes: u64) {
        *self.partial.entry(index).or_default() += bytes;
        self.partial_sum += bytes;
    }

    /// A file starts again.
    pub fn restarted(&mut self, index: u64) {
        self.partial_sum -= self.partial.remove(&index).unwrap_or(0);
    }

    /// An entry is done. Gives the event for the user, if it is a failure or `every` is set.
    pub fn finished(
        &mut self,
        index: u64,
        entry: &Entry,
        outcome: &Outcome,
        changed: bool,
        every: bool,
    ) -> Option<FileEvent> {
        let landed = self.partial.remove(&index).unwrap_or(0);
        self.partial_sum -= landed;
        let is_file = matches!(entry.kind, EntryKind::File(_) | EntryKind::Stream | EntryKind::HardLink { .. });
        let size = entry.size().unwrap_or(landed);
        if entry.kind == EntryKind::Stream {
            self.bytes_total += landed;
        }
        let (name, why) = match outcome {
            Outcome::Placed => ("placed", None),
            Outcome::Equal => ("equal", None),
            Outcome::Kept => ("kept", None),
            Outcome::Would => ("would", None),
            Outcome::Failed(why) if changed => ("changed", Some(why.clone())),
            Outcome::Failed(why) => ("failed", Some(why.clone())),
            Outcome::Corrupt(why) => ("corrupt", Some(why.clone())),
        };
        if why.is_some() {
            self.failed += 1;
            self.corrupt |= matches!(outcome, Outcome::Corrupt(_));
        } else if is_file {
            self.bytes_done += size;
            match outcome {
                Outcome::Placed | Outcome::Would => self.placed += 1,
                _ => self.skipped += 1,
            }
        }
        let event = file_event(&entry.path, name, size, why);
        self.keep(&event);
        (event.why.is_some() || (every && is_file)).then_some(event)
    }

    /// Something that is no entry failed: a directory that cannot be read, say.
    pub fn problem(&mut self, path: &RelPath, why: String) -> FileEvent {
        self.failed += 1;
        let event = file_event(path, "failed", 0, Some(why));
        self.keep(&event);
        event
    }

    fn keep(&mut self, event: &FileEvent) {
        if event.why.is_some() && self.errors.len() < ERRORS_MAX {
            self.errors.push(event.clone());
        }
    }

    /// Bytes that are in place or on their way to it.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.bytes_done + self.partial_sum
    }

    /// Bytes that are not done yet, once all are known.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        self.scanned.then(|| self.bytes_total.saturating_sub(self.done()))
    }

    /// The progress line.
    #[must_use]
    pub fn progress(&self, clock: &mut Clock, moved: u64, streams: u16, limit: Limit) -> Progress {
        let (seconds, rate, mean) = clock.tick(moved);
        let done = self.done();
        let eta = self.left().filter(|_| mean > 0).map(|left| left.saturating_mul(8) / mean);
        Progress {
            seconds,
            bytes_done: done,
            bytes_total: self.bytes_total.max(done),
            scanned: self.scanned,
            files_done: self.placed + self.skipped,
            files_total: self.files_total,
            files_failed: self.failed,
            rate_bps: rate,
            mean_rate_bps: mean,
            eta_s: eta,
            streams,
            limit,
            ..Progress::default()
        }
    }

    /// Fills in what the tally knows of a summary.
    pub fn summarise(&self, summary: &mut Summary) {
        summary.bytes = self.bytes_total;
        summary.bytes_text = self.bytes_total.to_string();
        summary.files = self.files_total;
        summary.files_placed = self.placed;
        summary.files_skipped = self.skipped;
        summary.files_failed = self.failed;
        summary.deleted = self.deleted;
        summary.repaired = self.repaired;
        summary.errors = self.errors.clone();
        summary.exit_code = match (self.failed, self.corrupt) {
            (0, _) => 0,
            (_, true) => 5,
            (_, false) => 6,
        };
        summary.ok = self.failed == 0;
    }
}

/// An event for one path.
#[must_use]
pub fn file_event(path: &RelPath, outcome: &'static str, size: u64, why: Option<String>) -> FileEvent {
    let bytes = path.as_bytes();
    let path = path.to_string();
    let path_bytes = (path.as_bytes() != bytes).then(|| bytes.to_vec());
    FileEvent { path, path_bytes, outcome, size, why, digest: None }
}

/// The event for a digest that the source told; `None` if it is none.
#[must_use]
pub fn digest_event(path: &RelPath, size: u64, value: &str) -> Option<FileEvent> {
    let is_digest = value.len() <= DIGEST_CHARS_MAX && value.bytes().all(|b| b.is_ascii_hexdigit());
    is_digest.then(|| FileEvent { digest: Some(value.to_owned()), ..file_event(path, "placed", size, None) })
}

/// Rates of now and on the mean.
#[derive(Debug)]
pub struct Clock {
    begin: Instant,
    last: Instant,
    bytes: u64,
}

impl Default for Clock {
    fn default() -> Self {
        let now = Instant::now();
        Clock { begin: now, last: now, bytes: 0 }
    }
}

impl Clock {
    /// Seconds since the begin, goodput since the last tick, goodput since the begin; b/s.
    pub fn tick(&mut self, bytes: u64) -> (f64, u64, u64) {
        let now = Instant::now();
        let rate = per_second(bytes.saturating_sub(self.bytes), now - self.last);
        let mean = per_second(bytes, now - self.begin);
        (self.last, self.bytes) = (now, bytes);
        ((now - self.begin).as_secs_f64(), rate, mean)
    }
}

/// b/s of so many bytes in a span.
#[must_use]
pub fn per_second(bytes: u64, span: Duration) -> u64 {
    let ns = span.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 8 * 1_000_000_000 / ns).unwrap_or(u64::MAX)
}
