use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::*;
use crate::file::{self, Advice, Cache, Dir, OpenFlags, can_pass, is_cached, statfs};
use crate::poll::{Epoll, Interest};

const KIB: usize = 1024;

/// The blocking ring, and the other one where the kernel lets us.
fn rings(entries: u32) -> Vec<Ring> {
    let mut rings = vec![Ring::blocking(entries)];
    if available(true) {
        rings.push(Ring::new(entries).unwrap());
    }
    rings
}

fn uring(entries: u32) -> Option<Ring> {
    available(true).then(|| Ring::new(entries).unwrap())
}

fn temp_file() -> Arc<OwnedFd> {
    Arc::new(tempfile::tempfile().unwrap().into())
}

fn pattern(token: u64, i: usize) -> u8 {
    (token as usize * 31 + i / 3) as u8
}

#[test]
fn what_passes_leaves_the_page_cache_and_what_was_there_stays() {
    const CHUNK: usize = 1 << 20;
    for mut ring in rings(2) {
        let file = temp_file();
        let knows = ["ext4", "xfs"].contains(&statfs(&file).unwrap().name.as_str())
            && crate::process::kernel_version() >= Some((6, 16));
        assert!(can_pass(&file) || !knows);
        if !can_pass(&file) {
            eprintln!("skipped: this kernel and file system have no RWF_DONTCACHE");
            return;
        }
        // Looking for a page asks for it, and for nothing around it: each look is at another one.
        let look = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        file::fadvise(&look, 0, 0, Advice::Random).unwrap();
        let mut page = 0;
        let mut is_there = || {
            page += 1;
            is_cached(&look, page * 4096)
        };
        let (_slab, mut idle) = Slab::new(1, CHUNK).unwrap();
        file::write_all_at(&file, &[7; CHUNK], 0).unwrap();
        file::fsync(&file).unwrap();
        file::fadvise(&file, 0, 0, Advice::DontNeed).unwrap();
        let mut read = |cache: Cache| {
            let mut buf = idle.pop().unwrap();
            buf.fill(0);
            ring.submit_read(&file, cache, 0, buf, 0..CHUNK, 1).unwrap();
            ring.wait(1).unwrap();
            let done = ring.poll().unwrap();
            assert_eq!(done.result.unwrap(), CHUNK);
            assert!(done.buf.iter().all(|&byte| byte == 7));
            idle.push(done.buf);
        };
        read(Cache::Passes);
        assert!(!is_there(), "it has been read and is gone");
        read(Cache::Stays);
        read(Cache::Passes);
        assert!(is_there(), "who reads in passing leaves what others have there");
    }
}

#[test]
fn what_is_written_is_read() {
    const CHUNKS: u64 = 64;
    const CHUNK: usize = 16 * KIB;
    for mut ring in rings(8) {
        let file = temp_file();
        let (slab, mut idle) = Slab::new(8, CHUNK + 512).unwrap();
        let registered = ring.register(&slab).unwrap();
        assert!(ring.is_asynchronous() || !registered);
        for write in [true, false] {
            let mut done = BTreeSet::new();
            let mut next = 0;
            while done.len() < CHUNKS as usize {
                while next < CHUNKS && !ring.is_full() {
                    let Some(mut buf) = idle.pop() else { break };
                    let range = 256..256 + CHUNK;
                    let offset = next * CHUNK as u64;
                    if write {
                        for (i, b) in buf[range.clone()].iter_mut().enumerate() {
                            *b = pattern(next, i);
                        }
                        ring.submit_write(&file, offset, buf, range, next).unwrap();
                    } else {
                        buf.fill(0xEE);
                        ring.submit_read(&file, Cache::Stays, offset, buf, range, next).unwrap();
                    }
                    next += 1;
                }
                assert!(ring.wait(1).unwrap() >= 1);
                while let Some(c) = ring.poll() {
                    assert_eq!(c.result.unwrap(), CHUNK);
                    assert_eq!((c.range.clone(), c.offset), (256..256 + CHUNK, c.token * CHUNK as u64));
                    assert!(Arc::ptr_eq(&c.file, &file));
                    assert!(c.buf[c.range.clone()].iter().enumerate().all(|(i, &b)| b == pattern(c.token, i)));
                    if !write {
                        assert!(c.buf[..256].iter().chain(&c.buf[256 + CHUNK..]).all(|&b| b == 0xEE));
                    }
                    assert!(done.insert(c.token));
                    idle.push(c.buf);
                }
            }
            assert_eq!(ring.in_flight(), 0);
        }
        let indices: BTreeSet<u16> = idle.iter().map(Buffer::index).collect();
        assert_eq!(indices, (0..8).collect());
    }
}

#[test]
fn poll_alone_gets_there() {
    for mut ring in rings(4) {
        let file = temp_file();
        // Completes later, by an interrupt.
        file::set_direct(&file, true).unwrap();
        let (_slab, mut buffers) = Slab::new(1, 4 * KIB).unwrap();
        assert!(ring.poll().is_none());
        ring.submit_write(&file, 0, buffers.pop().unwrap(), 0..4 * KIB, 5).unwrap();
        let start = Instant::now();
        let done = loop {
            if let Some(done) = ring.poll() {
                break done;
            }
            assert!(start.elapsed() < Duration::from_secs(10));
        };
        assert_eq!((done.token, done.result.unwrap()), (5, 4 * KIB));
        assert!(ring.poll().is_none());
        assert_eq!(ring.wait(1).unwrap(), 0, "nothing in flight is nothing to wait for");
    }
}

#[test]
fn refusals_give_the_buffer_back() {
    for mut ring in rings(2) {
        let file = temp_file();
        let (_slab, mut buffers) = Slab::new(3, KIB).unwrap();
        let mut buf = buffers.pop().unwrap();
        #[allow(clippy::reversed_empty_ranges, reason = "a range that runs backwards is one of the cases")]
        for range in [0..KIB + 1, KIB + 1..KIB + 2, 5..3, 0..usize::MAX] {
            let rejected = ring.submit_read(&file, Cache::Stays, 0, buf, range, 0).unwrap_err();
            assert_eq!(rejected.error.kind(), ErrorKind::InvalidInput);
            buf = rejected.buf;
        }
        let rejected = ring.submit_write(&file, u64::MAX - 3, buf, 0..8, 0).unwrap_err();
        assert_eq!(rejected.error.kind(), ErrorKind::InvalidInput);
        let capacity = ring.capacity();
        assert_eq!(capacity, 2);
        ring.submit_write(&file, 0, rejected.buf, 0..8, 0).unwrap();
        ring.submit_write(&file, 8, buffers.pop().unwrap(), 0..8, 1).unwrap();
        assert!(ring.is_full());
        let rejected = ring.submit_write(&file, 16, buffers.pop().unwrap(), 0..8, 2).unwrap_err();
        assert_eq!(rejected.error.kind(), ErrorKind::WouldBlock);
        assert_eq!(io::Error::from(rejected).kind(), ErrorKind::WouldBlock);
        ring.wait(usize::MAX).unwrap();
        assert!(ring.is_full(), "room comes with poll");
        assert!(ring.poll().is_some() && !ring.is_full());
    }
}

#[test]
fn ends_and_errors_are_results() {
    for mut ring in rings(4) {
        let temp = tempfile::NamedTempFile::new().unwrap();
        temp.as_file().write_all_at(b"hello", 0).unwrap();
        let read_only: Arc<OwnedFd> = Arc::new(File::open(temp.path()).unwrap().into());
        let (_slab, buffers) = Slab::new(4, KIB).unwrap();
        for (token, buf) in buffers.into_iter().enumerate() {
            match token {
                0 => ring.submit_read(&read_only, Cache::Stays, 0, buf, 0..KIB, 0),
                1 => ring.submit_read(&read_only, Cache::Stays, 5, buf, 0..KIB, 1),
                2 => ring.submit_read(&read_only, Cache::Stays, 1, buf, 7..7, 2),
                _ => ring.submit_write(&read_only, 0, buf, 0..1, 3),
            }
            .unwrap();
        }
        assert_eq!(ring.wait(4).unwrap(), 4);
        while let Some(c) = ring.poll() {
            match c.token {
                0 => assert_eq!((c.result.unwrap(), &c.buf[..5]), (5, &b"hello"[..])),
                1 | 2 => assert_eq!(c.result.unwrap(), 0),
                _ => assert_eq!(c.result.unwrap_err().raw_os_error(), Some(libc::EBADF)),
            }
        }
    }
}

#[test]
fn direct_through_the_ring() {
    const SIZE: usize = 256 * KIB;
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    for mut ring in rings(8) {
        for register in [false, true] {
            let file = dir.open_file(b"file", OpenFlags::create_new(0o600).direct()).unwrap();
            if !file::is_direct(&file).unwrap() {
                return; // This file system has none.
            }
            let file = Arc::new(file);
            let (slab, buffers) = Slab::new(8, SIZE).unwrap();
            if register && !ring.register(&slab).unwrap() && ring.is_asynchronous() {
                eprintln!("registering was refused: tried without");
            }
            for (token, mut buf) in (0..).zip(buffers) {
                buf.fill(token as u8 + 1);
                ring.submit_write(&file, token * SIZE as u64, buf, 0..SIZE, token).unwrap();
            }
            ring.wait(8).unwrap();
            let buffers: Vec<Buffer> = std::iter::from_fn(|| ring.poll())
                .map(|c| {
                    assert_eq!(c.result.unwrap(), SIZE);
                    c.buf
                })
                .collect();
            for (token, mut buf) in (0..).zip(buffers) {
                buf.fill(0);
                let range = if token == 7 { 1..513 } else { 0..SIZE };
                ring.submit_read(&file, Cache::Stays, token * SIZE as u64, buf, range, token).unwrap();
            }
            ring.wait(8).unwrap();
            while let Some(c) = ring.poll() {
                if c.token == 7 {
                    // Some devices want no alignment of memory at all.
                    if let Err(e) = c.result {
                        assert_eq!(e.kind(), ErrorKind::InvalidInput);
                    }
                } else {
                    assert_eq!(c.result.unwrap(), SIZE);
                    assert!(c.buf.iter().all(|&b| b == c.token as u8 + 1));
                }
            }
            dir.unlink(b"file").unwrap();
        }
    }
}

#[test]
fn one_slab_is_registered_and_others_may_be_used() {
    let Some(mut ring) = uring(4) else { return };
    let (known, known_buffers) = Slab::new(2, KIB).unwrap();
    let (other, other_buffers) = Slab::new(2, KIB).unwrap();
    if !ring.register(&known).unwrap() {
        return;
    }
    assert_eq!(ring.register(&other).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let file = temp_file();
    for (token, mut buf) in (0..).zip(known_buffers.into_iter().chain(other_buffers)) {
        buf.fill(token as u8);
        ring.submit_write(&file, token * KIB as u64, buf, 0..KIB, token).unwrap();
    }
    // The slabs' own handles may go first.
    drop((known, other));
    ring.wait(4).unwrap();
    while let Some(c) = ring.poll() {
        assert_eq!(c.result.unwrap(), KIB);
    }
    let content = File::from(Arc::into_inner(file).unwrap().try_clone().unwrap());
    let mut bytes = [0; 4 * KIB];
    content.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.chunks(KIB).enumerate().all(|(i, chunk)| chunk.iter().all(|&b| b == i as u8)));
}

/// Bytes of a mapping that are in memory.
fn resident_bytes(start: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mapping = maps.split_once(&format!("{start:x}-")).expect("it is mapped").1;
    let rss = mapping.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * KIB
}

#[test]
fn a_buffer_is_registered_when_it_is_used_again_and_others_are_not_touched() {
    const SIZE: usize = 4096 * KIB;
    let Some(mut ring) = uring(4) else { return };
    let (slab, mut buffers) = Slab::new(32, SIZE).unwrap();
    if !ring.register(&slab).unwrap() {
        eprintln!("skipped: this kernel has no empty tables of buffers");
        return;
    }
    let start = buffers[0].as_ptr() as usize;
    let mut buf = buffers.swap_remove(0);
    let file = temp_file();
    for (token, known) in [false, true, true].into_iter().enumerate() {
        buf.fill(token as u8);
        ring.submit_write(&file, 0, buf, 0..SIZE, token as u64).unwrap();
        ring.wait(1).unwrap();
        let done = ring.poll().unwrap();
        assert_eq!(done.result.unwrap(), SIZE);
        buf = done.buf;
        let Backend::Uring(uring) = &mut ring.backend else { unreachable!() };
        match uring.registered() {
            None => eprintln!("the limit of locked memory is too low: nothing is registered"),
            Some(count) => assert_eq!(count, usize::from(known)),
        }
        let mut read = vec![1; SIZE];
        file::read_exact_at(&file, &mut read, 0).unwrap();
        assert!(read.iter().all(|&b| b == token as u8));
    }
    assert_eq!(resident_bytes(start), SIZE, "of 32 buffers one was used");
}

#[test]
fn dropping_waits_for_the_disk() {
    const SIZE: usize = 1 << 20;
    for round in 0..20 {
        for mut ring in rings(16) {
            let file = temp_file();
            file::truncate(&file, 64 << 20).unwrap();
            file::set_direct(&file, true).unwrap();
            let (slab, buffers) = Slab::new(16, SIZE).unwrap();
            if round % 2 == 0 {
                ring.register(&slab).unwrap();
            }
            for (token, mut buf) in (0..).zip(buffers) {
                buf.fill(1);
                if token % 2 == 0 {
                    ring.submit_write(&file, token * SIZE as u64, buf, 0..SIZE, token).unwrap();
                } else {
                    ring.submit_read(&file, Cache::Stays, token * SIZE as u64, buf, 0..SIZE, token).unwrap();
                }
            }
            if round % 3 != 0 {
                ring.submit().unwrap();
            }
            drop((slab, ring));
            // The ring's share of the file is gone, so nothing is in flight any more.
            assert_eq!(Arc::strong_count(&file), 1);
        }
    }
}

#[test]
fn dropping_does_not_wait_for_what_never_comes() {
    let Some(mut ring) = uring(4) else { return };
    let (read_end, write_end) = file::pipe(0).unwrap();
    let read_end = Arc::new(read_end);
    let (slab, buffers) = Slab::new(4, KIB).unwrap();
    for buf in buffers {
        ring.submit_read(&read_end, Cache::Stays, 0, buf, 0..KIB, 0).unwrap();
    }
    ring.submit().unwrap();
    let start = Instant::now();
    drop((ring, slab));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(Arc::strong_count(&read_end), 1);
    drop(write_end);
}

#[test]
fn waiting_has_an_end() {
    let Some(mut ring) = uring(4) else { return };
    let (read_end, write_end) = file::pipe(0).unwrap();
    let read_end = Arc::new(read_end);
    let (_slab, mut buffers) = Slab::new(2, KIB).unwrap();
    ring.submit_read(&read_end, Cache::Stays, 0, buffers.pop().unwrap(), 0..KIB, 9).unwrap();
    let (start, span) = (Instant::now(), Duration::from_millis(30));
    assert_eq!(ring.wait_timeout(1, span).unwrap(), 0);
    assert!(start.elapsed() >= span);
    assert_eq!(ring.wait_timeout(1, Duration::ZERO).unwrap(), 0);
    assert!(ring.poll().is_none());
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        File::from(write_end).write_all(b"abc").unwrap();
    });
    assert_eq!(ring.wait_timeout(1, Duration::from_secs(10)).unwrap(), 1);
    let done = ring.poll().unwrap();
    assert_eq!((done.token, done.result.unwrap(), &done.buf[..3]), (9, 3, &b"abc"[..]));
    writer.join().unwrap();
}

#[test]
fn an_epoll_hears_of_completions() {
    let Some(mut ring) = uring(4) else {
        assert!(Ring::blocking(1).as_fd().is_none());
        return;
    };
    let epoll = Epoll::new().unwrap();
    epoll.add(ring.as_fd().unwrap(), 1, Interest::READ).unwrap();
    let mut events = Vec::new();
    let (read_end, write_end) = file::pipe(0).unwrap();
    let (_slab, mut buffers) = Slab::new(1, KIB).unwrap();
    ring.submit_read(&Arc::new(read_end), Cache::Stays, 0, buffers.pop().unwrap(), 0..KIB, 1).unwrap();
    ring.submit().unwrap();
    epoll.wait(&mut events, Some(Duration::from_millis(10))).unwrap();
    assert!(events.is_empty());
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        File::from(write_end).write_all(b"x").unwrap();
    });
    let start = Instant::now();
    // The completion itself interrupts the waiter first, as a signal does.
    while events.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10));
        epoll.wait(&mut events, Some(Duration::from_secs(10))).unwrap();
    }
    assert_eq!(ring.poll().unwrap().result.unwrap(), 1);
    writer.join().unwrap();
}

#[test]
fn a_ring_may_move_between_threads() {
    for mut ring in rings(8) {
        let file = temp_file();
        let (_slab, buffers) = Slab::new(8, KIB).unwrap();
        for (token, buf) in (0..).zip(buffers) {
            ring.submit_write(&file, token * KIB as u64, buf, 0..KIB, token).unwrap();
        }
        let done = std::thread::spawn(move || {
            ring.wait(8).unwrap();
            std::iter::from_fn(|| ring.poll()).filter(|c| matches!(c.result, Ok(KIB))).count()
        });
        assert_eq!(done.join().unwrap(), 8);
    }
}

#[test]
fn sizes_are_bounded() {
    assert!(!available(false));
    assert_eq!(Ring::blocking(0).capacity(), 1);
    assert_eq!(Ring::blocking(u32::MAX).capacity(), RING_ENTRIES_MAX as usize);
    if available(true) {
        assert_eq!(Ring::new(0).unwrap().capacity(), 1);
        assert_eq!(Ring::new(5).unwrap().capacity(), 8);
        assert_eq!(Ring::new(u32::MAX).unwrap().capacity(), RING_ENTRIES_MAX as usize);
    }
}
