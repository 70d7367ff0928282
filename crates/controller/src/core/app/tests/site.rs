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
    let one_way = world.face.set_limit(&world.me, "ocean:forward", ask()).await.expect("on one way");
    assert_eq!(one_way.resource, "link:ocean:forward");
    for name in ["ocean:forward", "link:ocean:forward"] {
        assert_eq!(world.face.limit(&world.me, name).await.as_ref(), Ok(&one_way), "beside that on both ways");
    }
    world.face.set_limit(&world.me, "link:ocean:backward", ask()).await.expect("on the other way");
    assert_eq!(world.face.limits(&world.me).await.expect("a list").len(), 5);
    world.face.lift_limit(&world.me, "ocean:backward").await.expect("it is lifted");
    world.face.lift_limit(&world.me, "link:ocean:forward").await.expect("it is lifted");
    assert_eq!(kind(world.face.limit(&world.me, "ocean:forward").await), Kind::NotFound);
    let class = world.face.set_limit(&world.me, "class:cms", ask()).await.expect("on a class");
    assert_eq!(class.resource, "class:cms");
    assert_eq!(world.face.limit(&world.me, "cms").await.as_ref(), Ok(&class), "nothing else is called so");
    world.face.lift_limit(&world.me, "cms").await.expect("it is lifted");
    let noc = Caller { name: "noc".to_owned(), role: Role::Operator };
    let higher = LimitRequest { rate_bps: 2_000_000_000, ..ask() };
    let refused = world.face.set_limit(&noc, "ocean", higher.clone()).await.expect_err("it is lower");
    assert!(refused.kind == Kind::Conflict && refused.detail.contains("longhaul limit lift link:ocean"), "{refused}");
    world.face.set_limit(&world.me, "ocean", higher).await.expect("its own");
    for unknown in
        ["class:ocean", "ocean:up", "link:ocean:up", "river:forward", "link:river:forward", "mark:ocean:forward"]
    {
        assert_eq!(kind(world.face.set_limit(&world.me, unknown, ask()).await), Kind::NotFound, "{unknown}");
    }
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
    for _ in 0..400 {
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
    let link = world.face.link(&world.me, "ocean:forward").await.expect("a link");
    let at_large = link.at_large_bps.map(|of| [of.low, of.value, of.high]);
    assert_eq!(at_large, Some([3_000_000_000; 3]), "nothing is ours");
    assert_eq!(kind(world.face.link(&world.me, "ocean").await), Kind::NotFound);
}

#[tokio::test]
async fn a_flexible_mark_without_a_source_is_refused_with_the_ways_out_and_a_network_says_which_starve() {
    let world = World::set_up().await;
    let flexible = SHARES.replace("rate = \"4 Gb/s\"", "from = \"ra\"\nflexible = { share = \"90 %\" }");
    let refused = world.face.set_shares(&world.me, flexible.clone()).await.expect_err("nobody counts");
    for part in
        ["`sea` is flexible", "`ocean:forward`", "[[counter]]", "twin stats --to", "POST /api/v1/counters", "fixed"]
    {
        assert!(refused.detail.contains(part), "{part} in {refused}");
    }
    assert!(!world.face.shares(&world.me).await.expect("the old ones").contains("flexible"));
    let sample = CounterSample {
        link: "ocean:forward".to_owned(),
        rate_bps: Some(1),
        total_bytes: None,
        age_ms: 0,
        enforced_bps: None,
    };
    let counters = Counters { source: "snmp".to_owned(), samples: vec![sample] };
    world.face.count(&world.me, counters).await.expect("it is counted");
    world.face.set_shares(&world.me, flexible.clone()).await.expect("somebody counts now");
    let same = world.face.set_network(&world.me, NETWORK.to_owned()).await.expect("a network");
    assert_eq!(same.notes, [""; 0]);
    let turned = NETWORK.replace("ends = [\"ra\", \"rb\"]", "ends = [\"rb\", \"ra\"]");
    let other = world.face.set_network(&world.me, turned).await.expect("a network");
    assert_eq!(other.notes, ["mark `sea` is at its least until somebody counts all traffic on `ocean:backward`"]);
    // At a start nobody has counted; marks that were accepted before stay.
    let told = world.on_core(|core| core.uncounted_at_start()).await.expect("nobody counts that way");
    assert!(told.contains("`longhaul class set` once somebody counts"), "{told}");
    let world = world.again().await;
    assert!(world.face.shares(&world.me).await.expect("they are there").contains("flexible"));
}

/// What the interface `eth1` has carried.
fn counted(link: &str, sends: api::agent::Way, seconds: u64, [sent_bytes, received_bytes]: [u64; 2]) -> FromAgent {
    let (interface, link) = ("eth1".to_owned(), link.to_owned());
    let read_ms = seconds * 1_000;
    let counts = vec![api::agent::Counted { interface, link, sends, sent_bytes, received_bytes, read_ms }];
    FromAgent::Counted { counts }
}

#[tokio::test]
async fn interfaces_of_agents_count_for_their_own_links_and_for_others_by_trust() {
    use api::agent::Way::{Backward, Forward};
    let world = World::set_up().await;
    let mut agent = world.agent("a1", 1).await;
    let total = async |way: &str| {
        for _ in 0..1_000 {
            let link = world.face.link(&world.me, way).await.expect("a link");
            if let (Some(total), Some(by)) = (link.total_bps, link.counted_by) {
                return (total, by);
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("nobody counts {way}")
    };
    agent.say(&counted("ea", Forward, 10, [0, 0])).await;
    agent.say(&counted("ea", Forward, 12, [2_500_000, 250_000])).await;
    let by = "agent a1 interface eth1".to_owned();
    assert_eq!(total("ea:forward").await, (10_000_000, by.clone()));
    assert_eq!(total("ea:backward").await, (1_000_000, by.clone()));
    let text = world.face.explain(&world.me, api::rest::About::Link, "ea:forward").await.expect("a link").text;
    assert!(text.contains("all traffic is 10 Mb/s, as `agent a1 interface eth1` counted 0 s ago"), "{text}");
    // Others are refused, each once until something else is wrong with it.
    let mut refused = async |said: FromAgent| {
        agent.say(&said).await;
        agent.say(&said).await;
        match agent.hears().await {
            ToAgent::Uncounted(uncounted) => (uncounted.link, uncounted.reason),
            other => panic!("{other:?}"),
        }
    };
    let (link, reason) = refused(counted("ocean", Forward, 14, [0, 0])).await;
    assert_eq!(link, "ocean");
    assert!(
        reason.contains("goes from `ra` to `rb`, not to `a1`") && reason.contains("`links = [\"ocean\"]`"),
        "{reason}"
    );
    let (link, reason) = refused(counted("ea", Backward, 14, [0, 0])).await;
    assert!(link == "ea" && reason.contains("write `sends = \"forward\"`"), "{reason}");
    let (link, reason) = refused(counted("river", Forward, 14, [0, 0])).await;
    assert!(link == "river" && reason.contains("river"), "{reason}");
    assert!(world.face.link(&world.me, "ocean:forward").await.expect("a link").total_bps.is_none());
    // The controller's operator may take its word.
    let trust = |core: &mut Core| {
        core.desk.counting.trusted.insert("a1".to_owned(), ["ocean".to_owned()].into());
    };
    world.on_core(trust).await;
    agent.say(&counted("ocean", Backward, 20, [0, 0])).await;
    agent.say(&counted("ocean", Backward, 22, [0, 500_000])).await;
    assert_eq!(total("ocean:forward").await, (2_000_000, by));
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
async fn each_rate_says_how_sure_it_is() {
    use api::rest::{About, Assurance, TransferQuery};
    let world = World::set_up().await;
    let (id, _a, _b) = super::explain::moving(&world).await;
    let count = async |links: &[&str], enforced_bps| {
        let sample = |link: &&str| CounterSample {
            link: (*link).to_owned(),
            rate_bps: Some(1),
            total_bytes: None,
            age_ms: 0,
            enforced_bps,
        };
        let counters = Counters { source: "driver".to_owned(), samples: links.iter().map(sample).collect() };
        world.face.count(&world.me, counters).await.expect("it is counted");
    };
    let sure = async || {
        let one = world.face.transfer(&world.me, id).await.expect("it is there").assurance;
        let all = world.face.transfers(&world.me, TransferQuery::default()).await.expect("a list").items;
        assert_eq!(all[0].assurance, one, "in a list as alone");
        let why = world.face.explain(&world.me, About::Transfer, &id.to_string()).await.expect("why");
        assert_eq!((why.assurance, why.holders[0].assurance), (one, one), "{why:?}");
        let class = world.face.explain(&world.me, About::Class, "cms").await.expect("why");
        assert_eq!(class.assurance, one, "all that moves of it");
        one
    };
    assert_eq!(sure().await, Assurance::Edge);
    count(&["ocean:forward"], Some(8_000_000_000)).await;
    assert_eq!(sure().await, Assurance::Edge, "of one link of three");
    let why = world.face.explain(&world.me, About::Link, "ocean:forward").await.expect("why");
    let holders: Vec<_> = why.holders.iter().map(|of| (of.holder.as_str(), of.assurance)).collect();
    assert_eq!(holders, [("t0", Assurance::Edge), ("at-large", Assurance::Estimate)]);
    count(&["ea:forward", "eb:forward"], Some(10_000_000_000)).await;
    assert_eq!(sure().await, Assurance::Enforced);
    let links = world.face.links(&world.me).await.expect("links");
    let sure: Vec<&str> =
        links.iter().filter(|of| of.assurance == Assurance::Enforced).map(|of| of.id.as_str()).collect();
    assert_eq!(sure, ["ea:forward", "ocean:forward", "eb:forward"]);
    // A mark for all work that follows what is counted.
    count(&["ocean:forward"], None).await;
    let flexible = "[[mark]]\nname = \"all\"\nlinks = [\"ocean\"]\nfrom = \"ra\"\nflexible = { share = \"90 %\" }\n";
    world.face.set_shares(&world.me, format!("{SHARES}{flexible}")).await.expect("shares");
    let begun = std::time::Instant::now();
    while world.face.link(&world.me, "ocean:forward").await.expect("a link").assurance != Assurance::Estimate {
        assert!(begun.elapsed() < std::time::Duration::from_secs(4), "it is not planned");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
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
