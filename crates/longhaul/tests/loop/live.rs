//! The twin of a controller's network, with what is going on there.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::fleet::Fleet;
use crate::is_missing;
use crate::world::{Ended, wait_for};

/// Longer than the test takes.
const LENGTH: usize = 300 << 20;

const BOOKINGS: &str = r#"
[[booking]]
name = "reprocessing"
links = ["ocean"]
from = "west"
rate = "60 Mb/s"
start = "2026-03-01T00:00:00Z"
end = "2036-03-01T00:00:00Z"
"#;

/// The twin goes with this.
struct Down(String);

impl Drop for Down {
    fn drop(&mut self) {
        let _ = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["twin", "down", &self.0]).output();
    }
}

fn longhaul(fleet: &Fleet, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(arguments);
    fleet.world.run(command)
}

#[test]
fn a_twin_has_the_loads_and_bookings_of_a_live_network() {
    if is_missing(&["ip", "ping"], true) {
        return;
    }
    let fleet = Fleet::new("100 Mb/s", &["w1", "e1"]);
    fs::write(fleet.data("west").join("one"), vec![7; LENGTH]).expect("a file can be written");
    let bookings = fleet.world.path("bookings.toml");
    fs::write(&bookings, BOOKINGS).expect("a file can be written");
    fleet.ask(&["booking", "set", bookings.to_str().expect("it is text")]).expect_code(0);
    let id = fleet.submit("west:one", "east:one", "cms", &[]);
    // 80 Mb/s up to the mark, less what is booked.
    wait_for("it to move", || {
        let rate = fleet.json(&["transfer", "show", &id])["rate_bps"].as_u64().expect("a number");
        (rate > 15_000_000 && rate < 25_000_000).then_some(())
    });
    let name = format!("lh{}-live", std::process::id());
    let _down = Down(name.clone());
    let up = |more: &[&str]| {
        let mut command = fleet.from();
        command.args(["--name", &name, "--scale", "1/10", "--json"]).args(more);
        fleet.world.run(command)
    };
    let told = up(&[]).expect_code(0);
    let told: Value = serde_json::from_str(&told.out).expect("one object");
    let ocean =
        told["links"].as_array().expect("a list").iter().find(|link| link["name"] == "ocean").expect("it is one");
    let [left, back] = [&ocean["rate_bps"], &ocean["back"]["rate_bps"]].map(|rate| rate.as_u64().expect("a rate"));
    assert!((7_000_000..8_600_000).contains(&left) && back == 10_000_000, "a tenth of 100 Mb/s less some 20: {ocean}");
    let live = &told["live"];
    assert_eq!(live["bookings"], 1, "{live}");
    assert!(live["loads"].as_array().expect("a list").iter().any(|load| load["link"] == "ocean:forward"), "{live}");
    // Hosts reach each other, and what was written beside is what `plan` reads.
    longhaul(&fleet, &["twin", "exec", "--twin", &name, "w1", "--", "ping", "-c", "1", "-W", "5", "e1"]).expect_code(0);
    let [network, bookings] = ["network_file", "bookings_file"].map(|key| live[key].as_str().expect("a path"));
    let calendar = ["plan", "calendar", "--json", "--topology", network, "--bookings", bookings];
    let calendar = longhaul(&fleet, &calendar).expect_code(0).out;
    // A tenth of 100 Mb/s up to the mark of 80 %, less a tenth of 60.
    assert!(calendar.contains("2000000"), "{calendar}");
    assert!(fs::read_to_string(bookings).expect("it is there").contains("reprocessing"));
    longhaul(&fleet, &["twin", "down", &name]).expect_code(0);
    // Without loads.
    let told = up(&["--loads", "none"]).expect_code(0);
    let told: Value = serde_json::from_str(&told.out).expect("one object");
    assert_eq!(told["live"]["loads"], serde_json::json!([]));
    let both = longhaul(&fleet, &["twin", "up", "pair", "--from", "https://h"]);
    assert_eq!(both.code(), Some(2), "{}", both.err);
    fleet.ask(&["transfer", "cancel", &id]).expect_code(0);
}
