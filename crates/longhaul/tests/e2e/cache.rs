//! What a copy without O_DIRECT leaves in the page cache: what was there before, and next to nothing of its own.

use std::fs::{self, File};
use std::io::{IoSliceMut, Read, Seek, SeekFrom};
use std::ops::Range;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::world::World;

const CHUNK: u64 = 256 << 10;
const CHUNKS: u64 = 160;
/// A chunk of the source that somebody else has in memory.
const KEPT: u64 = 77;
/// Chunks of which a page may stay that was in use at the moment: two readers share one between their chunks.
const IN_USE_MAX: usize = 16;
/// Four writers keep three chunks each in the page cache; the test may look before their end.
const LEFT_BY_WRITERS: usize = 12;
/// A kernel that is told to page out what nobody has used for a while (DAMON) takes pages of the files of a test too, of some
/// runs many, and on a busy host more writes than four times three end after the copy. What a copy does wrong it does each time.
const ATTEMPTS: usize = 5;

/// Numbers of the chunks of which a page is in the page cache. Looking for a page asks for it, and for nothing around it:
/// each look is at another one.
fn cached(file: &File, page: u64) -> Vec<u64> {
    fadvise(file, 0, None, Advice::Random).unwrap();
    let is_cached = |chunk: &u64| {
        let mut byte = [0];
        let read =
            preadv2(file, &mut [IoSliceMut::new(&mut byte)], chunk * CHUNK + page * 4096, ReadWriteFlags::NOWAIT);
        !matches!(read, Err(Errno::AGAIN))
    };
    (0..CHUNKS).filter(is_cached).collect()
}

/// Copies a file, of which somebody else has some chunks in memory, with `LONGHAUL_IO` at both ends, until what is in the page
/// cache of source and destination then `is_right`.
fn copied(way: &str, theirs: Range<u64>, is_right: impl Fn(&[u64], &[u64]) -> bool) {
    for attempt in 1..=ATTEMPTS {
        let Some([source, destination]) = copied_once(way, theirs.clone()) else {
            eprintln!("skipped: this file system does not tell what is in the page cache, or has no RWF_DONTCACHE");
            return;
        };
        if is_right(&source, &destination) {
            return;
        }
        eprintln!("attempt {attempt}: of the source {source:?}, of the destination {destination:?}");
    }
    panic!("not once in {ATTEMPTS} copies is in the page cache what should be");
}

/// The chunks in the page cache of source and destination after one copy; nothing if that cannot be told here.
fn copied_once(way: &str, theirs: Range<u64>) -> Option<[Vec<u64>; 2]> {
    let mut world = World::still();
    world.start_agent_under(&["env", &format!("LONGHAUL_IO={way}")], "127.0.0.1:0");
    let path = world.write("file", (CHUNKS * CHUNK) as usize);
    let mut source = File::open(path).unwrap();
    source.sync_all().unwrap();
    fadvise(&source, 0, None, Advice::DontNeed).unwrap();
    if !cached(&source, 1).is_empty() || (way == "posix" && !sys::file::can_pass(&source)) {
        return None;
    }
    source.seek(SeekFrom::Start(theirs.start * CHUNK)).unwrap();
    source.read_exact(&mut vec![0; (theirs.end - theirs.start) as usize * CHUNK as usize]).unwrap();

    let mut command = world.copy_command("--chunk-size 256KiB", &world.here("file"), &world.there("rw/copy"));
    command.env("LONGHAUL_IO", way);
    world.run(command).expect_code(0);
    let left = [cached(&source, 3), cached(&File::open(world.path("rw/copy")).unwrap(), 3)];
    assert!(fs::read(world.path("file")).unwrap() == fs::read(world.path("rw/copy")).unwrap());
    Some(left)
}

#[test]
fn the_kernel_clears_the_page_cache_behind_a_copy() {
    copied("posix", KEPT..KEPT + 1, |source, destination| {
        source.contains(&KEPT) && source.len() <= 1 + IN_USE_MAX && destination.len() <= LEFT_BY_WRITERS
    });
}

#[test]
fn the_page_cache_is_cleared_by_hand_on_older_kernels() {
    copied("posix-old", 0..0, |source, destination| source.len() <= IN_USE_MAX && destination.len() <= LEFT_BY_WRITERS);
}

/// There it is looked at in one place of 64 MiB.
#[test]
fn what_others_have_in_the_page_cache_stays_on_older_kernels() {
    copied("posix-old", 0..CHUNKS, |source, destination| {
        source.len() == CHUNKS as usize && destination.len() <= LEFT_BY_WRITERS
    });
}
