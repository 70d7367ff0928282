//! What a replay says of plannings.

use std::time::Duration;

use super::explain::moving;
use super::*;
use crate::store::PLANNINGS_MAX;

#[tokio::test]
async fn plannings_are_made_again_and_what_differs_is_told() {
    let world = World::set_up().await;
    let (_, _a, _b) = moving(&world).await;
    world.on_core(|_| ()).await;
    // The turn that keeps it has ended when the next one answers.
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.on_core(|_| ()).await;
    let World { stop, runs, directory, .. } = world;
    stop.send(true).expect("it runs");
    runs.await.expect("it ends in good order");
    let place = Place::Directory(directory.path().join("store"));
    let replay = || crate::replay::replay(&place, true).expect("it can be replayed");
    let replayed = replay();
    assert_eq!((replayed.plannings, &replayed.plannings_differ[..]), (1, &[][..]));
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let store = crate::store::open(&place).expect("a store");
        let mut rows = store.samples().expect("an archive");
        let (after, bytes) = rows.plannings().expect("a list").swap_remove(0);
        let mut planning = serde_json::from_slice(&bytes).expect("JSON");
        change(&mut planning);
        let bytes = serde_json::to_vec(&planning).expect("JSON");
        rows.put_planning(after, &bytes, PLANNINGS_MAX).expect("it is kept");
        (after, rows)
    };
    // As if another rate had been given out; the one that is right is that of its class's mark.
    change(&|planning| planning["rates"][0] = 5_000_000_000_u64.into());
    let differ = replay().plannings_differ;
    assert!(differ.len() == 1 && differ[0].contains("got 5000000000 b/s and would get 4000000000 b/s"), "{differ:?}");
    // As if there had been a limit that nobody logged.
    change(&|planning| {
        planning["rates"][0] = 4_000_000_000_u64.into();
        planning["limits"] = serde_json::json!([["Link", 1, 1_000_000_000]]);
    });
    let differ = replay().plannings_differ;
    assert!(differ.len() == 1 && differ[0].contains("would get 1000000000 b/s"), "{differ:?}");
    // One of before what was used of budgets was kept is read as before.
    change(&|planning| {
        planning["limits"] = serde_json::json!([]);
        planning.as_object_mut().expect("an object").remove("urgent").expect("it is kept");
    });
    assert_eq!(replay().plannings_differ, [""; 0]);
    // A limit on one way is read as such: on that of the session, and on the other.
    let mut told = ["Forward", "Backward"].map(|way| {
        change(&|planning| planning["limits"] = serde_json::json!([[way, 1, 1_000_000_000]]));
        replay().plannings_differ
    });
    told.sort_by_key(Vec::len);
    assert!(told[0].is_empty() && told[1][0].contains("would get 1000000000 b/s"), "{told:?}");
    for on in ["Link", "Forward"] {
        change(&|planning| planning["limits"] = serde_json::json!([[on, 99, 1]]));
        assert!(replay().plannings_differ[0].contains("another network"));
    }
    let (after, mut rows) = change(&|planning| planning["limits"] = serde_json::json!([]));
    rows.put_planning(after + 1_000, b"{", PLANNINGS_MAX).expect("it is kept");
    drop(rows);
    let replayed = replay();
    assert_eq!(replayed.plannings, 1);
    assert!(replayed.plannings_differ[0].contains("which the log has not"), "{:?}", replayed.plannings_differ);
}

#[tokio::test]
async fn a_log_without_its_first_events_gives_the_same_state() {
    let world = World::set_up().await;
    let (_, _a, _b) = moving(&world).await;
    let World { stop, runs, directory, .. } = world;
    stop.send(true).expect("it runs");
    runs.await.expect("it ends in good order");
    let place = Place::Directory(directory.path().join("store"));
    let replay = || crate::replay::replay(&place, true).expect("it can be replayed");
    let whole = replay();
    // An event more, and a second snapshot after it.
    let state = {
        let store = crate::store::open(&place).expect("a store");
        let mut log = crate::store::Log::open(&*store, crate::store::Keep::SinceSnapshot).expect("a log");
        let newest = log.reader().newest().expect("it can be read").snapshot.expect("one was made at the end");
        let mut state = ledger::State::decode(&newest.bytes).expect("it is one");
        assert_eq!((newest.number, log.reader().first().expect("it can be read")), (whole.events, 1));
        let at = ledger::Moment(u64::MAX / 2);
        let (_, events) = ledger::wish::reserve_generations(&state);
        let [event] = &events[..] else { panic!("{events:?}") };
        state.apply(at, event).expect("it fits");
        let number = log.append(&[(at.0, ledger::encode(event))]).expect("it is taken");
        log.snapshot(number, state.encode()).expect("it is kept");
        assert!(log.reader().first().expect("it can be read") > 1, "what both snapshots contain is gone");
        state
    };
    let replayed = replay();
    assert_eq!(replayed.digest, *blake3::hash(&state.encode()).as_bytes());
    assert_eq!((replayed.events, replayed.snapshots, replayed.differ), (whole.events + 1, 1, Vec::new()));
}
