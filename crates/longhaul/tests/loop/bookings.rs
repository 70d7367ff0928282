//! What others have booked is not given out, as long as it is booked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fleet::Fleet;
use crate::operator::status;
use crate::world::wait_for;

/// Longer than the test takes.
const LENGTH: usize = 300 << 20;

/// 50 Mb/s of the ocean eastward, from so long after now for so long.
fn booking(after: Duration, lasting: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later");
    let at = |moment: Duration| units::Utc(i64::try_from(moment.as_nanos()).expect("it is not far"));
    let (start, end) = (at(now + after), at(now + after + lasting));
    format!(
        "[[booking]]\nname = \"calibration\"\nclass = \"production\"\nlinks = [\"ocean\"]\nfrom = \"west\"\nrate = \"50 Mb/s\"\nstart = \"{start}\"\nend = \"{end}\"\n"
    )
}

fn set(fleet: &Fleet, text: &str) {
    let file = fleet.world.path("bookings.toml");
    std::fs::write(&file, text).expect("a file can be written");
    fleet.ask(&["booking", "set", file.to_str().expect("it is text")]).expect_code(0);
}

#[test]
fn a_booking_lowers_what_others_may_use_for_its_time() {
    let fleet = Fleet::new("100 Mb/s", &["w1", "e1"]);
    std::fs::write(fleet.data("west").join("one"), vec![7; LENGTH]).expect("a file can be written");
    let id = fleet.submit("west:one", "east:one", "cms", &[]);
    let number = |key: &str| fleet.json(&["transfer", "show", &id])[key].as_u64().expect("a number");
    let allocated = |mbps: u64| (number("allocated_bps").abs_diff(mbps * 1_000_000) < 100_000).then_some(());
    wait_for("it to have all up to the mark", || allocated(80));
    // It begins and ends by itself.
    let text = booking(Duration::from_secs(4), Duration::from_secs(8));
    set(&fleet, &text);
    assert_eq!(fleet.ask(&["booking", "show"]).expect_code(0).out, text);
    allocated(80).expect("it has not begun");
    wait_for("the booking to begin", || allocated(30));
    wait_for("the transfer to keep to it", || {
        let rate = number("rate_bps");
        (rate > 20_000_000 && rate < 33_000_000).then_some(())
    });
    let why = fleet.json(&["explain", "transfer", &id]);
    assert!(why["text"].as_str().expect("a text").contains("50 Mb/s are booked by `calibration` until"), "{why:#}");
    assert!(why["holders"].as_array().expect("a list").iter().any(|of| of["holder"] == "booking `calibration`"));
    let link = fleet.json(&["explain", "link", "ocean:forward"]);
    assert!(link["text"].as_str().expect("a text").contains("booked by `calibration`"), "{link:#}");
    let links = fleet.json(&["topology", "links"]);
    let all = links["links"].as_array().expect("a list");
    let of = |id: &str| all.iter().find(|link| link["id"] == id).expect("it is one").clone();
    assert_eq!(of("ocean:forward")["booked_bps"], 50_000_000);
    assert_eq!(of("ocean:backward").get("booked_bps"), None, "it is booked one way");
    wait_for("the booking to end", || allocated(80));
    let wrong = fleet.world.path("wrong.toml");
    std::fs::write(&wrong, text.replace("ocean", "strait")).expect("a file can be written");
    let refused = fleet.ask(&["booking", "set", wrong.to_str().expect("it is text")]).expect_code(2);
    assert!(refused.err.contains("strait") && refused.err.contains(":4:"), "{}", refused.err);
    fleet.ask(&["transfer", "cancel", &id]).expect_code(0);
    assert_eq!(fleet.end_of(&id)["state"], "cancelled");
}

#[test]
fn a_booking_holds_with_nobody_in_charge() {
    let mut fleet = Fleet::new("100 Mb/s", &["w1", "e1"]);
    std::fs::write(fleet.data("west").join("one"), vec![7; LENGTH]).expect("a file can be written");
    let id = fleet.submit("west:one", "east:one", "cms", &[]);
    let allocated = |fleet: &Fleet| fleet.json(&["transfer", "show", &id])["allocated_bps"].as_u64().expect("a number");
    wait_for("it to have all up to the mark", || (allocated(&fleet).abs_diff(80_000_000) < 100_000).then_some(()));
    let begin = std::time::Instant::now();
    set(&fleet, &booking(Duration::from_secs(18), Duration::from_secs(600)));
    // Leases are renewed every 10 s.
    std::thread::sleep(Duration::from_secs(12));
    fleet.kill_controller();
    let set_bps = |fleet: &Fleet| status(fleet, "w1")["sessions"][0]["set_bps"].as_u64().expect("a session runs");
    let before = set_bps(&fleet);
    assert!(begin.elapsed() > Duration::from_secs(17) || before.abs_diff(80_000_000) < 500_000, "{before}");
    wait_for("the agent to leave what is booked", || (set_bps(&fleet).abs_diff(30_000_000) < 500_000).then_some(()));
    assert!(begin.elapsed() > Duration::from_secs(17), "it was its own until then");
}
