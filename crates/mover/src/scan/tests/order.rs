//! In which order, within which bounds, and what happens when the tree changes meanwhile.

use super::*;

#[test]
fn a_directory_then_what_is_in_it_then_its_subdirectories() {
    let tree = Tree::new();
    tree.file("top/a").file("top/sub/b").file("top/sub/deeper/c").dir("top/empty").link("a", "top/s");
    let events = tree.scan(&[source("top")], ScanOptions::default());
    assert_eq!(
        lines(&events),
        [
            "d top",
            "d top/empty",
            "d top/sub",
            "d top/sub/deeper",
            "f top/a",
            "f top/sub/b",
            "f top/sub/deeper/c",
            "l top/s -> a"
        ]
    );
    let at = |path: &str| {
        events
            .iter()
            .position(|e| matches!(e, ScanEvent::Listed { path: p, .. } if p.as_bytes() == path.as_bytes()))
            .unwrap()
    };
    let entry = |path: &str| {
        events.iter().position(|e| matches!(e, ScanEvent::Entry(e, _) if e.path.as_bytes() == path.as_bytes())).unwrap()
    };
    assert_eq!(entry("top"), 0);
    assert!(entry("top/sub") < at("top") && at("top") < entry("top/sub/b"), "a level before the next");
    assert!(at("top/sub") < entry("top/sub/deeper/c"));
}

#[test]
fn one_name_comes_after_the_other_in_every_run() {
    let tree = Tree::new();
    for i in 0..1500 {
        tree.file(format!("top/{}", i * 7919 % 1500));
    }
    tree.dir("top/x").dir("top/y");
    let alone = tree.scan(&[source("top")], ScanOptions { helpers: 0, ..ScanOptions::default() });
    assert_eq!(alone.len(), 1 + 1502 + 3);
    for helpers in [1, 4] {
        assert_eq!(
            tree.scan(&[source("top")], ScanOptions { helpers, ..ScanOptions::default() }),
            alone,
            "{helpers} helpers"
        );
    }
    let inode = |event: &ScanEvent| match event {
        ScanEvent::Entry(Entry { kind: EntryKind::File(identity), .. }, _) => Some(identity.ino),
        _ => None,
    };
    assert!(alone.iter().filter_map(inode).is_sorted(), "in the order of the disk");
}

/// Deeper than directories are kept open, with something to do on the way back.
#[test]
fn deep_trees_need_few_descriptors() {
    let depth = 3 * OPEN_DIRS_MAX;
    let tree = Tree::new();
    let mut path = "top".to_owned();
    for _ in 0..depth {
        tree.file(format!("{path}/left/f")).file(format!("{path}/right/f")).dir(format!("{path}/d"));
        path += "/d";
    }
    let mut scanner = tree.scanner(&[source("top")], ScanOptions { helpers: 0, ..ScanOptions::default() });
    let (mut events, mut open_max) = (Vec::new(), 0);
    while let Some(event) = scanner.next() {
        events.push(event);
        open_max = open_max.max(scanner.stack.iter().filter(|frame| frame.is_open()).count());
    }
    check(&events);
    assert!(open_max <= OPEN_DIRS_MAX + 1, "{open_max} were open");
    assert_eq!(entries(&events).len(), 1 + depth * 5);
    assert!(!lines(&events).iter().any(|l| l.starts_with(['!', '~'])));
}

#[test]
fn paths_longer_than_the_protocol_carries_are_told() {
    let tree = Tree::new();
    let name = [b'n'; 255];
    let mut dir = tree.dir("top").root().open_dir(b"top").unwrap();
    for _ in 0..17 {
        dir.mkdir(&name, 0o755).unwrap();
        dir = dir.open_dir(&name).unwrap();
    }
    let events = tree.scan(&[source("top")], ScanOptions::default());
    let errors: Vec<_> = lines(&events).into_iter().filter(|l| l.starts_with('!')).collect();
    // 3 + 15 × 256 = 3843 bytes fit into 4095, one more name does not.
    assert_eq!(entries(&events).len(), 1 + 15);
    assert!(
        errors.len() == 1 && errors[0].ends_with("is left out: path of 4099 bytes is longer than 4095"),
        "{errors:?}"
    );
    assert_eq!(events.iter().filter(|e| matches!(e, ScanEvent::Listed { complete: false, .. })).count(), 1);
}

/// More subdirectories than may be pending: the rest of them waits, and memory and the protocol have room.
#[test]
fn many_subdirectories_are_walked_in_between() {
    let tree = Tree::new();
    let (max, wide, deep) = (100, 350, 12);
    for i in 0..wide {
        tree.dir(format!("top/{i}"));
    }
    // What is found below while the limit is reached is announced in small slices.
    let mut path = "top/7".to_owned();
    for _ in 0..deep {
        for i in 0..40 {
            tree.dir(format!("{path}/{i}"));
        }
        path += "/7";
    }
    let mut scanner = tree.scanner(&[source("top")], ScanOptions::default());
    scanner.dirs_pending_max = max;
    let events: Vec<_> = scanner.collect();
    assert_eq!(entries(&events).len(), 1 + wide + deep * 40);
    let open_max = check(&events);
    // The ones pending, and on each level a slice and the one that is walked.
    assert!((max..max + (deep + 2) * 17).contains(&open_max), "{open_max} were open");
    assert!(!lines(&events).iter().any(|l| l.starts_with(['!', '~'])));
}

#[test]
fn a_scanner_can_go_to_a_thread() {
    fn sends<T: Send + 'static>(_: &T) {}
    sends(&Tree::new().scanner(&[], ScanOptions::default()));
}

#[test]
fn what_vanishes_was_not_there() {
    let tree = Tree::new();
    for i in 0..600 {
        tree.file(format!("top/{i}"));
    }
    let mut scanner = tree.scanner(&[source("top")], ScanOptions { helpers: 0, ..ScanOptions::default() });
    let mut events: Vec<_> = scanner.by_ref().take(2).collect();
    std::fs::remove_dir_all(tree.at("top")).unwrap();
    events.extend(scanner);
    check(&events);
    // The names were listed, and the first of them looked at, before they vanished.
    assert!((2..600).contains(&entries(&events).len()), "{}", entries(&events).len());
    assert_eq!(events.last(), Some(&ScanEvent::Listed { path: RelPath::new("top").unwrap(), complete: true }));
}

#[test]
fn a_directory_that_vanishes_is_not_complete() {
    let tree = Tree::new();
    tree.file("top/sub/f");
    let mut scanner = tree.scanner(&[source("top")], ScanOptions::default());
    let mut events: Vec<_> = scanner.by_ref().take(2).collect();
    std::fs::remove_dir_all(tree.at("top/sub")).unwrap();
    events.extend(scanner);
    check(&events);
    assert_eq!(lines(&events), ["d top", "d top/sub", "~ top/sub"]);
}

#[test]
fn a_directory_that_became_a_link_is_not_followed() {
    let tree = Tree::new();
    tree.file("top/sub/f").file("secret/g");
    let mut scanner = tree.scanner(&[source("top")], ScanOptions::default());
    let mut events: Vec<_> = scanner.by_ref().take(2).collect();
    std::fs::remove_dir_all(tree.at("top/sub")).unwrap();
    tree.link("../secret", "top/sub");
    events.extend(scanner);
    check(&events);
    assert_eq!(
        lines(&events),
        [
            "! top/sub: cannot read directory: name is or passes through a symbolic link",
            "d top",
            "d top/sub",
            "~ top/sub"
        ]
    );
}

/// A directory that was closed for want of descriptors is looked for again; somebody has put another in its place.
#[test]
fn a_directory_that_was_replaced_is_not_mixed() {
    let tree = Tree::new();
    tree.file("top/a/one/f").file("top/a/two/f");
    let deep = vec!["d"; OPEN_DIRS_MAX + 2].join("/");
    for branch in ["one", "two"] {
        tree.dir(format!("top/a/{branch}/{deep}"));
    }
    let mut scanner = tree.scanner(&[source("top")], ScanOptions::default());
    let mut events = Vec::new();
    while scanner.stack.len() < OPEN_DIRS_MAX + 4 {
        events.push(scanner.next().expect("it gets deep"));
    }
    std::fs::rename(tree.at("top/a"), tree.at("old")).unwrap();
    tree.file("top/a/one/f").file("top/a/two/f");
    events.extend(scanner);
    check(&events);
    let lines = lines(&events);
    let replaced = |l: &&String| l.ends_with("cannot read directory: it was replaced while it was read");
    assert_eq!(lines.iter().filter(replaced).count(), 1, "{lines:?}");
}

/// How fast, on a warm cache; the CPU time tells on a machine that does other things too:
/// `cargo test --release -p mover scan_speed -- --ignored --nocapture`.
#[test]
#[ignore = "measures how fast a scan is, for whoever changes it: a timed test is no test"]
fn scan_speed() {
    let tree = Tree::new();
    for d in 0..100 {
        for f in 0..1000 {
            tree.file(format!("top/wide/{d}/{f}"));
        }
        for s in 0..100 {
            for f in 0..10 {
                tree.file(format!("top/small/{d}/{s}/{f}"));
            }
        }
    }
    for part in ["wide", "small"] {
        for (helpers, preserve_all) in [(0, false), (0, false), (4, false), (0, true), (4, true)] {
            let options = ScanOptions { helpers, preserve_all, ..ScanOptions::default() };
            let (start, cpu) = (std::time::Instant::now(), sys::cpu::process_time().unwrap().total());
            let scanner = tree.scanner(&[source(&format!("top/{part}"))], options);
            let entries = scanner.filter(|e| matches!(e, ScanEvent::Entry(..))).count() as f64;
            let (wall, cpu) =
                (start.elapsed().as_secs_f64(), (sys::cpu::process_time().unwrap().total() - cpu).as_secs_f64());
            let (per_second, per_cpu_second) = (entries / wall, entries / cpu);
            eprintln!(
                "{part}, {helpers} helpers, preserve_all {preserve_all}: {per_second:.0}/s, {per_cpu_second:.0} per CPU second"
            );
        }
    }
}
