//! The model of a destination: temporary files, names, directories; and what must hold of them.

use std::collections::{BTreeMap, BTreeSet};

use proto::control::Outcome;
use proto::destination::{Action, Decision, Destination};
use proto::{ChunkSet, Entry, EntryKind, RelPath};

use crate::net::Part;
use crate::rng::{Fault, Luck, Rng};
use crate::world::{CHUNK, bytes};

/// What has arrived of one state of a file.
struct Temp {
    path: RelPath,
    generation: u8,
    content: Vec<Option<u8>>,
}

/// A write that is under way, maybe of a temporary file that is thrown away meanwhile.
pub(crate) struct Write {
    temp: usize,
    part: Part,
    pub(crate) arrival: u64,
}

/// Work that takes its time, and is done in any order.
pub(crate) enum Task {
    Decide(u64, Entry),
    Publish(u64, u64),
    Refresh(u64),
    Close(u64),
}

#[derive(Default)]
pub(crate) struct Site {
    /// How many disks files are spread over.
    disks: u64,
    /// One that writes nothing for now.
    pub(crate) stuck: Option<u8>,
    temps: Vec<Temp>,
    /// The temporary file of an index.
    current: BTreeMap<u64, usize>,
    discards: BTreeMap<u64, u8>,
    /// Version of what a comparison looks at.
    compared: BTreeMap<u64, i64>,
    pub(crate) writes: Vec<Write>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) finals: BTreeMap<RelPath, Vec<u8>>,
    /// Everything announced, by index.
    pub(crate) announced: BTreeMap<u64, Entry>,
    pub(crate) finished: BTreeMap<u64, Outcome>,
    pub(crate) dirs_decided: BTreeSet<RelPath>,
    pub(crate) dirs_ready: BTreeSet<RelPath>,
    pub(crate) closed: BTreeSet<RelPath>,
    /// Version of the file of which a chunk was told to be a hole, the last time.
    pub(crate) told: BTreeMap<(u64, u64), i64>,
    pub(crate) deleted: BTreeMap<RelPath, BTreeSet<Vec<u8>>>,
}

impl Site {
    pub(crate) fn new(disks: u64, stuck: Option<u8>) -> Site {
        Site { disks, stuck, ..Site::default() }
    }

    /// The disk that a file is written to.
    pub(crate) fn disk(&self, index: u64) -> u8 {
        (index % self.disks) as u8
    }

    /// Writes that get on.
    fn free_writes(&self) -> impl Iterator<Item = usize> {
        (0..self.writes.len()).filter(|at| self.stuck != Some(self.disk(self.writes[*at].part.index)))
    }

    pub(crate) fn can_write(&self) -> bool {
        self.free_writes().next().is_some()
    }

    /// Takes an action: the rules of order are checked here, the work is done later.
    pub(crate) fn act(&mut self, dest: &Destination, action: Action) {
        let touched = match &action {
            Action::Decide { entry, .. } => Some(entry.path.clone()),
            Action::Discard { index } | Action::Publish { index, .. } | Action::Refresh { index } => {
                Some(self.announced[index].path.clone())
            }
            Action::Delete { dir, .. } => Some(dir.join(b"x").unwrap()),
            Action::CloseDir { .. } => None,
        };
        if let Some(parent) = touched.and_then(|path| path.parent()) {
            assert!(!self.closed.contains(&parent), "{action:?} in a closed directory");
        }
        match action {
            Action::Decide { index, entry } => {
                self.check_decide(&entry);
                self.tasks.push(Task::Decide(index, entry));
            }
            Action::Discard { index } => {
                self.current.remove(&index);
                *self.discards.entry(index).or_default() += 1;
            }
            Action::Publish { index, size, holes } => {
                self.fill(index, size, &holes);
                self.check_content(dest.entry(index).expect("published entries are outstanding"), index, size);
                self.tasks.push(Task::Publish(index, size));
            }
            Action::Refresh { index } => {
                let entry = dest.entry(index).expect("refreshed entries are outstanding");
                assert_eq!(self.compared.get(&index), Some(&entry.mtime.sec), "called the same, and differs");
                self.tasks.push(Task::Refresh(index));
            }
            Action::Delete { dir, keep } => {
                assert!(self.dirs_ready.contains(&dir), "deletion in a directory that is not there");
                assert!(self.deleted.insert(dir, keep).is_none(), "a second deletion");
            }
            Action::CloseDir { index, entry } => {
                self.check_close(dest, &entry.path);
                self.tasks.push(Task::Close(index));
            }
        }
    }

    fn check_decide(&self, entry: &Entry) {
        let known = |path: &RelPath| self.announced.values().any(|e| e.path == *path);
        if let Some(parent) = entry.path.parent().filter(known) {
            assert!(self.dirs_decided.contains(&parent), "{entry:?} is decided before its directory");
        }
        if let EntryKind::HardLink { target } = &entry.kind {
            assert!(self.finals.contains_key(target), "a link to {target}, which is not in place");
        }
    }

    /// What was told to be a hole; the bytes of this world say by themselves whether they are of the right state.
    fn fill(&mut self, index: u64, size: u64, holes: &ChunkSet) {
        let path = &self.announced[&index].path;
        let temp = &mut self.temps[self.current[&index]].content;
        temp.resize(size as usize, None);
        for chunk in holes.ranges().iter().cloned().flatten() {
            let (from, to) = (chunk * CHUNK, size.min((chunk + 1) * CHUNK));
            let content = bytes(path, self.told[&(index, chunk)], from, to - from);
            temp[from as usize..to as usize].iter_mut().zip(content).for_each(|(to, from)| *to = Some(from));
        }
    }

    /// A published file is one state of the source, whole.
    fn check_content(&self, entry: &Entry, index: u64, size: u64) {
        let temp = &self.temps[self.current[&index]];
        assert!(entry.size().is_none_or(|s| s == size), "published with another size");
        let content: Option<Vec<u8>> = temp.content.iter().take(size as usize).copied().collect();
        let version = entry.mtime.sec;
        assert_eq!(content, Some(bytes(&entry.path, version, 0, size)), "{entry:?} is mixed or has holes");
    }

    fn check_close(&mut self, dest: &Destination, dir: &RelPath) {
        for (index, entry) in self.announced.iter().filter(|(_, e)| e.path.parent().as_ref() == Some(dir)) {
            let done = match entry.kind {
                EntryKind::Dir => self.dirs_decided.contains(&entry.path),
                _ => dest.entry(*index).is_none(),
            };
            assert!(done, "{dir} is closed before {entry:?} is done");
        }
        assert!(self.closed.insert(dir.clone()), "{dir} is closed twice");
    }

    /// Bytes arrive; they are written if they are expected. True if there is something to write.
    pub(crate) fn arrive(&mut self, dest: &Destination, part: Part, arrival: u64, reorder: Option<u32>) -> bool {
        if !dest.expects(part.index, part.generation, part.offset, part.bytes.len() as u64) {
            return false;
        }
        let temp = self.current[&part.index];
        assert_eq!(self.temps[temp].generation, part.generation);
        if let Some(reorder) = reorder {
            let missing = self.temps[temp].content.iter().position(Option::is_none).unwrap_or(usize::MAX) as u64;
            assert!(part.offset < missing.saturating_add(u64::from(reorder) * CHUNK), "further ahead than agreed");
        }
        self.writes.push(Write { temp, part, arrival });
        true
    }

    pub(crate) fn write(&mut self, dest: &mut Destination, rng: &mut Rng, luck: &mut Luck) -> u64 {
        let free: Vec<usize> = self.free_writes().collect();
        let Write { temp, part, arrival } = self.writes.swap_remove(free[rng.at(free.len())]);
        if self.current.get(&part.index) == Some(&temp) && luck.fails(Fault::Write, rng, 20) {
            dest.handle_write_failed(part.index, "no space left on device".into());
            return arrival;
        }
        let content = &mut self.temps[temp].content;
        let (start, end) = (part.offset as usize, part.offset as usize + part.bytes.len());
        content.resize(content.len().max(end), None);
        content[start..end].iter_mut().zip(&part.bytes).for_each(|(to, from)| *to = Some(*from));
        dest.handle_landed(part.index, part.generation, part.offset, part.file_end);
        arrival
    }

    /// Finishes one task, any.
    pub(crate) fn finish_task(&mut self, dest: &mut Destination, rng: &mut Rng, luck: &mut Luck) {
        let failed = || Outcome::Failed("permission denied".into());
        match self.tasks.swap_remove(rng.at(self.tasks.len())) {
            Task::Decide(index, entry) => {
                let decision = self.decide(index, &entry, rng, luck);
                dest.handle_decision(index, decision);
            }
            Task::Publish(index, _) | Task::Refresh(index) if luck.fails(Fault::Publish, rng, 10) => {
                dest.handle_published(index, failed())
            }
            Task::Publish(index, size) => {
                let temp = self.current.remove(&index).map(|temp| &self.temps[temp]).unwrap();
                let content = temp.content.iter().take(size as usize).map(|b| b.unwrap()).collect();
                self.finals.insert(temp.path.clone(), content);
                dest.handle_published(index, Outcome::Placed);
            }
            Task::Refresh(index) => {
                let entry = dest.entry(index).unwrap();
                let content = bytes(&entry.path, entry.mtime.sec, 0, entry.size().unwrap());
                self.finals.insert(entry.path.clone(), content);
                dest.handle_published(index, Outcome::Equal);
            }
            Task::Close(index) => {
                dest.handle_published(
                    index,
                    if luck.fails(Fault::Publish, rng, 10) { failed() } else { Outcome::Placed },
                );
            }
        }
    }

    fn decide(&mut self, index: u64, entry: &Entry, rng: &mut Rng, luck: &mut Luck) -> Decision {
        let path = entry.path.clone();
        let version = entry.mtime.sec;
        let fails = luck.fails(Fault::Decide, rng, 10);
        match &entry.kind {
            EntryKind::Dir => {
                self.dirs_decided.insert(path.clone());
                if fails {
                    return Decision::Settled(Outcome::Failed("a file stands there".into()));
                }
                self.dirs_ready.insert(path);
                Decision::DirReady
            }
            _ if fails => Decision::Settled(Outcome::Failed("permission denied".into())),
            EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => Decision::Settled(Outcome::Placed),
            EntryKind::Stream => self.receive(index, entry, ChunkSet::new()),
            EntryKind::File(identity) => match rng.below(10) {
                0 => {
                    self.finals.insert(path.clone(), bytes(&path, version, 0, identity.size));
                    Decision::Settled(Outcome::Equal)
                }
                1 => {
                    self.finals.insert(path, b"old".to_vec());
                    Decision::Settled(Outcome::Kept)
                }
                2 => {
                    let there = if rng.one_in(2) { version } else { version - 1 };
                    self.compared.insert(index, there);
                    self.receive(index, entry, ChunkSet::new());
                    Decision::Compare { digest: [there as u8; 32], disk: self.disk(index) }
                }
                3 | 4 => {
                    let mut have = ChunkSet::new();
                    let all = rng.one_in(4);
                    let chunks = (0..ChunkSet::count_of(identity.size, CHUNK as u32)).filter(|_| all || rng.one_in(2));
                    for chunk in chunks {
                        have.insert(chunk);
                    }
                    self.receive(index, entry, have)
                }
                _ => self.receive(index, entry, ChunkSet::new()),
            },
        }
    }

    /// Makes a temporary file; what is there of it is from an earlier run.
    fn receive(&mut self, index: u64, entry: &Entry, have: ChunkSet) -> Decision {
        let generation = self.discards.get(&index).copied().unwrap_or(0);
        let size = entry.size().unwrap_or(0);
        let content = bytes(&entry.path, entry.mtime.sec, 0, size);
        let there = (0..size).map(|at| have.contains(at / CHUNK).then_some(content[at as usize]));
        let temp = Temp { path: entry.path.clone(), generation, content: there.collect() };
        self.current.insert(index, self.temps.len());
        self.temps.push(temp);
        Decision::Receive { have, disk: self.disk(index) }
    }
}
