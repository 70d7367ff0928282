//! A source that says anything: no panic, no growth, nothing done twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::limits::{DISKS_MAX, FAILED_NAMES_MAX, PARCELS_UNLANDED_MAX};
use crate::{Identity, RelPath, Time};

const CHUNK: u32 = 8;

fn config() -> Config {
    Config { chunk_size: CHUNK, delete: true, links: true, dry_run: false }
}

/// What may happen to a destination, by its source or by its own runtime.
#[derive(Debug, Clone)]
enum Happens {
    /// A page whose first index is this far from the one expected.
    Page(u64, Vec<Entry>),
    Message(ToDestination),
    Decision(u64, Decision),
    Data(u64, u8, u64, bool),
    Parcel(u64),
    Corrupt(u64),
    WriteFailed(u64),
    Published(u64, Outcome),
    PollAction,
    PollMessage,
}

fn path() -> impl Strategy<Value = RelPath> {
    prop::sample::select(vec!["", "a", "b", "a/a", "a/b", "a/b/a", "b/a"]).prop_map(|p| RelPath::new(p).unwrap())
}

fn identity() -> impl Strategy<Value = Identity> {
    (prop_oneof![0u64..40, Just(u64::MAX)], 0i64..2).prop_map(|(size, sec)| Identity {
        size,
        ctime: Time { sec, nsec: 0 },
        ..Identity::default()
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        4 => identity().prop_map(EntryKind::File),
        1 => Just(EntryKind::Stream),
        3 => Just(EntryKind::Dir),
        1 => Just(EntryKind::Symlink { target: b"t".to_vec() }),
        2 => path().prop_map(|target| EntryKind::HardLink { target }),
    ];
    (path(), kind).prop_map(|(path, kind)| entry_of(path, kind))
}

fn entry_of(path: RelPath, kind: EntryKind) -> Entry {
    Entry { path, kind, mode: 0o644, mtime: Time::default(), owner: None, xattrs: Vec::new() }
}

fn chunks() -> impl Strategy<Value = ChunkSet> {
    prop::collection::vec(0u64..6, 0..4).prop_map(|chunks| {
        let mut set = ChunkSet::new();
        chunks.into_iter().for_each(|c| _ = set.insert(c));
        set
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![Just(Outcome::Placed), Just(Outcome::Equal), Just(Outcome::Kept), Just(Outcome::Failed("no".into()))]
}

fn happens() -> impl Strategy<Value = Happens> {
    let index = || prop_oneof![20 => 0u64..8, 1 => Just(u64::MAX)];
    let offset = || prop_oneof![20 => 0u64..60, 1 => any::<u64>()];
    let why = || "gone".to_owned();
    let given_up = [
        FileEnd::Failed { why: why() },
        FileEnd::Changed { why: why() },
        FileEnd::Corrupt { why: why() },
        FileEnd::LeftOut,
    ];
    let end = prop_oneof![
        3 => prop_oneof![0u64..40, Just(u64::MAX)].prop_map(|size| FileEnd::Whole { size }),
        1 => Just(FileEnd::Same),
        1 => prop::sample::select(given_up.to_vec()),
    ];
    let decision = prop_oneof![
        1 => outcome().prop_map(Decision::Settled),
        3 => (chunks(), 0..DISKS_MAX).prop_map(|(have, disk)| Decision::Receive { have, disk }),
        1 => Just(Decision::Compare { digest: [1; 32], disk: 1 }),
        1 => Just(Decision::LeaveOut),
    ];
    let skip = prop_oneof![9 => Just(0u64), 1 => 1u64..3, 1 => Just(u64::MAX)];
    prop_oneof![
        3 => (skip, prop::collection::vec(entry(), 0..4)).prop_map(|(skip, entries)| Happens::Page(skip, entries)),
        2 => (index(), any::<bool>()).prop_map(|(dir, complete)| Happens::Message(ToDestination::Listed { dir, complete })),
        2 => (index(), end).prop_map(|(index, end)| Happens::Message(ToDestination::FileEnd { index, end })),
        2 => (index(), entry()).prop_map(|(index, entry)| Happens::Message(ToDestination::Restart { index, entry })),
        2 => (index(), chunks()).prop_map(|(index, chunks)| Happens::Message(ToDestination::Holes { index, chunks })),
        1 => index().prop_map(|entries| Happens::Message(ToDestination::ScanDone { entries })),
        8 => (index(), decision).prop_map(|(index, decision)| Happens::Decision(index, decision)),
        6 => (index(), 0u8..3, offset(), any::<bool>()).prop_map(|(i, g, o, e)| Happens::Data(i, g, o, e)),
        1 => index().prop_map(Happens::Parcel),
        1 => index().prop_map(Happens::Corrupt),
        1 => index().prop_map(Happens::WriteFailed),
        4 => (index(), outcome()).prop_map(|(index, outcome)| Happens::Published(index, outcome)),
        4 => Just(Happens::PollAction),
        2 => Just(Happens::PollMessage),
    ]
}

impl Happens {
    fn to(self, dest: &mut Destination, told: &mut Vec<u64>) {
        match self {
            Happens::Page(skip, entries) => {
                let first = dest.next_index.wrapping_add(skip);
                let _ = dest.handle_message(ToDestination::Page { first, entries });
            }
            Happens::Message(message) => drop(dest.handle_message(message)),
            Happens::Decision(index, decision) => {
                // The runtime knows what it looks at.
                let decision = match dest.entry(index).map(|e| &e.kind) {
                    Some(EntryKind::Dir) if !matches!(decision, Decision::Settled(_)) => Decision::DirReady,
                    Some(EntryKind::Symlink { .. } | EntryKind::HardLink { .. }) => Decision::Settled(Outcome::Placed),
                    _ => decision,
                };
                dest.handle_decision(index, decision);
            }
            Happens::Data(index, generation, offset, end) => {
                let _ = dest.expects(index, generation, offset, 8);
                dest.handle_landed(index, generation, offset, end);
            }
            Happens::Parcel(parcel) => dest.handle_parcel(parcel),
            Happens::Corrupt(parcel) => dest.handle_corrupt(parcel),
            Happens::WriteFailed(index) => dest.handle_write_failed(index, "full".into()),
            Happens::Published(index, outcome) => dest.handle_published(index, outcome),
            Happens::PollAction => drop(dest.poll_action()),
            Happens::PollMessage => {
                if let Some(ToSource::Done(list)) = dest.poll_message() {
                    told.extend(list.iter().map(|(index, _)| *index));
                }
            }
        }
    }
}

/// What must hold whatever the other end says.
fn check(dest: &Destination, told: &[u64]) {
    let done = || told.iter().copied().chain(dest.outbox.done_indexes());
    let (live, done_count) = (dest.nodes.len(), done().count());
    assert_eq!(done().collect::<BTreeSet<_>>().len(), done_count, "nothing is done twice");
    assert_eq!(live + done_count, dest.next_index as usize, "every entry is outstanding or done");
    assert_eq!(dest.bytes, dest.nodes.values().map(|n| n.entry.weight()).sum());
    let dirs = dest.nodes.values().filter(|n| n.entry.kind == EntryKind::Dir).count();
    assert_eq!(dest.tree.len(), dirs, "directories in the books are those outstanding");
    assert!(dest.links.len() <= live, "first names in the books are outstanding");
    let entries = live + done_count;
    assert!(dest.outbox.lens()[0] <= 4 * entries && dest.actions.len() <= 10 * entries);
}

proptest! {
    #[test]
    fn any_source(story in prop::collection::vec(happens(), 0..80)) {
        let mut dest = Destination::new(config());
        let mut told = Vec::new();
        for happens in story {
            happens.to(&mut dest, &mut told);
            check(&dest, &told);
        }
    }
}

fn file(path: &str, size: u64) -> Entry {
    entry_of(RelPath::new(path).unwrap(), EntryKind::File(Identity { size, ..Identity::default() }))
}

fn page(dest: &mut Destination, entries: Vec<Entry>) -> Result<(), ProtocolError> {
    dest.handle_message(ToDestination::Page { first: dest.next_index, entries })
}

#[test]
fn a_page_has_its_bounds() {
    let mut dest = Destination::new(config());
    assert_eq!(page(&mut dest, vec![file("a", 0); PAGE_ENTRIES_MAX + 1]), Err(ProtocolError::Flood));
    let big = Entry { xattrs: vec![(b"user.x".to_vec(), vec![0; ENTRY_BYTES_MAX])], ..file("a", 0) };
    assert_eq!(page(&mut dest, vec![big]), Err(ProtocolError::Flood));
}

#[test]
fn outstanding_entries_are_bounded() {
    let mut dest = Destination::new(config());
    for i in 0..OUTSTANDING_ENTRIES_MAX / PAGE_ENTRIES_MAX {
        assert_eq!(page(&mut dest, vec![file("a", 0); PAGE_ENTRIES_MAX]), Ok(()), "page {i}");
    }
    // What is done and not told counts too: the source may be one that does not listen.
    (0..1000).for_each(|index| dest.handle_decision(index, Decision::Settled(Outcome::Equal)));
    assert_eq!(page(&mut dest, vec![file("a", 0); PAGE_ENTRIES_MAX]), Ok(()));
    assert_eq!(page(&mut dest, vec![file("a", 0)]), Err(ProtocolError::Flood));
    while dest.poll_message().is_some() {}
    assert_eq!(page(&mut dest, vec![file("a", 0)]), Ok(()));
}

#[test]
fn outstanding_bytes_are_bounded() {
    let mut dest = Destination::new(config());
    let big = Entry { xattrs: vec![(b"user.x".to_vec(), vec![0; ENTRY_BYTES_MAX - 1000])], ..file("a", 0) };
    let taken = (0..1000).take_while(|_| page(&mut dest, vec![big.clone()]).is_ok()).count();
    assert_eq!(taken, 2 * OUTSTANDING_ENTRY_BYTES_MAX / big.weight());
}

#[test]
fn acknowledgements_are_bounded() {
    let mut dest = Destination::new(config());
    (0..2 * PARCELS_UNLANDED_MAX as u64).for_each(|parcel| {
        dest.handle_parcel(parcel);
        dest.handle_corrupt(parcel);
    });
    assert_eq!(dest.outbox.lens(), [0, PARCELS_UNLANDED_MAX, PARCELS_UNLANDED_MAX]);
}

/// Reasons and lists of chunks are as long as they like; messages are not.
#[test]
fn long_answers_come_in_several_messages() {
    let mut dest = Destination::new(config());
    page(&mut dest, vec![file("a", u64::MAX); 200]).unwrap();
    let mut have = ChunkSet::new();
    (0..CHUNK_RANGES_MAX as u64).for_each(|n| _ = have.insert(2 * n));
    (0..100).for_each(|index| dest.handle_decision(index, Decision::Receive { have: have.clone(), disk: 0 }));
    let why = "é".repeat(100_000);
    (100..200).for_each(|index| dest.handle_decision(index, Decision::Settled(Outcome::Failed(why.clone()))));
    let (mut wants, mut done) = (0, 0);
    while let Some(message) = dest.poll_message() {
        let mut bytes = Vec::new();
        crate::frame::encode(&message, &mut bytes);
        match crate::frame::decode(&bytes[crate::frame::PREFIX..]).unwrap() {
            ToSource::Wants(list) => wants += list.len(),
            ToSource::Done(list) => done += list.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((wants, done), (100, 100));
}

#[test]
fn a_file_in_too_many_pieces_is_given_up() {
    let mut dest = Destination::new(config());
    page(&mut dest, vec![file("a", u64::MAX)]).unwrap();
    dest.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
    let pieces = (0..).take_while(|n| {
        dest.handle_landed(0, 0, 2 * n * u64::from(CHUNK), false);
        dest.outstanding() > 0
    });
    assert_eq!(pieces.count(), CHUNK_RANGES_MAX);
}

#[test]
fn a_pipe_may_not_run_ahead() {
    let mut dest = Destination::new(config());
    page(&mut dest, vec![entry_of(RelPath::new("a").unwrap(), EntryKind::Stream)]).unwrap();
    dest.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
    let last = (STREAM_PARCELS_MAX - 1) * u64::from(CHUNK);
    assert!(dest.expects(0, 0, last, u64::from(CHUNK)));
    assert!(!dest.expects(0, 0, last + 1, u64::from(CHUNK)));
    dest.handle_landed(0, 0, 0, false);
    assert!(dest.expects(0, 0, last + 1, u64::from(CHUNK)));
}

/// With more names than are kept nothing is deleted, and the user hears of it.
#[test]
fn too_many_names_are_no_deletion() {
    let mut dest = Destination::new(config());
    dest.tree.names_bytes_max = 1000;
    let dir = |path: &str| entry_of(RelPath::new(path).unwrap(), EntryKind::Dir);
    page(&mut dest, vec![dir(""), dir("d")]).unwrap();
    (0..2).for_each(|index| dest.handle_decision(index, Decision::DirReady));
    for index in 2..20 {
        page(&mut dest, vec![file(&format!("d/{index:08}"), 0)]).unwrap();
        assert!(dest.tree.names_bytes() <= 1000);
        dest.handle_decision(index, Decision::Settled(Outcome::Equal));
    }
    assert_eq!(dest.tree.names_bytes(), 65, "only the name of the subdirectory is left");
    drain(&mut dest);
    for dir in [1, 0] {
        dest.handle_message(ToDestination::Listed { dir, complete: true }).unwrap();
        dest.handle_published(dir, Outcome::Placed);
    }
    let actions: Vec<Action> = std::iter::from_fn(|| dest.poll_action()).collect();
    let deleted = actions.iter().filter(|a| matches!(a, Action::Delete { .. })).count();
    assert_eq!(deleted, 1, "only in the root");
    let told = dest.poll_message();
    let Some(ToSource::Done(done)) = told else { panic!("{told:?}") };
    assert!(matches!(&done[..], [(1, Outcome::Failed(_)), (0, Outcome::Placed)]), "{done:?}");
    assert_eq!(dest.tree.names_bytes(), 0);
}

fn drain(dest: &mut Destination) {
    while dest.poll_action().is_some() || dest.poll_message().is_some() {}
}

#[test]
fn links_to_failed_files_fail_even_when_they_are_forgotten() {
    let mut dest = Destination::new(config());
    let link = |target: &str| {
        entry_of(RelPath::new("link").unwrap(), EntryKind::HardLink { target: RelPath::new(target).unwrap() })
    };
    let mut index = 0;
    let mut fail = |dest: &mut Destination, path: String| {
        page(dest, vec![file(&path, 0)]).unwrap();
        dest.handle_decision(index, Decision::Settled(Outcome::Failed("no".into())));
        index += 1;
        drain(dest);
    };
    (0..FAILED_NAMES_MAX).for_each(|i| fail(&mut dest, format!("f{i}")));
    page(&mut dest, vec![link("f0"), link("good")]).unwrap();
    assert_eq!(dest.outstanding(), 1, "one fails, the other is looked at");
    let index = dest.next_index;
    page(&mut dest, vec![file("last", 0), link("last")]).unwrap();
    dest.handle_decision(index, Decision::Settled(Outcome::Failed("no".into())));
    page(&mut dest, vec![link("good")]).unwrap();
    assert_eq!(dest.outstanding(), 1, "what is not remembered is not trusted");
}

#[test]
fn links_to_what_a_dry_run_would_replace_would_be_made() {
    let mut dest = Destination::new(Config { dry_run: true, ..config() });
    let link = |target: &str| {
        entry_of(RelPath::new("link").unwrap(), EntryKind::HardLink { target: RelPath::new(target).unwrap() })
    };
    page(&mut dest, vec![file("new", 0), link("new"), file("same", 0), link("same")]).unwrap();
    dest.handle_decision(0, Decision::Settled(Outcome::Would));
    dest.handle_decision(2, Decision::Settled(Outcome::Equal));
    page(&mut dest, vec![link("new")]).unwrap();
    // Only the link to what stays has to be looked at.
    assert_eq!(dest.outstanding(), 1);
    dest.handle_decision(3, Decision::Settled(Outcome::Equal));
    let mut told = Vec::new();
    while let Some(message) = dest.poll_message() {
        if let ToSource::Done(done) = message {
            told.extend(done);
        }
    }
    told.sort_by_key(|(index, _)| *index);
    use Outcome::{Equal, Would};
    assert_eq!(told, [(0, Would), (1, Would), (2, Equal), (3, Equal), (4, Would)]);
}

/// A file that is asked for, with its first chunk landed.
fn receiving(size: u64) -> Destination {
    let mut dest = Destination::new(config());
    page(&mut dest, vec![file("a", size)]).unwrap();
    dest.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
    dest.handle_landed(0, 0, 0, false);
    drain(&mut dest);
    dest
}

fn tell_end(dest: &mut Destination, end: FileEnd) -> Result<(), ProtocolError> {
    dest.handle_message(ToDestination::FileEnd { index: 0, end })
}

#[test]
fn data_of_an_old_state_do_not_count() {
    let mut dest = receiving(16);
    dest.handle_message(ToDestination::Restart { index: 0, entry: file("a", 16) }).unwrap();
    dest.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
    assert!(!dest.expects(0, 0, 8, 8) && dest.expects(0, 1, 8, 8));
    // The first was written before the restart and is told after it.
    dest.handle_landed(0, 0, 0, false);
    dest.handle_landed(0, 1, 8, false);
    tell_end(&mut dest, FileEnd::Whole { size: 16 }).unwrap();
    drain(&mut dest);
    dest.handle_landed(0, 1, 0, false);
    assert_eq!(dest.poll_action(), Some(Action::Publish { index: 0, size: 16, holes: ChunkSet::new() }));
}

/// The source does not know yet that all is here, or done; it may still say that the file changed or failed.
#[test]
fn what_comes_too_late_is_let_pass() {
    let late = [
        ToDestination::Restart { index: 0, entry: file("a", 9) },
        ToDestination::FileEnd { index: 0, end: FileEnd::Failed { why: "gone".into() } },
    ];
    for message in late {
        let mut dest = receiving(8);
        tell_end(&mut dest, FileEnd::Whole { size: 8 }).unwrap();
        assert_eq!(dest.poll_action(), Some(Action::Publish { index: 0, size: 8, holes: ChunkSet::new() }));
        assert_eq!(dest.handle_message(message.clone()), Ok(()));
        assert_eq!(dest.poll_action(), None);
        dest.handle_published(0, Outcome::Placed);
        assert_eq!(dest.poll_message(), Some(ToSource::Done(vec![(0, Outcome::Placed)])));
        assert_eq!(dest.handle_message(message), Ok(()));
        assert_eq!((dest.poll_action(), dest.poll_message()), (None, None));
    }
}

/// Whichever end leaves a file out: it is no failure, and no further name is made of what stood there before.
#[test]
fn what_is_left_out_is_kept_and_not_linked_to() {
    let config = Config { links: true, ..config() };
    let link = || Entry {
        kind: EntryKind::HardLink { target: RelPath::new("a").unwrap() },
        path: RelPath::new("b").unwrap(),
        ..file("b", 0)
    };
    for by_source in [true, false] {
        let mut dest = Destination::new(config);
        page(&mut dest, vec![file("a", 8), link()]).unwrap();
        drain(&mut dest);
        if by_source {
            dest.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
            drain(&mut dest);
            tell_end(&mut dest, FileEnd::LeftOut).unwrap();
        } else {
            dest.handle_decision(0, Decision::LeaveOut);
        }
        assert_eq!(dest.poll_action(), Some(Action::Discard { index: 0 }));
        let Some(ToSource::Done(done)) = dest.poll_message() else { panic!("both are done") };
        assert_eq!(done[0], (0, Outcome::Kept));
        assert!(done[1].0 == 1 && done[1].1.is_failure(), "{done:?}");
    }
}

#[test]
fn holes_count_as_written_and_are_told_once() {
    let holes = |range: std::ops::Range<u64>| {
        let mut chunks = ChunkSet::full(range.end);
        chunks.take_range(0..range.start);
        ToDestination::Holes { index: 0, chunks }
    };
    let entry = file("a", 78);
    let mut dest = Destination::new(config());
    page(&mut dest, vec![entry]).unwrap();
    dest.handle_decision(0, Decision::Receive { have: ChunkSet::full(1), disk: 0 });
    drain(&mut dest);
    let breach = Err(ProtocolError::Entry(0));
    assert_eq!(dest.handle_message(holes(0..2)), breach, "there already");
    assert_eq!(dest.handle_message(holes(9..11)), breach, "beyond the end");
    assert_eq!(dest.handle_message(holes(2..10)), Ok(()));
    assert_eq!(dest.handle_message(holes(4..5)), breach, "told already");
    tell_end(&mut dest, FileEnd::Whole { size: 78 }).unwrap();
    assert_eq!(dest.poll_action(), None, "chunk 1 is missing");
    dest.handle_landed(0, 0, 8, false);
    let ToDestination::Holes { chunks, .. } = holes(2..10) else { unreachable!() };
    assert_eq!(dest.poll_action(), Some(Action::Publish { index: 0, size: 78, holes: chunks }));
    assert_eq!(dest.handle_message(holes(2..3)), breach, "published already");
    let mut pipe = Destination::new(config());
    page(&mut pipe, vec![Entry { kind: EntryKind::Stream, ..file("a", 0) }]).unwrap();
    pipe.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
    assert_eq!(pipe.handle_message(holes(0..1)), breach, "a pipe has no holes");
}

#[test]
fn what_cannot_be_is_a_breach() {
    let breach = Err(ProtocolError::Entry(0));
    assert_eq!(tell_end(&mut Destination::new(config()), FileEnd::Same), breach, "not announced");
    assert_eq!(tell_end(&mut receiving(8), FileEnd::Same), breach, "never compared");
    assert_eq!(tell_end(&mut receiving(8), FileEnd::Whole { size: 9 }), breach, "of another size");
    let mut dest = receiving(16);
    tell_end(&mut dest, FileEnd::Whole { size: 16 }).unwrap();
    assert_eq!(tell_end(&mut dest, FileEnd::Whole { size: 16 }), breach, "a second end");
    let mut dest = receiving(16);
    let restart = |path| ToDestination::Restart { index: 0, entry: file(path, 1) };
    assert_eq!(dest.handle_message(restart("b")), breach, "another path");
    for _ in 0..RESTARTS_PER_FILE_MAX {
        dest.handle_message(restart("a")).unwrap();
        assert_eq!(dest.handle_message(restart("a")), breach, "not asked for again yet");
        dest.handle_decision(0, Decision::Receive { have: ChunkSet::new(), disk: 0 });
    }
    assert_eq!(dest.handle_message(restart("a")), Err(ProtocolError::Restarts(0)));
    assert_eq!(dest.handle_message(ToDestination::ScanDone { entries: 1 }), Ok(()));
    assert_eq!(page(&mut dest, vec![]), Err(ProtocolError::Page { got: 1, expected: 1 }), "after the end");
}
