//! What the archive is given while something moves.

use std::time::Duration;

use api::rest::HistoryQuery;

use super::explain::moving;
use super::*;
use crate::store::Archive;

/// Ticks in at least two seconds of the day.
const TWO_SECONDS: Duration = Duration::from_millis(2_300);

#[tokio::test]
async fn what_a_transfer_does_is_kept_of_its_links_and_classes() {
    let world = World::set_up().await;
    let (_, _a, _b) = moving(&world).await;
    tokio::time::sleep(TWO_SECONDS).await;
    let World { stop, runs, directory, .. } = world;
    stop.send(true).expect("it runs");
    runs.await.expect("it ends in good order");
    let store = crate::store::open(&Place::Directory(directory.path().join("store"))).expect("a store");
    let mut archive = Archive::open(&*store).expect("an archive");
    let names: Vec<String> = archive.names().map(str::to_owned).collect();
    let with = |begin: &str| names.iter().filter(|name| name.starts_with(begin)).count();
    // Nothing ever went the other way, or was of the other class.
    assert_eq!(
        (with("link:"), with("class:"), with("link:ocean:forward/"), with("class:cms/")),
        (6, 2, 2, 2),
        "{names:?}"
    );
    for (series, most) in [
        ("link:ocean:forward/allocated_bps", 4e9),
        ("link:ocean:forward/measured_bps", 1e9),
        ("class:cms/allocated_bps", 4e9),
        ("class:cms/measured_bps", 1e9),
        ("all/measured_bps", 1e9),
        ("all/sessions", 1.0),
    ] {
        let points = archive.query(series, 0, u64::MAX, 10_000).expect("points").points;
        assert!(points.iter().any(|point| point.max == most), "{series}: {points:?}");
        assert!((2..=5).contains(&points.iter().map(|point| point.count).sum::<u32>()), "{series}: {points:?}");
    }
}

impl World {
    async fn points(&self, series: &str) -> Vec<api::rest::Point> {
        let query = HistoryQuery { series: series.to_owned(), ..HistoryQuery::default() };
        self.face.history(&self.me, query).await.expect("it is kept").points
    }
}

#[tokio::test]
async fn history_is_read_while_it_is_made() {
    let world = World::set_up().await;
    let unknown = HistoryQuery { series: "link:ocean:forward/measured_bps".to_owned(), ..HistoryQuery::default() };
    assert_eq!(kind(world.face.history(&world.me, unknown).await), Kind::NotFound);
    let (_, mut a, mut b) = moving(&world).await;
    // What is counted on a link has a series, also where nothing of ours goes.
    let sample = api::rest::CounterSample {
        link: "ocean:backward".to_owned(),
        rate_bps: Some(2_000_000_000),
        total_bytes: None,
        age_ms: 0,
        enforced_bps: None,
    };
    let counters = api::rest::Counters { source: "snmp".to_owned(), samples: vec![sample] };
    world.face.count(&world.me, counters).await.expect("they are taken");
    let path = super::paths::asked_over(&mut a, &mut b).await;
    a.say(&FromAgent::Paths { paths: vec![super::paths::news(path, api::agent::PathState::Answering, 200)] }).await;
    tokio::time::sleep(TWO_SECONDS).await;
    for (series, value) in [
        ("link:ocean:forward/measured_bps", 1e9),
        ("link:ocean:backward/measured_bps", 0.0),
        ("link:ocean:backward/total_bps", 2e9),
        ("path:usual:a1,b1/rtt_us", 20_000.0),
    ] {
        let points = world.points(series).await;
        assert!(points.iter().any(|point| point.max == value), "{series}: {points:?}");
    }
    let all = world.face.series(&world.me).await.expect("a list");
    let sessions = all.iter().find(|series| series.name == "all/sessions").expect("it is there");
    assert!(sessions.value == Some(1.0) && sessions.at.is_some(), "{sessions:?}");
    // What was before a restart goes on after it, also while nothing moves.
    let before: u32 = world.points("link:ocean:forward/measured_bps").await.iter().map(|point| point.count).sum();
    let world = world.again().await;
    tokio::time::sleep(TWO_SECONDS).await;
    let points = world.points("link:ocean:forward/measured_bps").await;
    assert!(points.iter().map(|point| point.count).sum::<u32>() > before, "{points:?}");
}
