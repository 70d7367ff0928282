//! Several agents at one host of the network.

use std::time::Duration;

use api::agent::{Acknowledged, Prepared};
use api::rest::LimitRequest;

use super::*;

/// Has a session to an agent that is to listen run at another, which takes every lease that it is told.
async fn begin(from: &mut Agent, to: &mut Agent) {
    let ToAgent::Prepare(prepare) = to.hears().await else { panic!("it is to listen") };
    to.say(&FromAgent::Prepared(Prepared { session: prepare.session, token: "t".to_owned() })).await;
    loop {
        let (session, lease) = match from.hears().await {
            ToAgent::Run(run) => (run.session, run.lease),
            ToAgent::Lease(told) => (told.session, told.lease),
            _ => continue,
        };
        let (generation, rate_bps) = (lease.generation, lease.rates[0].rate_bps);
        let taken = Acknowledged { session, generation, accepted: true, rate_bps };
        from.say(&FromAgent::Acknowledged(taken)).await;
        if session == prepare.session {
            return;
        }
    }
}

#[tokio::test]
async fn agents_that_share_a_host_are_apart_by_name_and_share_what_the_host_has() {
    let world = World::set_up().await;
    let ask = |host: &str| EndpointRequest { hosts: vec![host.to_owned()], root: api::Name(b"/data".to_vec()) };
    for (name, host) in [("b", "cms@b1"), ("c", "atlas@b1")] {
        world.face.set_endpoint(&world.me, name, ask(host)).await.expect("an instance at a host");
    }
    for host in ["cms@b9", "@b1", "b1@cms"] {
        assert_eq!(kind(world.face.set_endpoint(&world.me, "d", ask(host)).await), Kind::NotFound, "{host}");
    }
    let unclear = NETWORK.replace("\"a1\"", "\"x@a1\"");
    assert_eq!(kind(world.face.set_network(&world.me, unclear).await), Kind::Invalid);

    let limit = LimitRequest { rate_bps: 3_000_000_000, for_seconds: 600, why: "memory".to_owned() };
    world.face.set_limit(&world.me, "host:b1", limit).await.expect("a limit");
    let mut a = world.agent("a1", 1).await;
    let (mut cms, mut atlas) = (world.agent("cms@b1", 2).await, world.agent("atlas@b1", 3).await);
    let files = || vec![api::Name(b"one".to_vec())];
    let one = world.submit(TransferRequest { files: files(), ..request() }).await.expect("it is taken");
    begin(&mut a, &mut cms).await;
    let to_the_other = TransferRequest {
        class: "atlas".to_owned(),
        destination: Some(place("c:/data/in/")),
        files: files(),
        ..request()
    };
    let other = world.submit(to_the_other).await.expect("it is taken");
    begin(&mut a, &mut atlas).await;

    // By their weights, of what the host may take in.
    let given = async |id| world.face.transfer(&world.me, id).await.expect("it is there").allocated_bps;
    let planned = tokio::time::timeout(Duration::from_secs(60), async {
        while (given(one).await, given(other).await) != (2_000_000_000, 1_000_000_000) {
            for agent in [&mut a, &mut cms, &mut atlas] {
                agent.say(&FromAgent::Ping).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let result = planned.await;
    assert!(result.is_ok(), "{} and {}", given(one).await, given(other).await);
    let links = world.face.links(&world.me).await.expect("links");
    let into = links.iter().find(|link| link.id == "eb:forward").expect("it is one");
    assert_eq!(into.allocated_bps, 3_000_000_000);
    let agents = world.face.agents(&world.me).await.expect("agents");
    let names: Vec<&str> = agents.iter().map(|agent| agent.host.as_str()).collect();
    assert_eq!(names, ["a1", "atlas@b1", "cms@b1"]);
    assert_eq!(agents.iter().map(|agent| agent.sessions.len()).collect::<Vec<_>>(), [2, 1, 1]);
}
