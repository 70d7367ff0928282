//! Power cuts, on a disk that forgets what was not flushed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::tree::{Entry, assert_same, entries, left_behind, make_awkward};
use crate::volatile::{Disk, formatted};
use crate::world::{World, events, wait_for};
use crate::{Draw, cases, is_missing};

/// The whole dataset takes some seconds at this rate.
const RATE: &str = "--rate 120Mb/s";
/// Small chunks, so that many are finished at any moment.
const CHUNKS: &str = "--chunk-size 512KiB";
/// The cuts of so many cases are spread over the time that a copy takes, from its begin.
const CUTS: u64 = 4;
const CUT_STEP_MS: u64 = 1_000;
/// Cases more, if all cuts were where nothing was in place or no chunk in the journal, as on a machine that is slower or faster.
const MORE_MAX: u64 = 4;
/// How long after the journal spoke of a chunk the cut of such a case is at most, ms.
const MORE_MS: u64 = 200;
const SMALL_FILES: usize = 400;
/// Of the small files each so many-th is there before, with other content.
const OLD_EVERY: usize = 5;
/// Where a tree keeps what a copy to it has done.
const JOURNAL: &str = ".longhaul/tree.journal";

type Tree = BTreeMap<OsString, Entry>;

fn cannot_run() -> bool {
    let missing = is_missing(&["mkfs.ext4", "losetup", "mount", "umount"], true);
    let absent = ["/dev/fuse", "/dev/loop-control"].into_iter().find(|device| !Path::new(device).exists());
    if let Some(device) = absent {
        eprintln!("skipped: there is no {device}");
    }
    missing || absent.is_some()
}

fn small(dir: &str, number: usize) -> String {
    format!("{dir}/small/{}/{number}", number % 7)
}

fn make_source(world: &World) {
    make_awkward(world, "source");
    for number in 0..SMALL_FILES {
        world.write(&small("source", number), 100 + number * 97);
    }
    for (name, length) in [("large", 11 << 20), ("larger", (13 << 20) + 12_345), ("deep/largest", 17 << 20)] {
        world.write(&format!("source/{name}"), length);
    }
}

/// Ordered data would hide a sync that is missing, and so would what ext4 does for those who rename without one.
fn options(case: u64) -> &'static str {
    if case.is_multiple_of(2) { "data=writeback,noauto_da_alloc" } else { "data=ordered,noauto_da_alloc" }
}

/// A disk at `rw` that holds old versions of some files.
fn disk_with_old_files(world: &World, image: Vec<u8>) -> (Vec<u8>, Tree) {
    let disk = Disk::mount(image, &world.path("rw"), "data=ordered");
    for number in (0..SMALL_FILES).step_by(OLD_EVERY) {
        world.write(&small("rw/tree", number), 50 + number * 31);
    }
    let old = entries(&world.path("rw/tree"));
    (disk.remove(), old)
}

/// Files that the copy said to be in place, and their bytes.
fn said_to_be_placed(output: &str) -> Vec<(PathBuf, u64)> {
    let placed = |event: &serde_json::Value| {
        (event["event"] == "file" && event["outcome"] == "placed" && event["path_bytes"].is_null())
            .then(|| Some((event["path"].as_str()?.into(), event["size"].as_u64()?)))?
    };
    events(output).iter().filter_map(placed).collect()
}

/// Everything with a name of its own is whole, either as it was or as it is to be.
fn assert_whole(source: &Tree, old: &Tree, now: &Tree) {
    let same = |entry: &Entry, other: Option<&Entry>| {
        other.is_some_and(|other| {
            (entry.mode, entry.modified, &entry.link) == (other.mode, other.modified, &other.link)
                && entry.content == other.content
        })
    };
    for (name, entry) in now {
        let is_dir = entry.mode & 0o170_000 == 0o040_000;
        if is_dir || name.to_string_lossy().contains(".longhaul") {
            continue;
        }
        assert!(
            same(entry, source.get(name)) || same(entry, old.get(name)),
            "{} is neither old nor new: mode {:o}, {} bytes, {:?}",
            name.display(),
            entry.mode,
            entry.content.len(),
            entry.modified
        );
    }
}

/// What the journal of a tree says.
fn journal(tree: &Path) -> Option<proto::journal::State> {
    let (state, _) = proto::journal::replay(&fs::read(tree.join(JOURNAL)).ok()?)?;
    Some(state)
}

/// Whether it speaks of a chunk of a file that is not whole.
fn speaks_of_chunks(tree: &Path) -> bool {
    journal(tree).is_some_and(|state| state.partials.values().any(|partial| !partial.chunks.is_empty()))
}

/// Every chunk that the journal speaks of is on the disk. Gives the bytes of them.
fn assert_journal(source: &Path, tree: &Path) -> u64 {
    let Some(state) = journal(tree) else { return 0 };
    let mut claimed = 0;
    for partial in state.partials.values() {
        let path = Path::new(std::ffi::OsStr::from_bytes(partial.path.as_bytes()));
        let wanted = fs::read(source.join(path)).expect("the source has it");
        let at = tree.join(path);
        let dir = fs::read_dir(at.parent().expect("it is in a directory")).expect("it can be listed");
        let temporary = dir.map(|entry| entry.expect("it is listed").path()).filter(|path| {
            path.is_file() && path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".longhaul-"))
        });
        let chunk = partial.chunk_size as usize;
        let holds = |file: &PathBuf| {
            let Ok(content) = fs::read(file) else { return false };
            let numbers = partial.chunks.ranges().iter().flat_map(|range| range.start..range.end);
            numbers.map(|n| n as usize * chunk).all(|begin| {
                let end = (begin + chunk).min(wanted.len());
                content.get(begin..end) == wanted.get(begin..end)
            })
        };
        let found = temporary.chain([at.clone()]).any(|file| holds(&file));
        assert!(found || partial.chunks.is_empty(), "{}: the journal says {:?}", path.display(), partial.chunks);
        claimed += partial.chunks.len() * chunk as u64;
    }
    claimed
}

/// What a copy had said when the power was cut.
struct Said {
    /// Files in place.
    placed: Vec<(PathBuf, u64)>,
    /// Everything was.
    complete: bool,
}

impl Said {
    /// The destination had everything, and has no journal any more.
    ///
    /// The power may be cut before the copy says so: then the disk does.
    fn is_over(&self, tree: &Path) -> bool {
        self.complete || (!self.placed.is_empty() && !tree.join(JOURNAL).exists())
    }
}

/// Begins a copy to the disk, and cuts the power in it: at some time, or soon after the journal spoke of a chunk.
fn cut_in_a_copy(world: &mut World, disk: &Disk, case: u64, draw: &mut Draw, in_a_file: bool) -> Said {
    let moment = Duration::from_millis(match in_a_file {
        true => draw.below(MORE_MS),
        false => case % CUTS * CUT_STEP_MS + draw.below(CUT_STEP_MS),
    });
    let of = if in_a_file { " of a chunk in the journal" } else { "" };
    eprintln!("case {case}: the power is cut after {moment:?}{of}, {}", options(case));
    // Without O_DIRECT more is left in memory that a sync must bring out.
    let direct = case % CUTS < CUTS / 2;
    let io = if direct { ["env", "-u", "LONGHAUL_IO"].as_slice() } else { &["env", "LONGHAUL_IO=posix"] };
    world.start_agent_under(io, "127.0.0.1:0");
    let options = format!("--checksum xxh3 {RATE} {CHUNKS}");
    let mut copy = world.start(world.copy_command(&options, &world.here("source/"), &world.there("rw/tree")));
    if in_a_file {
        let tree = world.path("rw/tree");
        wait_for("a chunk in the journal", || (copy.has_ended() || speaks_of_chunks(&tree)).then_some(()));
    }
    std::thread::sleep(moment);
    if case % 2 == 1 {
        // What was said a moment ago is the most likely to be lost.
        let before = said_to_be_placed(&copy.out()).len();
        wait_for("something to be in place", || {
            (copy.has_ended() || said_to_be_placed(&copy.out()).len() > before).then_some(())
        });
    }
    disk.cut(draw);
    world.kill_agent();
    let said = copy.out();
    copy.kill();
    let complete = events(&said).last().is_some_and(|event| event["ok"] == true);
    Said { placed: said_to_be_placed(&said), complete }
}

/// What was said is so. Gives the bytes that the journal speaks of.
fn assert_kept(world: &World, said: &Said, source: &Tree, old: &Tree) -> u64 {
    let now = entries(&world.path("rw/tree"));
    assert_whole(source, old, &now);
    for (path, _) in &said.placed {
        let (is, was) = (now.get(path.as_os_str()), source.get(path.as_os_str()));
        let same = is.map(|e| (&e.content, e.modified)) == was.map(|e| (&e.content, e.modified));
        assert!(same, "{} was said to be in place, and is not", path.display());
    }
    if said.complete {
        assert_same(&world.path("source"), &world.path("rw/tree"));
    }
    assert_journal(&world.path("source"), &world.path("rw/tree"))
}

/// The same command brings the rest, and only that.
fn assert_resumes(world: &World, said: &Said) {
    let summary = world.copy(CHUNKS, &world.here("source/"), &world.there("rw/tree")).expect_code(0).summary();
    assert_same(&world.path("source"), &world.path("rw/tree"));
    assert!(left_behind(&world.path("rw")).is_empty(), "{:?}", left_behind(&world.path("rw")));
    let (sent, total) = (summary["bytes_sent"].as_u64(), summary["bytes"].as_u64());
    let there: u64 = said.placed.iter().map(|(_, size)| size).sum();
    // After one that was complete it is another copy, which replaces everything.
    let resumed = sent.zip(total).is_some_and(|(sent, total)| sent + there <= total);
    assert!(said.complete || resumed, "{there} bytes were there and are sent again: {summary}");
}

#[test]
fn nothing_said_is_lost_by_a_power_cut() {
    if cannot_run() {
        return;
    }
    let mut world = World::still();
    make_source(&world);
    let source = entries(&world.path("source"));
    let (image, old) = disk_with_old_files(&world, formatted(&world.path("run")));
    let (mut placed, mut claimed) = (0, 0);
    let planned = cases(CUTS);
    for case in 0..planned + MORE_MAX {
        let in_a_file = case >= planned;
        if in_a_file && placed > 0 && claimed > 0 {
            break;
        }
        let mut draw = Draw::new(case);
        let disk = Disk::mount(image.clone(), &world.path("rw"), options(case));
        let mut said = cut_in_a_copy(&mut world, &disk, case, &mut draw, in_a_file);
        let disk = Disk::mount(disk.remove(), &world.path("rw"), options(case));
        said.complete = said.is_over(&world.path("rw/tree"));
        placed += said.placed.len();
        claimed += assert_kept(&world, &said, &source, &old);
        world.start_agent_under(&[], "127.0.0.1:0");
        assert_resumes(&world, &said);
        world.kill_agent();
        disk.remove();
    }
    assert!(placed > 0 && claimed > 0, "cut too early: {placed} files, {claimed} bytes of chunks");
}

#[test]
fn a_finished_copy_needs_no_more_power() {
    if cannot_run() {
        return;
    }
    let mut world = World::still();
    make_source(&world);
    let image = formatted(&world.path("run"));
    for case in 0..cases(2) {
        let disk = Disk::mount(image.clone(), &world.path("rw"), options(case));
        world.start_agent_under(&[], "127.0.0.1:0");
        world.copy("--preserve all", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
        disk.cut(&mut Draw::new(case));
        world.kill_agent();
        let disk = Disk::mount(disk.remove(), &world.path("rw"), options(case));
        assert_same(&world.path("source"), &world.path("rw/tree"));
        assert!(left_behind(&world.path("rw")).is_empty(), "{:?}", left_behind(&world.path("rw")));
        disk.remove();
    }
}

/// What no commit of files makes durable (links, empty directories, what is set of directories) is also on what is mounted beneath.
#[test]
fn a_disk_that_is_mounted_beneath_needs_no_more_power_either() {
    if cannot_run() {
        return;
    }
    let mut world = World::still();
    make_source(&world);
    fs::create_dir_all(world.path("beneath/tree")).expect("a directory can be made");
    fs::rename(world.path("source"), world.path("beneath/tree/disk")).expect("it is ours");
    let at = world.path("rw/tree/disk");
    fs::create_dir_all(&at).expect("a directory can be made");
    let image = formatted(&world.path("run"));
    for case in 0..cases(2) {
        let disk = Disk::mount(image.clone(), &at, options(case));
        fs::remove_dir(at.join("lost+found")).expect("it is empty");
        world.start_agent_under(&[], "127.0.0.1:0");
        world.copy("", &world.here("beneath/tree/"), &world.there("rw/tree")).expect_code(0);
        disk.cut(&mut Draw::new(case));
        world.kill_agent();
        let disk = Disk::mount(disk.remove(), &at, options(case));
        assert_same(&world.path("beneath/tree/disk"), &at);
        disk.remove();
    }
}
