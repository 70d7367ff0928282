//! The rules of this house that no compiler holds us to.
//!
//! Each rule is a function from what was read to a list of breaches, tried on a breach below; the
//! tests named after the rules apply them to the whole workspace.

mod source;
mod workspace;

use std::path::Path;

use source::{Source, Token};
use workspace::{WORKSPACE, rust_files};

/// The layers, from the bottom up. A crate uses only crates on lower lines, never its own line.
const LAYERS: &[&[&str]] = &[
    &["units"],
    &["model"],
    &["plan", "proto", "sim"],
    &["ledger"],
    &["api", "sys"],
    &["host", "service"],
    &["driver", "mover", "probe", "twin"],
    &["faces"],
    &["agent", "controller"],
    &["longhaul"],
];

/// Crates that do no I/O, read no clock, spawn nothing and iterate no hash map.
const PURE: &[&str] = &["units", "model", "plan", "proto", "sim", "ledger"];

/// What a pure crate does not name, and what it does instead.
const IMPURE: &[(&str, &str)] = &[
    ("Instant::now", "take `now` as an argument"),
    ("SystemTime::now", "take `now` as an argument"),
    ("std::fs", "let a crate above read and write"),
    ("std::net", "addresses are in `core::net`; sockets belong above"),
    ("std::thread", "let a crate above run it"),
    ("std::process", "let a crate above run it"),
    ("std::env", "take the setting as an argument"),
    ("tokio", "let a crate above wait"),
    ("HashMap", "its order is random: use `BTreeMap`"),
    ("HashSet", "its order is random: use `BTreeSet`"),
];

/// The crate that holds all unsafe code.
const UNSAFE_IN: &str = "sys";

/// The longest that a source file may be; 500 lines are already long.
const MAX_LINES: usize = 700;

/// Macros that say that something is not finished.
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];

#[test]
fn dependencies_point_down() {
    let arrows = WORKSPACE.crates.iter().map(|(name, member)| (name.as_str(), member.uses.as_slice()));
    assert_none(arrows.flat_map(|(name, uses)| arrows_not_down(name, uses)));
}

#[test]
fn unsafe_code_is_in_sys_only() {
    let others = || WORKSPACE.crates.iter().filter(|(name, _)| *name != UNSAFE_IN).map(|(_, member)| member);
    let roots = others().flat_map(|member| &member.roots).map(|root| Source::read(root));
    assert_none(roots.flat_map(|root| forbids_unsafe(&root)));
    let allowed = WORKSPACE.root.join("crates").join(UNSAFE_IN);
    let sources = WORKSPACE.sources().filter(|source| !source.path.starts_with(&allowed));
    assert_none(sources.flat_map(|source| uses_unsafe(&source)));
}

#[test]
fn pure_crates_touch_nothing_outside() {
    let pure = WORKSPACE.crates.iter().filter(|(name, _)| PURE.contains(&name.as_str()));
    let sources = pure.flat_map(|(_, member)| rust_files(&member.dir.join("src")));
    assert_none(sources.flat_map(|path| impurities(&Source::read(&path))));
}

#[test]
fn a_file_fits_a_mind() {
    assert_none(WORKSPACE.sources().flat_map(|source| too_long(&source)));
}

#[test]
fn nothing_says_that_it_is_unfinished() {
    assert_none(WORKSPACE.sources().flat_map(|source| unfinished(&source)));
}

#[test]
fn every_rule_finds_its_breach() {
    let bad = |text: &str| Source::new(Path::new("bad.rs"), text.to_owned());
    let uses = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();

    assert_eq!(arrows_not_down("mover", &uses(&["sys", "proto", "units"])), uses(&[]));
    assert_eq!(arrows_not_down("proto", &uses(&["sys"])).len(), 1, "up");
    assert_eq!(arrows_not_down("proto", &uses(&["sim"])).len(), 1, "sideways");
    assert_eq!(arrows_not_down("newcomer", &uses(&[])).len(), 1, "no layer");

    assert_eq!(forbids_unsafe(&bad("//! A crate.\n#![forbid(unsafe_code)]")), uses(&[]));
    assert_eq!(forbids_unsafe(&bad("// #![forbid(unsafe_code)]")).len(), 1);
    assert_eq!(uses_unsafe(&bad("/* unsafe */ let a = \"unsafe\";")), uses(&[]));
    assert_eq!(uses_unsafe(&bad("\n\nunsafe { x() }")), uses(&["bad.rs:3: unsafe code outside `sys`"]));

    assert_eq!(impurities(&bad("use core::net::IpAddr; use std::time::Duration;")), uses(&[]));
    let impure = [
        "let now = Instant::now();",
        "let now = std::time::SystemTime::now();",
        "use std::fs;",
        "use std::{collections::BTreeMap, net::{IpAddr, SocketAddr}};",
        "use std::{fmt, thread as t};",
        "fn f() { let m: HashMap<u8, u8> = HashMap::default(); }",
        "tokio::spawn(async {});",
    ];
    for text in impure {
        assert!(!impurities(&bad(text)).is_empty(), "{text}");
    }

    assert_eq!(too_long(&bad(&"\n".repeat(MAX_LINES))), uses(&[]));
    assert_eq!(too_long(&bad(&"\n".repeat(MAX_LINES + 1))).len(), 1);

    for name in UNFINISHED {
        for call in ["!()", "! (\"x\")", "![1]", "! { 1 }"] {
            assert_eq!(unfinished(&bad(&format!("{name}{call};"))).len(), 1, "{name}{call}");
        }
        assert_eq!(unfinished(&bad(&format!("let {name} = 1; // {name}!(later)"))), uses(&[]));
    }
}

fn arrows_not_down(name: &str, uses: &[String]) -> Vec<String> {
    let layer_of = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(layer) = layer_of(name) else {
        return vec![format!("crate `{name}` has no layer")];
    };
    let not_down = uses.iter().filter(|used| layer_of(used).is_none_or(|other| other >= layer));
    not_down.map(|used| format!("crate `{name}` uses `{used}`, which is not below it")).collect()
}

fn forbids_unsafe(root: &Source) -> Vec<String> {
    let dense: String = root.code.split_whitespace().collect();
    let missing = !dense.contains("#![forbid(unsafe_code)]");
    missing.then(|| root.breach(1, "lacks #![forbid(unsafe_code)]")).into_iter().collect()
}

fn uses_unsafe(source: &Source) -> Vec<String> {
    let found = source.tokens().filter(|token| token.text == "unsafe");
    found.map(|token| source.breach(token.line, "unsafe code outside `sys`")).collect()
}

fn impurities(source: &Source) -> Vec<String> {
    let mut breaches = Vec::new();
    for (line, path) in source.paths() {
        let path = format!("::{}::", path.join("::"));
        for (impure, instead) in IMPURE.iter().filter(|(impure, _)| path.contains(&format!("::{impure}::"))) {
            breaches.push(source.breach(line, &format!("`{impure}` in a pure crate: {instead}")));
        }
    }
    breaches
}

fn too_long(source: &Source) -> Vec<String> {
    let lines = source.code.lines().count();
    let long = lines > MAX_LINES;
    long.then(|| source.breach(lines, &format!("{MAX_LINES} lines are the limit"))).into_iter().collect()
}

fn unfinished(source: &Source) -> Vec<String> {
    let tokens: Vec<Token> = source.tokens().collect();
    let called = tokens.windows(3).filter(|seen| {
        UNFINISHED.contains(&seen[0].text) && seen[1].text == "!" && ["(", "[", "{"].contains(&seen[2].text)
    });
    called.map(|seen| source.breach(seen[0].line, &format!("{}! is left", seen[0].text))).collect()
}

fn assert_none(breaches: impl Iterator<Item = String>) {
    let breaches: Vec<String> = breaches.collect();
    assert!(breaches.is_empty(), "\n{}", breaches.join("\n"));
}
