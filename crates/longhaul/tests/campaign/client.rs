//! Users of a story, and what they were told.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Draw;
use crate::rest::{Reply, Rest};

/// How long a controller that runs may take to answer at all.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Between two attempts to be answered.
const AGAIN: Duration = Duration::from_millis(100);

/// Whether something that was asked for is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sure {
    No,
    /// The answer was lost. A request that lies in a queue may be done later, also after others.
    Perhaps,
    Yes,
}

/// A transfer that a user wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) name: String,
    /// What is sent, always the same.
    pub(super) body: Value,
    /// Where its files are and where they are to be; one that names files has those only.
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    pub(super) files: Vec<String>,
    /// It was sent at least once.
    pub(super) sent: bool,
    /// Its number, once somebody was told.
    pub(super) id: Option<String>,
    pub(super) paused: Sure,
    pub(super) cancelled: Sure,
}

impl Wanted {
    pub(super) fn new(name: String, body: Value, from: PathBuf, to: PathBuf, files: Vec<String>) -> Wanted {
        Wanted { name, body, from, to, files, sent: false, id: None, paused: Sure::No, cancelled: Sure::No }
    }

    /// Submits it, first or again.
    pub(super) fn submit(&mut self, rest: &Rest) {
        self.sent = true;
        // Its name is its key.
        match rest.post("/transfers", Some(&self.body), Some(&self.name)) {
            Reply::Said(201 | 200, told) => {
                let id = told["id"].as_str().expect("it has a number").to_owned();
                assert!(
                    self.id.as_ref().is_none_or(|before| *before == id),
                    "{}: {:?} before, {id} now",
                    self.name,
                    self.id
                );
                self.id = Some(id);
            }
            Reply::Said(507 | 503 | 429, _) | Reply::Lost(_) => {}
            said @ Reply::Said(..) => panic!("{}: {said:?}", self.name),
        }
    }

    fn steer(&mut self, rest: &Rest, how: &str) {
        let Some(id) = &self.id else { return };
        let reply = rest.post(&format!("/transfers/{id}/{how}"), Some(&json!({"reason": "a story"})), None);
        let done = match reply {
            Reply::Said(200, _) => true,
            // It has ended, or there is no room for the word: nothing was done.
            Reply::Said(409 | 507 | 503 | 429, _) => return,
            Reply::Said(..) => panic!("{how} {}: {reply:?}", self.name),
            Reply::Lost(_) => false,
        };
        let of = if how == "cancel" { &mut self.cancelled } else { &mut self.paused };
        *of = match (how, done, *of) {
            ("cancel", false, Sure::Yes) => Sure::Yes,
            ("cancel", true, _) | ("pause", true, Sure::No | Sure::Yes) => Sure::Yes,
            ("resume", true, Sure::No | Sure::Yes) => Sure::No,
            _ => Sure::Perhaps,
        };
    }

    /// What is seen of it must be what was told.
    pub(super) fn check(&self, rest: &Rest) {
        let Some(id) = &self.id else { return };
        let told = answered(rest, &format!("/transfers/{id}"));
        let (name, state) = (told["name"].as_str(), told["state"].as_str().unwrap_or_default());
        assert_eq!(name, Some(self.name.as_str()), "{told:#}");
        let has_ended = matches!(state, "done" | "partly" | "failed" | "cancelled");
        assert!(self.cancelled != Sure::Yes || state == "cancelled", "{} was cancelled: {told:#}", self.name);
        assert!(self.cancelled != Sure::No || state != "cancelled", "nobody cancelled {}: {told:#}", self.name);
        assert!(self.paused != Sure::Yes || state == "paused" || has_ended, "{} was paused: {told:#}", self.name);
        assert!(self.paused != Sure::No || state != "paused", "nobody paused {}: {told:#}", self.name);
    }
}

/// What all users want, a book for each user.
pub(super) type Books = [Mutex<Vec<Wanted>>];

/// Looks at all that is wanted; users wait meanwhile.
pub(super) fn each(books: &Books, mut look: impl FnMut(&Wanted)) {
    books.iter().for_each(|book| book.lock().expect("no panic under the lock").iter().for_each(&mut look));
}

/// What a controller that runs says; it may have to be asked again.
pub(super) fn answered(rest: &Rest, path: &str) -> Value {
    let begin = Instant::now();
    loop {
        match rest.get(path) {
            Reply::Said(200, told) => return told,
            Reply::Said(429 | 503, _) | Reply::Lost(_) if begin.elapsed() < ANSWER_MAX => sleep(AGAIN),
            other => panic!("GET {path}: {other:?} after {:?}", begin.elapsed()),
        }
    }
}

/// A user: wants one thing after the other, and changes their mind, until it is enough.
pub(super) fn use_it(book: &Mutex<Vec<Wanted>>, rest: &Rest, mut draw: Draw, enough: &AtomicBool) {
    const PAUSE_MAX_MS: u64 = 400;
    while !enough.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(20 + draw.below(PAUSE_MAX_MS)));
        let mut book = book.lock().expect("no panic under the lock");
        let number = draw.below(book.len() as u64) as usize;
        let first = book.iter().position(|wanted| !wanted.sent);
        let unknown = book.iter().position(|wanted| wanted.sent && wanted.id.is_none());
        match (draw.below(8), first, unknown) {
            (0..=3, Some(first), _) => book[first].submit(rest),
            (0..=3, None, Some(unknown)) | (4, _, Some(unknown)) => book[unknown].submit(rest),
            // What is known is told again.
            (4, ..) if book[number].sent => book[number].submit(rest),
            (5, ..) => book[number].steer(rest, "pause"),
            (6, ..) => book[number].steer(rest, "resume"),
            (7, ..) if draw.below(4) == 0 => book[number].steer(rest, "cancel"),
            _ => book[number].check_if_answered(rest),
        }
    }
}

impl Wanted {
    fn check_if_answered(&self, rest: &Rest) {
        let Some(id) = &self.id else { return };
        if let Reply::Said(status, told) = rest.get(&format!("/transfers/{id}")) {
            assert!(matches!(status, 200 | 429 | 503), "{}: {status} {told:#}", self.name);
        }
    }

    /// In the end everything goes on, and everything was told.
    pub(super) fn settle(&mut self, rest: &Rest) {
        for _ in 0..100 {
            if self.id.is_some() {
                break;
            }
            self.submit(rest);
            sleep(AGAIN);
        }
        assert!(self.id.is_some(), "{} is never taken", self.name);
        for _ in 0..100 {
            self.steer(rest, "resume");
            let id = self.id.as_ref().expect("checked above");
            if answered(rest, &format!("/transfers/{id}"))["state"] != "paused" {
                return;
            }
            sleep(AGAIN);
        }
        panic!("{} does not go on", self.name);
    }
}
