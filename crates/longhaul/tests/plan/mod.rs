//! `longhaul plan` as its users meet it: what it prints (`tests/golden/plan-*.txt`; `UPDATE_GOLDEN=1` writes them anew), and
//! what it refuses.

mod shares;
mod slots;

use std::fs;
use std::path::Path;

use crate::place::{Place, stderr, stdout};

/// Every form of answer, on networks that come along.
const ANSWERS: &[(&str, &str)] = &[
    ("k", "path caltech cern --topology transatlantic --k 3"),
    ("widest", "path a1 b2 --topology dumbbell --widest --json"),
    ("pair", "path losangeles geneva --topology transatlantic --disjoint risk"),
    ("shares", "path caltech cern --topology transatlantic --disjoint node"),
    ("pair-json", "path losangeles geneva --topology transatlantic --disjoint link --json"),
    ("include", "path caltech cern --topology transatlantic --include newyork --include ana --max-delay 80ms"),
    ("requirements", "requirements"),
    ("requirements-json", "requirements --json"),
];

#[test]
fn answers_are_as_they_were() {
    let place = Place::new();
    let mut stale = Vec::new();
    for (name, line) in ANSWERS {
        let output = place.longhaul(&format!("plan {line}")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        let text = stdout(&output);
        let is_wide = |text: &str| text.lines().any(|line| line.chars().count() > 100);
        assert!(line.contains("json") || !is_wide(&text), "{line}: {text}");
        stale.extend((!is_golden(name, &text)).then_some(*name));
    }
    assert!(stale.is_empty(), "UPDATE_GOLDEN=1 cargo test writes anew, after a look: {stale:?}");
}

/// Whether a text is that of the file, which is written anew if that is asked for.
fn is_golden(name: &str, text: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/plan-{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    fs::read_to_string(&path).ok().as_deref() == Some(text)
}

#[test]
fn refusals_name_the_thing_and_the_way_out() {
    let place = Place::new();
    fs::write(place.path("bad.toml"), "name = \"x\"\n[[experiment]]\nname = \"a\"\nvolume = 3\n").unwrap();
    fs::write(place.path("bad.json"), "{\"g\": {\"edges\": 3}}").unwrap();
    for (line, code, says) in [
        ("path caltec cern --topology transatlantic", 2, "unknown node `caltec`; did you mean `caltech`?"),
        ("path cern cern --topology transatlantic", 2, "`cern` is both ends"),
        ("path a b --topology none", 2, "neither a file nor one of: pair"),
        ("path a b --topology pair --exclude ba", 2, "did you mean `ab`?"),
        ("path caltech cern --topology transatlantic --exclude amitie", 2, "write link:amitie or risk:amitie"),
        ("path caltech cern --topology transatlantic --exclude cern", 2, "the path begins or ends there"),
        ("path a b --topology pair --exclude ab", 1, "without what is excluded: exclude less"),
        ("path a b --topology pair --max-delay 1ms", 1, "the quickest needs --max-delay 50ms"),
        ("path caltech cern --topology transatlantic --include cern --include boston", 1, "include less"),
        ("requirements bad.toml", 2, "bad.toml:4: experiment `a`: volume: `3` has no unit"),
        ("requirements none.toml", 2, "cannot read none.toml"),
        ("answer bad.json", 2, "bad.json: `g`: `edges` is no list"),
    ] {
        let output = place.longhaul(&format!("plan {line}")).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1 && output.stdout.is_empty(), "{line}: {text}");
    }
}

#[test]
fn what_two_kinds_are_called_is_told_apart() {
    let place = Place::new();
    for thing in ["link:amitie", "risk:amitie"] {
        let line =
            format!("plan path caltech cern --topology transatlantic --include {thing} --exclude node:paris --json");
        let output = place.longhaul(&line).output().unwrap();
        assert!(stdout(&output).contains("\"amitie\""), "{line}: {}", stderr(&output));
    }
}

#[test]
fn questions_are_answered_as_they_are_in_the_vector() {
    let place = Place::new();
    let vector = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../plan/tests/vectors/paths.json")).unwrap();
    fs::write(place.path("paths.json"), &vector).unwrap();
    let output = place.longhaul("plan answer paths.json").output().unwrap();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(&stdout(&output)), json(&vector), "{}", stderr(&output));
}
