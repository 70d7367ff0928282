//! Trees: one with everything that is awkward, and what a tree is, for comparing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::world::World;

/// Length of the file with holes, its 4 KiB of data in the middle.
const HOLE: u64 = 32 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: u32,
    /// Of a symlink it is left out: what counts is where it points.
    pub(crate) modified: Option<(i64, i64)>,
    pub(crate) content: Vec<u8>,
    pub(crate) link: Option<PathBuf>,
    /// True if it takes much less than its length.
    sparse: bool,
}

/// Every entry beneath `dir`, and `dir` itself as the empty name.
pub(crate) fn entries(dir: &Path) -> BTreeMap<OsString, Entry> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if meta.is_dir() {
            left.extend(
                fs::read_dir(&path).expect("it can be listed").map(|entry| entry.expect("it is listed").path()),
            );
        }
        let entry = Entry {
            mode: meta.mode(),
            modified: (!meta.is_symlink()).then(|| (meta.mtime(), meta.mtime_nsec())),
            content: if meta.is_file() { fs::read(&path).expect("it can be read") } else { Vec::new() },
            link: meta.is_symlink().then(|| fs::read_link(&path).expect("it can be read")),
            sparse: meta.is_file() && meta.blocks() * 512 < meta.len() / 2,
        };
        found.insert(path.strip_prefix(dir).expect("it is beneath").into(), entry);
    }
    found
}

/// Names of the entries that differ, so that a failure can be read.
#[track_caller]
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (entries(one), entries(other));
    let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let brief = |entry: Option<&Entry>| {
        entry.map(|e| (format!("{:o}", e.mode), e.modified, e.content.len(), e.link.clone(), e.sparse))
    };
    let differ: Vec<_> = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| (name, brief(one.get(name)), brief(other.get(name))))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

/// Everything that is awkward, in `name`.
pub(crate) fn make_awkward(world: &World, name: &str) {
    let dir = world.path(name);
    let at = |inner: &str| format!("{name}/{inner}");
    world.write(&at("plain"), 10_000);
    world.write(&at("several chunks"), (9 << 20) + 17);
    world.write(&at("deep/er/est/file"), 1);
    world.write(&at("zero"), 0);
    let odd = [b"not-\xff\xfe-utf8".as_slice(), b"two\nlines", b"-leading", b"* ?[x]\\"];
    for odd in odd.map(OsStr::from_bytes) {
        fs::write(dir.join(odd), odd.as_bytes()).expect("a file can be written");
    }
    world.write(&at(&"n".repeat(255)), 255);
    fs::create_dir(dir.join("empty")).expect("a directory can be made");
    for (link, target) in [("link", "plain"), ("dangling", "not/there"), ("absolute", "/etc/hostname")] {
        symlink(target, dir.join(link)).expect("a link can be made");
    }
    let hole = File::create(dir.join("hole")).expect("a file can be made");
    hole.set_len(HOLE).expect("it can be lengthened");
    hole.write_all_at(&[7; 4096], HOLE / 2).expect("it can be written");
    for (file, mode) in [("plain", 0o640), ("zero", 0o755), ("two\nlines", 0o400), ("empty", 0o700)] {
        fs::set_permissions(dir.join(file), fs::Permissions::from_mode(mode)).expect("modes can be set");
    }
    let times =
        [("plain", 946_684_799, 123_456_789), ("empty", 1_000_000_000, 1), ("deep", 1_234_567_890, 999_999_999)];
    for (file, seconds, nanos) in times {
        let file = File::open(dir.join(file)).expect("it can be opened");
        file.set_modified(UNIX_EPOCH + Duration::new(seconds, nanos)).expect("times can be set");
    }
}

/// What the program left of its own beneath `dir`.
pub(crate) fn left_behind(dir: &Path) -> Vec<OsString> {
    entries(dir).into_keys().filter(|name| name.to_string_lossy().contains(".longhaul")).collect()
}

/// Makes a tree in `source`, and sees that both copies are faithful and leave nothing else behind: the one that `go` makes
/// of it in `there`, and the one that `come` makes of that in `back`.
pub(crate) fn there_and_back(world: &World, there: &str, go: impl FnOnce(), come: impl FnOnce()) {
    make_awkward(world, "source");
    go();
    come();
    for copy in [there, "back"].map(|name| world.path(name)) {
        assert_same(&world.path("source"), &copy);
        assert!(left_behind(&copy).is_empty(), "{:?}", left_behind(&copy));
    }
}
