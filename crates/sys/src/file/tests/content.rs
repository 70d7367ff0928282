//! What one does with what is in a file.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::*;
use crate::buffer::Slab;

fn file_in(temp: &TempDir) -> std::os::fd::OwnedFd {
    let dir = Dir::open(temp.path()).unwrap();
    let flags = OpenFlags { create: true, truncate: true, read: true, mode: 0o600, ..OpenFlags::write() };
    dir.open_file(b"file", flags).unwrap()
}

#[test]
fn positions_and_the_end() {
    let temp = tempfile::tempdir().unwrap();
    let fd = file_in(&temp);
    write_all_at(&fd, b"hello", 10).unwrap();
    let mut buf = [9; 20];
    assert_eq!(read_exact_at(&fd, &mut buf, 0).unwrap(), 15);
    assert_eq!(&buf[..15], b"\0\0\0\0\0\0\0\0\0\0hello");
    assert_eq!(read_exact_at(&fd, &mut buf, 15).unwrap(), 0);
    assert_eq!(read_at(&fd, &mut buf[..2], 12).unwrap(), 2);
    assert_eq!(write_at(&fd, b"!", 15).unwrap(), 1);
    assert_eq!(Meta::of(&fd).unwrap().size, 16);
    truncate(&fd, 3).unwrap();
    assert_eq!(read_exact_at(&fd, &mut buf, 0).unwrap(), 3);
    assert!(read_exact_at(&fd, &mut buf, u64::MAX).is_err());
    assert!(write_all_at(&fd, b"x", u64::MAX).is_err());
    for advice in [Advice::Sequential, Advice::Random, Advice::WillNeed, Advice::DontNeed, Advice::NoReuse] {
        fadvise(&fd, 0, 0, advice).unwrap();
    }
}

#[test]
fn flags_of_opening() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    let append = OpenFlags { append: true, create: true, mode: 0o600, ..OpenFlags::default() };
    let fd = dir.open_file(b"log", append).unwrap();
    rustix::io::write(&fd, b"ab").unwrap();
    let fd = dir.open_file(b"log", OpenFlags { create: false, ..append }).unwrap();
    rustix::io::write(&fd, b"c").unwrap();
    assert_eq!(fs::read(temp.path().join("log")).unwrap(), b"abc");
    let error = dir.open_file(b"log", OpenFlags::create_new(0o600)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    dir.open_file(b"log", OpenFlags { truncate: true, ..OpenFlags::write() }).unwrap();
    assert_eq!(fs::read(temp.path().join("log")).unwrap(), b"");
    let fd = dir.open_file(b"log", OpenFlags { no_atime: true, ..OpenFlags::read() }).unwrap();
    assert_eq!(write_all_at(&fd, b"x", 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
    let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "reads through a ring would not wait");
    let cloexec = rustix::io::fcntl_getfd(&fd).unwrap();
    assert!(cloexec.contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn direct_reads_and_writes() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    let fd = dir.open_file(b"file", OpenFlags::create_new(0o600).direct()).unwrap();
    let Some(alignment) = direct_alignment(&fd).unwrap() else {
        assert!(!is_direct(&fd).unwrap());
        return; // This file system has none.
    };
    assert!(is_direct(&fd).unwrap());
    assert!(alignment.memory.is_power_of_two() && alignment.memory <= 4096);
    assert!(alignment.offset.is_power_of_two() && alignment.offset <= 4096);
    let assumed = crate::file::direct::by_trial(std::os::fd::AsFd::as_fd(&fd)).unwrap().unwrap();
    assert!(assumed.offset >= alignment.offset && assumed.memory >= alignment.memory);

    let (_slab, mut buffers) = Slab::new(1, 64 << 10).unwrap();
    let buf = &mut buffers[0];
    for (i, b) in buf.iter_mut().enumerate() {
        *b = i as u8;
    }
    write_all_at(&fd, &buf[..40_960], 0).unwrap();
    // tmpfs takes O_DIRECT and does not care.
    if let Err(e) = write_all_at(&fd, &buf[..100], 40_960) {
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
    }
    // The tail goes through the page cache, as does cutting to length.
    assert!(set_direct(&fd, false).unwrap());
    write_all_at(&fd, &[7; 100], 40_960).unwrap();
    fdatasync(&fd).unwrap();
    assert!(set_direct(&fd, true).unwrap());
    buf.fill(0);
    // The last part comes short; that is the end and not an error.
    assert_eq!(read_exact_at(&fd, buf, 0).unwrap(), 41_060);
    assert!(buf[..40_960].iter().enumerate().all(|(i, &b)| b == i as u8));
    assert!(buf[40_960..41_060].iter().all(|&b| b == 7));
}

#[test]
fn direct_is_asked_of_file_systems_without_it() {
    let proc = fs::File::open("/proc/self/status").unwrap();
    assert_eq!(direct_alignment(&proc).unwrap(), None);
    assert!(!set_direct(&proc, true).unwrap());
    assert!(!is_direct(&proc).unwrap());
    assert!(set_direct(&proc, false).unwrap());
}

#[test]
fn blocks_and_holes() {
    let temp = tempfile::tempdir().unwrap();
    let fd = file_in(&temp);
    assert_eq!(seek_data(&fd, 0).unwrap(), None);
    assert_eq!(seek_hole(&fd, 0).unwrap(), None);
    truncate(&fd, 3 << 20).unwrap();
    write_all_at(&fd, &[1; 65_536], 1 << 20).unwrap();
    fsync(&fd).unwrap();
    assert_eq!(seek_data(&fd, 0).unwrap(), Some(1 << 20));
    assert_eq!(seek_hole(&fd, 0).unwrap(), Some(0));
    assert_eq!(seek_hole(&fd, 1 << 20).unwrap(), Some((1 << 20) + 65_536));
    assert_eq!(seek_data(&fd, 2 << 20).unwrap(), None);
    assert_eq!(seek_data(&fd, 1 << 40).unwrap(), None);
    assert_eq!(seek_hole(&fd, 1 << 40).unwrap(), None);

    if !fallocate(&fd, 0, 4 << 20, true).unwrap() {
        return;
    }
    let meta = Meta::of(&fd).unwrap();
    assert_eq!(meta.size, 3 << 20);
    assert!(meta.blocks * 512 >= 4 << 20);
    assert!(fallocate(&fd, 0, 4 << 20, false).unwrap());
    assert_eq!(Meta::of(&fd).unwrap().size, 4 << 20);
    assert!(punch_hole(&fd, 1 << 20, 65_536).unwrap());
    let mut buf = [1; 65_536];
    read_exact_at(&fd, &mut buf, 1 << 20).unwrap();
    assert!(buf.iter().all(|&b| b == 0));
    assert!(fallocate(&fd, 0, 0, false).unwrap());
    assert!(fallocate(&fd, u64::MAX, 1, false).is_err());
}

#[test]
fn seeking_without_holes_known() {
    // A file of /proc has no length and takes no SEEK_DATA.
    let proc = fs::File::open("/proc/self/status").unwrap();
    assert_eq!(seek_data(&proc, 0).unwrap(), None);
    assert_eq!(seek_hole(&proc, 0).unwrap(), None);
}

#[test]
fn durable_by_every_way() {
    let temp = tempfile::tempdir().unwrap();
    let fd = file_in(&temp);
    write_all_at(&fd, &[1; 100_000], 0).unwrap();
    sync_file_range(&fd, 0, 65_536, Flush::Start).unwrap();
    sync_file_range(&fd, 0, 0, Flush::Wait).unwrap();
    fdatasync(&fd).unwrap();
    fsync(&fd).unwrap();
    syncfs(&fd).unwrap();
    fsync(Dir::open(temp.path()).unwrap()).unwrap();
    assert!(sync_file_range(&fd, u64::MAX, 1, Flush::Start).is_err());
}

#[test]
fn bytes_move_between_descriptors() {
    use std::os::fd::{AsFd, OwnedFd};
    let temp = tempfile::tempdir().unwrap();
    let from = file_in(&temp);
    let content: Vec<u8> = (0..200_000u32).map(|i| (i / 7) as u8).collect();
    write_all_at(&from, &content, 0).unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    let to = dir.open_file(b"copy", OpenFlags::create_new(0o600)).unwrap();
    let (mut read, mut write) = (0, 5);
    while copy_file_range(&from, &mut read, &to, &mut write, 1 << 20).unwrap() > 0 {}
    assert_eq!((read, write), (200_000, 200_005));
    assert_eq!(fs::read(temp.path().join("copy")).unwrap()[5..], content);

    let (socket, peer) = std::os::unix::net::UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let (mut sent, mut got) = (0, Vec::new());
    let mut buf = [0; 65_536];
    while got.len() < content.len() {
        match sendfile(&socket, &from, &mut sent, content.len()) {
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        let n = rustix::io::read(&peer, &mut buf).unwrap();
        got.extend_from_slice(&buf[..n]);
    }
    assert_eq!(got, content);

    let (read_end, write_end): (OwnedFd, OwnedFd) = pipe(1 << 20).unwrap();
    let mut at = 0;
    let n = splice(&from, Some(&mut at), &write_end, None, 10_000, true).unwrap();
    assert_eq!((n as u64, at), (10_000, 10_000));
    let mut back = 0;
    assert_eq!(splice(read_end.as_fd(), None, &to, Some(&mut back), 1 << 20, false).unwrap(), 10_000);
    let empty = splice(&read_end, None, &to, Some(&mut back), 1, false).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::WouldBlock);
}

fn begin_and_go_on(cache: Cache) {
    const SIZE: usize = 1 << 20;
    let temp = tempfile::tempfile().unwrap();
    write_all_at(&temp, &[7; SIZE], 0).unwrap();
    let mut buf = vec![0; SIZE];
    let Some(there) = begin_read_at(&temp, &mut buf, 0, cache) else {
        eprintln!("skipped: this kernel and file system cannot begin a read with {cache:?}");
        return;
    };
    assert_eq!(there, SIZE, "all of it is in the page cache");
    assert!(buf.iter().all(|&byte| byte == 7));
    assert_eq!(begin_read_at(&temp, &mut buf, SIZE as u64, cache), Some(0), "nothing is at the end");

    fsync(&temp).unwrap();
    fadvise(&temp, 0, 0, Advice::DontNeed).unwrap();
    // Looking for a page asks for it, and for nothing around it: each look is at another one.
    let look = fs::File::open(format!("/proc/self/fd/{}", temp.as_raw_fd())).unwrap();
    fadvise(&look, 0, 0, Advice::Random).unwrap();
    let there = begin_read_at(&temp, &mut buf, 0, cache).unwrap();
    let arrived = (1..SIZE as u64 / 4096).step_by(16).any(|page| {
        std::thread::sleep(Duration::from_millis(100));
        is_cached(&look, page * 4096)
    });
    assert!(arrived || there == SIZE, "nobody waits for it, and it is read all the same");
    assert_eq!(read_at_with(&temp, &mut buf[there..], there as u64, cache).unwrap(), SIZE - there);
    assert!(buf.iter().all(|&byte| byte == 7));
}

#[test]
fn a_read_begins_with_what_is_there_and_the_kernel_goes_on_with_the_rest() {
    begin_and_go_on(Cache::Passes);
    begin_and_go_on(Cache::Stays);
}

#[test]
fn where_no_read_can_be_begun_it_says_so() {
    let (read_end, _write_end) = std::io::pipe().unwrap();
    assert_eq!(
        begin_read_at(&read_end, &mut [0; 8], 0, Cache::Stays),
        Some(0),
        "a pipe has no offsets: the read tells"
    );
    let proc = fs::File::open("/proc/self/stat").unwrap();
    assert_eq!(begin_read_at(&proc, &mut [0; 8], 0, Cache::Stays), None);
}

#[test]
fn what_was_written_is_cached_until_it_is_cleared_out() {
    let temp = tempfile::tempfile().unwrap();
    let disk = statfs(&temp).unwrap();
    write_all_at(&temp, &[7; 1 << 20], 0).unwrap();
    assert!(is_cached(&temp, 1 << 19));
    sync_file_range(&temp, 0, 1 << 20, Flush::Wait).unwrap();
    fadvise(&temp, 0, 1 << 20, Advice::DontNeed).unwrap();
    // Of tmpfs the cache is all there is, and some network file systems do not say.
    if ["ext4", "xfs", "btrfs"].contains(&disk.name.as_str()) {
        assert!(!is_cached(&temp, 1 << 19), "{disk:?}");
    }
    let mut byte = [0];
    assert_eq!(read_at(&temp, &mut byte, 1 << 19).unwrap(), 1);
    assert_eq!(byte, [7]);
}
