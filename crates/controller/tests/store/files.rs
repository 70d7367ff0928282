use std::collections::BTreeMap;

use controller::store::{
    CACHE_BYTES, DIGEST_ROWS_MAX, NAME_BYTES_MAX, NewFile, NewPage, Order, Outcome, PAGE_FILES_MAX, PUT_FILES_MAX,
    Settlement, State, StoreError, TEXT_BYTES_MAX,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{World, id, new_page};

pub(crate) fn done(numbers: impl IntoIterator<Item = u32>) -> Vec<(u32, Outcome)> {
    numbers.into_iter().map(|number| (number, Outcome::Done { digest: None, size_bytes: None })).collect()
}

pub(crate) fn failed(numbers: impl IntoIterator<Item = u32>, text: &str) -> Vec<(u32, Outcome)> {
    numbers.into_iter().map(|number| (number, Outcome::Failed { text: text.to_owned() })).collect()
}

fn states(world: &World, page: controller::store::PageId) -> Vec<State> {
    world.files().reader().files(page, 0, u32::MAX).unwrap().into_iter().map(|file| file.state).collect()
}

pub(crate) fn a_page_goes_through_its_states(world: &mut World) {
    use State::*;
    let mut files = world.files();
    let page = new_page(3, 0, &[0, 1], 6);
    files.put(std::slice::from_ref(&page)).unwrap();
    let (a, b) = (id(3, 0, 0), id(3, 1, 0));
    let taken = files.take(a, 4, Order::Number).unwrap();
    assert_eq!(taken.len(), 4);
    for (given, file) in taken.iter().zip(&page.files) {
        assert_eq!((&given.name, given.size_bytes), (&file.name, file.size_bytes));
    }
    assert_eq!(files.take(a, 10, Order::Number).unwrap().iter().map(|given| given.number).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(files.take(a, 10, Order::Number).unwrap(), []);
    let outcomes = [done([0, 1]), failed([2], "no space left")].concat();
    let settled = files.settle(&[Settlement { page: a, outcomes }]).unwrap()[0];
    let bytes = page.files[0].size_bytes + page.files[1].size_bytes;
    assert_eq!((settled.done, settled.bytes_done, settled.failed, settled.unchanged), (2, bytes, 1, 0));
    assert_eq!(files.give_back(a, &[3, 0, 2]).unwrap(), 1, "only what is given");
    files.flush().unwrap();
    drop(files);
    world.again();
    assert_eq!(states(world, a), [Done, Done, Failed, Open, Given, Given]);
    assert_eq!(states(world, b), [Open; 6], "legs have states of their own");
    let mut files = world.files();
    let (pages, total) = files.reader().total(3, 0).unwrap();
    assert_eq!((pages, total.open, total.given, total.done, total.failed), (1, 1, 2, 2, 1));
    assert_eq!((total.bytes, total.bytes_done), (page.files.iter().map(|file| file.size_bytes).sum(), bytes));
    assert_eq!(files.retry(a, &[2, 3]).unwrap(), 1, "only what failed");
    assert_eq!(files.reader().failed(3, 0, None, 10).unwrap(), []);
    let listed = files.reader().files(a, 2, 2).unwrap();
    assert_eq!(listed.iter().map(|file| (file.number, file.state)).collect::<Vec<_>>(), [(2, Open), (3, Open)]);
    assert_eq!(files.reader().named(a, &[5, 0]).unwrap()[0].name, page.files[5].name);
    assert_eq!(files.reader().open_pages(3, 0, 0, 10).unwrap().len(), 1);
    files.take(a, 10, Order::Number).unwrap();
    assert_eq!(files.reader().open_pages(3, 0, 0, 10).unwrap(), []);
    assert_eq!(files.reader().pages(3, 0, 0, 10).unwrap()[0].1.given, 4);
    assert_eq!(files.reader().total(99, 0).unwrap().0, 0);
}

pub(crate) fn sizes_that_were_not_known_count_when_told(world: &mut World) {
    let file = |name: &str, size_bytes| NewFile { name: name.into(), size_bytes };
    let files = vec![file("unknown", 0), file("known", 5), file("never", 0)];
    let mut ledger = world.files();
    ledger.put(&[NewPage { transfer: 1, page: 0, legs: vec![0], files }]).unwrap();
    let told = |number, size_bytes| (number, Outcome::Done { digest: None, size_bytes });
    let page = id(1, 0, 0);
    let outcomes = vec![told(0, Some(70)), told(1, Some(9)), told(2, None)];
    let settled = ledger.settle(&[Settlement { page, outcomes }]).unwrap()[0];
    assert_eq!((settled.done, settled.bytes_done), (3, 75));
    let again = ledger.settle(&[Settlement { page, outcomes: vec![told(0, Some(70))] }]).unwrap()[0];
    assert_eq!((again.unchanged, again.bytes_done, again.counts.bytes_done), (1, 0, 75), "each counts once");
    drop(ledger);
    world.again();
    assert_eq!(world.files().reader().total(1, 0).unwrap().1.bytes_done, 75);
}

pub(crate) fn orders_of_taking(world: &mut World) {
    let sizes = [5, 9, 1, 9, 5, 0];
    let file = |size_bytes: &u64| NewFile { name: size_bytes.to_string().into_bytes(), size_bytes: *size_bytes };
    let mut files = world.files();
    for (transfer, order, expected) in [
        (1, Order::Number, [0, 1, 2, 3, 4, 5]),
        (2, Order::Largest, [1, 3, 0, 4, 2, 5]),
        (3, Order::Smallest, [5, 2, 0, 4, 1, 3]),
    ] {
        files.put(&[NewPage { transfer, page: 0, legs: vec![0], files: sizes.iter().map(file).collect() }]).unwrap();
        let mut taken = files.take(id(transfer, 0, 0), 2, order).unwrap();
        taken.extend(files.take(id(transfer, 0, 0), 100, order).unwrap());
        assert_eq!(taken.iter().map(|given| given.number).collect::<Vec<_>>(), expected, "{order:?}");
    }
}

pub(crate) fn what_is_done_stays_done(world: &mut World) {
    let mut files = world.files();
    files.put(&[new_page(1, 0, &[0], 3)]).unwrap();
    let page = id(1, 0, 0);
    let settle = |files: &mut controller::store::FileLedger, outcomes| {
        let settled = files.settle(&[Settlement { page, outcomes }]).unwrap()[0];
        (settled.done, settled.failed, settled.unchanged)
    };
    assert_eq!(settle(&mut files, done([0])), (1, 0, 0), "also what was never given");
    assert_eq!(settle(&mut files, done([0])), (0, 0, 1));
    assert_eq!(settle(&mut files, failed([0, 1], "late")), (0, 1, 1));
    assert_eq!(settle(&mut files, failed([1], "again")), (0, 0, 1));
    assert_eq!(files.reader().failed(1, 0, None, 9).unwrap()[0].text, "again");
    assert_eq!(settle(&mut files, [failed([2], "x"), done([1, 2])].concat()), (2, 1, 0));
    assert_eq!(files.reader().failed(1, 0, None, 9).unwrap(), []);
    assert_eq!(states(world, page), [State::Done; 3]);
    let counts = files.reader().total(1, 0).unwrap().1;
    assert_eq!((counts.done, counts.bytes_done), (3, counts.bytes));
}

pub(crate) fn settlements_are_all_or_none(world: &mut World) {
    let mut files = world.files();
    files.put(&[new_page(1, 0, &[0], 3), new_page(1, 1, &[0], 3)]).unwrap();
    let good = Settlement { page: id(1, 0, 0), outcomes: done([0]) };
    let no_file = Settlement { page: id(1, 0, 1), outcomes: done([3]) };
    let no_page = Settlement { page: id(1, 0, 2), outcomes: done([0]) };
    let outcomes = vec![(0, Outcome::Done { digest: Some(vec![0; 65]), size_bytes: None })];
    let no_digest = Settlement { page: id(1, 0, 1), outcomes };
    assert!(matches!(files.settle(&[good.clone(), no_file]), Err(StoreError::NoSuchFile { number: 3, files: 3, .. })));
    assert!(matches!(files.settle(&[good.clone(), no_page]), Err(StoreError::NoSuchPage(_))));
    assert!(matches!(files.settle(&[good.clone(), no_digest]), Err(StoreError::Limit { .. })));
    assert_eq!(files.reader().total(1, 0).unwrap().1.done, 0);
    assert_eq!(states(world, id(1, 0, 0)), [State::Open; 3]);
    let twice = Settlement { page: id(1, 0, 0), outcomes: done([1]) };
    let settled = files.settle(&[good, twice]).unwrap();
    assert_eq!((settled[0].done, settled[1].done, settled[1].counts.done), (1, 1, 2), "one page in two parts");
}

pub(crate) fn pages_are_put_once(world: &mut World) {
    let mut files = world.files();
    files.put(&[new_page(1, 0, &[0], 3)]).unwrap();
    files.settle(&[Settlement { page: id(1, 0, 0), outcomes: done([0]) }]).unwrap();
    files.put(&[new_page(1, 0, &[0, 1], 3), new_page(1, 1, &[0], 2)]).unwrap();
    assert_eq!(files.reader().total(1, 0).unwrap().1.done, 1, "its states are kept");
    assert_eq!(files.reader().total(1, 1).unwrap().1.open, 3, "and a new leg is open");
    let other = files.put(&[new_page(2, 0, &[0], 5), new_page(1, 0, &[0], 4)]);
    assert!(matches!(other, Err(StoreError::PageExists { transfer: 1, page: 0 })));
    assert_eq!(files.reader().transfers(None, 9).unwrap(), [1], "nothing of it was put");
}

pub(crate) fn bounds_of_pages_hold(world: &mut World) {
    let mut files = world.files();
    let named =
        |name: Vec<u8>| NewPage { files: vec![NewFile { name, size_bytes: u64::MAX }; 2], ..new_page(2, 0, &[0], 0) };
    let parts = (PUT_FILES_MAX / PAGE_FILES_MAX) as u32;
    let too_many = (0..=parts).map(|page| new_page(1, page, &[0], PAGE_FILES_MAX as u32)).collect::<Vec<_>>();
    for refused in [
        vec![new_page(1, 0, &[0], PAGE_FILES_MAX as u32 + 1)],
        vec![named(vec![b'x'; NAME_BYTES_MAX + 1])],
        vec![new_page(1 << 63, 0, &[0], 1)],
        too_many,
    ] {
        assert!(matches!(files.put(&refused), Err(StoreError::Limit { .. })));
    }
    assert_eq!(files.reader().transfers(None, 9).unwrap(), [0_u64; 0]);
    files
        .put(&[named(vec![b'\xff'; NAME_BYTES_MAX]), new_page(2, 1, &[], 0), new_page(2, u32::MAX, &[u32::MAX], 1)])
        .unwrap();
    assert_eq!(files.take(id(2, 0, 0), 1, Order::Largest).unwrap()[0].name, vec![b'\xff'; NAME_BYTES_MAX]);
    assert_eq!(files.reader().total(2, 0).unwrap().1.bytes, u64::MAX, "sums end at the greatest number");
    assert_eq!(files.take(id(2, u32::MAX, u32::MAX), 9, Order::Number).unwrap().len(), 1);
    let text = "ü".repeat(TEXT_BYTES_MAX);
    files.settle(&[Settlement { page: id(2, 0, 0), outcomes: failed([0], &text) }]).unwrap();
    assert_eq!(files.reader().failed(2, 0, None, 1).unwrap()[0].text.len(), TEXT_BYTES_MAX);
}

pub(crate) fn failed_files_are_listed_by_pages(world: &mut World) {
    let mut files = world.files();
    files.put(&[new_page(1, 0, &[0, 1], 20), new_page(1, 2, &[0], 20)]).unwrap();
    let settle = |page, numbers: Vec<u32>, text| Settlement { page, outcomes: failed(numbers, text) };
    let batch = [
        settle(id(1, 0, 2), vec![7, 0], "quota"),
        settle(id(1, 0, 0), vec![19, 3], "denied"),
        settle(id(1, 1, 0), vec![4], "other leg"),
    ];
    files.settle(&batch).unwrap();
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let listed = files.reader().failed(1, 0, after, 3).unwrap();
        let Some(last) = listed.last() else { break };
        after = Some((last.page, last.number));
        found.extend(listed.into_iter().map(|file| (file.page, file.number, file.text, file.name)));
    }
    let names = |page: u32, number: usize| new_page(1, page, &[], 20).files[number].name.clone();
    let expected = [(0, 3, "denied"), (0, 19, "denied"), (2, 0, "quota"), (2, 7, "quota")];
    let expected = expected.map(|(page, number, text)| (page, number, text.to_owned(), names(page, number as usize)));
    assert_eq!(found, expected);
}

pub(crate) fn digests_are_put_together(world: &mut World) {
    let mut files = world.files();
    let count = DIGEST_ROWS_MAX * 2 + 5;
    files.put(&[new_page(1, 0, &[0], count)]).unwrap();
    let page = id(1, 0, 0);
    let digest = |number: u32| number.to_be_bytes().repeat(8);
    for number in (0..count).rev() {
        let outcomes = vec![(number, Outcome::Done { digest: Some(digest(number)), size_bytes: None })];
        files.settle(&[Settlement { page, outcomes }]).unwrap();
    }
    let rows = world.store().pages().unwrap().digests(page).unwrap().len();
    assert!((1..=DIGEST_ROWS_MAX as usize).contains(&rows), "{rows} rows");
    let expected: Vec<_> = (0..count).map(|number| (number, digest(number))).collect();
    assert_eq!(files.reader().digests(page).unwrap(), expected);
}

pub(crate) fn a_restart_opens_what_was_given(world: &mut World) {
    let mut files = world.files();
    let pages: Vec<_> = (0..450).map(|page| new_page(1, page, &[0], 5)).collect();
    files.put(&pages).unwrap();
    for page in 0..450 {
        files.take(id(1, 0, page), 3, Order::Number).unwrap();
        files.settle(&[Settlement { page: id(1, 0, page), outcomes: done([0]) }]).unwrap();
    }
    drop(files);
    world.again();
    let mut files = world.files();
    assert_eq!(files.reader().total(1, 0).unwrap().1.given, 900, "a crash of the process loses nothing");
    let keep = BTreeMap::from([(id(1, 0, 7), vec![2]), (id(1, 0, 449), vec![1, 2])]);
    assert_eq!(files.reset_given(&keep).unwrap(), 897);
    assert_eq!(files.reset_given(&keep).unwrap(), 0);
    let counts = files.reader().total(1, 0).unwrap().1;
    assert_eq!((counts.open, counts.given, counts.done), (450 * 2 + 897, 3, 450));
    use State::*;
    assert_eq!(states(world, id(1, 0, 7)), [Done, Open, Given, Open, Open]);
}

pub(crate) fn a_transfer_is_deleted_whole(world: &mut World) {
    let mut files = world.files();
    for transfer in [1, 2] {
        let pages: Vec<_> = (0..250).map(|page| new_page(transfer, page, &[0, 1], 4)).collect();
        files.put(&pages).unwrap();
        let outcomes =
            [failed([0], "x"), vec![(1, Outcome::Done { digest: Some(vec![1]), size_bytes: None })]].concat();
        files.settle(&[Settlement { page: id(transfer, 1, 240), outcomes }]).unwrap();
    }
    assert_eq!(files.reader().transfers(Some(1), 9).unwrap(), [2]);
    assert_eq!(files.delete(1).unwrap(), 250);
    assert_eq!(files.delete(1).unwrap(), 0);
    assert_eq!(files.reader().transfers(None, 9).unwrap(), [2]);
    assert_eq!((files.reader().total(1, 1).unwrap().0, files.reader().failed(1, 1, None, 9).unwrap().len()), (0, 0));
    assert!(matches!(files.take(id(1, 0, 0), 1, Order::Number), Err(StoreError::NoSuchPage(_))), "also not in memory");
    assert_eq!(world.store().pages().unwrap().digest_rows(&[id(1, 1, 240)]).unwrap(), [0]);
    assert_eq!((files.reader().total(2, 1).unwrap().0, files.reader().failed(2, 1, None, 9).unwrap().len()), (250, 1));
    files.put(&[new_page(1, 0, &[0], 9)]).unwrap();
    assert_eq!(files.reader().total(1, 0).unwrap().1.open, 9, "its number may be used again");
}

pub(crate) fn the_cache_keeps_its_bound(world: &mut World) {
    let mut files = world.files();
    let long = |number: u32| NewFile { name: vec![number as u8; 2_000], size_bytes: 1 };
    let page = |page| NewPage { transfer: 1, page, legs: vec![0], files: (0..5_000).map(long).collect() };
    for number in 0..8 {
        files.put(&[page(number)]).unwrap();
        assert!(files.reader().cached_bytes() <= CACHE_BYTES, "{}", files.reader().cached_bytes());
    }
    assert!(files.reader().cached_bytes() > CACHE_BYTES / 4);
    for number in 0..8 {
        assert_eq!(files.take(id(1, 0, number), 1, Order::Number).unwrap()[0].name.len(), 2_000);
        assert!(files.reader().cached_bytes() <= CACHE_BYTES);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize, Order),
    Settle(Vec<(u32, bool)>),
    GiveBack(Vec<u32>),
    Retry(Vec<u32>),
    Reset,
    Flush,
    Forget,
    Restart,
}

const MODEL_FILES: u32 = 9;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let numbers = || prop::collection::vec(0..MODEL_FILES, 0..4);
    let order = prop_oneof![Just(Order::Number), Just(Order::Largest), Just(Order::Smallest)];
    let step = prop_oneof![
        (0usize..4, order).prop_map(|(most, order)| Step::Take(most, order)),
        prop::collection::vec((0..MODEL_FILES, any::<bool>()), 0..4).prop_map(Step::Settle),
        numbers().prop_map(Step::GiveBack),
        numbers().prop_map(Step::Retry),
        Just(Step::Reset),
        Just(Step::Flush),
        Just(Step::Forget),
        Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..25)
}

pub(crate) fn any_course_of_events_agrees_with_a_model(world: &mut World) {
    let transfer = std::cell::Cell::new(0);
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let world = std::cell::RefCell::new(world);
    let outcome = TestRunner::new(config).run(&steps(), |steps| {
        transfer.set(transfer.get() + 1);
        agrees(&mut world.borrow_mut(), transfer.get(), steps);
        Ok(())
    });
    outcome.unwrap();
}

fn agrees(world: &mut World, transfer: u64, steps: Vec<Step>) {
    let page = new_page(transfer, 0, &[0], MODEL_FILES);
    let mut files = world.files();
    files.put(std::slice::from_ref(&page)).unwrap();
    let mut model = vec![State::Open; MODEL_FILES as usize];
    // What a restart finds: that files were given, or given back, is written with what comes after it.
    let mut written = model.clone();
    let id = id(transfer, 0, 0);
    let change = |model: &mut Vec<State>, numbers: &[u32], from: State, to: State| {
        let mut changed = 0;
        for number in numbers {
            if model[*number as usize] == from {
                model[*number as usize] = to;
                changed += 1;
            }
        }
        changed
    };
    for step in steps {
        match step {
            Step::Take(most, order) => {
                let open = model.iter().filter(|state| **state == State::Open).count();
                let taken: Vec<u32> = files.take(id, most, order).unwrap().iter().map(|given| given.number).collect();
                assert_eq!(taken.len(), most.min(open));
                assert_eq!(change(&mut model, &taken, State::Open, State::Given), taken.len() as u64);
            }
            Step::Settle(outcomes) => {
                let mut batch = Vec::new();
                for (number, is_done) in outcomes {
                    batch.extend(if is_done { done([number]) } else { failed([number], "why") });
                    let state = &mut model[number as usize];
                    *state = if is_done || *state == State::Done { State::Done } else { State::Failed };
                }
                files.settle(&[Settlement { page: id, outcomes: batch }]).unwrap();
                written.clone_from(&model);
            }
            Step::GiveBack(numbers) => {
                let expected = change(&mut model, &numbers, State::Given, State::Open);
                assert_eq!(files.give_back(id, &numbers).unwrap(), expected);
            }
            Step::Retry(numbers) => {
                let expected = change(&mut model, &numbers, State::Failed, State::Open);
                assert_eq!(files.retry(id, &numbers).unwrap(), expected);
                if expected > 0 {
                    written.clone_from(&model);
                }
            }
            Step::Reset => {
                let all: Vec<u32> = (0..MODEL_FILES).collect();
                let expected = change(&mut model, &all, State::Given, State::Open);
                assert_eq!(files.reset_given(&BTreeMap::new()).unwrap(), expected);
                written.clone_from(&model);
            }
            Step::Flush => {
                files.flush().unwrap();
                written.clone_from(&model);
            }
            Step::Forget => {
                files.forget_unwritten();
                model.clone_from(&written);
            }
            Step::Restart => {
                files = world.files();
                model.clone_from(&written);
            }
        }
        let listed = files.reader().files(id, 0, MODEL_FILES).unwrap();
        assert_eq!(listed.iter().map(|file| file.state).collect::<Vec<_>>(), model);
        let of = |wanted: State| model.iter().filter(|state| **state == wanted).count() as u64;
        if model == written {
            let counts = files.reader().total(transfer, 0).unwrap().1;
            assert_eq!((counts.open, counts.given), (of(State::Open), of(State::Given)));
            assert_eq!((counts.done, counts.failed), (of(State::Done), of(State::Failed)));
            let bytes = listed.iter().filter(|file| file.state == State::Done).map(|file| file.size_bytes).sum::<u64>();
            assert_eq!(counts.bytes_done, bytes);
        }
        assert_eq!(files.reader().failed(transfer, 0, None, 100).unwrap().len() as u64, of(State::Failed));
    }
    files.reset_given(&BTreeMap::new()).unwrap();
}
