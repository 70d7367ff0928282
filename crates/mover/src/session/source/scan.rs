//! Where the manifest of a source comes from.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

use proto::control::{CopyOptions, ToDestination};
use proto::frame::frame_len;
use proto::limits::{CHUNK_SIZE_MIN, FRAME_MAX_UNAUTHENTICATED};
use proto::source::{Config, Source};
use proto::{Entry, EntryKind, RelPath};
use sys::file::Dir;
use tokio::sync::mpsc;

use super::super::SessionError;
use crate::filter::Filter;
use crate::scan::{ScanEvent, ScanOptions, Scanner, SourceRef, SourceSpec};

/// What standard input is called in messages; its file has the name that the user gave the destination.
const INPUT_NAME: &str = "standard input";
/// Mode of a file that comes from standard input.
const INPUT_MODE: u32 = 0o644;
/// Scan events waiting: what four threads find in some 40 ms. So a scan that begins with the connection does not compete with the first files for the
/// processors, unless there are many more.
const SCANNED_MAX: usize = 16_384;
/// Scan events taken in one turn of the session's loop. With all that waited there a turn took 10 ms, and the first files that were wanted waited for
/// five of them.
pub(super) const SCANNED_AT_ONCE: usize = 128;

/// Bytes of what goes along with what asks for the session. Whoever is refused has said all of it by then, and the agent reads
/// little of that; the first round trip of a connection carries it, too. The rest is for the heads of pages.
const EARLY_BYTES_MAX: usize = FRAME_MAX_UNAUTHENTICATED - 64;
/// Bytes that say that a directory is listed, at most, and of a page that ends with that.
const LISTED_BYTES: usize = 40;

/// What is copied.
pub enum From {
    /// Files and directories.
    Tree {
        /// The directory that all sources lie beneath.
        root: Dir,
        /// The sources.
        specs: Vec<SourceSpec>,
        /// Their scan, if it has begun.
        early: Option<Box<Early>>,
    },
    /// What comes out of a pipe, as one file.
    Input(OwnedFd),
}

/// A scan that was begun before its session.
pub struct Early {
    pub(super) scanned: mpsc::Receiver<ScanEvent>,
    /// What has been announced: entries, and directories that are listed.
    pub(super) found: Vec<ScanEvent>,
    /// In so many messages.
    pub(super) messages: usize,
    /// What was found then.
    pub(super) next: Option<ScanEvent>,
}

impl From {
    /// Begins the scan while the session is asked for.
    ///
    /// # Errors
    /// When the filters make no sense.
    pub fn begin(&mut self, options: &CopyOptions) -> Result<(), SessionError> {
        if let From::Tree { root, specs, early } = self {
            let scanned = start_scan(root.clone(), specs.clone(), scan_options(options)?);
            *early = Some(Box::new(Early { scanned, found: Vec::new(), messages: 0, next: None }));
        }
        Ok(())
    }

    /// Announces what was found by now, in frames of at most [`FRAME_MAX_UNAUTHENTICATED`] bytes together. To be asked for once.
    pub fn announce(&mut self) -> Vec<ToDestination> {
        let From::Tree { early: Some(early), .. } = self else { return Vec::new() };
        let mut left = EARLY_BYTES_MAX;
        while let Ok(event) = early.scanned.try_recv() {
            let bytes = match &event {
                ScanEvent::Entry(entry, _) => frame_len(entry),
                ScanEvent::Listed { .. } => LISTED_BYTES,
                ScanEvent::Error { .. } | ScanEvent::Warning { .. } => usize::MAX,
            };
            if bytes > left {
                early.next = Some(event);
                break;
            }
            left -= bytes;
            early.found.push(event);
        }
        let messages = announced(&early.found);
        early.messages = messages.len();
        messages
    }
}

/// What a source that finds this announces first.
fn announced(found: &[ScanEvent]) -> Vec<ToDestination> {
    // Nothing of these is in what is announced.
    let config = Config { chunk_size: CHUNK_SIZE_MIN, small_max: 0, reorder_chunks: None, dry_run: false };
    let (mut source, mut dirs) = (Source::new(config), HashMap::new());
    for event in found {
        match event {
            ScanEvent::Entry(entry, _) => {
                let index = source.handle_entry(entry.clone(), 0);
                if entry.kind == EntryKind::Dir {
                    dirs.insert(&entry.path, index);
                }
            }
            ScanEvent::Listed { path, complete } => {
                if let Some(dir) = dirs.remove(path) {
                    source.handle_listed(dir, *complete);
                }
            }
            ScanEvent::Error { .. } | ScanEvent::Warning { .. } => {}
        }
    }
    source.flush();
    std::iter::from_fn(|| source.poll_message()).collect()
}

/// How what is copied with these options is scanned.
///
/// # Errors
/// When the filters make no sense.
pub(super) fn scan_options(options: &CopyOptions) -> Result<ScanOptions, SessionError> {
    let filter = Filter::new(&options.filters).map_err(|error| SessionError::Fatal(error.to_string()))?;
    Ok(ScanOptions { preserve_all: options.preserve_all, filter, ..ScanOptions::default() })
}

/// What is scanned.
pub(super) enum ToScan {
    /// Files and directories.
    Tree(Vec<SourceSpec>, ScanOptions),
    /// Nothing: what comes out of a pipe is one file.
    Input,
}

impl ToScan {
    /// Begins.
    pub(super) fn begin(self, root: Dir) -> mpsc::Receiver<ScanEvent> {
        match self {
            ToScan::Tree(specs, options) => start_scan(root, specs, options),
            ToScan::Input => input_entry(),
        }
    }
}

fn start_scan(root: Dir, specs: Vec<SourceSpec>, options: ScanOptions) -> mpsc::Receiver<ScanEvent> {
    let (tell, scanned) = mpsc::channel(SCANNED_MAX);
    tokio::task::spawn_blocking(move || {
        for event in Scanner::new(root, specs, options) {
            if tell.blocking_send(event).is_err() {
                break;
            }
        }
    });
    scanned
}

/// The manifest of a pipe: one file of unknown size, of now.
fn input_entry() -> mpsc::Receiver<ScanEvent> {
    let (tell, scanned) = mpsc::channel(1);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let entry = Entry {
        path: RelPath::new(INPUT_NAME).expect("a plain name"),
        kind: EntryKind::Stream,
        mode: INPUT_MODE,
        mtime: proto::Time { sec: now.as_secs() as i64, nsec: now.subsec_nanos() },
        owner: None,
        xattrs: Vec::new(),
    };
    tell.try_send(ScanEvent::Entry(entry, SourceRef { path: Vec::new() })).expect("the channel is empty");
    scanned
}

/// The next event; never one when there is no scan.
pub(super) async fn scan_next(scanned: &mut Option<mpsc::Receiver<ScanEvent>>) -> Option<ScanEvent> {
    match scanned {
        Some(scanned) => scanned.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use proto::control::Control;
    use proto::{Identity, Time};

    use super::*;

    /// An entry as large as they come.
    fn entry(path: &str, kind: EntryKind) -> ScanEvent {
        let mtime = Time { sec: i64::MIN, nsec: 999_999_999 };
        let (path, owner) = (RelPath::new(path).expect("a path"), Some((u32::MAX, u32::MAX)));
        let entry = Entry { path, kind, mode: 0o7777, mtime, owner, xattrs: Vec::new() };
        ScanEvent::Entry(entry, SourceRef { path: Vec::new() })
    }

    fn file(path: &str) -> ScanEvent {
        let most = Time { sec: i64::MIN, nsec: 999_999_999 };
        let identity = Identity { size: u64::MAX, mtime: most, ctime: most, ino: u64::MAX, dev: u64::MAX };
        entry(path, EntryKind::File(identity))
    }

    fn listed(path: &str) -> ScanEvent {
        ScanEvent::Listed { path: RelPath::new(path).expect("a path"), complete: true }
    }

    /// A source of which these were found.
    fn from(found: &[ScanEvent]) -> From {
        let (tell, scanned) = mpsc::channel(SCANNED_MAX);
        found.iter().for_each(|event| tell.try_send(event.clone()).expect("there is room"));
        let early = Some(Box::new(Early { scanned, found: Vec::new(), messages: 0, next: None }));
        From::Tree { root: Dir::open("/").expect("it is there"), specs: Vec::new(), early }
    }

    fn early(from: From) -> Early {
        let From::Tree { early: Some(early), .. } = from else { panic!("it is a scan") };
        *early
    }

    fn bytes(messages: Vec<ToDestination>) -> usize {
        let mut bytes = Vec::new();
        messages.into_iter().for_each(|message| proto::frame::encode(&Control::Source(message), &mut bytes));
        bytes.len()
    }

    #[test]
    fn what_is_announced_fits_and_nothing_is_lost() {
        for (count, name) in [(1, 1), (63, 20), (64, 1), (65, 1), (200, 20), (200, 200), (9, 4000), (300, 0)] {
            let long = vec!["n".repeat(name.min(200)); name.div_ceil(200)].join("/");
            let one = |n: usize| match (n % 7, name) {
                // With nothing but directories that are empty there are the most messages.
                (_, 0) if n % 2 == 1 => listed(&format!("{:03}", n - 1)),
                (_, 0) | (3, _) => entry(&format!("{n:03}"), EntryKind::Dir),
                (5, _) => listed(&format!("{:03}", n - 2)),
                _ => file(&format!("{n:03}{long}")),
            };
            let all: Vec<_> = (0..count).map(one).collect();
            let mut from = from(&all);
            let said = from.announce();
            let mut early = early(from);
            assert!(!said.is_empty() && said.len() == early.messages);
            let length = bytes(said);
            assert!(length <= FRAME_MAX_UNAUTHENTICATED, "{length} bytes for {count} of {name}");
            let mut found = std::mem::take(&mut early.found);
            found.extend(early.next);
            found.extend(std::iter::from_fn(|| early.scanned.try_recv().ok()));
            assert_eq!(found, all);
        }
    }

    #[test]
    fn what_is_no_part_of_the_manifest_is_left_for_later() {
        let error = ScanEvent::Error { path: RelPath::root(), why: "no".to_owned() };
        let mut one = from(&[file("a"), error.clone(), file("b")]);
        assert_eq!(one.announce().len(), 1);
        let one = early(one);
        assert_eq!((one.found.len(), one.next), (1, Some(error.clone())));
        let mut none = from(&[error]);
        assert!(none.announce().is_empty() && from(&[]).announce().is_empty());
        assert_eq!(early(none).found, []);
    }
}
