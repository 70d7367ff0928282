//! Several sources that bring the same names.

use super::*;

/// A file `f`, a directory `d` and a link `l` of both; names that are one thing here and another there.
fn two_trees() -> Tree {
    let tree = Tree::new();
    for path in ["a/f", "a/d/g", "a/df/in", "a/fd", "a/dl/in", "a/only_a/x"] {
        tree.file(path);
    }
    for path in ["b/f", "b/d/g", "b/d/h", "b/df", "b/fd/in", "b/ld/in", "b/only_b/y"] {
        tree.file(path);
    }
    tree.link("to_a", "a/l").link("to_b", "b/l").link("d", "a/ld").link("d", "b/dl");
    tree
}

/// Where each file was taken from.
fn taken(events: &[ScanEvent]) -> BTreeMap<String, String> {
    let place = |place: &SourceRef| String::from_utf8(place.path.clone()).unwrap();
    entries(events).into_iter().map(|(path, (_, from))| (path, place(from))).collect()
}

fn pairs(text: &[(&str, &str)]) -> BTreeMap<String, String> {
    text.iter().map(|(path, from)| ((*path).to_owned(), (*from).to_owned())).collect()
}

#[test]
fn the_first_wins_and_directories_merge() {
    let tree = two_trees();
    let events = tree.scan(&[source("a/"), source("b/")], ScanOptions::default());
    let found = taken(&events);
    let expected = [
        (".", "a"),
        ("d", "a/d"),
        ("d/g", "a/d/g"),
        ("d/h", "b/d/h"),
        ("df", "a/df"),
        ("df/in", "a/df/in"),
        ("dl", "a/dl"),
        ("dl/in", "a/dl/in"),
        ("f", "a/f"),
        ("fd", "b/fd"),
        ("fd/in", "b/fd/in"),
        ("l", "a/l"),
        ("ld", "b/ld"),
        ("ld/in", "b/ld/in"),
        ("only_a", "a/only_a"),
        ("only_a/x", "a/only_a/x"),
        ("only_b", "b/only_b"),
        ("only_b/y", "b/only_b/y"),
    ];
    assert_eq!(found, pairs(&expected));
    let skipped = |place: &str| {
        let skipped = format!("{} is skipped: ", tree.at(place).display());
        events.iter().any(|event| matches!(event, ScanEvent::Warning { why, .. } if why.starts_with(&skipped)))
    };
    let losers = ["b/f", "b/d/g", "b/df", "a/fd", "b/dl", "a/ld", "b/l"];
    assert!(losers.into_iter().all(skipped) && warnings(&events) == losers.len(), "{:#?}", lines(&events));
    assert!(events.iter().all(|event| !matches!(event, ScanEvent::Listed { complete: false, .. })));
    // The other way round the other files win, the directories as before.
    let found = taken(&tree.scan(&[source("b/"), source("a/")], ScanOptions::default()));
    assert_eq!((found["f"].as_str(), found["fd"].as_str(), found["df"].as_str()), ("b/f", "b/fd", "a/df"));
}

#[test]
fn both_names_stand_in_the_warning() {
    let tree = two_trees();
    let lines = tree.lines(&[source("a/"), source("b/")]);
    let at = |path: &str| tree.at(path).display().to_string();
    for line in [
        format!("? d/g: {} is skipped: {} goes to the same place and was named first", at("b/d/g"), at("a/d/g")),
        format!("? fd: {} is skipped: {} is a directory of the same place", at("a/fd"), at("b/fd")),
    ] {
        assert!(lines.contains(&line), "{line} is not among {lines:#?}");
    }
}

#[test]
fn sources_of_one_name_meet() {
    let tree = Tree::new();
    tree.file("one/a/f").file("two/a/f").file("two/a/g").file("one/h").file("two/h").file("three/h");
    let sources = ["one/a", "two/a", "two/h", "one/h"].map(source);
    let events = tree.scan(&sources, ScanOptions::default());
    assert_eq!(taken_places(&events), ["a = one/a", "a/f = one/a/f", "a/g = two/a/g", "h = two/h"]);
    assert_eq!(warnings(&events), 2, "{:?}", lines(&events));
    // What is named stands in its turn beside what is in a directory.
    let events = tree.scan(&[source("three/h"), source("one/"), source("two/a")], ScanOptions::default());
    assert_eq!(taken_places(&events), [". = one", "a = one/a", "a/f = one/a/f", "a/g = two/a/g", "h = three/h"]);
    assert_eq!(warnings(&events), 2, "{:?}", lines(&events));
    let missing = tree.lines(&[source("one/"), source("gone"), source("two/h")]);
    let error = "! gone: cannot look at source `gone`: No such file or directory (os error 2)";
    assert!(missing.contains(&error.to_owned()) && missing.contains(&"~ .".to_owned()), "{missing:?}");
}

fn taken_places(events: &[ScanEvent]) -> Vec<String> {
    taken(events).into_iter().map(|(path, from)| format!("{path} = {from}")).collect()
}

fn warnings(events: &[ScanEvent]) -> usize {
    events.iter().filter(|event| matches!(event, ScanEvent::Warning { .. })).count()
}

/// Slices of a few names, and room for few directories: the same is told.
#[test]
fn a_merge_needs_little_memory() {
    let tree = Tree::new();
    for i in 0..300 {
        tree.file(format!("a/wide/{i}")).file(format!("b/wide/{}", i + 150));
    }
    for i in 0..60 {
        tree.file(format!("a/dirs/{i}/x")).file(format!("b/dirs/{}/y", i + 30)).file(format!("b/dirs/{i}/deep/z"));
    }
    let sources = [source("a/"), source("b/")];
    let whole = tree.scan(&sources, ScanOptions::default());
    let mut scanner = tree.scanner(&sources, ScanOptions::default());
    (scanner.merge_bytes_max, scanner.dirs_pending_max) = (3000, 40);
    let (mut events, mut pending_max) = (Vec::new(), 0);
    while let Some(event) = scanner.next() {
        pending_max = pending_max.max(scanner.dirs_pending);
        events.push(event);
    }
    check(&events);
    assert_eq!(taken(&events), taken(&whole));
    assert_eq!(entries(&events).len(), 1 + 1 + 450 + 1 + 90 + 60 + 60 * 3, "{:?}", lines(&events));
    assert!(pending_max < 100, "{pending_max} were pending");
    assert_eq!(scanner.dirs_pending, 0);
}

#[test]
fn many_skipped_names_are_counted() {
    let tree = Tree::new();
    let many = SKIPPED_TOLD_MAX + 7;
    for i in 0..many {
        tree.file(format!("a/{i}")).file(format!("b/{i}"));
    }
    let lines = tree.lines(&[source("a/"), source("b/")]);
    assert_eq!(lines.iter().filter(|line| line.contains(" is skipped: ")).count() as u64, SKIPPED_TOLD_MAX);
    assert!(lines.contains(&"? .: 7 more names are skipped, for several sources have them".to_owned()), "{lines:?}");
}

#[test]
fn what_cannot_be_copied_keeps_nothing_out() {
    let tree = Tree::new();
    tree.dir("a").file("b/x").file("b/y.tmp/in");
    let _socket = std::os::unix::net::UnixListener::bind(tree.at("a/x")).unwrap();
    tree.file("a/y.tmp");
    assert_eq!(taken(&tree.scan(&[source("a/"), source("b/")], ScanOptions::default()))["x"], "b/x");
    // What a filter leaves out does not win either: it is for directories only.
    let events = tree.scan(&[source("a/"), source("b/")], filtered(&["-*.tmp/"]));
    assert_eq!(taken(&events)["y.tmp"], "a/y.tmp");
}

/// A source that is gone, or a name: nothing may be deleted where it could have been.
#[test]
fn what_vanishes_makes_a_merge_incomplete() {
    let tree = two_trees();
    let mut scanner = tree.scanner(&[source("a/"), source("b/")], ScanOptions::default());
    let is_d = |event: &ScanEvent| matches!(event, ScanEvent::Entry(entry, _) if entry.path.as_bytes() == b"d");
    let mut events = Vec::new();
    while !events.iter().any(is_d) {
        events.push(scanner.next().expect("it is told"));
    }
    std::fs::remove_dir_all(tree.at("a/d")).unwrap();
    events.extend(scanner);
    check(&events);
    let lines = lines(&events);
    assert!(lines.contains(&"~ d".to_owned()) && lines.contains(&"f d/h".to_owned()), "{lines:?}");
    let lines = tree.lines(&[source("a/"), source("gone/"), source("b/")]);
    assert!(lines.contains(&"~ .".to_owned()) && lines.contains(&"f f".to_owned()), "{lines:?}");
}

#[test]
fn deep_merges_come_back_to_what_only_one_has() {
    let tree = Tree::new();
    let deep = vec!["d"; OPEN_DIRS_MAX + 3].join("/");
    for top in ["a", "b"] {
        tree.file(format!("{top}/{deep}/{top}"));
    }
    tree.file(format!("a/{deep}/own/{deep}/left/f")).file(format!("a/{deep}/own/right/f"));
    let events = tree.scan(&[source("a/"), source("b/")], ScanOptions::default());
    let files = lines(&events).into_iter().filter(|line| line.starts_with('f')).count();
    assert_eq!((files, lines(&events).iter().filter(|line| line.starts_with(['!', '~'])).count()), (4, 0));
}

#[test]
fn more_sources_than_are_kept_open_merge() {
    let tree = Tree::new();
    let sources: Vec<_> = (0..OPEN_TOPS_MAX + 6).map(|i| format!("{i}/")).collect();
    for (i, top) in sources.iter().enumerate() {
        tree.file(format!("{top}d/{i}")).file(format!("{top}d/same"));
    }
    let specs: Vec<_> = sources.iter().map(|path| source(path)).collect();
    let mut scanner = tree.scanner(&specs, ScanOptions::default());
    let events: Vec<_> = scanner.by_ref().collect();
    check(&events);
    assert_eq!(entries(&events).len(), 2 + sources.len() + 1);
    assert_eq!(scanner.tops.len(), OPEN_TOPS_MAX);
    assert_eq!(taken(&events)["d/same"], "0/d/same");
}
