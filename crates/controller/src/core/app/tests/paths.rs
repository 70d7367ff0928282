//! What is seen of paths that agents ask each other over.

use api::agent::{PathNews, PathState, Probe};
use api::rest::LinkState;

use super::*;
use crate::views;

/// The next list of paths that is not empty.
async fn probes(agent: &mut Agent) -> Vec<Probe> {
    loop {
        if let ToAgent::Probes { probes } = agent.hears().await
            && !probes.is_empty()
        {
            return probes;
        }
    }
}

/// Gives both agents an address, and has them asked to ask each other; the number of the path.
pub(super) async fn asked_over(a: &mut Agent, b: &mut Agent) -> u64 {
    for (agent, address) in [(&mut *a, "10.0.0.1:4810"), (&mut *b, "10.0.0.2:4810")] {
        let addresses = vec![address.parse().expect("an address")];
        agent.say(&FromAgent::Inventory(Inventory { addresses, probe_port: Some(4810), ..inventory() })).await;
    }
    let asked = probes(a).await;
    assert!(asked.len() == 1 && asked[0].asks && !probes(b).await[0].asks, "{asked:?}");
    asked[0].path
}

pub(super) fn news(path: u64, state: PathState, asked: u64) -> PathNews {
    PathNews { path, state, rtt_us: 20_000, rtt_low_us: 19_000, rtt_high_us: 30_000, asked, answered: 200 }
}

#[tokio::test]
async fn paths_have_estimates_and_links_are_suspect_until_one_is_named() {
    let world = World::set_up().await;
    assert_eq!(world.face.paths(&world.me).await, Ok(Vec::new()));
    let (_, mut a, mut b) = super::explain::moving(&world).await;
    let path = asked_over(&mut a, &mut b).await;
    let seen = world.face.paths(&world.me).await.expect("a list");
    assert_eq!((seen[0].state, seen[0].rtt_us, seen[0].loss_ppm), (api::rest::PathState::Unknown, None, None));

    a.say(&FromAgent::Paths { paths: vec![news(path, PathState::Answering, 200)] }).await;
    let seen = loop {
        let mut seen = world.face.paths(&world.me).await.expect("a list");
        if seen[0].state == api::rest::PathState::Answering {
            break seen.remove(0);
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((seen.name, seen.from.as_str(), seen.to.as_str(), seen.sessions), (None, "a1", "b1", 1));
    assert_eq!(seen.links, ["ea:forward", "ocean:forward", "eb:forward"]);
    assert_eq!(
        [seen.from_address, seen.to_address].map(|ip| ip.expect("it has one").to_string()),
        ["10.0.0.1", "10.0.0.2"]
    );
    let rtt = seen.rtt_us.expect("it is told");
    assert_eq!((rtt.value, rtt.low, rtt.high), (20_000, 19_000, 30_000));
    let loss = seen.loss_ppm.expect("it is told");
    assert!(loss.value == 0 && loss.low == 0 && (10_000..20_000).contains(&loss.high), "{loss:?}");
    let text = world.face.metrics().await.expect("a text");
    for line in [
        "longhaul_controller_path_rtt_seconds{path=\"\",from=\"a1\",to=\"b1\",estimate=\"low\"} 0.019",
        "longhaul_controller_path_loss_ratio{path=\"\",from=\"a1\",to=\"b1\",estimate=\"value\"} 0.0",
        "longhaul_controller_path_sessions{path=\"\",from=\"a1\",to=\"b1\"} 1",
        "longhaul_controller_path_answering{path=\"\",from=\"a1\",to=\"b1\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }

    // In one turn, before anything can be named.
    let (links, paths) = world
        .on_core(move |core| {
            core.paths_told("a1", &[news(path, PathState::Suspect, 203)]);
            (views::links(core), core.paths_seen())
        })
        .await;
    assert!(links.iter().all(|link| link.state == LinkState::Suspect), "{links:?}");
    assert!(links[0].reason.contains("which link it is shows"), "{}", links[0].reason);
    assert_eq!(paths[0].state, api::rest::PathState::Suspect);
    // They are all that the path has: nothing tells them apart.
    let named = async {
        loop {
            let links = world.face.links(&world.me).await.expect("a list");
            if links.iter().all(|link| link.state == LinkState::Down) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), named).await.expect("they are named");
}
