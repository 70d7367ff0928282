//! Network, shares, endpoints, limits, agents, tokens, metrics.

use api::agent::Mode;
use api::rest::{AgentState, CounterSample, Counters, LimitRequest, RoleWord, TokenRequest};

use super::*;
use crate::http::token_digest;

#[tokio::test]
async fn a_token_is_good_until_it_is_revoked_or_over() {
    let world = World::set_up().await;
    let ask = |name: &str, role, good_seconds| TokenRequest {
        name: name.to_owned(),
        role,
        collaboration: None,
        good_seconds,
    };
    let made = world.face.make_token(&world.me, ask("eve", RoleWord::Viewer, None)).await.expect("a token");
    assert!(made.token.starts_with("lhc_") && made.token.len() == 4 + 64, "{}", made.token.len());
    let digest = token_digest(&made.token);
    let caller = world.face.caller(&digest).expect("it is good");
    assert_eq!((caller.name.as_str(), caller.role), ("eve", Role::Viewer));
    assert_eq!(kind(world.face.make_token(&world.me, ask("eve", RoleWord::Viewer, None)).await), Kind::Conflict);
    let short = world.face.make_token(&world.me, ask("short", RoleWord::Operator, Some(1))).await.expect("a token");
    assert!(world.face.caller(&token_digest(&short.token)).is_some());
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert!(world.face.caller(&token_digest(&short.token)).is_none(), "it is over");
    let world = world.again().await;
    assert!(world.face.caller(&digest).is_some(), "after a restart too");
    world.face.remove_token(&world.me, "eve").await.expect("it is revoked");
    assert!(world.face.caller(&digest).is_none());
    assert_eq!(kind(world.face.remove_token(&world.me, "eve").await), Kind::NotFound);
    let names = world.face.tokens(&world.me).await.expect("a list");
    assert!(names.iter().all(|token| token.name != "eve"));
}

#[tokio::test]
async fn limits_are_set_shown_and_lifted_by_any_name() {
    let world = World::set_up().await;
    let ask = || LimitRequest { rate_bps: 1_000_000_000, for_seconds: 60, why: "repair".to_owned() };
    let set = world.face.set_limit(&world.me, "ocean", ask()).await.expect("a limit");
    assert_eq!((set.resource.as_str(), set.rate_bps, set.by.as_str()), ("link:ocean", 1_000_000_000, "me"));
    assert_eq!(world.face.limit(&world.me, "link:ocean").await.expect("it is there"), set);
    world.face.set_limit(&world.me, "sea", ask()).await.expect("on a mark");
    world.face.set_limit(&world.me, "host:a1", ask()).await.expect("on a host");
    let all = world.face.limits(&world.me).await.expect("a list");
    assert_eq!(
        all.iter().map(|limit| limit.resource.as_str()).collect::<Vec<_>>(),
        ["link:ocean", "mark:sea", "host:a1"]
    );
    let one_way = world.face.set_limit(&world.me, "ocean:forward", ask()).await.expect_err("it is both ways");
    assert_eq!(one_way.kind, Kind::Invalid);
    assert!(one_way.fix.expect("a way out").contains("link:ocean"));
    assert_eq!(kind(world.face.set_limit(&world.me, "river", ask()).await), Kind::NotFound);
    assert_eq!(kind(world.face.set_limit(&world.me, "host:ocean", ask()).await), Kind::NotFound);
    world.face.lift_limit(&world.me, "ocean").await.expect("it is lifted");
    assert_eq!(kind(world.face.limit(&world.me, "ocean").await), Kind::NotFound);
    assert_eq!(kind(world.face.lift_limit(&world.me, "ocean").await), Kind::NotFound);
}

#[tokio::test]
async fn the_network_is_set_whole_or_not_at_all() {
    let world = World::set_up().await;
    let first = world.face.set_network(&world.me, NETWORK.to_owned()).await.expect("it is taken again");
    assert_eq!(kind(world.face.set_network(&world.me, "[[host]]".to_owned()).await), Kind::Invalid);
    let fewer = NETWORK.replace("b1", "b2");
    let refused = world.face.set_network(&world.me, fewer).await.expect_err("endpoint `b` is there");
    assert!(refused.kind == Kind::Conflict && refused.detail.contains("b1"), "{refused}");
    assert_eq!(world.face.network(&world.me).await.as_deref(), Ok(NETWORK));
    let second = world.face.set_network(&world.me, NETWORK.to_owned()).await.expect("it is taken");
    assert!(second.version > first.version);
    let empty = World::empty();
    assert_eq!(kind(empty.face.network(&empty.me).await), Kind::NotFound);
    assert_eq!(kind(empty.face.shares(&empty.me).await), Kind::NotFound);
    assert_eq!(empty.face.links(&empty.me).await, Ok(Vec::new()));
    let accepted = empty.face.set_network(&empty.me, NETWORK.to_owned()).await.expect("it is taken");
    assert!(accepted.notes.iter().any(|note| note.contains("no classes")), "{:?}", accepted.notes);
    assert_eq!(empty.face.links(&empty.me).await.expect("links before there are shares").len(), 6);
}

#[tokio::test]
async fn links_show_counters_and_flexible_marks_need_them() {
    let world = World::set_up().await;
    let flexible = SHARES.replace("rate = \"4 Gb/s\"", "from = \"ra\"\nflexible = { share = \"90 %\" }");
    let refused = world.face.set_shares(&world.me, flexible.clone()).await.expect_err("nobody counts");
    assert!(refused.kind == Kind::Conflict && refused.detail.contains("ocean:forward"), "{refused}");
    let counters = |link: &str, rate| Counters {
        source: "snmp".to_owned(),
        samples: vec![CounterSample {
            link: link.to_owned(),
            rate_bps: Some(rate),
            total_bytes: None,
            age_ms: 0,
            enforced_bps: None,
        }],
    };
    assert_eq!(kind(world.face.count(&world.me, counters("ocean", 1)).await), Kind::NotFound, "it is no direction");
    world.face.count(&world.me, counters("ocean:forward", 3_000_000_000)).await.expect("it is counted");
    let link = world.face.link(&world.me, "ocean:forward").await.expect("a link");
    assert_eq!((link.total_bps, link.total_age_seconds), (Some(3_000_000_000), Some(0)));
    assert_eq!((link.capacity_bps, link.from.as_str(), link.to.as_str()), (Some(8_000_000_000), "ra", "rb"));
    world.face.set_shares(&world.me, flexible).await.expect("somebody counts now");
    // 90 % of 8 Gb/s less 3 Gb/s at large, once it is planned.
    let class = async || world.face.classes(&world.me).await.expect("classes").swap_remove(0);
    for _ in 0..50 {
        if class().await.marks.iter().any(|mark| mark.mark_bps == 4_200_000_000) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let marks = class().await.marks;
    assert_eq!(
        marks.iter().map(|mark| (mark.name.as_str(), mark.mark_bps)).collect::<Vec<_>>(),
        [("sea on ocean:forward", 4_200_000_000)]
    );
    assert_eq!(kind(world.face.link(&world.me, "ocean").await), Kind::NotFound);
}

#[tokio::test]
async fn a_link_that_a_driver_holds_is_enforced_until_it_says_nothing_more() {
    use api::rest::{About, Assurance};
    let world = World::set_up().await;
    let says = async |enforced_bps| {
        let link = "ocean:forward".to_owned();
        let sample = CounterSample { link, rate_bps: Some(1), total_bytes: None, age_ms: 0, enforced_bps };
        let counters = Counters { source: "driver".to_owned(), samples: vec![sample] };
        world.face.count(&world.me, counters).await.expect("it is counted");
        world.face.explain(&world.me, About::Link, "ocean:forward").await.expect("there is such a link")
    };
    let may = world.face.link(&world.me, "ocean:forward").await.expect("a link");
    let may = may.mark_bps.or(may.capacity_bps).expect("it has a rate");
    assert_eq!(says(None).await.assurance, Assurance::Edge, "it is counted only");
    let told = says(Some(may)).await;
    assert_eq!(told.assurance, Assurance::Enforced);
    assert!(told.text.contains("a driver holds what is Longhaul's to "), "{}", told.text);
    assert_eq!(says(Some(may + 1)).await.assurance, Assurance::Edge, "it lets more through than may be");
    let other = world.face.explain(&world.me, About::Link, "ocean:backward").await.expect("there is such a link");
    assert_eq!(other.assurance, Assurance::Edge, "the other direction is another");
}

#[tokio::test]
async fn an_agent_comes_is_steered_and_thrown_out() {
    let world = World::set_up().await;
    let mut agent = world.agent("a1", 1).await;
    let shown = world.face.agents(&world.me).await.expect("a list");
    assert_eq!((shown.len(), shown[0].state, shown[0].version.as_str()), (1, AgentState::Online, "1.2.3"));
    assert_eq!(world.face.endpoint(&world.me, "a").await.expect("it is there").online, ["a1"]);
    let set = async |mode| world.face.set_mode(&world.me, "a1", mode, "new disks".to_owned()).await;
    for _ in 0..2 {
        let drains = set(Mode::Draining).await.expect("it drains");
        assert!(drains.mode == Mode::Draining && drains.reason.contains("new disks"), "{}", drains.reason);
    }
    assert_eq!(world.face.endpoint(&world.me, "a").await.expect("it is there").online, [""; 0]);
    set(Mode::Active).await.expect("it takes part");
    world.face.remove_agent(&world.me, "a1").await.expect("it is forgotten");
    assert_eq!(world.face.agents(&world.me).await, Ok(Vec::new()));
    let mut rest = Vec::new();
    let end = tokio::io::AsyncReadExt::read_to_end(&mut agent.stream, &mut rest);
    tokio::time::timeout(std::time::Duration::from_secs(5), end).await.expect("its connection ends").expect("in order");
    assert_eq!(kind(world.face.remove_agent(&world.me, "a1").await), Kind::NotFound);
    assert_eq!(kind(set(Mode::Paused).await), Kind::NotFound);
}

#[tokio::test]
async fn endpoints_are_changed_but_not_from_beneath_transfers() {
    let world = World::set_up().await;
    let ask = |root: &str, host: &str| EndpointRequest { hosts: vec![host.to_owned()], root: api::Name(root.into()) };
    let set = world.face.set_endpoint(&world.me, "a", ask("/other/", "a1")).await.expect("nothing uses it");
    assert_eq!(set.root.0, b"/other");
    world.face.set_endpoint(&world.me, "a", ask("/data", "a1")).await.expect("back again");
    world.submit(request()).await.expect("it is taken");
    assert_eq!(kind(world.face.set_endpoint(&world.me, "a", ask("/other", "a1")).await), Kind::Conflict);
    assert_eq!(kind(world.face.remove_endpoint(&world.me, "a").await), Kind::Conflict);
    assert_eq!(kind(world.face.set_endpoint(&world.me, "c", ask("/data", "x9")).await), Kind::NotFound);
    assert_eq!(kind(world.face.endpoint(&world.me, "c").await), Kind::NotFound);
    assert_eq!(world.face.endpoints(&world.me).await.expect("a list").len(), 2);
}

#[tokio::test]
async fn metrics_are_one_text() {
    let world = World::set_up().await;
    world.submit(request()).await.expect("it is taken");
    let text = world.face.metrics().await.expect("a text");
    for line in [
        "longhaul_controller_transfers{state=\"listing\"} 1",
        "longhaul_controller_sessions 0",
        "longhaul_controller_store_trouble 0",
        "longhaul_controller_class_allocated_bps{class=\"atlas\"} 0",
        "longhaul_controller_link_usable{link=\"ocean:backward\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(text.contains("longhaul_controller_log_events_total 5") && text.ends_with("# EOF\n"), "{text}");
}
