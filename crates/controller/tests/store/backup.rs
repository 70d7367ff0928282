use std::sync::atomic::{AtomicBool, Ordering};

use controller::store::{
    self, FileLedger, LedgerReader, LogReader, Outcome, PageId, Place, Settlement, Store, StoreError, backup, restore,
    verify,
};

use super::files::failed;
use super::log::event;
use super::{World, chain, id, new_page};

/// Some of everything.
pub(crate) fn fill(world: &World) {
    let mut log = world.log();
    log.append(&(1..=500).map(event).collect::<Vec<_>>()).unwrap();
    log.snapshot(100, b"state 100".to_vec()).unwrap();
    log.snapshot(400, b"state 400".to_vec()).unwrap();
    log.trim().unwrap();
    let mut files = world.files();
    files.put(&[new_page(1, 0, &[0, 1], 50), new_page(1, 1, &[0], 20), new_page(2, 0, &[0], 10)]).unwrap();
    let outcomes =
        [failed([3, 4], "denied"), vec![(9, Outcome::Done { digest: Some(vec![9; 32]), size_bytes: None })]].concat();
    let settle = |page| Settlement { page, outcomes: outcomes.clone() };
    files.settle(&[settle(id(1, 1, 0)), settle(id(1, 0, 1))]).unwrap();
}

/// Everything that is in log and file ledger.
fn content(store: &dyn Store) -> Vec<String> {
    let mut log = LogReader::open(store).unwrap();
    let mut found = Vec::new();
    let mut next = log.first().unwrap();
    loop {
        let events = log.read(next, 1_000).unwrap();
        let Some(last) = events.last() else { break };
        next = last.number + 1;
        found.extend(events.iter().map(|event| format!("{event:?}")));
    }
    for number in log.snapshots().unwrap() {
        found.push(format!("{:?}", log.snapshot(number).unwrap()));
    }
    let mut files = LedgerReader::over(store.pages().unwrap());
    let mut after: Option<PageId> = None;
    loop {
        let rows = store.pages().unwrap().states_after(after, 10).unwrap();
        let Some(last) = rows.last() else { break };
        after = Some(last.page);
        for row in rows {
            let listed = files.files(row.page, 0, u32::MAX).unwrap();
            found.push(format!("{row:?} {listed:?} {:?}", files.digests(row.page).unwrap()));
            found.push(format!("{:?}", files.failed(row.page.transfer, row.page.leg, None, 1_000).unwrap()));
        }
    }
    found
}

pub(crate) fn a_live_backup_comes_back(world: &mut World) {
    fill(world);
    let (to, back) = (world.path("backup"), Place::Directory(world.path("back")));
    let (mut log, mut files) = (world.log(), world.files());
    let is_over = AtomicBool::new(false);
    // While it is copied, both are written: first a page, then the event that tells of it.
    let copied = std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            for page in 0..u32::MAX {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                files.put(&[new_page(7, page, &[0], 20)]).unwrap();
                let told = (0, format!("page {page}").into_bytes());
                log.append(&[told]).unwrap();
            }
        });
        while last(world) < 505 {
            std::thread::yield_now();
        }
        let copied = backup(&world.place, &to);
        is_over.store(true, Ordering::Relaxed);
        copied.unwrap()
    });
    assert!(copied.last >= 505 && copied.events == copied.last - 100 && copied.snapshots == 2, "{copied:?}");
    assert_eq!(restore(&to, &back, None).unwrap(), copied);
    let restored = store::open(&back).unwrap();
    assert_eq!(content(&*restored), content(&*store::open(&Place::Directory(to.clone())).unwrap()));
    let told = copied.last - 500;
    let pages = LedgerReader::over(restored.pages().unwrap()).total(7, 0).unwrap().0;
    assert!(u64::from(pages) == told || u64::from(pages) == told + 1, "{pages} pages, {told} told: never less");
    let report = verify(&*restored).unwrap();
    assert!(
        report.damaged.is_empty() && report.events == copied.events && report.states == copied.states,
        "{report:?}"
    );
    assert_eq!((report.pages, report.files), (copied.pages, 80 + 20 * u64::from(pages)));
    // Neither mixes with what is there.
    for refused in [restore(&to, &back, None), backup(&world.place, &to)] {
        assert!(matches!(refused, Err(StoreError::NotEmpty { .. } | StoreError::Held { .. })), "{refused:?}");
    }
    drop(restored);
    assert!(matches!(restore(&to, &back, None), Err(StoreError::NotEmpty { .. })));
    let nowhere = restore(&world.path("nowhere"), &Place::Directory(world.path("x")), None).unwrap_err();
    assert!(matches!(nowhere, StoreError::Missing { .. }) && !world.path("x").exists(), "{}", chain(&nowhere));
    // And into the database of the suite: over what is there it is refused.
    world.store = None;
    assert!(matches!(restore(&to, &world.place, None), Err(StoreError::NotEmpty { .. })));
}

fn last(world: &World) -> u64 {
    LogReader::open(world.store()).unwrap().last().unwrap()
}

pub(crate) fn cut_short(world: &mut World) {
    let source = World::sqlite();
    fill(&source);
    let to = world.path("backup");
    backup(&source.place, &to).unwrap();
    // As a restore that ended in the middle leaves it.
    world.store().log().unwrap().set_restoring(true).unwrap();
    fill(world);
    world.store = None;
    let refused = store::open(&world.place).err().expect("it is half");
    assert!(matches!(refused, StoreError::Restoring { .. }), "{}", chain(&refused));
    restore(&to, &world.place, None).unwrap();
    let restored = store::open(&world.place).unwrap();
    assert_eq!(content(&*restored), content(source.store()));
    // And the ledger works.
    let mut files = FileLedger::open(&*restored).unwrap();
    assert_eq!(files.take(id(2, 0, 0), 99, controller::store::Order::Number).unwrap().len(), 10);
}
