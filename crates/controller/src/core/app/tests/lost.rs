//! What is lost on its way: connections, listings in the middle, turns that the log refuses.

use api::agent::{Entry, Listed, Prepare, Prepared};

use super::undone::full;
use super::*;

fn entries(names: &[&str]) -> Vec<Entry> {
    let entry =
        |name: &&str| Entry { name: api::Name(name.as_bytes().to_vec()), size_bytes: 1, kind: api::agent::Kind::File };
    names.iter().map(entry).collect()
}

async fn asked_to_prepare(agent: &mut Agent) -> Prepare {
    match agent.hears().await {
        ToAgent::Prepare(prepare) => prepare,
        other => panic!("{other:?}"),
    }
}

/// Some files from one end to the other.
fn some_files() -> TransferRequest {
    TransferRequest { files: vec![api::Name(b"f".to_vec())], ..request() }
}

#[tokio::test]
async fn a_listing_goes_on_where_it_was_cut_off() {
    let world = World::set_up().await;
    let mut agent = world.agent("a1", 1).await;
    let id = world.submit(request()).await.expect("it is taken");
    let ToAgent::List(list) = agent.hears().await else { panic!("it is to list") };
    assert_eq!(list.after, None);
    let page = |request, page, names: &[&str], last| {
        FromAgent::Listed(Listed { request, page, entries: entries(names), directory: true, last })
    };
    agent.say(&page(list.request, 0, &["a", "b"], false)).await;
    assert!(matches!(agent.hears().await, ToAgent::Taken { page: 0, .. }));
    // The agent goes, then the controller does.
    drop(agent);
    let mut agent = world.connect("a1", 1, None, 2).await;
    let ToAgent::List(list) = agent.hears().await else { panic!("it is to list") };
    let after = list.after.expect("it goes on");
    assert_eq!((after.name.0.as_slice(), after.page), (&b"b"[..], 1));
    agent.say(&page(list.request, 1, &["c"], false)).await;
    assert!(matches!(agent.hears().await, ToAgent::Taken { page: 1, .. }));
    drop(agent);
    let world = world.again().await;
    let mut agent = world.connect("a1", 1, None, 2).await;
    let ToAgent::List(list) = agent.hears().await else { panic!("it is to list") };
    let after = list.after.expect("it goes on");
    assert_eq!((after.name.0.as_slice(), after.page), (&b"c"[..], 2));
    agent.say(&page(list.request, 2, &["d"], true)).await;
    assert!(matches!(agent.hears().await, ToAgent::Taken { .. }));
    let shown = world.face.transfer(&world.me, id).await.expect("it is there");
    assert_eq!((shown.files_total, shown.bytes_total), (4, 4));
}

#[tokio::test]
async fn an_agent_that_comes_back_is_asked_for_its_tokens_again() {
    let world = World::set_up().await;
    let (_from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    world.submit(some_files()).await.expect("it is taken");
    let first = asked_to_prepare(&mut to).await;
    drop(to);
    // The answer was lost with the connection.
    let mut to = world.connect("b1", 2, None, 1).await;
    let again = asked_to_prepare(&mut to).await;
    assert_eq!(again, first);
    // One that begins anew knows no token of before.
    let prepared = Prepared { session: again.session, token: "lh1_x".to_owned() };
    to.say(&FromAgent::Prepared(prepared)).await;
    drop(to);
    let mut to = world.connect("b1", 2, None, 7).await;
    let told = to.hears().await;
    let is_again = matches!(&told, ToAgent::Prepare(prepare) if prepare.session == first.session);
    // Or the session has begun meanwhile, and its driver finds out.
    assert!(is_again || world.on_core(|core| core.live.len()).await == 1, "{told:?}");
}

#[tokio::test]
async fn a_token_that_was_forgotten_is_no_refusal_for_good() {
    let world = World::set_up().await;
    let (mut from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    let id = world.submit(some_files()).await.expect("it is taken");
    let session = asked_to_prepare(&mut to).await.session;
    to.say(&FromAgent::Prepared(Prepared { session, token: "lh1_x".to_owned() })).await;
    assert!(matches!(from.hears().await, ToAgent::Run(run) if run.session == session));
    drop(to);
    let _to = world.connect("b1", 2, None, 7).await;
    let ended = api::agent::Ended {
        session,
        cause: Some(api::agent::Cause::Refused),
        text: "no such token".to_owned(),
        bytes_done: 0,
        bytes_sent: 0,
        files_done: 0,
        retransmits: 0,
        ran_ms: 1,
    };
    from.say(&FromAgent::Ended(ended)).await;
    // It is heard before this: a controller takes what comes of one agent in order.
    from.say(&FromAgent::Mode(api::agent::ModeSet { mode: api::agent::Mode::Draining, reason: String::new() })).await;
    loop {
        let agents = world.face.agents(&world.me).await.expect("they are shown");
        if agents.iter().any(|agent| agent.host == "a1" && agent.mode == api::agent::Mode::Draining) {
            break;
        }
        tokio::task::yield_now().await;
    }
    let shown = world.face.transfer(&world.me, id).await.expect("it is there");
    assert!(!shown.state.is_end() && shown.files_failed == 0, "{shown:?}");
    assert!(!shown.reason.contains("not tried again"), "{}", shown.reason);
}

#[tokio::test]
async fn a_restored_controller_gives_no_number_again() {
    let world = World::set_up().await;
    let (_from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    let (backup, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (backup, place) = (backup.path().join("b"), Place::Directory(other.path().join("store")));
    crate::store::backup(&Place::Directory(world.directory.path().join("store")), &backup).expect("it is copied");
    // What comes after the backup is lost, but its agents know it.
    world.submit(some_files()).await.expect("it is taken");
    let session = asked_to_prepare(&mut to).await.session;
    let generation = world.on_core(|core| core.state.generations_below).await;
    crate::restore(&backup, &place).expect("it is brought back");
    let again = World::at(other);
    let next = again.on_core(|core| (core.state.next_session.0, core.generations.0)).await;
    assert!(next.0 > session && next.1 >= generation, "{next:?}, and {session}, {generation} were given");
}

/// What a session may be sending, and whether it is there: what only the core knows.
async fn holds(world: &World, session: u64) -> Option<u64> {
    let look = move |core: &mut Core| {
        let is_there = core.state.sessions.contains_key(&ledger::SessionId(session));
        is_there.then(|| core.planned.leases.held_bps(session, core.clock.steady_ms()))
    };
    world.on_core(look).await
}

#[tokio::test]
async fn what_a_lost_driver_holds_is_free_when_the_other_end_says_so() {
    let world = World::set_up().await;
    let (mut from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    world.submit(some_files()).await.expect("it is taken");
    let session = asked_to_prepare(&mut to).await.session;
    to.say(&FromAgent::Prepared(Prepared { session, token: "lh1_x".to_owned() })).await;
    assert!(matches!(from.hears().await, ToAgent::Run(run) if run.session == session));
    drop((from, to));
    // Both are away, for longer than a lease lasts.
    while !world.on_core(|core| core.connected.is_empty()).await {
        tokio::task::yield_now().await;
    }
    world
        .on_core(move |core| {
            core.state.agents.get_mut("a1").expect("it is known").away = Some(ledger::Moment(1));
            core.state.sessions.get_mut(&ledger::SessionId(session)).expect("it is there").at = ledger::Moment(1);
        })
        .await;
    let was_asked = move |core: &mut Core| {
        let seen = core.seen.sessions.get(&ledger::SessionId(session));
        seen.is_some_and(|seen| seen.stopping.is_some())
    };
    while !world.on_core(was_asked).await {
        tokio::task::yield_now().await;
    }
    assert!(holds(&world, session).await > Some(0), "it may run still");
    let mut to = world.connect("b1", 2, None, 1).await;
    assert!(matches!(to.hears().await, ToAgent::Stop { session: other } if other == session));
    assert!(holds(&world, session).await > Some(0), "it has not ended");
    let text = "nothing of it runs".to_owned();
    let over = api::agent::Failed { request: None, session: Some(session), cause: api::agent::Cause::Stopped, text };
    to.say(&FromAgent::Failed(over)).await;
    while holds(&world, session).await.is_some() {
        tokio::task::yield_now().await;
    }
    // A driver that comes then does not go on.
    let held = api::agent::Held { session, generation: 1, rate_bps: 1_000 };
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let fingerprint = Some(Fingerprint([1; 32]));
    tokio::spawn(crate::hub::serve(
        theirs,
        fingerprint,
        "127.0.0.1:1".parse().expect("an address"),
        world.heard.clone(),
    ));
    let mut from = Agent { stream: ours, decoder: api::frame::Decoder::default() };
    let hello = Hello {
        protocol: PROTOCOL,
        version: "1.2.3".to_owned(),
        enrol: None,
        process: 1,
        sessions: vec![held],
        inventory: inventory(),
        mode: api::agent::Mode::Active,
    };
    from.say(&FromAgent::Hello(hello)).await;
    assert!(matches!(from.hears().await, ToAgent::Welcome(welcome) if welcome.keep.is_empty()));
}

#[tokio::test]
async fn a_lost_driver_that_is_back_tells_itself_how_it_ended() {
    let world = World::set_up().await;
    let (mut from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    world.submit(some_files()).await.expect("it is taken");
    let session = asked_to_prepare(&mut to).await.session;
    to.say(&FromAgent::Prepared(Prepared { session, token: "lh1_x".to_owned() })).await;
    let ToAgent::Run(run) = from.hears().await else { panic!("it is to run") };
    let held = api::agent::Held { session, generation: run.lease.generation, rate_bps: 1_000 };
    drop(from);
    while world.on_core(|core| core.connected.len() > 1).await {
        tokio::task::yield_now().await;
    }
    world
        .on_core(move |core| {
            core.state.agents.get_mut("a1").expect("it is known").away = Some(ledger::Moment(1));
            core.state.sessions.get_mut(&ledger::SessionId(session)).expect("it is there").at = ledger::Moment(1);
        })
        .await;
    // The other end is asked at once to end it; before it has the driver is back.
    while !matches!(to.hears().await, ToAgent::Stop { session: other } if other == session) {}
    let mut from = world.connect_with("a1", 1, None, 1, vec![held]).await;
    let text = "nothing of it runs".to_owned();
    let over = api::agent::Failed { request: None, session: Some(session), cause: api::agent::Cause::Stopped, text };
    to.say(&FromAgent::Failed(over)).await;
    to.say(&FromAgent::Mode(api::agent::ModeSet { mode: api::agent::Mode::Draining, reason: String::new() })).await;
    let drains = |core: &mut Core| core.state.agents["b1"].mode() == ledger::Mode::Draining;
    while !world.on_core(drains).await {
        tokio::task::yield_now().await;
    }
    assert!(holds(&world, session).await.is_some(), "its driver has not said so");
    // That its token is refused is no refusal for good.
    let file = api::agent::FileDone { number: 0, size_bytes: None, cause: None, text: String::new(), digest: None };
    from.say(&FromAgent::Files(api::agent::Files { session, files: vec![file] })).await;
    let ended = api::agent::Ended {
        session,
        cause: Some(api::agent::Cause::Refused),
        text: "no such token".to_owned(),
        bytes_done: 0,
        bytes_sent: 0,
        files_done: 1,
        retransmits: 0,
        ran_ms: 1,
    };
    from.say(&FromAgent::Ended(ended)).await;
    while holds(&world, session).await.is_some() {
        tokio::task::yield_now().await;
    }
    let done = |core: &mut Core| core.state.transfers.values().map(|of| of.legs[0].done).sum::<u64>();
    assert_eq!(world.on_core(done).await, 1, "what it has finished counts");
}

#[tokio::test]
async fn who_was_to_hear_of_a_refused_turn_comes_again() {
    use tokio::io::AsyncReadExt;
    let world = World::set_up().await;
    let (mut one, mut other) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    world
        .on_core(|core| {
            core.tell("a1", ToAgent::Stop { session: 9 });
            core.refused(&full());
        })
        .await;
    // The first is hung up on, and heard again; the second had nothing to lose.
    let mut bytes = [0; 64];
    while one.stream.read(&mut bytes).await.expect("it ends in good order") > 0 {}
    let known = |core: &mut Core| core.connected.keys().cloned().collect::<Vec<_>>();
    assert_eq!(world.on_core(known).await, ["b1"]);
    assert_eq!(world.on_core(|core| core.seen.agents.len()).await, 1, "nothing is given to who is not there");
    let _one = world.connect("a1", 1, None, 1).await;
    assert_eq!(world.on_core(known).await, ["a1", "b1"]);
    world.on_core(|core| core.tell("b1", ToAgent::Stop { session: 10 })).await;
    assert!(matches!(other.hears().await, ToAgent::Stop { session: 10 }));
}

#[tokio::test]
async fn numbers_of_leases_go_on_after_a_refused_turn() {
    let world = World::set_up().await;
    let (_from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    world.submit(some_files()).await.expect("it is taken");
    asked_to_prepare(&mut to).await;
    let (generations, below) = world
        .on_core(|core| {
            assert!(!core.live.is_empty());
            // As after a turn that reserved some, used a few, and was refused.
            let below = core.state.generations_below;
            core.generations = (below + 10, below + (1 << 20));
            core.refused(&full());
            core.lease(true);
            (core.generations, core.state.generations_below)
        })
        .await;
    assert!(generations.0 < generations.1 && generations.1 <= below, "{generations:?} {below}");
}

#[tokio::test]
async fn what_the_file_ledger_knows_and_the_log_refused_is_counted_once() {
    let world = World::set_up().await;
    let (mut from, mut to) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    let names = ["f", "g", "h"].map(|name| api::Name(name.as_bytes().to_vec()));
    let id = world.submit(TransferRequest { files: names.into(), ..request() }).await.expect("it is taken");
    let session = asked_to_prepare(&mut to).await.session;
    to.say(&FromAgent::Prepared(Prepared { session, token: "lh1_x".to_owned() })).await;
    let lease = match from.hears().await {
        ToAgent::Run(run) => run.lease,
        other => panic!("{other:?}"),
    };
    let file =
        |number| api::agent::FileDone { number, size_bytes: None, cause: None, text: String::new(), digest: None };
    let told = vec![file(0), file(1)];
    // The file ledger takes them, and the log does not.
    let refused = told.clone();
    world
        .on_core(move |core| {
            core.hear_from("a1", FromAgent::Files(api::agent::Files { session, files: refused }));
            core.settle_told();
            core.refused(&full());
        })
        .await;
    // The agent comes back, and says all of it again, and that it is over, before anything else was done.
    drop(from);
    let held = api::agent::Held { session, generation: lease.generation, rate_bps: 0 };
    let mut from = world.connect_with("a1", 1, None, 1, vec![held]).await;
    let all = vec![file(0), file(1), file(2)];
    from.say(&FromAgent::Files(api::agent::Files { session, files: all })).await;
    let ended = api::agent::Ended {
        session,
        cause: None,
        text: String::new(),
        bytes_done: 3,
        bytes_sent: 3,
        files_done: 3,
        retransmits: 0,
        ran_ms: 1,
    };
    from.say(&FromAgent::Ended(ended)).await;
    let done = async {
        loop {
            let shown = world.face.transfer(&world.me, id).await.expect("it is there");
            if shown.state == api::rest::TransferState::Done {
                return shown;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(std::time::Duration::from_secs(20), done).await.expect("it comes to its end");
    assert_eq!((shown.files_done, shown.files_failed), (3, 0));
}
