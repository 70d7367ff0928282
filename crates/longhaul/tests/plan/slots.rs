//! Questions about reservations, on a network that comes along and a week of bookings.

use std::fs;

use super::is_golden;
use crate::place::{Place, stderr, stdout};

/// What every question is asked of.
const ASKED: &str = "--topology transatlantic --bookings week.toml --now 2026-02-28T12:00:00Z";

/// Every form of answer, with its exit code.
const ANSWERS: &[(&str, i32, &str)] = &[
    ("reserve", 0, "reserve caltech cern --rate 40Gb/s --start 2026-03-01T03:00:00Z --for 6h"),
    ("refused", 4, "reserve caltech cern --rate 100Gb/s --start 2026-03-01T03:00:00Z --for 6h"),
    ("refused-json", 4, "reserve caltech cern --rate 400Gb/s --start 2026-03-01T03:00:00Z --for 6h --json"),
    ("balance", 0, "reserve newyork amsterdam --rate 5Gb/s --start 2026-03-03T03:00:00Z --for 6h --balance"),
    ("storage", 4, "reserve caltech cern --rate 280Gb/s --start 2026-03-02T00:00:00Z --for 4h"),
    ("highest", 0, "highest caltech cern --start 2026-03-01T03:00:00Z --for 6h --json"),
    ("slots", 0, "slots caltech cern --rate 100Gb/s --for 6h --until 2026-03-03T00:00:00Z"),
    ("slots-json", 0, "slots caltech cern --rate 900Gb/s --for 6h --json"),
    ("volume", 0, "volume caltech cern --size 1PB"),
    ("volume-json", 0, "volume caltech cern --size 1TB --rate 30Gb/s --json"),
    ("calendar", 0, "calendar --until 2026-03-01T12:00:00Z"),
    ("calendar-svg", 0, "calendar --until 2026-03-01T12:00:00Z --svg"),
];

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("week.toml"), include_str!("../../../../bookings/week.toml")).unwrap();
    place
}

#[test]
fn answers_are_as_they_were() {
    let place = place();
    let mut stale = Vec::new();
    for (name, code, line) in ANSWERS {
        let output = place.longhaul(&format!("plan {line} {ASKED}")).output().unwrap();
        assert_eq!(output.status.code(), Some(*code), "{line}: {}", stderr(&output));
        let text = stdout(&output);
        let is_wide = |text: &str| text.lines().any(|line| line.chars().count() > 100);
        assert!(line.contains("json") || line.contains("svg") || !is_wide(&text), "{line}: {text}");
        stale.extend((!is_golden(name, &text)).then_some(*name));
    }
    assert!(stale.is_empty(), "UPDATE_GOLDEN=1 cargo test writes anew, after a look: {stale:?}");
}

#[test]
fn refusals_name_the_thing_and_the_way_out() {
    let place = place();
    fs::write(place.path("bad.toml"), "[[booking]]\nname = \"a\"\nlinks = [\"dunan\"]\n").unwrap();
    let bad = "--topology transatlantic --bookings bad.toml";
    for (line, code, says) in [
        (format!("slots caltech cern --rate 1Gb/s --for 1h {bad}"), 2, "bad.toml:3: booking `a`: links: "),
        (format!("slots caltech caltech --rate 1Gb/s --for 1h {ASKED}"), 2, "`caltech` is both ends"),
        (format!("slots caltech cern --rate 0b/s --for 1h {ASKED}"), 2, "--rate of nothing"),
        (format!("slots caltech cern --rate 1Gb/s --for 0s {ASKED}"), 2, "--for 0s: write more than nothing"),
        (format!("slots caltech cern --rate 900Gb/s --for 1h {ASKED}"), 1, "is not free on any path until"),
        (format!("slots caltech cern --rate 1Gb/s --for 1h --until 2026-02-01T00:00:00Z {ASKED}"), 2, "--until"),
        (format!("volume caltech cern --size 0B {ASKED}"), 2, "--size of nothing"),
        (format!("volume caltech cern --size 9EB {ASKED}"), 1, "is not sent by"),
        (format!("highest caltech cern --start 2026-03-01T03:00:00Z --for 0s {ASKED}"), 2, "write more than nothing"),
        (format!("highest caltech cern --start tomorrow --for 1h {ASKED}"), 2, "2026-03-01T06:00:00Z"),
    ] {
        let output = place.longhaul(&format!("plan {line}")).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(says) && output.stdout.is_empty(), "{line}: {text}");
    }
}
