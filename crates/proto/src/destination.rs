//! The destination role: what is decided, what has landed, what may be published, when a directory is closed.
//!
//! ```text
//!   Page ─▶ deciding ──▶ (equal, kept, placed, failed) ─────────────────────────▶ Done
//!               │                                                                  ▲
//!               └─▶ receiving ──all chunks landed and FileEnd──▶ publishing ───────┘
//! ```
//!
//! A directory is created when it is met and closed (attributes set) when it is listed, everything directly in
//! it is done and its subdirectories are there; only then is it reported as done itself.
//!
//! The source cannot know what the destination has just made of an entry, so what it says of one that is done
//! is let pass, and what it says of one that is being published comes too late: a file of which one state
//! arrived whole is kept in that state.

mod action;
mod links;
mod outbox;
mod tree;

use std::collections::{BTreeMap, VecDeque};

use crate::control::{FileEnd, Outcome, ToDestination, ToSource, Want, Wanted};
use crate::limits::{
    CHUNK_RANGES_MAX, ENTRY_BYTES_MAX, OUTSTANDING_ENTRIES_MAX, OUTSTANDING_ENTRY_BYTES_MAX, PAGE_ENTRIES_MAX,
    RESTARTS_PER_FILE_MAX,
};
use crate::source::STREAM_PARCELS_MAX;
use crate::{ChunkSet, Entry, EntryKind};

pub use action::{Action, Decision};
use links::{Fate, Links, Target};
use outbox::Outbox;
use tree::{Step, Tree};

/// What the destination role is set up with.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Delete what the source does not have.
    pub delete: bool,
    /// Hard links are preserved, so names wait for the file they link to.
    pub links: bool,
    /// No content is received.
    pub dry_run: bool,
}

/// The source does not keep to the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Pages leave a gap or repeat.
    #[error("page of the manifest begins at {got}, expected {expected}")]
    Page {
        /// Index announced.
        got: u64,
        /// Index expected.
        expected: u64,
    },
    /// More entries outstanding than agreed, or larger ones.
    #[error("the source announces more than {OUTSTANDING_ENTRIES_MAX} entries at once, or too many bytes of them")]
    Flood,
    /// It speaks of an entry that is not outstanding or not fit for that.
    #[error("the source speaks of entry {0}, which is not outstanding or of another kind")]
    Entry(u64),
    /// A file starts again too often.
    #[error("entry {0} starts again too often")]
    Restarts(u64),
}

enum State {
    /// Its directory is not there yet.
    Waiting,
    /// A hard link whose first name is still under way.
    Linking,
    Deciding,
    /// A directory that is there.
    Open,
    Receiving {
        landed: ChunkSet,
        end: Option<u64>,
        /// The source was asked whether it differs at all.
        comparing: bool,
        /// Chunks of `landed` that nothing was written to.
        holes: ChunkSet,
    },
    Publishing,
}

struct Node {
    entry: Entry,
    /// Entry of the directory that holds it, if there is one.
    parent: Option<u64>,
    state: State,
    restarts: u8,
    /// It was given up before it was wanted.
    early_end: Option<Outcome>,
}

impl Node {
    fn has_content(&self) -> bool {
        matches!(self.entry.kind, EntryKind::File(_) | EntryKind::Stream)
    }
}

/// The destination role of one session.
pub struct Destination {
    config: Config,
    next_index: u64,
    nodes: BTreeMap<u64, Node>,
    /// Bytes of the entries of all nodes.
    bytes: usize,
    tree: Tree,
    links: Links,
    actions: VecDeque<Action>,
    outbox: Outbox,
    scan_done: Option<u64>,
}

impl Destination {
    /// A destination that was told nothing yet.
    ///
    /// # Panics
    /// If chunks have no size.
    #[must_use]
    pub fn new(config: Config) -> Destination {
        assert!(config.chunk_size > 0, "chunks have a size");
        Destination {
            config,
            next_index: 0,
            nodes: BTreeMap::new(),
            bytes: 0,
            tree: Tree::new(),
            links: Links::default(),
            actions: VecDeque::new(),
            outbox: Outbox::default(),
            scan_done: None,
        }
    }

    /// Takes a message of the source.
    ///
    /// # Errors
    /// When it says what cannot be.
    pub fn handle_message(&mut self, message: ToDestination) -> Result<(), ProtocolError> {
        match message {
            // For the user only; the runtime tells it.
            ToDestination::Problem { .. } | ToDestination::Digest { .. } | ToDestination::Warning(_) => Ok(()),
            ToDestination::Page { first, entries } => self.page(first, entries),
            ToDestination::Listed { dir, complete } => self.listed(dir, complete),
            ToDestination::ScanDone { entries } => {
                if entries != self.next_index || self.scan_done.is_some() {
                    return Err(ProtocolError::Page { got: entries, expected: self.next_index });
                }
                self.scan_done = Some(entries);
                Ok(())
            }
            ToDestination::FileEnd { index, end } => self.file_end(index, end),
            ToDestination::Restart { index, entry } => self.restart(index, entry),
            ToDestination::Holes { index, chunks } => self.holes(index, &chunks),
        }
    }

    fn page(&mut self, first: u64, entries: Vec<Entry>) -> Result<(), ProtocolError> {
        if first != self.next_index || self.scan_done.is_some() {
            return Err(ProtocolError::Page { got: first, expected: self.next_index });
        }
        // What is done but not told still counts at the source.
        let outstanding = self.nodes.len() + self.outbox.done_len() + entries.len();
        if entries.len() > PAGE_ENTRIES_MAX || outstanding > OUTSTANDING_ENTRIES_MAX + PAGE_ENTRIES_MAX {
            return Err(ProtocolError::Flood);
        }
        for entry in entries {
            self.bytes += weight_of(&entry, self.bytes)?;
            let index = self.next_index;
            self.next_index += 1;
            let parent = self.tree.enter(index, &entry, self.config.delete);
            if self.config.links && matches!(entry.kind, EntryKind::File(_)) {
                self.links.begin(&entry.path);
            }
            self.nodes.insert(index, Node { entry, parent, state: State::Waiting, restarts: 0, early_end: None });
            if !self.tree.wait(parent, index) {
                self.begin(index);
            }
        }
        Ok(())
    }

    /// The directory of an entry is there, as far as it will be.
    fn begin(&mut self, index: u64) {
        let Some(node) = self.nodes.get_mut(&index) else { return };
        let target = match &node.entry.kind {
            EntryKind::HardLink { target } => self.links.wait(target, index),
            _ => Target::Done(Fate::There),
        };
        match target {
            Target::Done(fate) => self.link(index, fate),
            Target::UnderWay => node.state = State::Linking,
        }
    }

    fn decide(&mut self, index: u64) {
        if let Some(node) = self.nodes.get_mut(&index) {
            node.state = State::Deciding;
            self.actions.push_back(Action::Decide { index, entry: node.entry.clone() });
        }
    }

    /// What its first name came to lets a link be looked at, or settles it.
    fn link(&mut self, index: u64, fate: Fate) {
        match fate {
            Fate::There => self.decide(index),
            Fate::Failed => {
                self.finish(index, Outcome::Failed("the file that it is another name of is not in place".to_owned()));
            }
            // Even if it is another name of what is there now.
            Fate::Would => self.finish(index, Outcome::Would),
        }
    }

    /// The node of an index; `None` if it is done, which the source cannot know.
    fn node(&mut self, index: u64) -> Result<Option<&mut Node>, ProtocolError> {
        if index < self.next_index { Ok(self.nodes.get_mut(&index)) } else { Err(ProtocolError::Entry(index)) }
    }

    fn listed(&mut self, index: u64, complete: bool) -> Result<(), ProtocolError> {
        let Some(node) = self.node(index)? else { return Ok(()) };
        if node.entry.kind != EntryKind::Dir || !self.tree.listed(index, complete) {
            return Err(ProtocolError::Entry(index));
        }
        self.step_dir(index);
        Ok(())
    }

    /// Does what a directory is ready for.
    fn step_dir(&mut self, index: u64) {
        let Some(node) = self.nodes.get_mut(&index).filter(|n| matches!(n.state, State::Open)) else { return };
        loop {
            match self.tree.step(index, self.config.delete) {
                Step::Wait => return,
                Step::Delete(keep) => self.actions.push_back(Action::Delete { dir: node.entry.path.clone(), keep }),
                Step::Close => {
                    node.state = State::Publishing;
                    return self.actions.push_back(Action::CloseDir { index, entry: node.entry.clone() });
                }
            }
        }
    }

    /// An entry touches its directory no more.
    fn leave(&mut self, parent: Option<u64>) {
        if let Some(parent) = parent {
            self.tree.leave(parent);
            self.step_dir(parent);
        }
    }

    fn restart(&mut self, index: u64, entry: Entry) -> Result<(), ProtocolError> {
        let bytes = self.bytes;
        let Some(node) = self.node(index)? else { return Ok(()) };
        let both_files = matches!((&node.entry.kind, &entry.kind), (EntryKind::File(_), EntryKind::File(_)));
        if !both_files || entry.path != node.entry.path {
            return Err(ProtocolError::Entry(index));
        }
        match node.state {
            // All of one state is here; the source only had not heard of it.
            State::Publishing => return Ok(()),
            State::Receiving { .. } => {}
            _ => return Err(ProtocolError::Entry(index)),
        }
        if node.restarts >= RESTARTS_PER_FILE_MAX {
            return Err(ProtocolError::Restarts(index));
        }
        node.restarts += 1;
        let without = bytes - node.entry.weight();
        let weight = weight_of(&entry, without)?;
        node.entry = entry;
        self.bytes = without + weight;
        self.actions.push_back(Action::Discard { index });
        self.decide(index);
        Ok(())
    }

    fn file_end(&mut self, index: u64, end: FileEnd) -> Result<(), ProtocolError> {
        let Config { chunk_size, dry_run, .. } = self.config;
        let Some(node) = self.node(index)? else { return Ok(()) };
        if !node.has_content() {
            return Err(ProtocolError::Entry(index));
        }
        if let Some(outcome) = end.given_up() {
            match node.state {
                // All of it is here; the source only had not heard of it.
                State::Publishing => {}
                State::Receiving { .. } => self.drop_file(index, outcome),
                _ => node.early_end = Some(outcome),
            }
            return Ok(());
        }
        match (&mut node.state, end) {
            (State::Receiving { comparing: true, .. }, FileEnd::Same) if dry_run => self.finish(index, Outcome::Equal),
            (State::Receiving { comparing: true, .. }, FileEnd::Whole { .. }) if dry_run => {
                self.finish(index, Outcome::Would);
            }
            (State::Receiving { landed, comparing: true, .. }, FileEnd::Same) if landed.is_empty() => {
                node.state = State::Publishing;
                self.actions.push_back(Action::Refresh { index });
            }
            (State::Receiving { landed, end: end @ None, .. }, FileEnd::Whole { size }) => {
                let fits = node.entry.size().is_none_or(|s| s == size);
                let beyond = landed.ranges().last().is_some_and(|r| r.end > ChunkSet::count_of(size, chunk_size));
                if !fits || (beyond && node.entry.kind == EntryKind::Stream) {
                    return Err(ProtocolError::Entry(index));
                }
                *end = Some(size);
                self.publish_if_whole(index);
            }
            _ => return Err(ProtocolError::Entry(index)),
        }
        Ok(())
    }

    /// Chunks that no parcel will bring. They are told once, and never of a file that is whole without them.
    fn holes(&mut self, index: u64, chunks: &ChunkSet) -> Result<(), ProtocolError> {
        let chunk_size = self.config.chunk_size;
        let Some(node) = self.node(index)? else { return Ok(()) };
        let count = node.entry.size().map(|size| ChunkSet::count_of(size, chunk_size));
        let State::Receiving { landed, holes, .. } = &mut node.state else { return Err(ProtocolError::Entry(index)) };
        let within = chunks.ranges().last().is_none_or(|r| Some(r.end) <= count);
        if count.is_none() || !within || landed.meets(chunks) {
            return Err(ProtocolError::Entry(index));
        }
        landed.extend(chunks);
        holes.extend(chunks);
        self.drop_if_in_pieces(index);
        self.publish_if_whole(index);
        Ok(())
    }

    /// What a peer can make grow has a bound.
    fn drop_if_in_pieces(&mut self, index: u64) {
        let Some(node) = self.nodes.get(&index) else { return };
        if let State::Receiving { landed, holes, .. } = &node.state
            && landed.ranges().len().max(holes.ranges().len()) > CHUNK_RANGES_MAX
        {
            let why = format!("arrives in more than {CHUNK_RANGES_MAX} pieces");
            self.drop_file(index, Outcome::Failed(why));
        }
    }

    fn drop_file(&mut self, index: u64, outcome: Outcome) {
        self.actions.push_back(Action::Discard { index });
        self.end(index, outcome, false);
    }

    /// Takes the runtime's answer to [`Action::Decide`].
    pub fn handle_decision(&mut self, index: u64, decision: Decision) {
        let deciding = |n: &&mut Node| matches!(n.state, State::Deciding);
        let Some(node) = self.nodes.get_mut(&index).filter(deciding) else { return };
        let (have, disk, what) = match decision {
            Decision::Settled(outcome) => return self.finish(index, outcome),
            Decision::LeaveOut => return self.drop_file(index, Outcome::Kept),
            Decision::DirReady => {
                debug_assert_eq!(node.entry.kind, EntryKind::Dir, "only a directory is opened");
                return self.open_dir(index);
            }
            Decision::Compare { digest, disk } => (ChunkSet::new(), disk, Wanted::IfDiffers(digest)),
            // A pipe begins at its beginning. Half of the ranges are left for what will land.
            Decision::Receive { disk, .. } if node.entry.kind == EntryKind::Stream => {
                (ChunkSet::new(), disk, Wanted::All)
            }
            Decision::Receive { have, disk } if have.is_empty() => (have, disk, Wanted::All),
            Decision::Receive { have, disk } => {
                let have = have.first_ranges(CHUNK_RANGES_MAX / 2);
                (have.clone(), disk, Wanted::Rest { have })
            }
        };
        debug_assert!(node.has_content(), "only what has content is received");
        if let Some(outcome) = node.early_end.take() {
            return self.drop_file(index, outcome);
        }
        let comparing = matches!(what, Wanted::IfDiffers(_));
        node.state = State::Receiving { landed: have, end: None, comparing, holes: ChunkSet::new() };
        self.outbox.want(index, Want { disk, what });
    }

    /// So many parcels may be under way to each disk from now on: more of a disk that is slow would take what the
    /// others need.
    pub fn set_window(&mut self, parcels: u32) {
        self.outbox.window(parcels);
    }

    fn open_dir(&mut self, index: u64) {
        let Some(node) = self.nodes.get_mut(&index) else { return };
        node.state = State::Open;
        let parent = node.parent;
        for waiting in self.tree.ready(index) {
            self.begin(waiting);
        }
        self.leave(parent);
        self.step_dir(index);
    }

    /// True if data at this place of the file, in this generation, are expected; the runtime asks before it
    /// writes them. Others are dropped, and the parcel is acknowledged none the less.
    #[must_use]
    pub fn expects(&self, index: u64, generation: u8, offset: u64, len: u64) -> bool {
        let Some(node) = self.nodes.get(&index) else { return false };
        let State::Receiving { landed, .. } = &node.state else { return false };
        // A pipe has no size: it may be as far ahead as the source may read ahead.
        let chunk_size = u64::from(self.config.chunk_size);
        let window = || (landed.lowest_missing() + STREAM_PARCELS_MAX).saturating_mul(chunk_size);
        let limit = node.entry.size().unwrap_or_else(window);
        node.restarts == generation && offset.checked_add(len).is_some_and(|end| end <= limit)
    }

    /// Part of a parcel was verified and written: a whole chunk of a big file, or (`file_end`) a whole small
    /// file. The runtime has seen to it that it is whole.
    pub fn handle_landed(&mut self, index: u64, generation: u8, offset: u64, file_end: bool) {
        if !self.expects(index, generation, offset, 0) {
            return;
        }
        let chunk_size = self.config.chunk_size;
        let Some(node) = self.nodes.get_mut(&index) else { return };
        let size = node.entry.size();
        let State::Receiving { landed, end, .. } = &mut node.state else { return };
        match size.filter(|_| file_end) {
            Some(size) => {
                *landed = ChunkSet::full(ChunkSet::count_of(size, chunk_size));
                *end = Some(size);
            }
            None => {
                landed.insert(offset / u64::from(chunk_size));
            }
        }
        self.drop_if_in_pieces(index);
        self.publish_if_whole(index);
    }

    /// All of a parcel has arrived and is verified; what of it was expected is written. Also when a file of it
    /// failed: the source is to send it no more.
    pub fn handle_parcel(&mut self, parcel: u64) {
        self.outbox.landed(parcel);
    }

    /// A parcel arrived corrupt. Once for each time that it arrives.
    pub fn handle_corrupt(&mut self, parcel: u64) {
        self.outbox.repair(parcel);
    }

    fn publish_if_whole(&mut self, index: u64) {
        let chunk_size = self.config.chunk_size;
        let Some(node) = self.nodes.get_mut(&index) else { return };
        if let State::Receiving { landed, end: Some(size), holes, .. } = &mut node.state
            && landed.covers(ChunkSet::count_of(*size, chunk_size))
        {
            let (size, holes) = (*size, std::mem::take(holes));
            node.state = State::Publishing;
            self.actions.push_back(Action::Publish { index, size, holes });
        }
    }

    /// Writing failed: the file will not be in place.
    pub fn handle_write_failed(&mut self, index: u64, why: String) {
        if self.nodes.get(&index).is_some_and(|n| matches!(n.state, State::Receiving { .. })) {
            self.drop_file(index, Outcome::Failed(why));
        }
    }

    /// Takes the runtime's answer to [`Action::Publish`], [`Action::Refresh`] and [`Action::CloseDir`].
    pub fn handle_published(&mut self, index: u64, outcome: Outcome) {
        if self.nodes.get(&index).is_some_and(|n| matches!(n.state, State::Publishing)) {
            self.finish(index, outcome);
        }
    }

    fn finish(&mut self, index: u64, outcome: Outcome) {
        let in_place = !outcome.is_failure();
        self.end(index, outcome, in_place);
    }

    /// Ends an entry. What is dropped is not in place, even if that is no failure: no name is linked to it.
    fn end(&mut self, index: u64, mut outcome: Outcome, in_place: bool) {
        let Some(node) = self.nodes.remove(&index) else { return };
        self.bytes -= node.entry.weight();
        let Node { entry, parent, .. } = node;
        let mut freed = Vec::new();
        let mut leaves = true;
        if let Some((ready, waiting, names_lost)) = self.tree.remove(index, &entry.path) {
            (freed, leaves) = (waiting, !ready);
            if names_lost && !outcome.is_failure() {
                outcome = Outcome::Failed("has too many names: nothing was deleted in it".to_owned());
            }
        }
        let in_place = in_place && !outcome.is_failure();
        let fate = match outcome {
            Outcome::Would => Fate::Would,
            _ if in_place => Fate::There,
            _ => Fate::Failed,
        };
        let linked = match entry.kind {
            EntryKind::File(_) => self.links.end(&entry.path, fate),
            _ => Vec::new(),
        };
        self.outbox.done(index, outcome);
        freed.into_iter().for_each(|waiting| self.begin(waiting));
        linked.into_iter().for_each(|link| self.link(link, fate));
        if leaves {
            self.leave(parent);
        }
    }

    /// The next thing to do. What concerns one directory (a deletion, what is thrown away, closing it) is done
    /// in this order; the rest may be done in any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next thing to tell the source. Small answers are gathered until they are asked for.
    pub fn poll_message(&mut self) -> Option<ToSource> {
        self.outbox.poll()
    }

    /// The entry of an index that is not done.
    #[must_use]
    pub fn entry(&self, index: u64) -> Option<&Entry> {
        self.nodes.get(&index).map(|n| &n.entry)
    }

    /// Entries that are not done.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.nodes.len()
    }

    /// True when all entries are done and told.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.scan_done.is_some() && self.nodes.is_empty() && self.outbox.done_len() == 0 && self.actions.is_empty()
    }

    /// True when the manifest is known and all content has arrived: what is left waits for commits only.
    /// Looks at every outstanding entry.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        let arriving = |n: &Node| !matches!(n.state, State::Open | State::Linking | State::Publishing);
        self.scan_done.is_some() && !self.nodes.values().any(arriving)
    }

    /// True when the whole manifest is known.
    #[must_use]
    pub fn is_scanned(&self) -> bool {
        self.scan_done.is_some()
    }
}

/// The weight of an entry, if it may join others of so many bytes.
fn weight_of(entry: &Entry, others: usize) -> Result<usize, ProtocolError> {
    let weight = entry.weight();
    let fits = weight <= ENTRY_BYTES_MAX && others + weight <= 2 * OUTSTANDING_ENTRY_BYTES_MAX;
    if fits { Ok(weight) } else { Err(ProtocolError::Flood) }
}

#[cfg(test)]
mod tests;
