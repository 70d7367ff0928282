use controller::store::{APPEND_BYTES_MAX, APPEND_EVENTS_MAX, Keep, Log, LogReader, StoreError};

use super::World;

pub(crate) fn event(number: u64) -> (u64, Vec<u8>) {
    (1_700_000_000_000 + number, format!("event {number}").into_bytes())
}

fn all(reader: &mut LogReader) -> Vec<(u64, u64, Vec<u8>)> {
    let (mut from, mut found) = (reader.first().unwrap(), Vec::new());
    loop {
        let events = reader.read(from, 7).unwrap();
        let Some(last) = events.last() else { return found };
        from = last.number + 1;
        found.extend(events.into_iter().map(|event| (event.number, event.at_ms, event.bytes)));
    }
}

pub(crate) fn appends_are_numbered_and_come_back(world: &mut World) {
    let mut log = world.log();
    assert_eq!((log.next(), log.reader().last().unwrap()), (1, 0));
    assert_eq!(log.reader().read(1, 10).unwrap(), []);
    assert_eq!(log.append(&[]).unwrap(), 1);
    assert_eq!(log.append(&[event(1)]).unwrap(), 1);
    assert_eq!(log.append(&(2..=30).map(event).collect::<Vec<_>>()).unwrap(), 2);
    drop(log);
    world.again();
    let mut log = world.log();
    assert_eq!(log.append(&[(0, vec![]), (i64::MAX as u64, vec![0, 255])]).unwrap(), 31);
    let mut expected: Vec<_> = (1..=30).map(|number| (number, event(number).0, event(number).1)).collect();
    expected.extend([(31, 0, vec![]), (32, i64::MAX as u64, vec![0, 255])]);
    assert_eq!(all(log.reader()), expected);
    assert_eq!(all(&mut LogReader::open(world.store()).unwrap()), expected, "others read beside it");
    assert_eq!(log.reader().read(33, 10).unwrap(), []);
}

pub(crate) fn bounds_of_an_append_hold(world: &mut World) {
    let mut log = world.log();
    let refused = |log: &mut Log, events: &[(u64, Vec<u8>)]| {
        assert!(matches!(log.append(events), Err(StoreError::Limit { .. })));
        assert_eq!(log.reader().last().unwrap(), 0);
    };
    refused(&mut log, &vec![(0, vec![]); APPEND_EVENTS_MAX + 1]);
    refused(&mut log, &[(0, vec![0; APPEND_BYTES_MAX + 1])]);
    refused(&mut log, &[event(1), (u64::MAX, vec![])]);
    assert_eq!(log.append(&vec![(0, vec![]); APPEND_EVENTS_MAX]).unwrap(), 1);
    assert_eq!(log.append(&[(0, vec![7; APPEND_BYTES_MAX])]).unwrap(), 1 + APPEND_EVENTS_MAX as u64);
    let read = log.reader().read(APPEND_EVENTS_MAX as u64, 10).unwrap();
    assert_eq!(read[1].bytes.len(), APPEND_BYTES_MAX);
}

pub(crate) fn two_snapshots_are_kept(world: &mut World) {
    let mut log = world.log();
    assert!(log.reader().newest().unwrap().snapshot.is_none());
    log.append(&(1..=10).map(event).collect::<Vec<_>>()).unwrap();
    for number in [2, 5, 9] {
        log.snapshot(number, format!("state {number}").into_bytes()).unwrap();
    }
    log.snapshot(9, b"once more".to_vec()).unwrap();
    for number in [0, 8, 11] {
        assert!(matches!(log.snapshot(number, vec![]), Err(StoreError::SnapshotOrder { .. })), "{number}");
    }
    drop(log);
    world.again();
    let mut log = world.log();
    assert_eq!(log.reader().snapshots().unwrap(), [9, 5]);
    let newest = log.reader().newest().unwrap();
    assert_eq!((newest.snapshot.unwrap().bytes, newest.damaged.len()), (b"once more".to_vec(), 0));
    assert_eq!(log.reader().first().unwrap(), 1, "a snapshot removes no event");
}

pub(crate) fn a_trim_leaves_what_the_older_snapshot_needs(world: &mut World) {
    let mut log = world.log();
    log.append(&(1..=20).map(event).collect::<Vec<_>>()).unwrap();
    log.snapshot(8, b"8".to_vec()).unwrap();
    assert_eq!(log.trim().unwrap(), 0, "one snapshot is not enough");
    log.snapshot(12, b"12".to_vec()).unwrap();
    assert_eq!(log.trim().unwrap(), 8);
    assert_eq!(log.trim().unwrap(), 0);
    assert!(matches!(log.reader().read(8, 1), Err(StoreError::Trimmed { from: 8, first: 9 })));
    assert_eq!(log.reader().read(9, 100).unwrap().len(), 12);
    drop(log);

    let mut log = Log::open(world.store(), Keep::SinceSnapshot).unwrap();
    log.snapshot(20, b"20".to_vec()).unwrap();
    assert_eq!(log.reader().first().unwrap(), 13, "each snapshot trims");
    log.snapshot(20, b"again".to_vec()).unwrap();
    assert_eq!(log.append(&[event(21)]).unwrap(), 21);
    log.snapshot(21, b"21".to_vec()).unwrap();
    assert_eq!((log.reader().first().unwrap(), log.reader().last().unwrap()), (21, 21), "the last event stays");
    drop(log);
    world.again();
    assert_eq!(world.log().next(), 22, "numbers go on");
}

pub(crate) fn a_frozen_log_stands_still(world: &mut World) {
    let mut log = world.log();
    log.append(&[event(1)]).unwrap();
    let frozen = world.store().frozen().unwrap();
    log.append(&[event(2)]).unwrap();
    let mut reader = LogReader::over(frozen.log);
    assert_eq!((reader.last().unwrap(), log.reader().last().unwrap()), (1, 2));
}
