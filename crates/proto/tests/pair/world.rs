//! The model of a source: a tree whose files change while they are read.

use std::collections::{BTreeMap, BTreeSet};

use proto::source::{Item, Read};
use proto::{Entry, EntryKind, Identity, RelPath, Time};

use crate::rng::{Fault, Luck, Rng};

/// Bytes of a chunk in all cases: small, so that few bytes make many chunks.
pub(crate) const CHUNK: u64 = 16;
/// Files of up to this many bytes are small.
pub(crate) const SMALL: u64 = 20;

/// What the walk of the tree gives, in order.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Entry(Entry),
    /// The directory of this path is listed.
    Listed(RelPath, bool),
}

/// A file as it is now.
pub(crate) struct File {
    pub(crate) version: i64,
    pub(crate) sizes: Vec<u64>,
    /// It became something that is no file.
    pub(crate) gone: bool,
}

pub(crate) struct World {
    pub(crate) steps: Vec<Step>,
    pub(crate) files: BTreeMap<RelPath, File>,
    /// Names by directory, of directories that were listed whole.
    pub(crate) names: BTreeMap<RelPath, (BTreeSet<Vec<u8>>, bool)>,
    /// What a reader found in a pipe: it gives the same again.
    pipe_reads: BTreeMap<u64, Read>,
    pipes_failed: BTreeSet<u64>,
}

impl World {
    pub(crate) fn new(rng: &mut Rng) -> World {
        let mut world = World {
            steps: Vec::new(),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            pipe_reads: BTreeMap::new(),
            pipes_failed: BTreeSet::new(),
        };
        match rng.below(8) {
            // A single thing without a directory: a file or a pipe.
            0 => drop(world.content(rng, RelPath::new("only").unwrap())),
            // Nothing at all.
            1 if rng.one_in(4) => {}
            // A directory by its name, or the contents of one.
            2 => world.dir(rng, RelPath::new("top").unwrap(), 0),
            _ => world.dir(rng, RelPath::root(), 0),
        }
        world
    }

    fn dir(&mut self, rng: &mut Rng, path: RelPath, depth: u32) {
        self.steps.push(Step::Entry(entry(path.clone(), EntryKind::Dir)));
        let complete = !rng.one_in(6);
        let mut names = BTreeSet::new();
        // The listing may end before or after what is in subdirectories has been told.
        let mut inside = Vec::new();
        let mut firsts: Vec<RelPath> = Vec::new();
        for i in 0..rng.below(7) {
            let name = format!("n{i}");
            names.insert(name.clone().into_bytes());
            let path = path.join(name.as_bytes()).unwrap();
            match rng.below(10) {
                0 | 1 if depth < 3 => {
                    if rng.one_in(2) {
                        self.dir(rng, path, depth + 1);
                    } else {
                        inside.push(path);
                    }
                }
                2 => self.steps.push(Step::Entry(entry(path, EntryKind::Symlink { target: b"../x".to_vec() }))),
                3 | 4 if !firsts.is_empty() => {
                    let target = firsts[rng.at(firsts.len())].clone();
                    self.steps.push(Step::Entry(entry(path, EntryKind::HardLink { target })));
                }
                _ => {
                    if self.content(rng, path.clone()) {
                        firsts.push(path);
                    }
                }
            }
        }
        for path in inside {
            self.dir(rng, path, depth + 1);
        }
        self.steps.push(Step::Listed(path.clone(), complete));
        self.names.insert(path, (names, complete));
    }

    /// Adds a file or a pipe; true for a file.
    fn content(&mut self, rng: &mut Rng, path: RelPath) -> bool {
        let sizes = (0..8).map(|_| size(rng)).collect();
        self.files.insert(path.clone(), File { version: 0, sizes, gone: false });
        let mut entry = self.entry_now(&path);
        let pipe = rng.one_in(16);
        if pipe {
            entry.kind = EntryKind::Stream;
        }
        self.steps.push(Step::Entry(entry));
        !pipe
    }

    pub(crate) fn entry_now(&self, path: &RelPath) -> Entry {
        let file = &self.files[path];
        let time = Time { sec: file.version, nsec: 0 };
        let size = file.sizes[file.version as usize];
        let identity = Identity { size, ctime: time, ..Identity::default() };
        Entry { mtime: time, ..entry(path.clone(), EntryKind::File(identity)) }
    }

    /// Somebody writes to a file.
    pub(crate) fn change(&mut self, rng: &mut Rng, path: &RelPath) {
        let file = self.files.get_mut(path).unwrap();
        if rng.one_in(12) {
            file.gone = true;
        } else if file.version + 1 < file.sizes.len() as i64 {
            file.version += 1;
        }
    }

    /// Reads one item: what it finds, and the bytes.
    pub(crate) fn read(
        &mut self,
        rng: &mut Rng,
        luck: &mut Luck,
        parcel: u64,
        item: Item,
        entry: &Entry,
    ) -> (Read, Vec<u8>) {
        if entry.kind == EntryKind::Stream {
            return self.read_pipe(rng, luck, parcel, item, entry);
        }
        let now = self.entry_now(&entry.path);
        if luck.fails(Fault::Read, rng, 20) {
            return (Read::Failed("input/output error".into()), Vec::new());
        }
        if self.files[&entry.path].gone {
            let now = Entry { kind: EntryKind::Symlink { target: b"x".to_vec() }, ..now };
            return (Read::Changed(Box::new(now)), Vec::new());
        }
        if now.kind != entry.kind {
            return (Read::Changed(Box::new(now)), Vec::new());
        }
        (Read::Whole, bytes(&entry.path, entry.mtime.sec, item.offset, u64::from(item.len)))
    }

    fn read_pipe(&mut self, rng: &mut Rng, luck: &mut Luck, parcel: u64, item: Item, entry: &Entry) -> (Read, Vec<u8>) {
        let size = self.files[&entry.path].sizes[0];
        let end = item.offset + u64::from(item.len);
        let failed = !self.pipe_reads.contains_key(&parcel) && luck.fails(Fault::Read, rng, 20);
        if failed || self.pipes_failed.contains(&item.index) {
            self.pipes_failed.insert(item.index);
            return (Read::Failed("broken".into()), Vec::new());
        }
        let found = if end <= size { Read::Whole } else { Read::EndOfStream(size) };
        let found = self.pipe_reads.entry(parcel).or_insert(found).clone();
        let len = size.clamp(item.offset, end) - item.offset;
        (found, bytes(&entry.path, 0, item.offset, len))
    }
}

fn size(rng: &mut Rng) -> u64 {
    match rng.below(6) {
        0 => 0,
        1 | 2 => rng.below(SMALL + 2),
        3 => CHUNK * (1 + rng.below(4)),
        _ => rng.below(CHUNK * 9),
    }
}

fn entry(path: RelPath, kind: EntryKind) -> Entry {
    Entry { path, kind, mode: 0o644, mtime: Time::default(), owner: None, xattrs: Vec::new() }
}

/// The content of one version of a file: no two versions or files have a byte in common by more than chance.
pub(crate) fn bytes(path: &RelPath, version: i64, offset: u64, len: u64) -> Vec<u8> {
    let salt = path.as_bytes().iter().fold(version as u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(*b)));
    (offset..offset + len).map(|at| Rng(salt.wrapping_mul(0x1_0001) ^ at).next() as u8).collect()
}
