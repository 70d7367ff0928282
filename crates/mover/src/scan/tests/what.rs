//! What is carried, from where, and what is left out.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;

#[test]
fn names_are_any_bytes() {
    let tree = Tree::new();
    let long = vec![b'x'; 255];
    let odd: [&[u8]; 5] = [b"\xff\xfe", b"two\nlines", b" ", b"-rf", &long];
    for name in odd {
        tree.file([b"top/", name].concat());
    }
    tree.dir(b"top/dir\xff").file(b"top/dir\xff/in").link("t\n", "top/link");
    let events = tree.scan(&[source("top")], ScanOptions::default());
    let found = entries(&events);
    for name in odd {
        let path = RelPath::new([b"top/", name].concat()).unwrap();
        let (entry, place) = found[&path.to_string()];
        assert_eq!((&entry.path, place.path.as_slice()), (&path, path.as_bytes()));
        assert_eq!(entry.size(), Some(path.as_bytes().len() as u64));
    }
    assert!(found.contains_key("top/dir\\xff/in"));
    assert!(lines(&events).contains(&"l top/link -> t\\n".to_owned()));
}

#[test]
fn entries_say_what_the_file_system_says() {
    let tree = Tree::new();
    tree.file("top/f").dir("top/d");
    std::fs::set_permissions(tree.at("top/f"), PermissionsExt::from_mode(0o4751)).unwrap();
    std::fs::set_permissions(tree.at("top/d"), PermissionsExt::from_mode(0o1777)).unwrap();
    let events = tree.scan(&[source("top")], ScanOptions::default());
    let found = entries(&events);
    let (file, place) = found["top/f"];
    let meta = std::fs::metadata(tree.at("top/f")).unwrap();
    assert_eq!((file.mode, file.owner, file.xattrs.len()), (0o4751, None, 0));
    assert_eq!((file.mtime.sec, i64::from(file.mtime.nsec)), (meta.mtime(), meta.mtime_nsec()));
    let EntryKind::File(identity) = file.kind else { panic!("{file:?}") };
    assert_eq!((identity.size, identity.ino, identity.dev), (5, meta.ino(), meta.dev()));
    assert_eq!((identity.ctime.sec, i64::from(identity.ctime.nsec)), (meta.ctime(), meta.ctime_nsec()));
    assert_eq!(found["top/d"].0.mode, 0o1777);
    // The same once more for one file, as after a change.
    assert_eq!(&entry_of(&tree.root(), place, &file.path, false).unwrap(), file);
    std::fs::write(tree.at("top/f"), "longer than before").unwrap();
    assert_ne!(entry_of(&tree.root(), place, &file.path, false).unwrap().kind, file.kind);
    let dir = entry_of(&tree.root(), found["top/d"].1, &found["top/d"].0.path, false);
    assert_eq!(dir.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
}

#[test]
fn sources_as_with_rsync() {
    let tree = Tree::new();
    tree.file("a/b/f").link("b", "a/to_dir").link("b/f", "a/to_file").link("/", "a/out");
    assert_eq!(tree.lines(&[source("a/b")]), ["d b", "f b/f"]);
    assert_eq!(tree.lines(&[source("a/b/")]), ["d .", "f f"]);
    assert_eq!(tree.lines(&[source("a/b/f")]), ["f f"]);
    assert_eq!(tree.lines(&[source("a/to_dir")]), ["l to_dir -> b"], "a link is carried");
    assert_eq!(tree.lines(&[source("a/to_dir/")]), ["d .", "f f"], "with a slash it is followed");
    assert_eq!(tree.lines(&[SourceSpec { name: b"new".to_vec(), ..source("a/b") }]), ["d new", "f new/f"]);
    let place = |source| entries(&tree.scan(&[source], ScanOptions::default()))["f"].1.path.clone();
    assert_eq!(place(source("a/b/")), b"a/b/f");
    assert_eq!(place(SourceSpec { name: b"f".to_vec(), ..source("a/b/f") }), b"a/b/f");
    let mut whole = tree.lines(&[source("/")]);
    whole.retain(|l| l.starts_with('f'));
    assert_eq!(whole, ["f a/b/f"], "the root itself");
    let error = |source| tree.lines(&[source]).join("; ");
    assert!(error(source("nothing")).starts_with("! nothing: cannot look at source `nothing`: No such file"));
    assert!(error(source("a/b/f/")).starts_with("! .: cannot open source `a/b/f`: Not a directory"));
    assert!(
        error(source("a/to_file/")).starts_with("! .: cannot open source `a/to_file`: a symbolic link to something")
    );
    assert!(error(source("a/out/")).starts_with("! .: cannot open source `a/out`: name leads outside"));
    assert!(error(source("../x")).ends_with("not a plain relative name"));
    assert!(
        error(SourceSpec { name: b"..".to_vec(), ..source("a") }).starts_with("! .: source `a`: path holds a name")
    );
}

#[test]
fn only_what_has_a_place_at_the_destination() {
    let tree = Tree::new();
    tree.file("top/f");
    let _socket = std::os::unix::net::UnixListener::bind(tree.at("top/socket")).unwrap();
    if !Command::new("mkfifo").arg(tree.at("top/pipe")).status().is_ok_and(|s| s.success()) {
        return eprintln!("skipped: there is no mkfifo here");
    }
    let skipped = "not a regular file, directory or symlink: skipped";
    let all = tree.lines(&[source("top")]);
    assert_eq!(
        all,
        [format!("! top/pipe: {skipped}"), format!("! top/socket: {skipped}"), "d top".into(), "f top/f".into()]
    );
    assert_eq!(tree.lines(&[source("top/pipe")]), ["p pipe"], "a pipe that is named is read");
    assert_eq!(tree.lines(&[source("top/socket")]), [format!("! socket: {skipped}")]);
}

#[test]
fn only_the_names_of_a_list() {
    let tree = Tree::new();
    for path in ["src/a/b/1", "src/a/b/2", "src/a/3", "src/c/4", "src/5", "src/6", "src/whole/7"] {
        tree.file(path);
    }
    tree.link("a", "src/s");
    let names = ["a/b/1", "5", "whole", "a/b/1", "a"];
    let events = tree.scan(&[listed("src/", &names)], ScanOptions::default());
    assert_eq!(lines(&events), ["d .", "d a", "d a/b", "d whole", "f 5", "f a/b/1", "~ .", "~ a", "~ a/b", "~ whole"]);
    assert_eq!(tree.lines(&[listed("src", &["c/4"])]), ["d src", "d src/c", "f src/c/4", "~ src", "~ src/c"]);

    let not_there = tree.lines(&[listed("src/", &["6", "no/1", "no/2", "5/x", "s/3"])]);
    assert_eq!(
        not_there,
        [
            "! 5: not a directory; names of the list beneath it that are left out: 1",
            "! no: cannot look at it: No such file or directory (os error 2); names of the list beneath it that are left out: 2",
            "! s: not a directory; names of the list beneath it that are left out: 1",
            "d .",
            "f 6",
            "~ .",
        ]
    );
    let file = tree.lines(&[listed("src/5", &["x"])]);
    assert_eq!(file, ["! 5: not a directory, so none of the names listed are in it"]);
    let events = tree.scan(&[listed("src/", &["a/b/1", "a/3"])], filtered(&["-b/"]));
    assert_eq!(lines(&events), ["d .", "d a", "f a/3", "~ .", "~ a"]);
}

#[test]
fn what_is_left_out_is_not_looked_into() {
    let tree = Tree::new();
    for path in ["top/a.tmp", "top/keep.tmp", "top/cache/x", "top/sub/cache/y", "top/sub/z", "top/x/sub"] {
        tree.file(path);
    }
    let scan = |rules: &[&str]| lines(&tree.scan(&[source("top")], filtered(rules)));
    assert_eq!(
        scan(&["-*.tmp", "+keep.tmp", "-cache/", "+cache/y"]),
        ["d top", "d top/sub", "d top/x", "f top/keep.tmp", "f top/sub/z", "f top/x/sub"]
    );
    assert_eq!(scan(&["-*", "+top", "+top/x", "+top/x/*"]), ["d top", "d top/x", "f top/x/sub"]);
    assert_eq!(scan(&["-/top"]), [""; 0], "a source is subject to it");
    let contents = lines(&tree.scan(&[source("top/")], filtered(&["-/sub", "-*.tmp", "-cache"])));
    assert_eq!(contents, ["d .", "d x", "f x/sub"], "anchored at the destination");
}

#[test]
fn hard_links_are_found() {
    let tree = Tree::new();
    tree.file("top/b/first").dir("top/a");
    for to in ["top/a/x", "top/a/y", "elsewhere"] {
        std::fs::hard_link(tree.at("top/b/first"), tree.at(to)).unwrap();
    }
    let events = tree.scan(&[source("top"), source("elsewhere")], preserve_all());
    let found = lines(&events);
    let files: Vec<_> = found.iter().filter(|l| l.starts_with('f')).collect();
    let links: Vec<_> = found.iter().filter(|l| l.starts_with('h')).collect();
    assert_eq!((files.len(), links.len()), (1, 3), "{found:?}");
    assert!(links.iter().all(|l| l.ends_with(&format!("= {}", &files[0][2..]))), "{found:?}");
    assert_eq!(found.iter().filter(|l| l.starts_with('d')).count(), 3);
    let without = tree.lines(&[source("top"), source("elsewhere")]);
    assert_eq!(without.iter().filter(|l| l.starts_with('f')).count(), 4, "only when asked for");
}

#[test]
fn links_beyond_the_table_are_files() {
    let tree = Tree::new();
    for i in 0..3 {
        tree.file(format!("top/{i}"));
        std::fs::hard_link(tree.at(format!("top/{i}")), tree.at(format!("top/{i}-again"))).unwrap();
    }
    let mut scanner = tree.scanner(&[source("top")], preserve_all());
    scanner.links = LinkTable::new(0);
    let events: Vec<_> = scanner.collect();
    check(&events);
    let count = |first: char| lines(&events).iter().filter(|l| l.starts_with(first)).count();
    assert_eq!((count('f'), count('h'), count('?')), (6, 0, 1));
}

#[test]
fn owners_and_attributes_when_asked_for() {
    let tree = Tree::new();
    tree.file("top/f").dir("top/d").link("f", "top/l");
    let root = tree.root();
    let big = vec![7; 2000];
    for (path, value) in [("top", &b"root"[..]), ("top/f", &big), ("top/d", b"")] {
        if let Err(e) = root.set_xattr_nofollow(path.as_bytes(), b"user.longhaul", value) {
            return eprintln!("skipped: no extended attributes here: {e}");
        }
    }
    for spec in [source("top/"), source("top")] {
        let events = tree.scan(&[spec], preserve_all());
        let found = entries(&events);
        let ours = |suffix: &str| {
            let (entry, _) = found.iter().find(|(path, _)| path.ends_with(suffix)).unwrap().1;
            entry.xattrs.iter().find(|(name, _)| name == b"user.longhaul").map(|(_, value)| value.clone())
        };
        let top = events.iter().find_map(|e| if let ScanEvent::Entry(e, _) = e { Some(e) } else { None }).unwrap();
        assert!(top.xattrs.contains(&(b"user.longhaul".to_vec(), b"root".to_vec())), "{top:?}");
        assert_eq!((ours("f"), ours("d"), ours("l")), (Some(big.clone()), Some(vec![]), None));
        let meta = std::fs::metadata(tree.at("top")).unwrap();
        assert!(found.values().all(|(entry, _)| entry.owner == Some((meta.uid(), meta.gid()))));
    }
}

#[test]
fn access_lists_are_carried() {
    let tree = Tree::new();
    tree.file("top/f");
    // Version 2, then user::rw- user:1:r-- group::r-- mask::r-- other::---, as linux/posix_acl_xattr.h has it.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in [(1_u16, 6_u16, u32::MAX), (2, 4, 1), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        acl.extend([tag.to_le_bytes(), perm.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    let name = b"system.posix_acl_access";
    if let Err(e) = tree.root().set_xattr_nofollow(b"top/f", name, &acl) {
        return eprintln!("skipped: no access lists here: {e}");
    }
    let events = tree.scan(&[source("top")], preserve_all());
    assert_eq!(entries(&events)["top/f"].0.xattrs, [(name.to_vec(), acl)]);
}

/// What the child of the next test sees; root may read everything, so that it must be somebody else.
#[test]
#[ignore = "run by `what_may_not_be_read_is_told` with a tree"]
fn as_somebody_else() {
    let Some(top) = std::env::var_os("LONGHAUL_TEST_TREE") else { return };
    let root = Dir::open(Path::new(&top)).unwrap();
    let events: Vec<_> = Scanner::new(root, vec![source("top")], ScanOptions::default()).collect();
    check(&events);
    let denied = "Permission denied (os error 13)";
    let dirs = ["top/closed", "top/no_list", "top/no_search"];
    let mut expected = vec!["d top".to_owned(), "f top/f".to_owned()];
    for dir in dirs {
        expected.extend([format!("! {dir}: cannot read directory: {denied}"), format!("d {dir}"), format!("~ {dir}")]);
    }
    expected.sort();
    assert_eq!(lines(&events), expected);
}

#[test]
fn what_may_not_be_read_is_told() {
    const NOBODY: u32 = 65534;
    let tree = Tree::new();
    std::fs::set_permissions(tree.at(""), PermissionsExt::from_mode(0o755)).unwrap();
    tree.file("top/f");
    for (dir, mode) in [("closed", 0o000), ("no_list", 0o711), ("no_search", 0o744)] {
        let dir = format!("top/{dir}");
        tree.file(format!("{dir}/f"));
        std::fs::set_permissions(tree.at(&dir), PermissionsExt::from_mode(mode)).unwrap();
    }
    let is_root = std::fs::metadata(tree.at("top")).unwrap().uid() == 0;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "scan::tests::what::as_somebody_else", "--ignored"]).env("LONGHAUL_TEST_TREE", tree.at(""));
    if is_root {
        child.uid(NOBODY).gid(NOBODY);
    } else {
        // The owner has the first digit.
        for (dir, mode) in [("no_list", 0o311), ("no_search", 0o644)] {
            std::fs::set_permissions(tree.at(format!("top/{dir}")), PermissionsExt::from_mode(mode)).unwrap();
        }
    }
    let run = child.output();
    for dir in ["closed", "no_list", "no_search"] {
        std::fs::set_permissions(tree.at(format!("top/{dir}")), PermissionsExt::from_mode(0o755)).unwrap();
    }
    match run {
        Err(e) => eprintln!("skipped: cannot run as somebody else: {e}"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
    }
}
