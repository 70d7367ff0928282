//! Transfers: submitted, listed, steered.

use api::rest::{FileState, FilesQuery, PatchRequest, TransferQuery, TransferState};

use super::*;
use crate::app::Steer;

#[tokio::test]
async fn a_transfer_is_submitted_shown_and_there_after_a_restart() {
    let world = World::set_up().await;
    let id = world.submit(request()).await.expect("it is taken");
    let shown = world.face.transfer(&world.me, id).await.expect("it is there");
    assert_eq!((shown.class.as_str(), shown.submitted_by.as_str(), shown.name.as_str()), ("cms", "me", ""));
    assert_eq!(shown.sources[0].to_string(), "a:/data/run7", "as agents see it");
    assert_eq!(shown.legs[0].destination.to_string(), "b:/data/in");
    assert_eq!(shown.state, TransferState::Listing);
    assert!(shown.reason.contains("no agent is connected"), "{}", shown.reason);
    assert_eq!(shown.waits_for.as_deref(), Some("a"));
    let world = world.again().await;
    let after = world.face.transfer(&world.me, id).await.expect("it was durable");
    assert_eq!(after, shown);
    assert_eq!(kind(world.face.transfer(&world.me, TransferId(id.0 + 1)).await), Kind::NotFound);
}

#[tokio::test]
async fn lists_go_page_by_page_the_newest_first() {
    let world = World::set_up().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let class = if n % 2 == 0 { "cms" } else { "atlas" };
        ids.push(world.submit(TransferRequest { class: class.to_owned(), ..request() }).await.expect("it is taken"));
    }
    world.face.steer(&world.me, ids[2], Steer::Pause, String::new()).await.expect("it pauses");
    let ask = async |state, class: Option<&str>, limit| {
        let (mut found, mut cursor) = (Vec::new(), None);
        // More than there can be pages.
        for _ in 0..10 {
            let query = TransferQuery { state, class: class.map(str::to_owned), limit: Some(limit), cursor };
            let page = world.face.transfers(&world.me, query).await.expect("a page");
            assert!(page.items.len() <= limit);
            found.extend(page.items.iter().map(|of| of.id));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        found
    };
    let newest: Vec<TransferId> = ids.iter().rev().copied().collect();
    assert_eq!(ask(None, None, 2).await, newest);
    assert_eq!(ask(None, None, 5).await, newest);
    assert_eq!(ask(None, Some("atlas"), 1).await, [ids[3], ids[1]]);
    assert_eq!(ask(Some(TransferState::Paused), None, 2).await, [ids[2]]);
    assert_eq!(ask(Some(TransferState::Done), None, 2).await, []);
    let bad = TransferQuery { cursor: Some("x".to_owned()), ..TransferQuery::default() };
    assert_eq!(kind(world.face.transfers(&world.me, bad).await), Kind::Invalid);
}

#[tokio::test]
async fn steering_twice_is_steering_once() {
    let world = World::set_up().await;
    let id = world.submit(request()).await.expect("it is taken");
    let steer = async |how| world.face.steer(&world.me, id, how, "new disks".to_owned()).await;
    for _ in 0..2 {
        let paused = steer(Steer::Pause).await.expect("it pauses");
        assert_eq!(paused.state, TransferState::Paused);
        assert!(paused.reason.contains("by `me`") && paused.reason.contains("new disks"), "{}", paused.reason);
    }
    for _ in 0..2 {
        assert_eq!(steer(Steer::Resume).await.expect("it goes on").state, TransferState::Listing);
    }
    for _ in 0..2 {
        let cancelled = steer(Steer::Cancel).await.expect("it ends");
        assert_eq!((cancelled.state, cancelled.legs[0].state), (TransferState::Cancelled, TransferState::Cancelled));
        assert!(cancelled.ended_at.is_some());
    }
    assert_eq!(kind(steer(Steer::Resume).await), Kind::Conflict);
    assert_eq!(kind(world.face.steer(&world.me, TransferId(99), Steer::Pause, String::new()).await), Kind::NotFound);
}

#[tokio::test]
async fn class_and_urgency_change_together_or_not_at_all() {
    let world = World::set_up().await;
    let id = world.submit(request()).await.expect("it is taken");
    let patch = async |class: &str, urgency| {
        let request = PatchRequest { class: Some(class.to_owned()), urgency: Some(urgency) };
        world.face.patch(&world.me, id, request).await
    };
    let changed = patch("atlas", 9).await.expect("it changes");
    assert_eq!((changed.class.as_str(), changed.urgency), ("atlas", 9));
    assert_eq!(kind(patch("cms", 10).await), Kind::Invalid);
    assert_eq!(kind(patch("alice", 1).await), Kind::NotFound);
    let shown = world.face.transfer(&world.me, id).await.expect("it is there");
    assert_eq!((shown.class.as_str(), shown.urgency), ("atlas", 9));
    assert_eq!(api::rest::URGENCY_MAX, ledger::limits::URGENCY_MAX, "one scale");
}

#[tokio::test]
async fn the_same_request_with_the_same_key_is_done_once() {
    let world = World::set_up().await;
    let first = world.submit_with(request(), Some("k1")).await.expect("it is taken");
    assert_eq!(world.submit_with(request(), Some("k1")).await, Ok(first));
    let other = TransferRequest { urgency: 3, ..request() };
    assert_eq!(kind(world.submit_with(other, Some("k1")).await), Kind::KeyReused);
    assert_ne!(world.submit_with(request(), Some("k2")).await, Ok(first));
    let world = world.again().await;
    assert_eq!(world.submit_with(request(), Some("k1")).await, Ok(first), "after a restart too");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let world = World::set_up().await;
    let asks: [(Kind, TransferRequest); 5] = [
        (Kind::NotFound, TransferRequest { class: "alice".to_owned(), ..request() }),
        (Kind::NotFound, TransferRequest { sources: vec![place("c:/data/x/")], ..request() }),
        (Kind::Invalid, TransferRequest { sources: vec![place("a:/other/x/")], ..request() }),
        (Kind::Invalid, TransferRequest { deadline: Some(api::rest::Time::from_unix_ms(1)), ..request() }),
        (Kind::NotFound, TransferRequest { after: vec![TransferId(77)], ..request() }),
    ];
    for (expected, ask) in asks {
        assert_eq!(kind(world.submit(ask.clone()).await), expected, "{ask:?}");
    }
    let page = world.face.transfers(&world.me, TransferQuery::default()).await.expect("a page");
    assert!(page.items.is_empty());
    let empty = World::empty();
    assert_eq!(kind(empty.submit(request()).await), Kind::NotFound, "there are no endpoints");
}

#[tokio::test]
async fn a_list_is_in_the_file_ledger_before_it_is_acknowledged() {
    let world = World::set_up().await;
    let names: Vec<api::Name> = (0..25).map(|n| api::Name(format!("d/f{n:02}").into_bytes())).collect();
    let to = vec![place("b:/data/in/"), place("a:/data/copy")];
    let listed = TransferRequest { files: names.clone(), destination: None, destinations: to, ..request() };
    let id = world.submit(listed).await.expect("it is taken");
    let world = world.again().await;
    let shown = world.face.transfer(&world.me, id).await.expect("it is there");
    assert_eq!((shown.files_total, shown.files_done, shown.legs.len()), (50, 0, 2));
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..20 {
        let query = FilesQuery { state: Some(FileState::Open), limit: Some(10), cursor };
        let page = world.face.files(&world.me, id, query).await.expect("a page");
        found.extend(page.items.into_iter().map(|file| (file.leg, file.name)));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<(u32, api::Name)> =
        (1..=2).flat_map(|leg| names.iter().map(move |name| (leg, name.clone()))).collect();
    assert_eq!(found, expected);
    let failed = FilesQuery { state: Some(FileState::Failed), ..FilesQuery::default() };
    assert_eq!(world.face.files(&world.me, id, failed).await.expect("a page").items, []);
    let odd = FilesQuery { cursor: Some("0.0.99999999".to_owned()), limit: Some(3), ..FilesQuery::default() };
    let page = world.face.files(&world.me, id, odd).await.expect("a page");
    assert_eq!(page.items.iter().map(|file| file.leg).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(kind(world.face.files(&world.me, TransferId(99), FilesQuery::default()).await), Kind::NotFound);
}

#[tokio::test]
async fn an_agent_takes_no_more_streams_than_are_counted() {
    use api::agent::{Acknowledged, FromAgent, Prepared, ToAgent};
    let world = World::set_up().await;
    let (mut from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    let mut taken = 0;
    for (number, streams) in [Some(128), None, Some(3)].into_iter().enumerate() {
        let name = format!("f{number}").into_bytes();
        let request = TransferRequest { files: vec![api::Name(name)], streams, ..request() };
        world.submit(request).await.expect("it is taken");
        let session = loop {
            if let ToAgent::Prepare(prepare) = to.hears().await {
                break prepare.session;
            }
        };
        to.say(&FromAgent::Prepared(Prepared { session, token: "lh1_x".to_owned() })).await;
        let how = loop {
            // Others are given less first, and that is to be said.
            let (session, lease, how) = match from.hears().await {
                ToAgent::Run(run) => (run.session, run.lease, Some(run.how)),
                ToAgent::Lease(of) => (of.session, of.lease, None),
                _ => continue,
            };
            let (generation, rate_bps) = (lease.generation, lease.rates[0].rate_bps);
            from.say(&FromAgent::Acknowledged(Acknowledged { session, generation, accepted: true, rate_bps })).await;
            if let Some(how) = how {
                break how;
            }
        };
        let counted = world.on_core(move |core| core.state.sessions[&ledger::SessionId(session)].streams).await;
        let wished = streams.map_or(0, |streams| u32::from(streams).min(counted));
        assert_eq!((u32::from(how.streams), u32::from(how.streams_max)), (wished, counted));
        taken += counted;
    }
    assert!(taken <= inventory().streams_max, "{taken} streams");
}
