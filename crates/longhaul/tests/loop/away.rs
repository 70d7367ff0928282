//! Nobody in charge: what the agents send without a controller, counted by the network.

use std::time::{Duration, Instant};

use crate::fleet::{Fleet, Ground};
use crate::world::{World, wait_for};
use crate::{is_missing, run, tried};

/// Of the link between the sites; 80 % of it are given.
const RATE: &str = "20 Mb/s";
const MARK_BPS: f64 = 16e6;
/// Leases take 30 s: after that the fall-back must hold. `LOOP_AWAY_SECONDS` is another time, such as ten minutes.
const AWAY_SECONDS: u64 = 38;
/// How much above the mark is noise, in a window and over all of the time: who was not run for a while sends a little later.
const WINDOW: Duration = Duration::from_secs(5);
const WINDOW_NOISE: f64 = 1.05;
const NOISE: f64 = 1.02;

/// Two namespaces with a cable between them; removed when they go.
struct Hosts([String; 2]);

impl Hosts {
    fn join() -> Hosts {
        let hosts = Hosts(["a", "b"].map(|end| format!("lh{}away{end}", std::process::id())));
        let [a, b] = &hosts.0;
        for host in [a, b] {
            run(&format!("ip netns add {host}"), &[]);
            run(&format!("ip -n {host} link set lo up"), &[]);
        }
        run(&format!("ip -n {a} link add v1 type veth peer name v1 netns {b}"), &[]);
        for (host, end) in [(a, 1), (b, 2)] {
            run(&format!("ip -n {host} addr add 10.78.1.{end}/24 dev v1"), &[]);
            run(&format!("ip -n {host} link set v1 up"), &[]);
        }
        hosts
    }

    /// Bits that arrived at the far end so far.
    fn carried(&self) -> f64 {
        let text = run(&format!("ip -s -j -n {} link show v1", self.0[1]), &[]);
        let links: serde_json::Value = serde_json::from_str(&text).expect("ip prints JSON");
        links[0]["stats64"]["rx"]["bytes"].as_f64().expect("a number") * 8.0
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.0 {
            tried(&format!("ip netns del {name}"), &[]);
        }
    }
}

#[test]
fn marks_hold_with_nobody_in_charge() {
    if is_missing(&["ip"], true) {
        return;
    }
    let seconds = std::env::var("LOOP_AWAY_SECONDS").map_or(AWAY_SECONDS, |text| text.parse().expect("seconds"));
    let hosts = Hosts::join();
    let mut ground = Ground::default();
    for (who, end) in [("controller", 0), ("w1", 0), ("e1", 1)] {
        ground.places.insert(who.to_owned(), (hosts.0[end].clone(), format!("10.78.1.{}", end + 1)));
    }
    let mut fleet = Fleet::on(World::still(), RATE, &["w1", "e1"], ground);
    // Somewhat more than each moves in that time.
    let length = (MARK_BPS / 8.0) as usize * (seconds as usize + 20) / 4;
    let ids: Vec<String> = [("cms", 3), ("atlas", 1)]
        .map(|(class, share)| {
            std::fs::write(fleet.data("west").join(class), vec![7; length * share]).expect("a file can be written");
            fleet.submit(&format!("west:{class}"), &format!("east:{class}"), class, &[])
        })
        .into();
    let rate = |id: &String| fleet.json(&["transfer", "show", id])["rate_bps"].as_u64().expect("a number");
    // Both at their shares, three to one, so that no rate is on its way.
    wait_for("both to move at their rates", || {
        let (one, other) = (rate(&ids[0]) as f64, rate(&ids[1]) as f64);
        (one > 0.65 * MARK_BPS && other > 0.2 * MARK_BPS).then_some(())
    });
    fleet.kill_controller();
    let (begin, first) = (Instant::now(), hosts.carried());
    let (mut last, mut most) = ((begin, first), 0.0_f64);
    while begin.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(WINDOW);
        // From before the first look to after the second: what was read in between was sent in no longer.
        let (before, carried) = (Instant::now(), hosts.carried());
        most = most.max((carried - last.1) / last.0.elapsed().as_secs_f64());
        last = (before, carried);
    }
    let mean = (last.1 - first) / (last.0 - begin).as_secs_f64();
    eprintln!("{seconds} s without a controller: {:.2} Mb/s, at most {:.2} in {WINDOW:?}", mean / 1e6, most / 1e6);
    assert!(mean < NOISE * MARK_BPS && most < WINDOW_NOISE * MARK_BPS, "above the mark: {mean} b/s, at most {most}");
    assert!(mean > 0.9 * MARK_BPS, "they stood still: {mean} b/s");
    fleet.start_controller();
    for id in &ids {
        let told = fleet.end_of(id);
        assert_eq!(told["state"], "done", "{told:#}");
    }
}
