//! Explanations, and what is announced.

use std::time::Duration;

use api::agent::{Prepared, Progress};
use api::rest::{About, Time, TransferState};

use super::*;

impl World {
    async fn why(&self, about: About, id: &str) -> api::rest::Explanation {
        self.face.explain(&self.me, about, id).await.expect("an explanation")
    }
}

/// A transfer of a list that moves: both agents are played.
pub(super) async fn moving(world: &World) -> (TransferId, Agent, Agent) {
    let (mut a, mut b) = (world.agent("a1", 1).await, world.agent("b1", 2).await);
    let files = vec![api::Name(b"one".to_vec()), api::Name(b"two".to_vec())];
    let id = world.submit(TransferRequest { files, ..request() }).await.expect("it is taken");
    let ToAgent::Prepare(prepare) = b.hears().await else { panic!("it is to listen") };
    b.say(&FromAgent::Prepared(Prepared { session: prepare.session, token: "t".to_owned() })).await;
    let ToAgent::Run(run) = a.hears().await else { panic!("it is to drive") };
    assert_eq!((run.names.len(), run.lease.rates[0].rate_bps), (2, 4_000_000_000), "up to its class's mark");
    let progress = Progress {
        session: run.session,
        set_bps: 4_000_000_000,
        rate_bps: 1_000_000_000,
        limit: "source disk".to_owned(),
        rtt_us: 151_000,
        retransmits: 7,
        ..Progress::default()
    };
    a.say(&FromAgent::Progress(progress)).await;
    (id, a, b)
}

#[tokio::test]
async fn a_moving_transfer_is_held_back_by_its_mark() {
    let world = World::set_up().await;
    let (id, _a, _b) = moving(&world).await;
    for _ in 0..50 {
        if world.face.transfer(&world.me, id).await.expect("it is there").rate_bps > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let shown = world.face.transfer(&world.me, id).await.expect("it is there");
    assert_eq!(
        (shown.state, shown.allocated_bps, shown.rate_bps),
        (TransferState::Moving, 4_000_000_000, 1_000_000_000)
    );
    assert!(shown.reason.contains("source disk"), "{}", shown.reason);
    assert_eq!(shown.legs[0].sessions[0].path, ["ea:forward", "ocean:forward", "eb:forward"]);
    let session = &shown.legs[0].sessions[0];
    assert_eq!((session.rtt_us, session.cwnd_bytes, session.retransmits), (Some(151_000), None, 7));
    assert!(shown.started_at.is_some());
    for (about, subject) in [(About::Transfer, id.to_string()), (About::Leg, format!("{id}.1"))] {
        let why = world.why(about, &subject).await;
        let resource = why.resource.as_ref().expect("something holds it back");
        assert_eq!((resource.kind.as_str(), resource.capacity_bps), ("mark", Some(4_000_000_000)), "{}", why.text);
        assert_eq!(why.rate_bps, Some(4_000_000_000));
        assert_eq!((why.holders[0].holder.clone(), why.holders[0].rate_bps), (id.to_string(), 4_000_000_000));
        assert!(why.remedies.iter().any(|remedy| remedy.rate_bps.is_some_and(|rate| rate > 4_000_000_000)), "{why:?}");
    }
    let link = world.why(About::Link, "ocean:forward").await;
    assert_eq!((link.holders[0].holder.clone(), link.rate_bps), (id.to_string(), Some(4_000_000_000)));
    let class = world.why(About::Class, "cms").await;
    assert!(class.text.contains("held back by mark sea"), "{}", class.text);
    let raise = &class.remedies[0].text;
    assert!(raise.starts_with("raise mark sea on ") && raise.contains(" of t0 has 8 Gb/s then"), "{raise}");
    let idle = world.why(About::Class, "atlas").await;
    assert!(idle.text.contains("nothing of it moves") && idle.remedies.len() == 1, "{idle:?}");
    // The link has room, but not for this class.
    assert_eq!(link.remedies[0].text, "raise mark sea on ocean:forward above 4 Gb/s: class `cms` has all of it");
    let links = world.face.links(&world.me).await.expect("links");
    let given: Vec<(&str, u64)> =
        links.iter().filter(|link| link.allocated_bps > 0).map(|link| (link.id.as_str(), link.measured_bps)).collect();
    let each = 1_000_000_000;
    assert_eq!(given, [("ea:forward", each), ("ocean:forward", each), ("eb:forward", each)]);
    let class = world.face.classes(&world.me).await.expect("classes").swap_remove(0);
    assert_eq!((class.allocated_bps, class.measured_bps, class.transfers), (4_000_000_000, 1_000_000_000, 1));
    let agent = world.face.agents(&world.me).await.expect("agents").swap_remove(0);
    assert_eq!((agent.sessions.len(), agent.rate_bps, agent.sessions[0].sends), (1, 1_000_000_000, true));
}

/// A booking of 5 Gb/s of the 8 Gb/s of the ocean, from long ago until so many seconds from now.
fn booking(seconds: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later");
    let end = units::Utc((i64::try_from(now.as_secs()).expect("it is not far") + seconds) * 1_000_000_000);
    format!(
        "[[booking]]\nname = \"reprocessing\"\nlinks = [\"ocean\"]\nrate = \"5 Gb/s\"\nstart = \"2026-03-01T00:00:00Z\"\nend = \"{end}\"\n"
    )
}

/// The rate of the next lease that an agent is told.
async fn leased(agent: &mut Agent) -> u64 {
    loop {
        if let ToAgent::Lease(told) = agent.hears().await {
            return told.lease.rates[0].rate_bps;
        }
    }
}

#[tokio::test]
async fn a_limit_on_one_way_holds_back_who_goes_that_way_and_is_named() {
    let world = World::set_up().await;
    let (id, mut a, _b) = moving(&world).await;
    let limit = |gbps: u64| api::rest::LimitRequest {
        rate_bps: gbps * 1_000_000_000,
        for_seconds: 60,
        why: "works".to_owned(),
    };
    world.face.set_limit(&world.me, "ocean:forward", limit(2)).await.expect("a limit");
    assert_eq!(leased(&mut a).await, 2_000_000_000);
    let blocking = async || {
        let why = world.why(About::Transfer, &id.to_string()).await;
        let resource = why.resource.clone().expect("something holds it back");
        (resource.name, resource.kind, why)
    };
    let (name, kind, why) = blocking().await;
    assert_eq!((name.as_str(), kind.as_str()), ("limit on ocean:forward", "limit"), "{}", why.text);
    let set = world.face.limit(&world.me, "ocean:forward").await.expect("it is there");
    assert_eq!(why.until, Some(set.until), "{}", why.text);
    let told = format!("; that is limited to 2 Gb/s by `me` until {}: works", set.until);
    assert!(why.text.contains(&told), "{}", why.text);
    let raise = "raise limit on ocean:forward to 4 Gb/s";
    assert!(why.remedies.iter().any(|remedy| remedy.text.starts_with(raise)), "{:?}", why.remedies);
    let most = async |way| world.face.link(&world.me, way).await.expect("a link").mark_bps;
    assert_eq!(most("ocean:forward").await, Some(2_000_000_000));
    assert_eq!(most("ocean:backward").await, Some(8_000_000_000));
    // A lower one on both ways counts in its place; lifted, that on the way is in force again.
    world.face.set_limit(&world.me, "ocean", limit(1)).await.expect("a limit");
    assert_eq!(leased(&mut a).await, 1_000_000_000);
    let (name, _, why) = blocking().await;
    assert_eq!(name, "limit on ocean (forward)", "{}", why.text);
    assert_eq!([most("ocean:forward").await, most("ocean:backward").await], [Some(1_000_000_000); 2]);
    world.face.lift_limit(&world.me, "ocean").await.expect("it is lifted");
    let begun = std::time::Instant::now();
    while [most("ocean:forward").await, most("ocean:backward").await] != [Some(2_000_000_000), Some(8_000_000_000)] {
        assert!(begun.elapsed() < Duration::from_secs(4), "it is not planned");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(blocking().await.0, "limit on ocean:forward");
}

#[tokio::test]
async fn a_limit_on_a_class_a_mark_or_a_host_is_told_with_who_set_it_and_until_when() {
    let world = World::set_up().await;
    let (id, mut a, _b) = moving(&world).await;
    for (on, gbps, kind) in [("class:cms", 3, "class"), ("mark:sea", 2, "mark"), ("host:a1", 1, "limit")] {
        let rate_bps = gbps * 1_000_000_000;
        let limit = api::rest::LimitRequest { rate_bps, for_seconds: 60, why: format!("works on {on}") };
        let set = world.face.set_limit(&world.me, on, limit).await.expect("a limit");
        assert_eq!(leased(&mut a).await, rate_bps);
        for (about, subject) in [(About::Transfer, id.to_string()), (About::Class, "cms".to_owned())] {
            let why = world.why(about, &subject).await;
            assert_eq!(why.resource.as_ref().map(|of| of.kind.as_str()), Some(kind), "{}", why.text);
            let told = format!("limited to {gbps} Gb/s by `me` until {}: works on {on}", set.until);
            assert!(why.until == Some(set.until) && why.text.contains(&told), "{}", why.text);
        }
    }
}

#[tokio::test]
async fn a_link_that_is_full_says_what_would_change_it() {
    let full = async |world: &World, what: &str| {
        let why = world.why(About::Link, "ocean:forward").await;
        let found = why.remedies.iter().any(|of| of.text.contains(what));
        assert!(found && why.text.contains("all that it may be filled to is given out"), "{what}: {why:?}");
        why
    };
    let world = World::set_up().await;
    let (id, mut a, _b) = moving(&world).await;
    let slow = NETWORK.replace("8 Gb/s", "3500 Mb/s");
    world.face.set_network(&world.me, slow).await.expect("a network");
    assert_eq!(leased(&mut a).await, 3_500_000_000);
    full(&world, "raise what there is of it for transfers above 3.5 Gb/s: the rate of `ocean`").await;
    let other = world.why(About::Link, "ea:forward").await;
    let ask = format!("ask what holds back who goes over it: `longhaul explain transfer {id}`");
    assert_eq!(other.remedies[0].text, ask);
    let mark = "[[mark]]\nname = \"all\"\nlinks = [\"ocean\"]\nrate = \"3200 Mb/s\"\n";
    world.face.set_shares(&world.me, format!("{SHARES}{mark}")).await.expect("shares");
    assert_eq!(leased(&mut a).await, 3_200_000_000);
    full(&world, "raise mark all above 3.2 Gb/s").await;
    let world = World::set_up().await;
    let (_, mut a, _b) = moving(&world).await;
    let booked = booking(3_600).replace("5 Gb/s", "6 Gb/s");
    world.face.set_bookings(&world.me, booked).await.expect("bookings");
    assert_eq!(leased(&mut a).await, 2_000_000_000);
    let why = full(&world, "have less of it booked, or wait until 20").await;
    assert!(why.until.is_some(), "{why:?}");
    let limit = api::rest::LimitRequest { rate_bps: 1_000_000_000, for_seconds: 60, why: "works".to_owned() };
    world.face.set_limit(&world.me, "ocean", limit).await.expect("a limit");
    assert_eq!(leased(&mut a).await, 1_000_000_000);
    full(&world, "lift the limit on `link:ocean`").await;
}

#[tokio::test]
async fn what_a_class_used_of_late_counts_where_the_file_says_so_and_is_told() {
    let world = World::set_up().await;
    let (_, mut a, _b) = moving(&world).await;
    world
        .on_core(|core| {
            let usage = ledger::Usage { recent_bytes: 1 << 50, as_of: core.now(), ..ledger::Usage::default() };
            core.state.usage.insert("cms".to_owned(), usage);
        })
        .await;
    for (half_life, factor) in [("", None), ("half_life = \"7d\"", Some("its weight counts 0.71 times"))] {
        let mbps = if factor.is_some() { 2_000 } else { 3_000 };
        let shares = SHARES.replace("4 Gb/s", &format!("{mbps} Mb/s"));
        world.face.set_shares(&world.me, format!("{half_life}\n{shares}")).await.expect("shares");
        assert_eq!(leased(&mut a).await, mbps * 1_000_000);
        let why = world.why(About::Class, "cms").await;
        assert_eq!(why.text.contains("weight counts"), factor.is_some(), "{}", why.text);
        assert!(factor.is_none_or(|factor| why.text.contains(factor)), "{}", why.text);
    }
}

#[tokio::test]
async fn what_others_have_booked_is_not_given_out() {
    let world = World::set_up().await;
    let (id, mut a, _b) = moving(&world).await;
    let set = world.face.set_bookings(&world.me, booking(3_600)).await.expect("bookings");
    assert_eq!(set.notes, Vec::<String>::new());
    assert_eq!(leased(&mut a).await, 3_000_000_000, "what the booking leaves of the ocean");
    let why = world.why(About::Transfer, &id.to_string()).await;
    assert!(why.text.contains("5 Gb/s are booked by `reprocessing` until 20"), "{}", why.text);
    let resource = why.resource.as_ref().expect("something holds it back");
    assert_eq!((resource.kind.as_str(), resource.capacity_bps), ("booked", Some(3_000_000_000)), "{}", why.text);
    assert!(why.holders.iter().any(|of| of.holder == "booking `reprocessing`" && of.rate_bps == 5_000_000_000));
    assert!(why.until.is_some() && why.remedies.iter().any(|remedy| remedy.text.contains("less booked")), "{why:?}");
    for way in ["ocean:forward", "ocean:backward"] {
        let link = world.face.link(&world.me, way).await.expect("a link");
        assert_eq!((link.booked_bps, link.mark_bps), (Some(5_000_000_000), Some(3_000_000_000)));
        let why = world.why(About::Link, way).await;
        assert!(why.text.contains("5 Gb/s are booked by `reprocessing`"), "{}", why.text);
    }
    // The end of a booking is an occasion to plan, without anybody asking.
    world.face.set_bookings(&world.me, booking(2)).await.expect("bookings");
    let begun = std::time::Instant::now();
    while leased(&mut a).await == 3_000_000_000 {}
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(world.face.link(&world.me, "ocean:forward").await.expect("a link").booked_bps, None);
    // What is not in the network is not booked, and a network keeps what is booked.
    let strange = booking(60).replace("ocean", "sea");
    assert_eq!(kind(world.face.set_bookings(&world.me, strange).await), Kind::Invalid);
    world.face.set_bookings(&world.me, booking(60)).await.expect("bookings");
    let other = NETWORK.replace("\"ocean\"", "\"strait\"");
    let shares = SHARES.split("[[mark]]").next().expect("classes").to_owned();
    world.face.set_shares(&world.me, shares).await.expect("shares");
    let refused = world.face.set_network(&world.me, other).await.expect_err("it has no ocean");
    assert!(refused.detail.contains("change the bookings first"), "{}", refused.detail);
    // They are in the log.
    let text = world.face.bookings(&world.me).await.expect("a text");
    let world = world.again().await;
    assert_eq!(world.face.bookings(&world.me).await.expect("a text"), text);
    // With the first planning, which is made beside the core.
    let begun = std::time::Instant::now();
    while world.face.link(&world.me, "ocean:forward").await.expect("a link").booked_bps != Some(5_000_000_000) {
        assert!(begun.elapsed() < Duration::from_secs(4), "it is not planned");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn what_nobody_has_told_of_for_a_while_is_not_told_as_if_it_were_so() {
    let world = World::set_up().await;
    let (id, _a, _b) = moving(&world).await;
    let reason = || async { world.face.transfer(&world.me, id).await.expect("it is there").reason };
    while !reason().await.contains("limited by source disk") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    let now = reason().await;
    assert!(now.contains("has said nothing of them for 3 s") && !now.contains("source disk"), "{now}");
    let why = world.why(About::Transfer, &id.to_string()).await;
    assert!(why.text.contains("its agent has said nothing for 3 s"), "{}", why.text);
}

#[tokio::test]
async fn what_stands_still_at_a_paused_host_says_whom_to_ask() {
    let world = World::set_up().await;
    let (id, _a, mut b) = moving(&world).await;
    let decided = api::agent::ModeSet { mode: api::agent::Mode::Paused, reason: "disks".to_owned() };
    b.say(&FromAgent::Mode(decided)).await;
    for _ in 0..50 {
        let why = world.why(About::Transfer, &id.to_string()).await;
        if why.resource.as_ref().is_some_and(|resource| resource.kind == "host") {
            assert_eq!(why.resource.expect("just seen").name, "b1");
            let remedies: Vec<&str> = why.remedies.iter().map(|remedy| remedy.text.as_str()).collect();
            assert_eq!(remedies, ["resume a host of the endpoint"], "the planner has nothing to add");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", world.why(About::Transfer, &id.to_string()).await);
}

#[tokio::test]
async fn a_waiting_transfer_says_for_what() {
    let world = World::set_up().await;
    let first = world.submit(request()).await.expect("it is taken");
    let second = world.submit(TransferRequest { after: vec![first], ..request() }).await.expect("it is taken");
    let why = world.why(About::Transfer, &first.to_string()).await;
    assert!(why.text.contains("no agent is connected"), "{}", why.text);
    let resource = why.resource.expect("an endpoint");
    assert_eq!((resource.kind.as_str(), resource.name.as_str()), ("endpoint", "a"));
    assert!(why.remedies[0].text.contains("start the agent"), "{:?}", why.remedies);
    let why = world.why(About::Leg, &format!("{second}.1")).await;
    assert!(why.text.starts_with("waiting: ") && why.text.contains(&first.to_string()), "{}", why.text);
    for (about, bad, expected) in [
        (About::Transfer, "t99", Kind::NotFound),
        (About::Transfer, "17", Kind::Invalid),
        (About::Leg, "t0", Kind::Invalid),
        (About::Leg, &format!("{first}.2"), Kind::NotFound),
        (About::Leg, &format!("{first}.0"), Kind::Invalid),
        (About::Link, "ocean", Kind::NotFound),
        (About::Class, "alice", Kind::NotFound),
        (About::Refusal, "1000000", Kind::NotFound),
        (About::Refusal, "x", Kind::Invalid),
    ] {
        assert_eq!(kind(world.face.explain(&world.me, about, bad).await), expected, "{about:?} {bad}");
    }
}

#[tokio::test]
async fn a_link_says_since_when_it_is_down_and_what_limits_it() {
    let world = World::set_up().await;
    world
        .on_core(|core| {
            let events =
                ledger::wish::link_down(&core.state, "ocean", "3 probes missing", 60_000).expect("it is a link");
            events.into_iter().try_for_each(|event| core.record(event)).expect("it fits");
        })
        .await;
    let limit = api::rest::LimitRequest { rate_bps: 5, for_seconds: 60, why: "repair".to_owned() };
    world.face.set_limit(&world.me, "ocean", limit).await.expect("a limit");
    let why = world.why(About::Link, "ocean:backward").await;
    for part in ["from rb to ra: 8 Gb/s", "down since", "3 probes missing", "limited to 5 b/s by `me`", "repair"] {
        assert!(why.text.contains(part), "{part} in {}", why.text);
    }
    assert!(why.until.is_some() && why.remedies.iter().any(|remedy| remedy.text == "lift the limit on `link:ocean`"));
    // One on this way too: the lower is told first.
    let limit = api::rest::LimitRequest { rate_bps: 4, for_seconds: 60, why: "paint".to_owned() };
    world.face.set_limit(&world.me, "ocean:forward", limit).await.expect("a limit");
    let other = world.why(About::Link, "ocean:backward").await;
    assert!(!other.text.contains("paint"), "{}", other.text);
    let both = world.why(About::Link, "ocean:forward").await;
    let places = ["; this way limited to 4 b/s by `me`", "; limited to 5 b/s by `me`"].map(|part| both.text.find(part));
    assert!(places[0].is_some() && places[0] < places[1], "{}", both.text);
    let lift = "lift the limit on `link:ocean:forward`, then that on `link:ocean`";
    assert!(both.remedies.iter().any(|remedy| remedy.text == lift), "{:?}", both.remedies);
    let down = world.face.link(&world.me, "ocean:forward").await.expect("a link");
    assert_eq!(down.state, api::rest::LinkState::Down);
}

#[tokio::test]
async fn a_refusal_is_asked_again() {
    let world = World::set_up().await;
    let ask = TransferRequest { class: "alice".to_owned(), ..request() };
    let refused = world.submit(ask).await.expect_err("there is no such class");
    let number = refused.detail.rsplit_once("(refusal ").expect("a number").1.trim_end_matches(')').to_owned();
    let why = world.why(About::Refusal, &number).await;
    assert!(why.text.contains("it would be refused now too"), "{}", why.text);
    let more = format!("{SHARES}\n[[class]]\nname = \"alice\"\n");
    world.face.set_shares(&world.me, more).await.expect("shares");
    let why = world.why(About::Refusal, &number).await;
    assert!(why.text.contains("now it would be taken"), "{}", why.text);
}

#[tokio::test]
async fn listeners_hear_what_happens_in_words() {
    let world = World::set_up().await;
    let (id, mut a, _b) = moving(&world).await;
    let ended = api::agent::Ended {
        session: 0,
        cause: Some(api::agent::Cause::Storage),
        text: "input/output error".to_owned(),
        bytes_done: 0,
        bytes_sent: 0,
        files_done: 0,
        retransmits: 0,
        ran_ms: 1,
    };
    let session = world.on_core(|core| core.live.keys().next().expect("it runs").0).await;
    a.say(&FromAgent::Ended(api::agent::Ended { session, ..ended })).await;
    world.face.steer(&world.me, id, crate::app::Steer::Cancel, "enough".to_owned()).await.expect("it ends");
    let heard = |kind: &str| {
        let told = world.face.events().listen(Some(0), Time(0)).missed;
        told.into_iter().find(|event| event.kind == kind)
    };
    for _ in 0..50 {
        if heard("session_ended").is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (kind, subject, part) in [
        ("network_set", "", "3 links, 2 hosts"),
        ("agent_enrolled", "a1", "fingerprint 0101"),
        ("transfer_submitted", &id.to_string(), "class `cms`"),
        ("transfer_started", &id.to_string(), "begins"),
        ("session_started", &format!("s{session}"), "from `a1` to `b1`"),
        ("session_ended", &format!("s{session}"), "input/output error"),
        ("transfer_cancelled", &id.to_string(), "enough"),
    ] {
        let event = heard(kind).unwrap_or_else(|| panic!("{kind} was told"));
        assert!(event.subject == subject && event.text.contains(part), "{event:?}");
    }
}
