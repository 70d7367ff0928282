//! Where the manifest of a source comes from.

use std::time::SystemTime;

use proto::{Entry, EntryKind, RelPath};
use sys::file::Dir;
use tokio::sync::mpsc;

use crate::scan::{ScanEvent, ScanOptions, Scanner, SourceRef, SourceSpec};

/// What standard input is called in messages; its file has the name that the user gave the destination.
const INPUT_NAME: &str = "standard input";
/// Mode of a file that comes from standard input.
const INPUT_MODE: u32 = 0o644;
/// Scan events waiting.
pub(super) const SCANNED_MAX: usize = 4096;

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
