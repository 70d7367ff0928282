//! What the archive is given while something moves.

use std::time::Duration;

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
