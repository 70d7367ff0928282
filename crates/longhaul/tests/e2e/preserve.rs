//! What describes files beside their content: owners, extended attributes, further names.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};

use serde_json::Value;
use sys::file::{get_xattr, set_xattr};

use crate::tree::assert_same;
use crate::world::{Ended, World};

/// Travels in chunks.
const BIG: usize = 3 << 20;

#[test]
fn all_that_belongs_to_a_file_is_preserved() {
    let world = World::new();
    let one = world.write("source/one", 1000);
    world.write("source/big", BIG);
    fs::create_dir(world.path("source/dir")).unwrap();
    fs::hard_link(&one, world.path("source/dir/two")).unwrap();
    let attribute = |name: &str| set_xattr(File::open(world.path(name)).unwrap(), b"user.origin", b"here");
    if let Err(error) = attribute("source/one") {
        return eprintln!("skipped: this file system has no extended attributes ({error})");
    }
    attribute("source/big").unwrap();
    attribute("source/dir").unwrap();
    let is_root = fs::metadata(&one).unwrap().uid() == 0;
    if is_root {
        chown(world.path("source/big"), Some(12345), Some(23456)).unwrap();
        chown(world.path("source/dir"), Some(12346), None).unwrap();
    }
    world.copy("--preserve all", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    assert_same(&world.path("source"), &world.path("rw/tree"));
    let [one, two] = ["one", "dir/two"].map(|name| fs::metadata(world.path(&format!("rw/tree/{name}"))).unwrap());
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
    for name in ["one", "big", "dir"] {
        let [from, to] = ["source", "rw/tree"].map(|dir| world.path(&format!("{dir}/{name}")));
        let value = get_xattr(File::open(&to).unwrap(), b"user.origin").unwrap();
        assert_eq!(value.as_deref(), Some(b"here".as_slice()), "{name}");
        let [from, to] = [from, to].map(|path| fs::metadata(path).unwrap());
        assert!(!is_root || (from.uid(), from.gid()) == (to.uid(), to.gid()), "{name}");
    }
}

fn warnings(ended: &Ended) -> Vec<String> {
    let told = ended.events().into_iter().filter(|event| event["event"] == "warning");
    told.filter_map(|event| event["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn what_an_agent_may_not_set_is_told_once() {
    let mut world = World::still();
    for name in ["source/one", "source/two"] {
        let path = world.write(name, 100);
        if let Err(error) = chown(&path, Some(12345), None) {
            return eprintln!("skipped: only root gives files away ({error})");
        }
        set_xattr(File::open(path).unwrap(), b"trusted.origin", b"here").unwrap();
    }
    // Root, but not with all its powers: as in a container, or over NFS.
    let without = "--bounding-set=-chown,-sys_admin";
    world.start_agent_under(&["setpriv", without], "127.0.0.1:0");
    let ended = world.copy("--preserve all", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    let warnings = warnings(&ended);
    for kind in ["the owner of ", "the extended attribute trusted.origin of "] {
        let of_kind: Vec<_> = warnings.iter().filter(|text| text.starts_with(kind)).collect();
        let [told] = of_kind[..] else { panic!("{kind}: {warnings:?}") };
        assert!(told.contains(" and 1 more could not be set and is left out: "), "{told}");
    }
    // The rest of them is as it should be.
    assert_same(&world.path("source"), &world.path("rw/tree"));
}

/// Outcomes by path.
fn outcomes(ended: &Ended) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let files = ended.events().into_iter().filter(|event| event["event"] == "file");
    let mut files: Vec<_> = files.map(|file| (text(&file["path"]), text(&file["outcome"]))).collect();
    files.sort();
    files
}

#[test]
fn a_dry_run_knows_further_names_of_equal_files() {
    let world = World::new();
    for (first, second) in [("source/a", "source/b"), ("source/x", "source/y")] {
        fs::hard_link(world.write(first, 1000), world.path(second)).unwrap();
    }
    let dry = |options: &str| {
        let options = format!("--preserve all --dry-run {options}");
        outcomes(&world.copy(&options, &world.here("source/"), &world.there("rw/tree")).expect_code(0))
    };
    let of = |list: [(&str, &str); 4]| list.map(|(path, outcome)| (path.to_owned(), outcome.to_owned())).to_vec();
    world.copy("--preserve all", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
    for options in ["--sync", "--sync --by-checksum"] {
        assert_eq!(dry(options), of([("a", "equal"), ("b", "equal"), ("x", "equal"), ("y", "equal")]), "{options}");
    }
    // A file that is replaced is another one: its further name has to be made anew.
    fs::write(world.path("source/x"), vec![7; 1000]).unwrap();
    for options in ["--sync", "--sync --by-checksum"] {
        assert_eq!(dry(options), of([("a", "equal"), ("b", "equal"), ("x", "would"), ("y", "would")]), "{options}");
    }
}

#[test]
fn what_describes_an_equal_file_follows_its_source() {
    let world = World::new();
    let source = world.write("source/file", 1000);
    if let Err(error) = set_xattr(File::open(&source).unwrap(), b"user.origin", b"here") {
        return eprintln!("skipped: this file system has no extended attributes ({error})");
    }
    let copy = || {
        let ended = world.copy("--sync --preserve all", &world.here("source/"), &world.there("rw/tree"));
        ended.expect_code(0).summary()
    };
    copy();
    let there = world.path("rw/tree/file");
    let first = fs::metadata(&there).unwrap();
    copy();
    let second = fs::metadata(&there).unwrap();
    assert_eq!((first.ctime(), first.ctime_nsec()), (second.ctime(), second.ctime_nsec()), "nothing was to be changed");
    set_xattr(File::open(&source).unwrap(), b"user.origin", b"there").unwrap();
    let is_root = chown(&source, Some(12345), Some(23456)).is_ok();
    assert_eq!(copy()["files_skipped"], 1);
    let value = get_xattr(File::open(&there).unwrap(), b"user.origin").unwrap();
    assert_eq!(value.as_deref(), Some(b"there".as_slice()));
    let meta = fs::metadata(&there).unwrap();
    assert!(!is_root || (meta.uid(), meta.gid()) == (12345, 23456));
}
