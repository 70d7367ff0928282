//! What is to be said to the controller, over one connection or the next.
//!
//! Answers belong to the connection on which the question came and go with it. How a session goes is told by the newest word
//! only, and so is what interfaces carry. What became of files, and that a session ended, must arrive: all of it is kept and said again on every further
//! connection, until the session has ended and the connection that took the end has lived on for [`TAKEN_AFTER`].
//!
//! Bounds: [`SESSIONS_MAX`] sessions with [`PAGE_MAX`] files each, and [`ANSWERS_MAX`] answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::agent::{Counted, Ended, FileDone, Files, FromAgent, PAGE_MAX, Progress, SESSIONS_MAX, SILENCE_MS};

/// Answers waiting; at this number no further question is read.
pub const ANSWERS_MAX: usize = 256;
/// Files in one message: with the longest texts it stays below the longest message.
pub const FILES_MAX: usize = 1000;
/// A controller that is still there after so long has read what was written before: one that does not hear is given up earlier.
pub const TAKEN_AFTER: Duration = Duration::from_millis(2 * SILENCE_MS);

/// What waits.
#[derive(Debug, Default)]
pub struct Outbox {
    answers: VecDeque<FromAgent>,
    /// What interfaces have carried.
    counts: Vec<Counted>,
    sessions: BTreeMap<u64, Told>,
}

/// What is to be told of a session.
#[derive(Debug, Default)]
struct Told {
    progress: Option<Progress>,
    /// All that there is to tell, in order.
    files: Vec<FileDone>,
    /// How many of them this connection took.
    sent: usize,
    ended: Option<Ended>,
    /// When this connection took the end.
    taken: Option<Duration>,
}

impl Outbox {
    /// True if a further question may be read.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.answers.len() < ANSWERS_MAX
    }

    /// Queues an answer, or other news that a further connection would not want.
    pub fn answer(&mut self, message: FromAgent) {
        debug_assert!(self.answers.len() < 2 * ANSWERS_MAX, "questions are not read any more");
        self.answers.push_back(message);
    }

    /// What interfaces have carried by now.
    pub fn counted(&mut self, counts: Vec<Counted>) {
        self.counts = counts;
    }

    /// A session begins; false if there is no place for what it will tell.
    pub fn begin(&mut self, session: u64) -> bool {
        let fits = self.sessions.contains_key(&session) || self.sessions.len() < SESSIONS_MAX;
        if fits {
            self.sessions.insert(session, Told::default());
        }
        fits
    }

    /// The session did not begin: nothing is told of it.
    pub fn forget(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// How a session goes.
    pub fn progress(&mut self, progress: Progress) {
        if let Some(told) = self.sessions.get_mut(&progress.session).filter(|told| told.ended.is_none()) {
            told.progress = Some(progress);
        }
    }

    /// Files that are finished.
    pub fn files(&mut self, session: u64, files: impl IntoIterator<Item = FileDone>) {
        if let Some(told) = self.sessions.get_mut(&session) {
            let room = PAGE_MAX.saturating_sub(told.files.len());
            told.files.extend(files.into_iter().take(room));
        }
    }

    /// A session has ended.
    pub fn ended(&mut self, ended: Ended) {
        if let Some(told) = self.sessions.get_mut(&ended.session) {
            (told.progress, told.ended) = (None, Some(ended));
        }
    }

    /// Sessions of which the end was not told yet, as far as is known.
    pub fn sessions(&self) -> impl Iterator<Item = u64> {
        self.sessions.keys().copied()
    }

    /// A new connection: what the last one may have lost is told again.
    pub fn reconnected(&mut self) {
        self.answers.clear();
        self.counts.clear();
        for told in self.sessions.values_mut() {
            (told.progress, told.sent, told.taken) = (None, 0, None);
        }
    }

    /// Nothing of what was is of interest to anybody any more.
    pub fn clear(&mut self) {
        *self = Outbox::default();
    }

    /// The next message, to be written at `now`.
    pub fn next(&mut self, now: Duration) -> Option<FromAgent> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        if !self.counts.is_empty() {
            return Some(FromAgent::Counted { counts: std::mem::take(&mut self.counts) });
        }
        self.sessions.iter_mut().find_map(|(session, told)| told.next(*session, now))
    }

    /// True if there is something to write.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        let waits = |told: &Told| told.sent < told.files.len() || (told.ended.is_some() && told.taken.is_none());
        !self.answers.is_empty() || self.sessions.values().any(waits)
    }

    /// Forgets the ends that must have arrived by `now`, on a connection that is alive.
    pub fn settle(&mut self, now: Duration) {
        self.sessions.retain(|_, told| told.taken.is_none_or(|taken| now.saturating_sub(taken) < TAKEN_AFTER));
    }
}

impl Told {
    fn next(&mut self, session: u64, now: Duration) -> Option<FromAgent> {
        if self.sent < self.files.len() {
            let files: Vec<FileDone> = self.files[self.sent..].iter().take(FILES_MAX).cloned().collect();
            self.sent += files.len();
            return Some(FromAgent::Files(Files { session, files }));
        }
        if let (Some(ended), None) = (&self.ended, self.taken) {
            self.taken = Some(now);
            return Some(FromAgent::Ended(ended.clone()));
        }
        self.progress.take().map(FromAgent::Progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u32) -> FileDone {
        FileDone { number, size_bytes: None, cause: None, text: String::new(), digest: None }
    }

    fn ended(session: u64) -> Ended {
        Ended {
            session,
            cause: None,
            text: String::new(),
            bytes_done: 0,
            bytes_sent: 0,
            files_done: 0,
            retransmits: 0,
            ran_ms: 0,
        }
    }

    fn all(outbox: &mut Outbox, now: Duration) -> Vec<FromAgent> {
        std::iter::from_fn(|| outbox.next(now)).collect()
    }

    #[test]
    fn files_and_the_end_are_told_again_until_they_must_have_arrived() {
        let mut outbox = Outbox::default();
        let mut now = Duration::from_secs(5);
        assert!(outbox.begin(1));
        outbox.files(1, [file(0), file(1)]);
        outbox.progress(Progress { session: 1, ..Progress::default() });
        let told = all(&mut outbox, now);
        assert!(matches!(told.as_slice(), [FromAgent::Files(files), FromAgent::Progress(_)] if files.files.len() == 2));
        outbox.files(1, [file(2)]);
        outbox.ended(ended(1));
        let told = all(&mut outbox, now);
        assert!(matches!(told.as_slice(), [FromAgent::Files(files), FromAgent::Ended(_)] if files.files.len() == 1));
        // The connection breaks at once.
        outbox.reconnected();
        assert_eq!(outbox.sessions().collect::<Vec<_>>(), [1]);
        let told = all(&mut outbox, now);
        assert!(matches!(told.as_slice(), [FromAgent::Files(files), FromAgent::Ended(_)] if files.files.len() == 3));
        now += TAKEN_AFTER - Duration::from_millis(1);
        outbox.settle(now);
        assert_eq!(outbox.sessions().count(), 1);
        outbox.settle(now + Duration::from_millis(1));
        assert_eq!(outbox.sessions().count(), 0);
        assert!(all(&mut outbox, now).is_empty());
    }

    #[test]
    fn of_progress_the_newest_is_told_and_none_after_the_end() {
        let mut outbox = Outbox::default();
        outbox.begin(1);
        for bytes_done in 0..9 {
            outbox.progress(Progress { session: 1, bytes_done, ..Progress::default() });
        }
        let told = all(&mut outbox, Duration::ZERO);
        assert!(matches!(told.as_slice(), [FromAgent::Progress(progress)] if progress.bytes_done == 8));
        outbox.ended(ended(1));
        outbox.progress(Progress { session: 1, ..Progress::default() });
        assert!(matches!(all(&mut outbox, Duration::ZERO).as_slice(), [FromAgent::Ended(_)]));
        outbox.progress(Progress { session: 7, ..Progress::default() });
        assert!(all(&mut outbox, Duration::ZERO).is_empty(), "of an unknown session nothing is told");
    }

    #[test]
    fn of_counts_the_newest_are_told_on_the_connection_that_is_there() {
        let count = |sent_bytes| Counted {
            interface: "eth1".to_owned(),
            link: "ocean".to_owned(),
            sends: api::agent::Way::Forward,
            sent_bytes,
            received_bytes: 0,
            read_ms: 0,
        };
        let mut outbox = Outbox::default();
        outbox.counted(vec![count(1)]);
        outbox.counted(vec![count(2)]);
        let told = all(&mut outbox, Duration::ZERO);
        assert_eq!(told, [FromAgent::Counted { counts: vec![count(2)] }]);
        outbox.counted(vec![count(3)]);
        assert!(!outbox.is_waiting(), "nobody waits for it at the end");
        outbox.reconnected();
        assert!(all(&mut outbox, Duration::ZERO).is_empty(), "it is counted again");
    }

    #[test]
    fn everything_is_bounded() {
        let mut outbox = Outbox::default();
        for session in 0..SESSIONS_MAX as u64 {
            assert!(outbox.begin(session));
        }
        assert!(!outbox.begin(SESSIONS_MAX as u64));
        assert!(outbox.begin(3), "one that is there has its place");
        outbox.files(3, (0..PAGE_MAX as u32 + 5).map(file));
        let told = all(&mut outbox, Duration::ZERO);
        assert_eq!(told.len(), PAGE_MAX.div_ceil(FILES_MAX));
        for _ in 0..ANSWERS_MAX {
            assert!(outbox.has_room());
            outbox.answer(FromAgent::Ping);
        }
        assert!(!outbox.has_room());
        outbox.reconnected();
        assert!(outbox.has_room(), "answers go with their connection");
    }

    #[test]
    fn the_longest_files_message_fits() {
        let text = super::super::cause::shown(&"\"".repeat(9999));
        let file =
            FileDone { number: u32::MAX, size_bytes: Some(u64::MAX), cause: None, text, digest: Some("f".repeat(128)) };
        let files = Files { session: u64::MAX, files: vec![file; FILES_MAX] };
        let json = serde_json::to_vec(&FromAgent::Files(files)).unwrap();
        assert!(json.len() <= api::agent::MESSAGE_MAX, "{}", json.len());
    }
}
