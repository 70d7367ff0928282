//! State machines: the other end says anything that decodes, the own runtime answers as it should.

use proto::control::{Arrived, Begun, Control, Outcome, ToDestination, ToSource};
use proto::destination::{self, Action, Decision, Destination};
use proto::limits::DISKS_MAX;
use proto::source::{self, Item, Job, Read, Source};
use proto::{ChunkSet, Entry, EntryKind, Identity, RelPath, Time, frame};

use crate::input::Input;

const CHUNK: u32 = 16;
const SMALL: u32 = 12;

/// What an input does to a source; the seeds are written with the same numbers.
pub(crate) mod source_op {
    pub(crate) const MESSAGE: u8 = 0;
    pub(crate) const JOB: u8 = 1;
    pub(crate) const READ: u8 = 2;
    pub(crate) const SENT: u8 = 3;
    pub(crate) const LOST: u8 = 4;
    pub(crate) const COMPARED: u8 = 5;
    pub(crate) const FAIL: u8 = 6;
    pub(crate) const ENTRY: u8 = 7;
    pub(crate) const POLL: u8 = 8;
    pub(crate) const OPEN: u8 = 9;
    pub(crate) const COUNT: u8 = 10;
}

/// A source whose destination says anything.
pub fn source(data: &[u8]) {
    let mut input = Input(data);
    let reorder_chunks = [None, Some(2)][usize::from(input.byte() % 2)];
    let mut machine =
        Source::new(source::Config { chunk_size: CHUNK, small_max: SMALL, reorder_chunks, dry_run: false });
    (0..4).for_each(|n| _ = machine.handle_entry(entry(n), n % 3));
    machine.flush();
    let (mut entries, mut finished) = (4, 0);
    let mut reading: Vec<(u64, Item)> = Vec::new();
    // One bit for each lane.
    let mut open = u8::MAX;
    while !input.is_empty() {
        match input.byte() % source_op::COUNT {
            source_op::MESSAGE => {
                if let Ok(message) = frame::decode::<ToSource>(input.block()) {
                    let _ = machine.handle_message(message);
                }
            }
            source_op::JOB => match machine.poll_job(|lane| open >> (lane % 8) & 1 == 1) {
                Some((_, Job::Chunk { parcel, item, .. })) => reading.push((parcel, item)),
                Some((_, Job::Batch { parcel, items, .. })) => reading.extend(items.into_iter().map(|item| (parcel, item))),
                Some((_, Job::Compare { .. })) | None => {}
            },
            source_op::READ if !reading.is_empty() => {
                let at = usize::from(input.byte()) % reading.len();
                let (parcel, item) = reading.swap_remove(at);
                machine.handle_read(parcel, item, read(&mut input));
            }
            source_op::SENT => machine.handle_sent(input.byte().into(), u16::from(input.byte() % 4)),
            source_op::LOST => {
                let stream = u16::from(input.byte() % 4);
                let [whole, parcel, file, offset] = std::array::from_fn(|_| input.byte().into());
                let begun = Some(Begun { parcel, file, offset });
                machine.handle_stream_ended(stream, &Arrived { whole: vec![whole], begun });
            }
            source_op::COMPARED => machine.handle_compared(input.byte().into(), Ok(input.byte() % 2 == 1)),
            source_op::FAIL => machine.fail(input.byte().into(), "no".into()),
            source_op::ENTRY => {
                let n = input.byte();
                machine.handle_entry(entry(n), n);
                entries += 1;
            }
            source_op::OPEN => open = input.byte(),
            _ => {
                if let Some(message) = machine.poll_message() {
                    frame::encode(&Control::Source(message), &mut Vec::new());
                }
            }
        }
        finished += std::iter::from_fn(|| machine.poll_finished()).count();
        assert_eq!(machine.outstanding() + finished, entries);
    }
}

fn entry(n: u8) -> Entry {
    let file = |size| EntryKind::File(Identity { size, ..Identity::default() });
    let kind = [file(100), file(5), EntryKind::Stream, EntryKind::Dir, file(0), file(u64::MAX)];
    let path = RelPath::new(vec![b'a' + n % 26]).expect("a path");
    let kind = kind[usize::from(n % 6)].clone();
    Entry { path, kind, mode: 0, mtime: Time::default(), owner: None, xattrs: Vec::new() }
}

fn read(input: &mut Input) -> Read {
    match input.byte() % 6 {
        0 => Read::EndOfStream(input.byte().into()),
        1 => Read::Changed(Box::new(entry(input.byte()))),
        2 => Read::Failed("no".into()),
        _ => Read::Whole,
    }
}

/// What an input does to a destination.
pub(crate) mod destination_op {
    pub(crate) const MESSAGE: u8 = 0;
    pub(crate) const ACT: u8 = 1;
    pub(crate) const DATA: u8 = 2;
    pub(crate) const PARCEL: u8 = 3;
    pub(crate) const CORRUPT: u8 = 4;
    pub(crate) const FAILED: u8 = 5;
    pub(crate) const POLL: u8 = 6;
    pub(crate) const COUNT: u8 = 7;
}

/// A destination whose source says anything.
pub fn destination(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.byte();
    let config = destination::Config {
        chunk_size: CHUNK,
        delete: flags & 1 == 1,
        links: flags & 2 == 2,
        dry_run: flags & 4 == 4,
    };
    let mut machine = Destination::new(config);
    let mut announced: u64 = 0;
    let mut told: u64 = 0;
    while !input.is_empty() {
        match input.byte() % destination_op::COUNT {
            destination_op::MESSAGE => {
                let Ok(message) = frame::decode::<ToDestination>(input.block()) else { continue };
                let entries = match &message {
                    ToDestination::Page { entries, .. } => entries.len() as u64,
                    _ => 0,
                };
                // A breach ends the session.
                if machine.handle_message(message).is_err() {
                    return;
                }
                announced += entries;
            }
            destination_op::ACT => act(&mut machine, &mut input),
            destination_op::DATA => {
                let (index, generation) = (input.byte().into(), input.byte() % 4);
                let (chunk, end) = (u64::from(input.byte()), input.byte() % 2 == 1);
                machine.handle_landed(index, generation, chunk * u64::from(CHUNK), end);
            }
            destination_op::PARCEL => machine.handle_parcel(input.byte().into()),
            destination_op::CORRUPT => machine.handle_corrupt(input.byte().into()),
            destination_op::FAILED => machine.handle_write_failed(input.byte().into(), "no".into()),
            _ => {
                let message = machine.poll_message();
                if let Some(ToSource::Done(done)) = &message {
                    told += done.len() as u64;
                }
                frame::encode(&message, &mut Vec::new());
            }
        }
        assert!(machine.outstanding() as u64 + told <= announced);
    }
    while let Some(message) = machine.poll_message() {
        told += if let ToSource::Done(done) = message { done.len() as u64 } else { 0 };
    }
    assert_eq!(machine.outstanding() as u64 + told, announced, "every entry is outstanding or told");
}

/// Does what is to be done, and answers.
fn act(machine: &mut Destination, input: &mut Input) {
    let outcome = |n: u8| if n.is_multiple_of(4) { Outcome::Failed("no".into()) } else { Outcome::Placed };
    match machine.poll_action() {
        Some(Action::Decide { index, entry }) => {
            let answer = input.byte();
            let decision = match (entry.kind, answer % 4) {
                (_, 0) => Decision::Settled(outcome(answer / 4)),
                (EntryKind::Dir, _) => Decision::DirReady,
                (EntryKind::Symlink { .. } | EntryKind::HardLink { .. }, _) => Decision::Settled(Outcome::Placed),
                (EntryKind::File(_), 1) => Decision::Compare { digest: [answer; 32], disk: answer % DISKS_MAX },
                (EntryKind::File(_), 2) => {
                    let have = ChunkSet::full(u64::from(answer / 4));
                    Decision::Receive { have, disk: answer % DISKS_MAX }
                }
                _ => Decision::Receive { have: ChunkSet::new(), disk: 0 },
            };
            machine.handle_decision(index, decision);
        }
        Some(Action::Publish { index, .. } | Action::Refresh { index } | Action::CloseDir { index, .. }) => {
            machine.handle_published(index, outcome(input.byte()));
        }
        Some(Action::Discard { .. } | Action::Delete { .. }) | None => {}
    }
}
