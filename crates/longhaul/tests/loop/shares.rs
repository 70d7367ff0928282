//! Who gets what rate: by classes, up to marks, with the reason.

use crate::fleet::Fleet;
use crate::world::wait_for;

/// Longer than the test takes.
const LENGTH: usize = 300 << 20;

#[test]
fn classes_share_the_ocean_up_to_its_mark() {
    let fleet = Fleet::new("100 Mb/s", &["w1", "e1"]);
    for name in ["one", "two"] {
        std::fs::write(fleet.data("west").join(name), vec![7; LENGTH]).expect("a file can be written");
    }
    let cms = fleet.submit("west:one", "east:one", "cms", &[]);
    let atlas = fleet.submit("west:two", "east:two", "atlas", &[]);
    // 80 % of the ocean, three to one.
    let allocated = |id: &str| fleet.json(&["transfer", "show", id])["allocated_bps"].as_u64().expect("a number");
    wait_for("both to have their share", || {
        let (cms, atlas) = (allocated(&cms), allocated(&atlas));
        (cms.abs_diff(60_000_000) < 100_000 && atlas.abs_diff(20_000_000) < 100_000).then_some(())
    });
    let measured = |id: &str| fleet.json(&["transfer", "show", id])["rate_bps"].as_u64().expect("a number");
    wait_for("both to move at it", || {
        let near = |is: u64, is_to_be: u64| is.abs_diff(is_to_be) < is_to_be / 5;
        (near(measured(&cms), 60_000_000) && near(measured(&atlas), 20_000_000)).then_some(())
    });
    let session = fleet.json(&["transfer", "show", &cms])["legs"][0]["sessions"][0].clone();
    assert!(["rtt_us", "cwnd_bytes"].iter().all(|key| session[key].as_u64() > Some(0)), "{session:#}");
    assert!(session["retransmits"].is_u64(), "{session:#}");
    // A busy machine may leave some of it for a moment.
    wait_for("all of the mark to be given", || {
        let links = fleet.json(&["topology", "links"]);
        let mut all = links["links"].as_array().expect("a list").iter();
        let ocean = all.find(|link| link["id"] == "ocean:forward").expect("it is one");
        assert_eq!(ocean["mark_bps"], 80_000_000);
        (ocean["allocated_bps"].as_u64().expect("a number").abs_diff(80_000_000) < 1_000).then_some(())
    });
    let why = fleet.json(&["explain", "transfer", &cms]);
    let text = why.to_string();
    assert!(text.contains("ocean"), "{why:#}");
    assert!(why["holders"].as_array().expect("a list").len() >= 2, "{why:#}");
    // A limit from outside is in force at once; without it all is as before.
    fleet.ask(&["limit", "set", "ocean", "--rate", "40Mb/s", "--for", "1h", "--why", "maintenance"]).expect_code(0);
    wait_for("the limit to be in force", || (measured(&cms) < 32_000_000 && measured(&cms) > 15_000_000).then_some(()));
    fleet.ask(&["limit", "lift", "ocean"]).expect_code(0);
    wait_for("the limit to be lifted", || (measured(&cms) > 50_000_000).then_some(()));
    for id in [&cms, &atlas] {
        fleet.ask(&["transfer", "cancel", id]).expect_code(0);
        assert_eq!(fleet.end_of(id)["state"], "cancelled");
    }
    // What was is still known, and that nothing ever went the other way.
    let history = fleet.json(&["history", "link:ocean:forward/measured_bps"]);
    let points = history["points"].as_array().expect("a list");
    let most = points.iter().filter_map(|point| point["max"].as_f64()).fold(0.0, f64::max);
    assert!((50e6..120e6).contains(&most), "{history:#}");
    let series = fleet.ask(&["history"]).expect_code(0).out;
    assert!(series.contains("class:cms/allocated_bps") && !series.contains("ocean:backward"), "{series}");
}

#[test]
fn all_sessions_of_a_host_have_what_its_site_says() {
    let mut fleet = Fleet::new("100 Mb/s", &["w1", "e1"]);
    fleet.configure("w1", "host_rate = \"30 Mb/s\"");
    for name in ["one", "two"] {
        std::fs::write(fleet.data("west").join(name), vec![7; LENGTH]).expect("a file can be written");
    }
    let transfers =
        ["one", "two"].map(|name| fleet.submit(&format!("west:{name}"), &format!("east:{name}"), "cms", &[]));
    let allocated = |fleet: &Fleet| {
        let of = |id: &String| fleet.json(&["transfer", "show", id])["allocated_bps"].as_u64().expect("a number");
        transfers.iter().map(of).sum::<u64>()
    };
    wait_for("both to share the host's rate", || (allocated(&fleet).abs_diff(30_000_000) < 1_000).then_some(()));
    // One that has just begun is not held back by anything yet.
    wait_for("the host to be named", || {
        fleet.json(&["explain", "transfer", &transfers[0]]).to_string().contains("what leaves w1").then_some(())
    });
    // Its processors bound both ways together, of the other host here.
    fleet.configure("e1", "core_rate = \"2 Mb/s\"");
    let agents = fleet.json(&["agent", "ls"]);
    let cores = agents["agents"].as_array().expect("a list").iter().find(|agent| agent["host"] == "e1");
    let most = (2_000_000 * cores.expect("it is there")["cores"].as_u64().expect("a number")).min(30_000_000);
    wait_for("both to share its processors", || (allocated(&fleet).abs_diff(most) < 1_000).then_some(()));
    for id in &transfers {
        fleet.ask(&["transfer", "cancel", id]).expect_code(0);
    }
}
