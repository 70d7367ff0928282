use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;

use controller::store::{AppendError, LogReader, QUEUE_BYTES_MAX, QUEUE_REQUESTS_MAX, StoreError, Writer};

use super::World;
use super::log::event;

pub(crate) fn many_threads_share_commits(world: &mut World) {
    const THREADS: u64 = 16;
    const EACH: u64 = 50;
    let writer = Writer::start(world.log()).unwrap();
    let numbers = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let writer = &writer;
            move || {
                let mut last = 0;
                let mut mine = Vec::new();
                for turn in 0..EACH {
                    let events = (0..=turn % 3).map(|part| (thread, format!("{thread} {turn} {part}").into_bytes()));
                    let first = writer.append(events.collect()).unwrap().blocking_recv().unwrap().unwrap();
                    assert!(first > last, "numbers rise");
                    last = first;
                    mine.push((first, thread, turn));
                }
                mine
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<BTreeSet<_>>()
    });
    let mut log = writer.stop().unwrap();
    for (first, thread, turn) in numbers {
        let parts = (turn % 3 + 1) as u32;
        let read = log.reader().read(first, parts).unwrap();
        let texts: Vec<_> = read.into_iter().map(|event| String::from_utf8(event.bytes).unwrap()).collect();
        let expected: Vec<_> = (0..parts).map(|part| format!("{thread} {turn} {part}")).collect();
        assert_eq!(texts, expected, "a request's events are together");
    }
}

/// A writer that stands until the sender is dropped, and is known to stand.
fn standing(writer: &Writer) -> std::sync::mpsc::SyncSender<()> {
    let (stands, standing) = sync_channel::<()>(1);
    let (go_on, going_on) = sync_channel::<()>(1);
    let stand = move |_: &mut controller::store::Log| {
        stands.send(()).unwrap();
        let _ = going_on.recv();
        Ok(())
    };
    drop(writer.with(stand).unwrap());
    standing.recv().unwrap();
    go_on
}

#[test]
fn at_the_bound_of_requests_the_caller_is_told_busy() {
    let world = World::sqlite();
    let writer = Writer::start(world.log()).unwrap();
    let go_on = standing(&writer);
    let receipts: Vec<_> =
        (1..=QUEUE_REQUESTS_MAX as u64).map(|number| writer.append(vec![event(number)]).unwrap()).collect();
    let busy = writer.append(vec![event(0)]);
    assert!(matches!(busy, Err(AppendError::Busy { waiting: QUEUE_REQUESTS_MAX })), "{busy:?}");
    assert!(matches!(writer.snapshot(1, vec![]), Err(AppendError::Busy { .. })));
    drop(go_on);
    for (number, receipt) in (1..).zip(receipts) {
        assert_eq!(receipt.blocking_recv().unwrap().unwrap(), number);
    }
    assert_eq!(writer.waiting(), 0);
    assert!(writer.append(vec![event(0)]).unwrap().blocking_recv().unwrap().is_ok(), "then there is room again");
}

#[test]
fn at_the_bound_of_bytes_the_caller_is_told_busy() {
    let world = World::sqlite();
    let writer = Writer::start(world.log()).unwrap();
    let go_on = standing(&writer);
    let big = writer.append(vec![(0, vec![1; QUEUE_BYTES_MAX])]).unwrap();
    assert!(matches!(writer.append(vec![(0, vec![1])]), Err(AppendError::Busy { waiting: 1 })));
    assert!(writer.append(vec![(0, vec![])]).is_ok(), "nothing always fits");
    drop(go_on);
    assert_eq!(big.blocking_recv().unwrap().unwrap(), 1);
    assert!(writer.append(vec![(0, vec![1; 1_000])]).unwrap().blocking_recv().unwrap().is_ok());
}

#[test]
fn what_waits_is_written_when_the_writer_goes() {
    let world = World::sqlite();
    let writer = Writer::start(world.log()).unwrap();
    let go_on = standing(&writer);
    let receipts: Vec<_> = (1..=100).map(|number| writer.append(vec![event(number)]).unwrap()).collect();
    let snapshot = writer.snapshot(100, b"state".to_vec()).unwrap();
    let wrong = writer.snapshot(101, b"state".to_vec()).unwrap();
    drop(go_on);
    drop(writer);
    assert!(receipts.into_iter().all(|receipt| receipt.blocking_recv().unwrap().is_ok()));
    snapshot.blocking_recv().unwrap().unwrap();
    let wrong = wrong.blocking_recv().unwrap();
    assert!(matches!(wrong, Err(AppendError::Store(e)) if matches!(*e, StoreError::SnapshotOrder { .. })));
    assert_eq!(LogReader::open(world.store()).unwrap().last().unwrap(), 100);
}

#[test]
fn a_writer_that_died_says_so() {
    let world = World::sqlite();
    let writer = Writer::start(world.log()).unwrap();
    let go_on = standing(&writer);
    let panics = writer.with(|_| -> Result<(), StoreError> { panic!("as a test") }).unwrap();
    let waits = writer.append(vec![event(1)]).unwrap();
    drop(go_on);
    assert!(panics.blocking_recv().is_err() && waits.blocking_recv().is_err(), "nobody waits for ever");
    // The thread closes the queue before it drops what waits.
    assert!(matches!(writer.append(vec![event(1)]), Err(AppendError::Stopped)));
    assert!(writer.stop().is_none());
}
