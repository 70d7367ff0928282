use std::fs;

use controller::store::{self, LedgerReader, Log, LogReader, Order, Part, Place, StoreError, backup, restore, verify};

use super::backup::fill;
use super::{World, chain, id, opened};

/// Changes a file of the store beneath its back.
fn change(world: &World, file: &str, sql: &str) {
    let changed = rusqlite::Connection::open(world.path("store").join(file)).unwrap().execute(sql, []).unwrap();
    assert!(changed > 0, "{sql}");
}

fn part(error: StoreError) -> Part {
    let text = chain(&error);
    assert!(text.contains("longhaul controller restore"), "{text}");
    match error {
        StoreError::Damaged { what, .. } => what,
        _ => panic!("{text}"),
    }
}

#[test]
fn damaged_events_are_told_by_number() {
    let world = World::sqlite();
    fill(&world);
    change(&world, "log.sqlite", "UPDATE events SET bytes = x'00' WHERE number = 300");
    change(&world, "log.sqlite", "UPDATE events SET at_ms = at_ms + 1 WHERE number = 350");
    change(&world, "log.sqlite", "DELETE FROM events WHERE number IN (410, 411)");
    change(&world, "log.sqlite", "UPDATE snapshots SET bytes = x'00' WHERE number = 400");
    let mut log = LogReader::open(world.store()).unwrap();
    assert_eq!(log.read(290, 100).unwrap().len(), 10, "what is whole is given first");
    assert_eq!(part(log.read(300, 100).unwrap_err()), Part::Event(300));
    assert_eq!(log.read(301, 1_000).unwrap().len(), 49);
    assert_eq!(part(log.read(411, 1).unwrap_err()), Part::Event(411));
    let newest = log.newest().unwrap();
    assert_eq!(newest.snapshot.unwrap().number, 100, "the older one stands in");
    assert_eq!(newest.damaged.into_iter().map(part).collect::<Vec<_>>(), [Part::Snapshot(400)]);
    assert_eq!(part(world.log().trim().unwrap_err()), Part::Snapshot(400), "and is not trimmed away");

    let report = verify(world.store()).unwrap();
    let found: Vec<Part> = report.damaged.into_iter().map(part).collect();
    let expected = [300, 350, 410, 411].map(Part::Event).into_iter().chain([Part::Snapshot(400)]).collect::<Vec<_>>();
    assert_eq!(found, expected);
    assert_eq!((report.events, report.snapshots, report.states), (396, 1, 4));
    assert_eq!(part(backup(&world.place, &world.path("to")).unwrap_err()), Part::Event(300));

    change(&world, "log.sqlite", "UPDATE events SET sum = sum + 1 WHERE number = 500");
    let error = Log::open(world.store(), store::Keep::All).err().expect("it ends in damage");
    assert_eq!(part(error), Part::Event(500));
}

#[test]
fn damaged_pages_are_told() {
    let world = World::sqlite();
    fill(&world);
    change(&world, "files.sqlite", "UPDATE names SET data = CAST(data || x'00' AS BLOB) WHERE transfer = 2");
    change(&world, "files.sqlite", "UPDATE states SET bits = zeroblob(length(bits)) WHERE transfer = 1 AND leg = 1");
    change(&world, "files.sqlite", "UPDATE states SET done = done + 1, open = open - 1 WHERE leg = 0 AND page = 1");
    let mut files = world.files();
    let names = Part::Names { transfer: 2, page: 0 };
    assert_eq!(part(files.take(id(2, 0, 0), 1, Order::Number).unwrap_err()), names);
    assert_eq!(part(files.take(id(1, 1, 0), 1, Order::Number).unwrap_err()), Part::States(id(1, 1, 0)));
    assert_eq!(part(files.take(id(1, 0, 1), 1, Order::Number).unwrap_err()), Part::States(id(1, 0, 1)));
    files.take(id(1, 0, 0), 1, Order::Number).unwrap();

    let other = World::sqlite();
    fill(&other);
    change(&other, "files.sqlite", "UPDATE failed SET text = 'x' WHERE leg = 1 AND number = 3");
    change(&other, "files.sqlite", "UPDATE digests SET data = x'00' WHERE leg = 1");
    change(&other, "files.sqlite", "DELETE FROM failed WHERE leg = 0 AND page = 1 AND number = 4");
    let mut files = LedgerReader::over(other.store().pages().unwrap());
    assert_eq!(part(files.failed(1, 1, None, 10).unwrap_err()), Part::Failed(id(1, 1, 0), 3));
    let found: Vec<Part> = verify(other.store()).unwrap().damaged.into_iter().map(part).collect();
    let expected = [Part::Digests(id(1, 1, 0)), Part::States(id(1, 0, 1)), Part::Failed(id(1, 1, 0), 3)];
    assert_eq!(found, expected);
}

/// Bytes that flip on the disk: whatever they hit, it is an error or nothing, never other content.
#[test]
fn no_flipped_byte_goes_unseen() {
    let world = World::sqlite();
    fill(&world);
    let to = world.path("backup");
    backup(&world.place, &to).unwrap();
    let whole = fs::read(to.join("log.sqlite")).unwrap();
    let original = texts(&Place::Directory(to.clone())).unwrap();
    let mut seen = 0;
    // Not a divisor of the page, so that all parts of pages are hit.
    for at in (100..whole.len()).step_by(787) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x11;
        fs::write(to.join("log.sqlite"), &flipped).unwrap();
        match texts(&Place::Directory(to.clone())) {
            Ok(texts) => assert_eq!(texts, original, "byte {at}"),
            Err(_) => seen += 1,
        }
        let back = world.path(&format!("back {at}"));
        if restore(&to, &Place::Directory(back.clone()), None).is_ok() {
            assert_eq!(texts(&Place::Directory(back.clone())).unwrap(), original, "byte {at}");
        } else {
            assert!(!back.join("log.sqlite").exists(), "nothing is written before all is checked");
        }
    }
    assert!(seen > 10, "{seen} flips were seen in {} bytes", whole.len());
}

fn texts(place: &Place) -> Result<Vec<Vec<u8>>, StoreError> {
    let store = opened(place)?;
    let mut log = LogReader::open(&*store)?;
    let (mut next, mut found) = (log.first()?, Vec::new());
    loop {
        let events = log.read(next, 1_000)?;
        let Some(last) = events.last() else { break };
        next = last.number + 1;
        found.extend(events.into_iter().map(|event| event.bytes));
    }
    for number in log.snapshots()? {
        found.push(log.snapshot(number)?.bytes);
    }
    Ok(found)
}
