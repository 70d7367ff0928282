//! A source and a destination, joined by a model of everything that lies between and beneath them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use proto::control::{Begun, Outcome, ToDestination, ToSource};
use proto::destination::{self, Destination};
use proto::source::{self, Finished, Item, Job, Source};
use proto::{Entry, EntryKind, RelPath, frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::net::{Event, Net, Parcel, Part};
use crate::rng::{Fault, Luck, Rng};
use crate::site::Site;
use crate::world::{CHUNK, SMALL, Step, World, bytes};

/// Steps that no case comes near; one that gets here goes round in circles.
const STEPS_MAX: u32 = 200_000;
/// Disks that the source reads from.
const LANES: usize = 3;
/// Disks at most that the destination writes to.
const DISKS: u64 = 3;

/// A job at the readers.
struct Reading {
    parcel: u64,
    left: Vec<(Item, Entry)>,
    /// In the order of the items.
    parts: BTreeMap<usize, Part>,
    order: Vec<u64>,
    batch: bool,
    after: Option<Begun>,
}

/// A parcel that has begun to arrive.
#[derive(Default)]
struct Arrival {
    parcel: u64,
    writes: u32,
    whole: bool,
}

pub(crate) struct Pair {
    rng: Rng,
    luck: Luck,
    /// How likely each move is.
    weights: [u64; MOVES],
    /// Streams die and files change once in so many moves that let them.
    kills: u64,
    changes: u64,
    delete: bool,
    reorder: Option<u32>,
    world: World,
    walked: usize,
    indexes: BTreeMap<RelPath, u64>,
    source: Source,
    dest: Destination,
    to_dest: VecDeque<ToDestination>,
    to_source: VecDeque<ToSource>,
    reading: Vec<Reading>,
    comparing: Vec<(u64, Entry, [u8; 32])>,
    net: Net,
    arrivals: BTreeMap<u64, Arrival>,
    /// The arrival of the parcel at the head of each stream.
    heads: BTreeMap<u16, u64>,
    arrived: u64,
    /// Parcels that the destination has room for.
    frames: usize,
    site: Site,
    finished: BTreeMap<u64, Finished>,
    /// Polls that gave nothing since anything else happened.
    silent: BTreeSet<Move>,
}

/// What may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Move {
    Walk,
    Flush,
    TellDest,
    TellSource,
    HearDest,
    HearSource,
    Job,
    Read,
    Compare,
    Send,
    NetEvent,
    Arrive,
    Write,
    Act,
    Task,
    Kill,
    Change,
    GiveUp,
}

const MOVES: usize = Move::GiveUp as usize + 1;

impl Pair {
    pub(crate) fn new(seed: u64) -> Pair {
        let mut rng = Rng(seed);
        let world = World::new(&mut rng);
        let single = world.steps.len() == 1;
        let faults = [0, 6, 20, 60][rng.at(4)];
        let delete = rng.one_in(2);
        let reorder = (single && rng.one_in(2)).then_some(3);
        // What a pipe was given it does not take back.
        let luck = Luck::new(&mut rng, if reorder.is_some() { 0 } else { faults });
        let source = source::Config {
            chunk_size: CHUNK as u32,
            small_max: SMALL as u32,
            reorder_chunks: reorder,
            dry_run: false,
        };
        let dest = destination::Config { chunk_size: CHUNK as u32, delete, links: true, dry_run: false };
        let mut net = Net::default();
        (0..1 + rng.below(4)).for_each(|_| net.open());
        let disks = 1 + rng.below(DISKS);
        // Of a file that is given up after a stream was lost the source forgets what the destination may still hold: then
        // a disk can hold more than its window.
        let forgets = [Fault::Change, Fault::GiveUp, Fault::Read, Fault::Corrupt].map(|fault| luck.may_fail(fault));
        let exact = !luck.may_fail(Fault::Kill) || forgets == [false; 4];
        let stuck = (disks > 1 && exact).then(|| rng.below(disks) as u8);
        let window = 1 + rng.below(3);
        let mut dest = Destination::new(dest);
        // One disk may take all there is.
        if disks > 1 {
            dest.set_window(window as u32);
        }
        let (kills, changes) = ([1, 4, 20][rng.at(3)], [1, 4, 20][rng.at(3)]);
        let weights = tempers(&mut rng);
        Pair {
            weights,
            rng,
            luck,
            kills,
            changes,
            delete,
            reorder,
            world,
            walked: 0,
            indexes: BTreeMap::new(),
            source: Source::new(source),
            dest,
            to_dest: VecDeque::new(),
            to_source: VecDeque::new(),
            reading: Vec::new(),
            comparing: Vec::new(),
            net,
            arrivals: BTreeMap::new(),
            heads: BTreeMap::new(),
            arrived: 0,
            frames: (disks * window) as usize,
            site: Site::new(disks, stuck),
            finished: BTreeMap::new(),
            silent: BTreeSet::new(),
        }
    }

    /// Runs to the end and checks what has become of everything. Gives the number of steps.
    pub(crate) fn run(mut self) -> u32 {
        for step in 0..STEPS_MAX {
            let moves = self.moves();
            if moves.is_empty() {
                if let Some(stuck) = self.site.stuck.take() {
                    self.check_others(stuck);
                    continue;
                }
                self.check_end();
                return step;
            }
            let next = self.choose(&moves);
            if self.make(next) {
                self.silent.clear();
            } else {
                self.silent.insert(next);
            }
            self.observe();
        }
        panic!("no end after {STEPS_MAX} steps");
    }

    /// Each case has its own tempers: in one the control connection is slow, in another the disks are.
    fn choose(&mut self, moves: &[Move]) -> Move {
        let weight = |next: &Move| self.weights[*next as usize];
        let mut at = self.rng.below(moves.iter().map(weight).sum());
        let chosen = moves.iter().find(|next| {
            let found = at < weight(next);
            at = at.saturating_sub(weight(next));
            found
        });
        *chosen.expect("the weights were summed")
    }

    /// What may happen now; at the end, or when both wait for each other for ever, nothing.
    fn moves(&self) -> Vec<Move> {
        let walking = self.walked <= self.world.steps.len() && self.source.has_room();
        let polls = [Move::TellDest, Move::TellSource, Move::Job, Move::Act];
        let may = [
            (Move::Walk, walking),
            (Move::Flush, walking && !self.silent.contains(&Move::Flush)),
            (Move::HearSource, !self.to_source.is_empty()),
            (Move::HearDest, !self.to_dest.is_empty()),
            (Move::Read, !self.reading.is_empty()),
            (Move::Compare, !self.comparing.is_empty()),
            (Move::Send, !self.net.ready.is_empty()),
            (Move::NetEvent, !self.net.events.is_empty()),
            (Move::Arrive, !self.arriving().is_empty()),
            (Move::Write, self.site.can_write()),
            (Move::Task, !self.site.tasks.is_empty()),
            (Move::Kill, self.luck.may_fail(Fault::Kill) && !self.net.is_idle()),
            (
                Move::Change,
                self.luck.may_fail(Fault::Change) && self.source.outstanding() > 0 && !self.world.files.is_empty(),
            ),
            (Move::GiveUp, self.luck.may_fail(Fault::GiveUp) && self.source.outstanding() > 0),
        ];
        let polls = polls.into_iter().filter(|poll| !self.silent.contains(poll));
        let quiet = self.silent.len() >= 4 && may[..11].iter().all(|(_, may)| !may);
        let others = may.into_iter().filter(|(_, may)| *may && !quiet).map(|(next, _)| next);
        others.chain(polls).collect()
    }

    /// Does it. False if it turned out that there was nothing to do.
    fn make(&mut self, next: Move) -> bool {
        match next {
            Move::Walk => self.walk(),
            Move::Flush => {
                self.source.flush();
                return false;
            }
            Move::TellDest => return tell(self.source.poll_message(), &mut self.to_dest),
            Move::TellSource => return self.tell_source(),
            Move::HearDest => self.hear_dest(),
            Move::HearSource => {
                let message = self.to_source.pop_front().unwrap();
                self.source.handle_message(message).expect("the destination keeps to the protocol");
            }
            Move::Job => return self.job(),
            Move::Read => self.read(),
            Move::Compare => self.compare(),
            Move::Send => {
                let stream = self.net.pick(&mut self.rng);
                let corrupt = self.luck.fails(Fault::Corrupt, &mut self.rng, 4);
                self.net.take(stream, corrupt);
            }
            Move::NetEvent => match self.net.events.pop_front().unwrap() {
                Event::Sending(parcel, stream) => self.source.handle_sent(parcel, stream),
                Event::Closed(stream, arrived) => self.source.handle_stream_ended(stream, &arrived),
            },
            Move::Arrive => self.arrive(),
            Move::Write => {
                let arrival = self.site.write(&mut self.dest, &mut self.rng, &mut self.luck);
                if let Some(a) = self.arrivals.get_mut(&arrival) {
                    a.writes -= 1;
                }
                self.land(arrival);
            }
            Move::Act => match self.dest.poll_action() {
                Some(action) => self.site.act(&self.dest, action),
                None => return false,
            },
            Move::Task => self.site.finish_task(&mut self.dest, &mut self.rng, &mut self.luck),
            Move::Kill => {
                if self.luck.fails(Fault::Kill, &mut self.rng, self.kills) {
                    let stream = self.net.pick(&mut self.rng);
                    // What is kept may be let go of before the rest comes.
                    if self.luck.may_fail(Fault::Corrupt) && self.rng.one_in(4) {
                        self.net.kept.pop_first();
                    }
                    self.net.kill(stream, &mut self.rng);
                    // What has been written of a parcel does not count.
                    if let Some(head) = self.heads.remove(&stream) {
                        self.arrivals.remove(&head);
                    }
                    self.net.open();
                }
            }
            Move::Change => {
                if self.luck.fails(Fault::Change, &mut self.rng, self.changes) {
                    let path = self.victim();
                    self.world.change(&mut self.rng, &path);
                }
            }
            Move::GiveUp => {
                let index = self.rng.below(self.world.steps.len() as u64);
                if self.source.entry(index).is_some() && self.luck.fails(Fault::GiveUp, &mut self.rng, self.kills) {
                    self.source.fail(index, "interrupted".into());
                }
            }
        }
        true
    }

    /// The file to change: any, or one that is under way.
    fn victim(&mut self) -> RelPath {
        let on_the_wire = self.net.streams.values().flatten().flat_map(|parcel| &parcel.parts).map(|part| part.index);
        let read = self.reading.iter().flat_map(|job| &job.left).map(|(item, _)| item.index);
        let under_way: Vec<RelPath> =
            on_the_wire.chain(read).filter_map(|index| Some(self.source.entry(index)?.path.clone())).collect();
        if !under_way.is_empty() && self.rng.one_in(2) {
            return under_way[self.rng.at(under_way.len())].clone();
        }
        let at = self.rng.at(self.world.files.len());
        self.world.files.keys().nth(at).unwrap().clone()
    }

    fn walk(&mut self) {
        match self.world.steps.get(self.walked).cloned() {
            Some(Step::Entry(entry)) => {
                let is_file = matches!(entry.kind, EntryKind::File(_));
                let entry = if is_file { self.world.entry_now(&entry.path) } else { entry };
                let lane = (self.walked % LANES) as u8;
                self.indexes.insert(entry.path.clone(), self.source.handle_entry(entry, lane));
            }
            Some(Step::Listed(path, complete)) => self.source.handle_listed(self.indexes[&path], complete),
            None => self.source.handle_scan_end(),
        }
        self.walked += 1;
    }

    fn tell_source(&mut self) -> bool {
        let message = self.dest.poll_message();
        if let Some(ToSource::Done(done)) = &message {
            for (index, outcome) in done {
                let again = self.site.finished.insert(*index, outcome.clone());
                assert_eq!(again, None, "entry {index} is done twice");
            }
        }
        tell(message, &mut self.to_source)
    }

    fn hear_dest(&mut self) {
        let message = self.to_dest.pop_front().unwrap();
        if let ToDestination::Page { first, entries } = &message {
            self.site.announced.extend((*first..).zip(entries.iter().cloned()));
        }
        self.dest.handle_message(message).expect("the source keeps to the protocol");
    }

    fn job(&mut self) -> bool {
        // One lane may have no room; when the others have nothing, it has room again.
        let shut = self.rng.below(LANES as u64 + 1) as u8;
        let job = self.source.poll_job(|lane| lane != shut).or_else(|| self.source.poll_job(|_| true));
        let (parcel, items, after, batch) = match job.map(|(_, job)| job) {
            None => return false,
            Some(Job::Chunk { parcel, item, after }) => (parcel, vec![item], after, false),
            Some(Job::Batch { parcel, items, after }) => (parcel, items, after, true),
            Some(Job::Compare { index, digest }) => {
                self.comparing.push((index, self.source.entry(index).unwrap().clone(), digest));
                return true;
            }
        };
        let entry =
            |item: Item| (item, self.source.entry(item.index).expect("jobs are for what is outstanding").clone());
        let order = items.iter().map(|item| item.index).collect();
        let left = items.into_iter().map(entry).collect();
        self.reading.push(Reading { parcel, left, parts: BTreeMap::new(), order, batch, after });
        true
    }

    fn read(&mut self) {
        let at = self.rng.at(self.reading.len());
        let job = &mut self.reading[at];
        let (item, entry) = job.left.swap_remove(self.rng.at(job.left.len()));
        let (found, bytes) = self.world.read(&mut self.rng, &mut self.luck, job.parcel, item, &entry);
        if matches!((&found, &entry.kind), (source::Read::Whole, EntryKind::File(_))) && self.rng.one_in(6) {
            let end = item.offset / CHUNK + 1 + self.rng.below(4);
            if self.source.handle_hole(item, end) > 0 {
                let told = (item.offset / CHUNK..end).map(|chunk| ((item.index, chunk), entry.mtime.sec));
                self.site.told.extend(told);
            }
        }
        if self.source.handle_read(job.parcel, item, found) {
            let Item { index, generation, offset, .. } = item;
            let at = job.order.iter().position(|file| *file == index).expect("what was asked for");
            job.parts.insert(at, Part { index, generation, offset, bytes, file_end: job.batch });
        }
        if job.left.is_empty() {
            let Reading { parcel, parts, after, .. } = self.reading.swap_remove(at);
            if !parts.is_empty() {
                let parts = parts.into_values().collect();
                self.net.ready.push_back(Parcel { id: parcel, parts, corrupt: false, after, came: Vec::new() });
            }
        }
    }

    fn compare(&mut self) {
        let (index, entry, digest) = self.comparing.swap_remove(self.rng.at(self.comparing.len()));
        let now = self.world.entry_now(&entry.path);
        let same = now.kind == entry.kind && digest == [now.mtime.sec as u8; 32];
        let failed = self.luck.fails(Fault::Compare, &mut self.rng, 4);
        self.source.handle_compared(index, if failed { Err("input/output error".into()) } else { Ok(same) });
    }

    /// Streams on which something arrives; what begins takes a frame.
    fn arriving(&self) -> Vec<u16> {
        let room = self.arrivals.len() < self.frames;
        let busy = self.net.streams.iter().filter(|(id, s)| !s.is_empty() && (room || self.heads.contains_key(id)));
        busy.map(|(&id, _)| id).collect()
    }

    /// The next part of a parcel arrives on some stream.
    fn arrive(&mut self) {
        let busy = self.arriving();
        let stream = busy[self.rng.at(busy.len())];
        if !self.heads.contains_key(&stream) {
            self.net.begin(stream);
        }
        let queue = self.net.streams.get_mut(&stream).unwrap();
        let parcel = queue.front_mut().unwrap();
        let id = *self.heads.entry(stream).or_insert_with(|| {
            self.arrived += 1;
            self.arrivals.insert(self.arrived, Arrival { parcel: parcel.id, ..Arrival::default() });
            self.arrived
        });
        let (parcel_id, disk) = (parcel.id, |part: &Part| self.site.disk(part.index));
        assert!(parcel.parts.iter().all(|part| disk(part) == disk(&parcel.parts[0])), "a parcel for two disks");
        let held = self.arrivals.values().any(|a| a.parcel == parcel_id && a.whole);
        let arrival = self.arrivals.get_mut(&id).unwrap();
        let part = parcel.parts.pop_front().expect("parcels are not empty");
        parcel.came.push(part.clone());
        let dropped = parcel.corrupt && (parcel.parts.is_empty() || self.rng.one_in(2));
        if !dropped && self.site.arrive(&self.dest, part, id, self.reorder) {
            arrival.writes += 1;
        }
        if parcel.parts.is_empty() {
            if parcel.corrupt {
                self.dest.handle_corrupt(parcel.id);
                self.arrivals.remove(&id);
            } else {
                self.net.arrived.entry(stream).or_default().push(parcel.id);
                arrival.whole = !held;
                if held {
                    // It has come twice, and the first one waits for its disk: that one will land.
                    self.arrivals.remove(&id);
                }
            }
            queue.pop_front();
            self.heads.remove(&stream);
            self.land(id);
        }
    }

    /// A parcel of which all has arrived and is written is acknowledged.
    fn land(&mut self, arrival: u64) {
        if self.arrivals.get(&arrival).is_some_and(|a| a.whole && a.writes == 0) {
            self.dest.handle_parcel(self.arrivals.remove(&arrival).unwrap().parcel);
        }
    }

    /// Notes what is finished. Nothing is finished twice.
    fn observe(&mut self) {
        while let Some(finished) = self.source.poll_finished() {
            let again = self.finished.insert(finished.index, finished);
            assert_eq!(again, None, "an entry is finished twice");
        }
    }

    /// A disk that acknowledges nothing has held up no file of another.
    fn check_others(&self, stuck: u8) {
        let content = |entry: &Entry| matches!(entry.kind, EntryKind::File(_) | EntryKind::Stream);
        for (index, entry) in self.site.announced.iter().filter(|(_, entry)| content(entry)) {
            let done = self.finished.contains_key(index) || self.site.disk(*index) == stuck;
            assert!(done, "disk {stuck} holds up {entry:?}: {}", self.state());
        }
    }

    fn check_end(self) {
        assert!(self.source.is_done() && self.dest.is_done(), "both wait for ever: {}", self.state());
        assert_eq!(self.source.outstanding() + self.dest.outstanding(), 0);
        assert_eq!(self.source.unlanded(), 0, "parcels are left in the books");
        let announced = self.world.steps.iter().filter(|s| matches!(s, Step::Entry(_))).count();
        assert_eq!(self.finished.len(), announced);
        assert_eq!(self.site.finished.len(), announced);
        self.finished.values().for_each(|finished| self.check_entry(finished));
        for (dir, (names, complete)) in &self.world.names {
            let deletes = self.delete && *complete && self.site.dirs_ready.contains(dir);
            assert_eq!(self.site.deleted.get(dir), deletes.then_some(names), "deletion in {dir}");
            assert_eq!(self.site.closed.contains(dir), self.site.dirs_ready.contains(dir));
        }
    }

    fn check_entry(&self, Finished { index, entry, outcome, .. }: &Finished) {
        let there = &self.site.finished[index];
        assert_eq!(there.is_failure(), outcome.is_failure(), "{entry:?}: {outcome:?} here, {there:?} there");
        let file = matches!(entry.kind, EntryKind::File(_) | EntryKind::Stream);
        let content = self.site.finals.get(&entry.path).filter(|_| file);
        match outcome {
            Outcome::Placed | Outcome::Equal if file => {
                let size = entry.size().unwrap_or_else(|| self.world.files[&entry.path].sizes[0]);
                assert_eq!(content, Some(&bytes(&entry.path, entry.mtime.sec, 0, size)), "{entry:?}");
            }
            Outcome::Failed(_) | Outcome::Corrupt(_) => assert_eq!(content, None, "{entry:?} failed and is there"),
            _ => {}
        }
    }

    fn state(&self) -> String {
        let left = |index: &u64| !self.finished.contains_key(index);
        let left: Vec<_> = self.site.announced.iter().filter(|(index, _)| left(index)).collect();
        format!("{} unlanded, outstanding {left:?}", self.source.unlanded())
    }
}

/// How likely each move is: of all sorts, or all alike but for a few that are slow.
fn tempers(rng: &mut Rng) -> [u64; MOVES] {
    if rng.one_in(3) {
        return std::array::from_fn(|_| [1, 1, 8, 40][rng.at(4)]);
    }
    let mut weights = [30; MOVES];
    for _ in 0..rng.below(4) {
        weights[rng.at(MOVES)] = 1;
    }
    weights
}

/// Puts a message on the wire and takes it off again.
fn tell<M: Serialize + DeserializeOwned + PartialEq + Debug>(message: Option<M>, queue: &mut VecDeque<M>) -> bool {
    let Some(message) = message else { return false };
    let mut bytes = Vec::new();
    frame::encode(&message, &mut bytes);
    let decoded = frame::decode(&bytes[frame::PREFIX..]).expect("what was encoded decodes");
    assert_eq!(message, decoded);
    queue.push_back(decoded);
    true
}
