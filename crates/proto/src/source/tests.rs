//! A destination that says anything: no panic, no growth, nothing done twice.

mod endings;

use proptest::prelude::*;

use super::*;
use crate::control::Begun;
use crate::limits::PARCELS_UNLANDED_MAX;
use crate::{Identity, RelPath, Time};

const CHUNK: u32 = 8;

fn source(reorder_chunks: Option<u32>) -> Source {
    Source::new(Config { chunk_size: CHUNK, small_max: 8, reorder_chunks, dry_run: false })
}

/// All of a file, to the first disk.
fn all() -> Want {
    Want { disk: 0, what: Wanted::All }
}

/// The next job of whichever lane.
fn job(source: &mut Source) -> Option<Job> {
    source.poll_job(|_| true).map(|(_, job)| job)
}

fn file(size: u64) -> Entry {
    let kind = EntryKind::File(Identity { size, ..Identity::default() });
    Entry {
        path: RelPath::new("f").unwrap(),
        kind,
        mode: 0o644,
        mtime: Time::default(),
        owner: None,
        xattrs: Vec::new(),
    }
}

/// What may happen to a source, by its destination or by its own runtime.
#[derive(Debug, Clone)]
enum Happens {
    Entry(Entry, u8),
    Flush,
    Message(ToSource),
    /// One lane has room for these only.
    PollJob(u8, Room),
    /// A reader comes back with the n-th item that is out.
    Read(usize, Read),
    /// A reader found that the n-th item that is out is a hole, and what follows it up to here.
    Hole(usize, u64),
    Compared(u64, Result<bool, String>),
    Fail(u64),
    Sent(u64, u16),
    StreamEnded(u16, Arrived),
    PollMessage,
}

fn entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        4 => prop_oneof![0u64..60, Just(u64::MAX)].prop_map(file),
        1 => Just(Entry { kind: EntryKind::Stream, ..file(0) }),
        1 => Just(Entry { kind: EntryKind::Dir, ..file(0) }),
    ]
}

fn chunks() -> impl Strategy<Value = ChunkSet> {
    prop::collection::vec((0u64..9, 1u64..4), 0..4).prop_map(|ranges| {
        let mut set = ChunkSet::new();
        ranges.into_iter().flat_map(|(from, len)| from..from + len).for_each(|c| _ = set.insert(c));
        set
    })
}

fn arrived() -> impl Strategy<Value = Arrived> {
    let begun = (0u64..8, 0u64..8, 0u64..60).prop_map(|(parcel, file, offset)| Begun { parcel, file, offset });
    (prop::collection::vec(0u64..8, 0..2), prop::option::of(begun)).prop_map(|(whole, begun)| Arrived { whole, begun })
}

fn happens() -> impl Strategy<Value = Happens> {
    let index = || prop_oneof![20 => 0u64..8, 1 => Just(u64::MAX)];
    let want = prop_oneof![
        3 => Just(Wanted::All),
        1 => chunks().prop_map(|have| Wanted::Rest { have }),
        1 => Just(Wanted::IfDiffers([1; 32])),
    ];
    let want = (0..=DISKS_MAX, want).prop_map(|(disk, what)| Want { disk, what });
    let outcome = prop_oneof![Just(Outcome::Placed), Just(Outcome::Failed("no".into())), Just(Outcome::Kept)];
    let read = prop_oneof![
        6 => Just(Read::Whole),
        1 => (0u64..60).prop_map(Read::EndOfStream),
        2 => entry().prop_map(|entry| Read::Changed(Box::new(entry))),
        1 => Just(Read::Failed("no".into())),
    ];
    let message = prop_oneof![
        4 => prop::collection::vec((index(), want), 0..3).prop_map(ToSource::Wants),
        2 => prop::collection::vec(index(), 0..3).prop_map(ToSource::Landed),
        2 => index().prop_map(ToSource::Repair),
        1 => (0u32..4).prop_map(ToSource::Window),
        1 => prop::collection::vec((index(), outcome), 0..3).prop_map(ToSource::Done),
    ];
    prop_oneof![
        3 => (entry(), 0u8..3).prop_map(|(entry, lane)| Happens::Entry(entry, lane)),
        2 => Just(Happens::Flush),
        6 => message.prop_map(Happens::Message),
        6 => (0u8..4, any::<(bool, bool)>()).prop_map(|(lane, (chunks, batches))| Happens::PollJob(lane, Room { chunks, batches })),
        6 => (0usize..8, read).prop_map(|(n, read)| Happens::Read(n, read)),
        1 => (0usize..8, prop_oneof![0u64..9, Just(u64::MAX)]).prop_map(|(n, end)| Happens::Hole(n, end)),
        1 => (index(), prop_oneof![any::<bool>().prop_map(Ok), Just(Err("no".into()))]).prop_map(|(i, same)| Happens::Compared(i, same)),
        1 => index().prop_map(Happens::Fail),
        2 => (index(), 0u16..3).prop_map(|(parcel, stream)| Happens::Sent(parcel, stream)),
        1 => (0u16..3, arrived()).prop_map(|(stream, arrived)| Happens::StreamEnded(stream, arrived)),
        2 => Just(Happens::PollMessage),
    ]
}

proptest! {
    #[test]
    fn any_destination(story in prop::collection::vec(happens(), 0..80), reorder in prop::option::of(1u32..4)) {
        let mut source = source(reorder);
        let (mut out, mut done, mut entries) = (Vec::new(), BTreeSet::new(), 0);
        for happens in story {
            match happens {
                Happens::Entry(entry, lane) => { source.handle_entry(entry, lane); entries += 1; }
                Happens::Flush => source.flush(),
                Happens::Message(message) => drop(source.handle_message(message)),
                Happens::PollJob(lane, room) => match source.poll_job(|number| if number == lane { room } else { true.into() }) {
                    Some((_, Job::Chunk { parcel, item, .. })) => out.push((parcel, item)),
                    Some((_, Job::Batch { parcel, items, .. })) => out.extend(items.into_iter().map(|item| (parcel, item))),
                    Some((_, Job::Compare { .. })) | None => {}
                },
                Happens::Read(n, read) => if n < out.len() {
                    let (parcel, item) = out.swap_remove(n);
                    source.handle_read(parcel, item, read);
                },
                Happens::Hole(n, end) => if let Some((_, item)) = out.get(n) {
                    source.handle_hole(*item, end);
                },
                Happens::Compared(index, same) => source.handle_compared(index, same),
                Happens::Fail(index) => source.fail(index, "no".into()),
                Happens::Sent(parcel, stream) => source.handle_sent(parcel, stream),
                Happens::StreamEnded(stream, arrived) => source.handle_stream_ended(stream, &arrived),
                Happens::PollMessage => drop(source.poll_message()),
            }
            while let Some(finished) = source.poll_finished() {
                prop_assert!(done.insert(finished.index), "{:?} is done twice", finished);
            }
            prop_assert_eq!(source.files.len() + done.len(), entries, "every entry is outstanding or done");
            prop_assert_eq!(source.outstanding_bytes, source.files.values().map(|f| f.entry.weight()).sum::<usize>());
            let asked = source.files.values().map(|f| asked(&source.config, f)).sum::<u64>();
            prop_assert_eq!(source.asked_bytes, asked, "what the destination has not answered");
            prop_assert!(source.lanes.iter().map(|l| l.again.len()).sum::<usize>() <= source.next_parcel as usize, "each parcel is queued once");
            prop_assert!(source.parcels.values().all(|p| !p.items.is_empty()), "no parcel is empty");
            let whole = |p: &&Parcel| if p.batch { p.items.len() as u32 } else { p.items[0].len };
            prop_assert!(source.parcels.values().all(|p| p.kept == 0 || p.kept < whole(&p)), "there is a rest");
            let to = |disk| source.parcels.values().filter(|p| usize::from(p.disk) == disk).count();
            prop_assert_eq!(source.under_way, std::array::from_fn(to));
        }
    }
}

fn announced(entries: impl IntoIterator<Item = Entry>) -> Source {
    let mut source = source(None);
    entries.into_iter().for_each(|entry| _ = source.handle_entry(entry, 0));
    source.flush();
    source
}

#[test]
fn what_was_not_told_cannot_be_spoken_of() {
    let mut source = source(None);
    source.handle_entry(file(1), 0);
    let wants = || ToSource::Wants(vec![(0, all())]);
    assert_eq!(source.handle_message(wants()), Err(ProtocolError::Entry(0)));
    assert_eq!(source.handle_message(ToSource::Done(vec![(0, Outcome::Placed)])), Err(ProtocolError::Entry(0)));
    source.flush();
    assert_eq!(source.handle_message(wants()), Ok(()));
    assert_eq!(source.handle_message(wants()), Err(ProtocolError::Want(0)));
}

#[test]
fn pages_and_outstanding_entries_are_bounded() {
    let mut source = source(None);
    while source.has_room() {
        source.handle_entry(file(0), 0);
    }
    assert_eq!(source.outstanding(), OUTSTANDING_ENTRIES_MAX);
    source.flush();
    while let Some(ToDestination::Page { entries, .. }) = source.poll_message() {
        assert!(entries.len() <= PAGE_ENTRIES_MAX);
    }
}

/// The largest page fits into a frame, and what does not fit into a page is left out and said.
/// The first page travels in one round trip; those after it need not.
#[test]
fn pages_grow() {
    let mut source = source(None);
    (0..4000).for_each(|_| _ = source.handle_entry(file(0), 0));
    let pages: Vec<usize> = std::iter::from_fn(|| source.poll_message())
        .map(|told| match told {
            ToDestination::Page { entries, .. } => entries.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(pages, [64, 128, 256, 512, 1024, 1024]);
}

/// Items of all batches that there are to read.
fn batches(source: &mut Source) -> Vec<Vec<Item>> {
    let batch = |job| match job {
        Job::Batch { items, .. } => items,
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(|| job(source)).map(batch).collect()
}

/// What is left at the end is for all streams, and so are the first files that are wanted.
#[test]
fn the_first_and_the_last_batches_are_small() {
    const SIZE: u64 = 32 << 10;
    const MANY: u64 = 65536;
    let announced = |count: u64, scanned: bool| {
        let config = Config { chunk_size: 4 << 20, small_max: 1 << 20, reorder_chunks: None, dry_run: false };
        let mut source = Source::new(config);
        (0..count).for_each(|_| _ = source.handle_entry(file(SIZE), 0));
        source.flush();
        if scanned {
            source.handle_scan_end();
        }
        source.handle_message(ToSource::Wants((0..count).map(|index| (index, all())).collect())).unwrap();
        source
    };
    assert_eq!(batches(&mut announced(3, true)).len(), 3, "one stream would have them all");
    let first: Vec<usize> = batches(&mut announced(100, false)).iter().map(Vec::len).collect();
    assert!(first[..32].iter().all(|files| *files == 1), "{first:?}");
    let all = batches(&mut announced(MANY, true));
    let indexes: BTreeSet<u64> = all.iter().flatten().map(|item| item.index).collect();
    assert_eq!((indexes.len(), all.iter().flatten().count()), (MANY as usize, MANY as usize));
    let most = all.iter().position(|items| items.len() == 128).expect("a whole chunk while there is much");
    let (growing, shrinking) = all.split_at(most);
    assert!(growing.windows(2).all(|two| two[0].len() <= two[1].len()));
    assert!(shrinking.windows(2).all(|two| two[0].len() >= two[1].len()));
    assert!(all.iter().rev().take(256).all(|items| items.len() == 1), "whoever has a slow stream has little on it");
    assert!(all.len() < MANY as usize / 128 * 5, "{} batches", all.len());
}

/// What the destination may still want counts as left.
#[test]
fn a_destination_that_decides_slowly_makes_no_small_batches() {
    let config = Config { chunk_size: 1 << 20, small_max: 1 << 18, reorder_chunks: None, dry_run: false };
    let mut source = Source::new(config);
    (0..16384).for_each(|_| _ = source.handle_entry(file(1 << 14), 0));
    source.handle_scan_end();
    source.batched_bytes = 1 << 30;
    source.handle_message(ToSource::Wants((0..64).map(|index| (index, all())).collect())).unwrap();
    assert_eq!(batches(&mut source).len(), 1);
    // The rest is equal, but for the last.
    let done = (64..16383).map(|index| (index, Outcome::Equal)).collect();
    source.handle_message(ToSource::Done(done)).unwrap();
    source.handle_message(ToSource::Wants(vec![(16383, all())])).unwrap();
    assert_eq!(source.asked_bytes, 0);
    assert_eq!(batches(&mut source).len(), 1);
}

#[test]
fn large_attributes_do_not_break_a_page() {
    let large = |bytes| Entry { xattrs: vec![(b"user.x".to_vec(), vec![0; bytes])], ..file(1) };
    let mut source = announced([large(PAGE_BYTES_MAX - 200), large(ENTRY_BYTES_MAX - 200), large(ENTRY_BYTES_MAX)]);
    let mut told = 0;
    while let Some(message) = source.poll_message() {
        let ToDestination::Page { entries, .. } = &message else { panic!("{message:?}") };
        told += entries.len();
        assert!(entries.iter().all(|e| e.weight() <= ENTRY_BYTES_MAX));
        crate::frame::encode(&message, &mut Vec::new());
    }
    assert_eq!(told, 3);
    let done = (0..3).map(|index| (index, Outcome::Placed)).collect();
    source.handle_message(ToSource::Done(done)).unwrap();
    let failed: Vec<bool> = std::iter::from_fn(|| source.poll_finished()).map(|f| f.outcome.is_failure()).collect();
    assert_eq!(failed, [false, false, true]);
}

#[test]
fn reading_ends_while_nothing_is_acknowledged() {
    let mut source = announced([file(u64::MAX)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    assert_eq!(std::iter::from_fn(|| job(&mut source)).count(), PARCELS_UNLANDED_MAX);
    source.handle_message(ToSource::Landed(vec![7])).unwrap();
    assert!(job(&mut source).is_some() && job(&mut source).is_none());
}

/// A parcel that arrives corrupt each time is given up, as corrupt, in the state that was sent.
#[test]
fn repairs_are_bounded() {
    let mut source = announced([file(20)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let mut parcels = BTreeSet::new();
    let mut sent = 0;
    while let Some(Job::Chunk { parcel, item, .. }) = job(&mut source) {
        assert!(source.handle_read(parcel, item, Read::Whole));
        source.handle_sent(parcel, 1);
        parcels.insert(parcel);
        sent += usize::from(parcel == 0);
        source.handle_message(ToSource::Repair(0)).unwrap();
    }
    assert_eq!((parcels.len(), sent), (1, 1 + usize::from(REPAIRS_PER_PARCEL_MAX)));
    let last = std::iter::from_fn(|| source.poll_message()).last();
    assert!(matches!(last, Some(ToDestination::FileEnd { index: 0, end: FileEnd::Corrupt { .. } })), "{last:?}");
    source.handle_message(ToSource::Done(vec![(0, Outcome::Failed("dropped".into()))])).unwrap();
    assert!(matches!(source.poll_finished().unwrap().outcome, Outcome::Corrupt(_)));
}

/// Too many repairs of an old state are no reason to give up the new one.
#[test]
fn repairs_of_an_old_state_do_not_count() {
    let mut source = announced([file(20)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
    let [Job::Chunk { parcel, item, .. }, Job::Chunk { parcel: other, item: next, .. }, ..] = jobs[..] else {
        panic!("{jobs:?}")
    };
    assert!(source.handle_read(parcel, item, Read::Whole));
    assert!(!source.handle_read(other, next, Read::Changed(Box::new(file(30)))));
    (0..10).for_each(|_| source.handle_message(ToSource::Repair(parcel)).unwrap());
    let told: Vec<ToDestination> = std::iter::from_fn(|| source.poll_message()).skip(1).collect();
    assert!(matches!(told[..], [ToDestination::Restart { index: 0, .. }]), "{told:?}");
}

#[test]
fn restarts_are_bounded() {
    let mut source = announced([file(1)]);
    let mut reads = 0;
    loop {
        source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
        let Some(Job::Batch { parcel, items, .. }) = job(&mut source) else { panic!("nothing to read") };
        assert!(!source.handle_read(parcel, items[0], Read::Changed(Box::new(file(1)))));
        reads += 1;
        match std::iter::from_fn(|| source.poll_message()).last() {
            Some(ToDestination::Restart { .. }) => {}
            Some(ToDestination::FileEnd { end: FileEnd::Changed { .. }, .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(reads, 1 + RESTARTS_PER_FILE_MAX);
    source.handle_message(ToSource::Done(vec![(0, Outcome::Failed("dropped".into()))])).unwrap();
    assert!(source.poll_finished().unwrap().changed);
}

#[test]
fn what_changed_before_it_was_read_is_asked_for_again() {
    let mut source = announced([file(20)]);
    while source.poll_message().is_some() {}
    source.handle_changed(0, file(7));
    let restart = ToDestination::Restart { index: 0, entry: file(7) };
    assert_eq!((source.poll_message(), job(&mut source)), (Some(restart), None));
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let (_, item) = only_item(&job(&mut source).unwrap());
    assert_eq!((item.generation, item.len), (1, 7));
}

#[test]
fn what_is_left_out_is_no_failure() {
    let mut source = announced([file(20)]);
    while source.poll_message().is_some() {}
    source.leave_out(0);
    assert_eq!(source.poll_message(), Some(ToDestination::FileEnd { index: 0, end: FileEnd::LeftOut }));
    source.handle_message(ToSource::Done(vec![(0, Outcome::Kept)])).unwrap();
    let finished = source.poll_finished().unwrap();
    assert_eq!((finished.outcome, finished.changed), (Outcome::Kept, false));
}

/// Big and small take turns, and a file of exactly a chunk is not cut.
#[test]
fn chunks_and_batches() {
    let mut source = announced([file(17), file(0), file(8), file(1)]);
    let all = (0..4).map(|index| (index, all())).collect();
    source.handle_message(ToSource::Wants(all)).unwrap();
    let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
    let shape: Vec<Vec<(u64, u64, u32)>> = jobs
        .iter()
        .map(|job| match job {
            Job::Chunk { item, .. } => vec![(item.index, item.offset, item.len)],
            Job::Batch { items, .. } => items.iter().map(|i| (i.index, i.offset, i.len)).collect(),
            Job::Compare { .. } => panic!("nothing to compare"),
        })
        .collect();
    let expected = [vec![(0, 0, 8)], vec![(1, 0, 0), (2, 0, 8)], vec![(0, 8, 8)], vec![(3, 0, 1)], vec![(0, 16, 1)]];
    assert_eq!(shape, expected);
}

/// A file that has changed is compared before anything of its new state is sent, though it stood in the queue before.
#[test]
fn what_is_compared_is_not_sent() {
    let mut source = announced([file(30)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let (parcel, item) = only_item(&job(&mut source).unwrap());
    assert!(!source.handle_read(parcel, item, Read::Changed(Box::new(file(40)))));
    let digest = [1; 32];
    let want = Want { disk: 0, what: Wanted::IfDiffers(digest) };
    source.handle_message(ToSource::Wants(vec![(0, want)])).unwrap();
    assert_eq!(job(&mut source), Some(Job::Compare { index: 0, digest }));
    assert_eq!(job(&mut source), None);
    source.handle_compared(0, Ok(false));
    assert!(matches!(job(&mut source), Some(Job::Chunk { item: Item { offset: 0, generation: 1, .. }, .. })));
}

/// A big file that has become small is sent once, as a small one.
#[test]
fn a_file_that_shrinks_changes_queues() {
    let mut source = announced([file(30)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let (parcel, item) = only_item(&job(&mut source).unwrap());
    // Of the rest some is still queued as chunks, and it is the turn of chunks.
    assert!(job(&mut source).is_some());
    assert!(!source.handle_read(parcel, item, Read::Changed(Box::new(file(3)))));
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let jobs: Vec<Job> = std::iter::from_fn(|| job(&mut source)).collect();
    assert!(matches!(&jobs[..], [Job::Batch { .. }]), "{jobs:?}");
}

/// The destination had all of the old state when it was told of a new one: the old one is what was placed.
#[test]
fn the_state_that_was_placed_is_reported() {
    let mut source = announced([file(8)]);
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let (parcel, item) = only_item(&job(&mut source).unwrap());
    source.handle_read(parcel, item, Read::Whole);
    source.handle_sent(parcel, 1);
    source.handle_stream_ended(1, &Arrived::default());
    assert!(job(&mut source).is_some());
    assert!(!source.handle_read(parcel, item, Read::Changed(Box::new(file(30)))));
    source.handle_message(ToSource::Done(vec![(0, Outcome::Placed)])).unwrap();
    assert_eq!(source.poll_finished().unwrap().entry, file(8));
}

/// What follows a hole is told, not read: but not what the destination has, and nothing twice.
#[test]
fn holes_are_told_instead_of_read() {
    let mut source = announced([file(u64::from(CHUNK) * 10 - 3)]);
    let mut have = ChunkSet::new();
    have.insert(4);
    source.handle_message(ToSource::Wants(vec![(0, Want { disk: 0, what: Wanted::Rest { have } })])).unwrap();
    while source.poll_message().is_some() {}
    let (first, second) = (job(&mut source).unwrap(), job(&mut source).unwrap());
    let ((parcel, item), (other_parcel, other)) = (only_item(&first), only_item(&second));
    assert_eq!(source.handle_hole(item, 10), u64::from(CHUNK) * 7 - 3);
    let told: Vec<(u64, u64)> = match source.poll_message() {
        Some(ToDestination::Holes { index: 0, chunks }) => chunks.into(),
        message => panic!("{message:?}"),
    };
    assert_eq!(told, [(2, 4), (5, 10)]);
    assert_eq!(source.handle_hole(other, 10), 0, "told already");
    assert_eq!(source.handle_hole(Item { generation: 1, ..item }, 10), 0, "of another state");
    assert_eq!((job(&mut source), source.poll_message()), (None, None));
    assert!(source.handle_read(parcel, item, Read::Whole) && source.handle_read(other_parcel, other, Read::Whole));
    let end = FileEnd::Whole { size: u64::from(CHUNK) * 10 - 3 };
    assert_eq!(source.poll_message(), Some(ToDestination::FileEnd { index: 0, end }));
}

#[test]
fn a_pipe_gets_every_chunk() {
    let mut source = source(Some(4));
    source.handle_entry(file(80), 0);
    source.flush();
    source.handle_message(ToSource::Wants(vec![(0, all())])).unwrap();
    let (_, item) = only_item(&job(&mut source).unwrap());
    assert_eq!(source.handle_hole(item, 10), 0);
    assert!(job(&mut source).is_some());
}

fn only_item(job: &Job) -> (u64, Item) {
    match job {
        Job::Chunk { parcel, item, .. } => (*parcel, *item),
        Job::Batch { parcel, items, .. } if items.len() == 1 => (*parcel, items[0]),
        other => panic!("{other:?}"),
    }
}

/// Reads all there is on the lanes that are open; gives the ranges, each with its lane.
fn read_all(source: &mut Source, open: impl Fn(u8) -> bool) -> Vec<(u8, Item)> {
    let mut read = Vec::new();
    while let Some((lane, job)) = source.poll_job(&open) {
        let (parcel, items) = match job {
            Job::Chunk { parcel, item, .. } => (parcel, vec![item]),
            Job::Batch { parcel, items, .. } => (parcel, items),
            Job::Compare { .. } => panic!("nothing to compare"),
        };
        for item in items {
            assert!(source.handle_read(parcel, item, Read::Whole));
            read.push((lane, item));
        }
        source.handle_sent(parcel, u16::from(lane));
    }
    read
}

proptest! {
    /// A lane that is never open holds up no other; once it is, nothing is lost and nothing was read twice.
    #[test]
    fn a_stuck_lane_holds_up_no_other(
        files in prop::collection::vec((0u64..60, 0u8..2 * DISKS_MAX), 1..40),
        stuck in 0..DISKS_MAX,
        lost in 0..DISKS_MAX,
    ) {
        let mut source = source(None);
        files.iter().for_each(|&(size, lane)| _ = source.handle_entry(file(size), lane));
        source.flush();
        let all = (0..files.len() as u64).map(|index| (index, all())).collect();
        source.handle_message(ToSource::Wants(all)).unwrap();
        let free = read_all(&mut source, |lane| lane != stuck);
        prop_assert!(free.iter().all(|(lane, _)| *lane != stuck));
        let rest = read_all(&mut source, |_| true);
        prop_assert!(rest.iter().all(|(lane, _)| *lane == stuck), "others were held up");
        let mut covered = vec![0; files.len()];
        let mut seen = BTreeSet::new();
        for (lane, item) in free.iter().chain(&rest) {
            let index = item.index as usize;
            prop_assert_eq!(*lane, files[index].1 % DISKS_MAX);
            prop_assert!(seen.insert((item.index, item.offset)), "{:?} is read twice", item);
            covered[index] += u64::from(item.len);
        }
        prop_assert_eq!(covered, files.iter().map(|(size, _)| *size).collect::<Vec<_>>());
        // What is read again keeps its lane.
        source.handle_stream_ended(lost.into(), &Arrived::default());
        prop_assert!(source.poll_job(|lane| lane != lost).is_none());
        let again = read_all(&mut source, |_| true);
        let of_lane = |lane: u8| free.iter().chain(&rest).filter(|(l, _)| *l == lane).count();
        prop_assert_eq!(again.len(), of_lane(lost));
    }
}

/// Lanes that are open take turns, however much one of them has.
#[test]
fn lanes_take_turns() {
    let mut source = source(None);
    [(80, 0), (24, 2), (24, 1)].into_iter().for_each(|(size, lane)| _ = source.handle_entry(file(size), lane));
    source.flush();
    source.handle_message(ToSource::Wants((0..3).map(|index| (index, all())).collect())).unwrap();
    let lanes: Vec<u8> = std::iter::from_fn(|| source.poll_job(|_| true)).map(|(lane, _)| lane).collect();
    assert_eq!(lanes, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0]);
}

/// Readers of small files that have no room leave those of big files their work, and the other way about; what is read again
/// waits for readers of its kind too.
#[test]
fn readers_of_one_kind_hold_up_no_others() {
    let sizes = [80, 1, 2, 80, 3];
    let mut source = announced(sizes.map(file));
    source.handle_message(ToSource::Wants((0..5).map(|index| (index, all())).collect())).unwrap();
    let (only_chunks, only_batches) = (Room { chunks: true, batches: false }, Room { chunks: false, batches: true });
    for round in 0..2 {
        let jobs = |source: &mut Source, room| -> Vec<(u64, bool, u64)> {
            let jobs = std::iter::from_fn(|| source.poll_job(|_| room)).map(|(_, job)| job);
            let told = jobs.map(|job| match job {
                Job::Chunk { parcel, item, .. } => (parcel, false, u64::from(item.len)),
                Job::Batch { parcel, items, .. } => (parcel, true, items.iter().map(|item| u64::from(item.len)).sum()),
                Job::Compare { .. } => panic!("nothing to compare"),
            });
            told.collect()
        };
        assert!(source.poll_job(|_| false).is_none());
        let big = jobs(&mut source, only_chunks);
        assert!(big.iter().all(|(_, is_batch, _)| !is_batch), "round {round}");
        let small = jobs(&mut source, only_batches);
        assert!(small.iter().all(|(_, is_batch, _)| *is_batch), "round {round}");
        let bytes = |of: &[(u64, bool, u64)]| of.iter().map(|(_, _, len)| len).sum::<u64>();
        assert_eq!((bytes(&big), bytes(&small)), (160, 6), "round {round}");
        assert!(source.poll_job(|_| true).is_none());
        // All of it is lost on its way, and read again.
        let items: Vec<_> = source.parcels.iter().flat_map(|(id, p)| p.items.iter().map(|item| (*id, *item))).collect();
        items.into_iter().for_each(|(parcel, item)| _ = source.handle_read(parcel, item, Read::Whole));
        big.iter().chain(&small).for_each(|(parcel, ..)| source.handle_sent(*parcel, 1));
        source.handle_stream_ended(1, &Arrived::default());
    }
}

/// The disks that the jobs of a source go to, when file `n` goes to disk `n` and nothing is acknowledged.
fn disks_of(source: &mut Source) -> Vec<u64> {
    std::iter::from_fn(|| job(source)).map(|job| only_item(&job).1.index).collect()
}

/// A disk of the destination that acknowledges nothing has its window under way, and the others all they want.
#[test]
fn a_disk_that_acknowledges_nothing_holds_up_no_other() {
    let mut source = announced([file(80), file(80), file(80)]);
    source.handle_message(ToSource::Window(3)).unwrap();
    let want = |n: u64| (n, Want { disk: n as u8, what: Wanted::All });
    source.handle_message(ToSource::Wants((0..3).map(want).collect())).unwrap();
    assert_eq!(disks_of(&mut source), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    let mut others = 0;
    loop {
        let landed = source.parcels.iter().filter(|(_, p)| p.disk != 1).map(|(id, _)| *id).collect();
        source.handle_message(ToSource::Landed(landed)).unwrap();
        let next = disks_of(&mut source);
        assert!(!next.contains(&1));
        others += next.len();
        if next.is_empty() {
            break;
        }
    }
    assert_eq!((others, source.under_way[..3].to_vec()), (14, vec![0, 3, 0]));
    // What is lost of it is read again, however narrow the window has become; nothing new is.
    source.handle_message(ToSource::Window(0)).unwrap();
    let stuck: Vec<u64> = source.parcels.keys().copied().collect();
    stuck.iter().for_each(|parcel| source.handle_sent(*parcel, 1));
    source.handle_stream_ended(1, &Arrived::default());
    assert_eq!(disks_of(&mut source), [1, 1, 1]);
    source.handle_message(ToSource::Landed(stuck)).unwrap();
    assert_eq!(disks_of(&mut source), [1], "a window of none is one of one");
}

/// Small files of different disks are not in one parcel: it would land when the slower one has written it.
#[test]
fn a_batch_is_for_one_disk() {
    let mut source = announced([file(1), file(2), file(3), file(0)]);
    let wants = (0..4).map(|n| (n, Want { disk: n as u8 % 2, what: Wanted::All })).collect();
    source.handle_message(ToSource::Wants(wants)).unwrap();
    let jobs = std::iter::from_fn(|| job(&mut source));
    let indexes = |job| match job {
        Job::Batch { items, .. } => items.iter().map(|item| item.index).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(jobs.map(indexes).collect::<Vec<_>>(), [[0, 2], [1, 3]]);
}

#[test]
fn there_is_no_disk_beyond_the_last() {
    let mut source = announced([file(1)]);
    let want = |disk| ToSource::Wants(vec![(0, Want { disk, what: Wanted::All })]);
    assert_eq!(source.handle_message(want(DISKS_MAX)), Err(ProtocolError::Disk(DISKS_MAX)));
    assert_eq!(source.handle_message(want(DISKS_MAX - 1)), Ok(()));
}
