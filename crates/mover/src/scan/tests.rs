//! On real trees.

mod merge;
mod order;
mod what;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proto::control::{FilterRule, Outcome};
use proto::destination::{Action, Config as DestinationConfig, Decision, Destination};
use proto::source::{Config as SourceConfig, Source};
use tempfile::TempDir;

use super::*;

/// A directory to fill.
struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().expect("temporary directory"))
    }

    fn at(&self, path: impl AsRef<[u8]>) -> PathBuf {
        self.0.path().join(OsStr::from_bytes(path.as_ref()))
    }

    fn dir(&self, path: impl AsRef<[u8]>) -> &Tree {
        std::fs::create_dir_all(self.at(path)).expect("mkdir");
        self
    }

    /// A file with its own name in it, and the directories above it.
    fn file(&self, path: impl AsRef<[u8]>) -> &Tree {
        let at = self.at(&path);
        std::fs::create_dir_all(at.parent().expect("beneath the tree")).expect("mkdir");
        std::fs::write(at, path).expect("write");
        self
    }

    fn link(&self, target: &str, path: &str) -> &Tree {
        std::os::unix::fs::symlink(target, self.at(path)).expect("symlink");
        self
    }

    fn root(&self) -> Dir {
        Dir::open(self.0.path()).expect("open")
    }

    fn scanner(&self, sources: &[SourceSpec], options: ScanOptions) -> Scanner {
        Scanner::new(self.root(), sources.to_vec(), options)
    }

    /// All that a walk tells, checked for order.
    fn scan(&self, sources: &[SourceSpec], options: ScanOptions) -> Vec<ScanEvent> {
        let events: Vec<_> = self.scanner(sources, options).collect();
        check(&events);
        events
    }

    /// The same, as sorted lines.
    fn lines(&self, sources: &[SourceSpec]) -> Vec<String> {
        lines(&self.scan(sources, ScanOptions::default()))
    }
}

/// `path`, or what is in it if it ends in a slash.
fn source(path: &str) -> SourceSpec {
    match path.strip_suffix('/') {
        Some(path) => SourceSpec { path: path.into(), contents_only: true, ..SourceSpec::default() },
        None => {
            let name = path.rsplit('/').next().unwrap_or_default().into();
            SourceSpec { path: path.into(), name, ..SourceSpec::default() }
        }
    }
}

fn listed(path: &str, names: &[&str]) -> SourceSpec {
    let names = names.iter().map(|n| RelPath::new(*n).expect("name")).collect();
    SourceSpec { names, ..source(path) }
}

fn filtered(rules: &[&str]) -> ScanOptions {
    let rule = |r: &&str| FilterRule { include: r.starts_with('+'), glob: r[1..].to_owned() };
    let filter = Filter::new(&rules.iter().map(rule).collect::<Vec<_>>()).expect("rules");
    ScanOptions { filter, ..ScanOptions::default() }
}

fn preserve_all() -> ScanOptions {
    ScanOptions { preserve_all: true, ..ScanOptions::default() }
}

/// Sorted: `d a`, `f a/x`, `l a/y -> z`, `h a/w = a/x`, `p pipe`; listings that are not complete as `~ a`, errors
/// as `! a: why`, warnings as `? a: why`.
fn lines(events: &[ScanEvent]) -> Vec<String> {
    let mut lines: Vec<String> = events.iter().filter_map(line).collect();
    lines.sort();
    lines
}

fn line(event: &ScanEvent) -> Option<String> {
    Some(match event {
        ScanEvent::Entry(entry, _) => match &entry.kind {
            EntryKind::Dir => format!("d {}", entry.path),
            EntryKind::File(_) => format!("f {}", entry.path),
            EntryKind::Stream => format!("p {}", entry.path),
            EntryKind::Symlink { target } => format!("l {} -> {}", entry.path, target.escape_ascii()),
            EntryKind::HardLink { target } => format!("h {} = {target}", entry.path),
        },
        ScanEvent::Listed { complete: true, .. } => return None,
        ScanEvent::Listed { path, .. } => format!("~ {path}"),
        ScanEvent::Error { path, why } => format!("! {path}: {why}"),
        ScanEvent::Warning { path, why } => format!("? {path}: {why}"),
    })
}

fn entries(events: &[ScanEvent]) -> BTreeMap<String, (&Entry, &SourceRef)> {
    let mut entries = BTreeMap::new();
    for event in events {
        if let ScanEvent::Entry(entry, place) = event {
            entries.insert(entry.path.to_string(), (entry, place));
        }
    }
    entries
}

/// Holds a walk to what the module promises, and gives the most directories that were announced and not listed.
fn check(events: &[ScanEvent]) -> usize {
    let (mut seen, mut open, mut open_max) = (BTreeSet::new(), BTreeSet::new(), 0);
    for event in events {
        match event {
            ScanEvent::Entry(entry, _) => {
                assert!(seen.insert(entry.path.clone()), "{} is told once", entry.path);
                if let Some(parent) = entry.path.parent().filter(|p| !p.is_root() || seen.contains(p)) {
                    assert!(open.contains(&parent), "{} comes between its directory and the end of that", entry.path);
                }
                if entry.kind == EntryKind::Dir {
                    open.insert(entry.path.clone());
                    open_max = open_max.max(open.len());
                }
                if let EntryKind::HardLink { target } = &entry.kind {
                    assert!(seen.contains(target), "the first name of {} comes first", entry.path);
                }
            }
            ScanEvent::Listed { path, .. } => assert!(open.remove(path), "{path} is listed once"),
            ScanEvent::Error { .. } | ScanEvent::Warning { .. } => {}
        }
    }
    assert!(open.is_empty(), "never listed: {open:?}");
    through_protocol(events);
    open_max
}

/// Both roles take the walk, stopping it when there is no room, and come to an end.
fn through_protocol(events: &[ScanEvent]) {
    let (chunk_size, small_max) = (4 << 20, 1 << 20);
    let mut source = Source::new(SourceConfig { chunk_size, small_max, reorder_chunks: None, dry_run: false });
    let mut destination = Destination::new(DestinationConfig { chunk_size, delete: true, links: true, dry_run: false });
    let mut dirs = BTreeMap::new();
    for event in events {
        if !source.has_room() {
            settle(&mut source, &mut destination);
            assert!(source.has_room(), "the walk would wait for ever");
        }
        match event {
            ScanEvent::Entry(entry, _) => {
                let index = source.handle_entry(entry.clone(), 0);
                dirs.insert(entry.path.clone(), index);
            }
            ScanEvent::Listed { path, complete } => source.handle_listed(dirs[path], *complete),
            ScanEvent::Error { .. } | ScanEvent::Warning { .. } => {}
        }
    }
    source.handle_scan_end();
    settle(&mut source, &mut destination);
    assert!(source.is_done() && destination.is_done(), "{} entries are left over", source.outstanding());
}

fn settle(source: &mut Source, destination: &mut Destination) {
    loop {
        let mut idle = true;
        while let Some(message) = source.poll_message() {
            destination.handle_message(message).expect("the source keeps to the protocol");
            idle = false;
        }
        while let Some(action) = destination.poll_action() {
            idle = false;
            match action {
                Action::Decide { index, entry } if entry.kind == EntryKind::Dir => {
                    destination.handle_decision(index, Decision::DirReady);
                }
                Action::Decide { index, .. } => {
                    destination.handle_decision(index, Decision::Settled(Outcome::Placed));
                }
                Action::CloseDir { index, .. } => destination.handle_published(index, Outcome::Placed),
                Action::Delete { .. } => {}
                other => panic!("nothing is received, but: {other:?}"),
            }
        }
        while let Some(message) = destination.poll_message() {
            source.handle_message(message).expect("the destination keeps to the protocol");
            idle = false;
        }
        if idle {
            return;
        }
    }
}
