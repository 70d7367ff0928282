//! What one does with names.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

#[test]
fn names_are_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let strange: [&[u8]; 6] = [b"\xff\xfe", b"new\nline", b"-rf", b" ", b"..a", "\u{1F980}".as_bytes()];
    for dir in both(temp.path()) {
        for name in strange {
            let inside = [name, b"/", name].concat();
            dir.mkdir(name, 0o700).unwrap();
            let fd = dir.open_file(&inside, OpenFlags::create_new(0o600)).unwrap();
            write_all_at(&fd, name, 0).unwrap();
            assert_eq!(dir.stat(&inside).unwrap().size, name.len() as u64);
            assert_eq!(names(dir.read_dir(name).unwrap()), [name]);
        }
        let mut expected: Vec<_> = strange.iter().map(|n| n.to_vec()).collect();
        expected.sort();
        assert_eq!(names(dir.read_dir(b"").unwrap()), expected);
        for name in strange {
            dir.unlink(&[name, b"/", name].concat()).unwrap();
            dir.rmdir(name).unwrap();
        }
    }
}

#[test]
fn long_names_and_deep_trees() {
    let temp = tempfile::tempdir().unwrap();
    for dir in both(temp.path()) {
        let longest = vec![b'n'; 255];
        dir.open_file(&longest, OpenFlags::create_new(0o600)).unwrap();
        assert_eq!(dir.stat(&longest).unwrap().size, 0);
        assert_eq!(names(dir.read_dir(b".").unwrap()), std::slice::from_ref(&longest));
        dir.unlink(&longest).unwrap();
        let longer = vec![b'n'; 256];
        let error = dir.open_file(&longer, OpenFlags::create_new(0o600)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
        let part = vec![b'd'; 5000];
        assert_eq!(dir.stat(&part).unwrap_err().raw_os_error(), Some(libc::ENAMETOOLONG));
        // 40 levels of 201 bytes: 8 KB of name, twice what one system call takes.
        let part = [vec![b'd'; 200], vec![b'/']].concat();
        let deep = part.repeat(40);
        let deep = &deep[..deep.len() - 1];
        dir.mkdir_all(deep, 0o700).unwrap();
        let file = [deep, b"/file"].concat();
        dir.open_file(&file, OpenFlags::create_new(0o600)).unwrap();
        assert_eq!(dir.stat(&file).unwrap().kind, Kind::File);
        let (parent, name) = dir.parent(&file).unwrap();
        parent.unlink(name).unwrap();
        for level in (1..=40).rev() {
            dir.rmdir(&deep[..level * 201 - 1]).unwrap();
        }
    }
}

#[test]
fn rename_replaces_or_does_not() {
    let temp = tempfile::tempdir().unwrap();
    for dir in both(temp.path()) {
        dir.mkdir_all(b"x/y", 0o700).unwrap();
        let put = |name: &[u8], content: &[u8]| {
            let flags = OpenFlags { create: true, truncate: true, mode: 0o600, ..OpenFlags::write() };
            write_all_at(dir.open_file(name, flags).unwrap(), content, 0).unwrap();
        };
        put(b"a", b"one");
        put(b"x/y/b", b"three");
        let error = dir.rename_noreplace(b"a", b"x/y/b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(dir.stat(b"x/y/b").unwrap().size, 5);
        dir.rename(b"a", b"x/y/b").unwrap();
        assert_eq!(dir.stat(b"x/y/b").unwrap().size, 3);
        assert_eq!(dir.stat(b"a").unwrap_err().kind(), ErrorKind::NotFound);
        dir.rename_noreplace(b"x/y/b", b"c").unwrap();
        if let Err(e) = dir.rename_noreplace(b"x", b"z") {
            // Before Linux 3.15, and on some file systems.
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            dir.rename(b"x", b"z").unwrap();
        }
        assert_eq!(dir.stat(b"z/y").unwrap().kind, Kind::Dir);
        dir.sync().unwrap();
        dir.unlink(b"c").unwrap();
        assert_eq!(dir.rmdir(b"z").unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
        assert_eq!(dir.unlink(b"z").unwrap_err().kind(), ErrorKind::IsADirectory);
        dir.rmdir(b"z/y").unwrap();
        dir.rmdir(b"z").unwrap();
    }
}

#[test]
fn rename_without_kernel_support() {
    use std::os::fd::AsFd;
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    let by_link = |from: &[u8], to: &[u8]| crate::file::dir::rename_by_link(dir.as_fd(), from, dir.as_fd(), to);
    fs::write(temp.path().join("a"), b"a").unwrap();
    fs::write(temp.path().join("b"), b"b").unwrap();
    fs::create_dir(temp.path().join("d")).unwrap();
    assert_eq!(by_link(b"a", b"b").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(by_link(b"d", b"e").unwrap_err().kind(), ErrorKind::Unsupported);
    by_link(b"a", b"c").unwrap();
    assert_eq!(names(dir.read_dir(b"").unwrap()), [b"b", b"c", b"d"]);
}

#[test]
fn hard_and_symbolic_links() {
    let temp = tempfile::tempdir().unwrap();
    for dir in both(temp.path()) {
        dir.open_file(b"file", OpenFlags::create_new(0o600)).unwrap();
        dir.link(b"file", b"again").unwrap();
        let (a, b) = (dir.stat(b"file").unwrap(), dir.stat(b"again").unwrap());
        assert!(a.is_same_file(&b) && a.nlink == 2);
        let target = b"/anywhere/\xff/../at all";
        dir.symlink(target, b"link").unwrap();
        assert_eq!(dir.readlink(b"link").unwrap(), target);
        assert_eq!(dir.stat(b"link").unwrap().size, target.len() as u64);
        assert_eq!(dir.readlink(b"file").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(dir.symlink(b"x", b"link").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert!(dir.symlink(b"a\0b", b"other").is_err());
        // A link to a link is the link itself.
        dir.link(b"link", b"link2").unwrap();
        assert_eq!(dir.stat(b"link2").unwrap().kind, Kind::Symlink);
        let long = vec![b't'; 4000];
        dir.symlink(&long, b"long").unwrap();
        assert_eq!(dir.readlink(b"long").unwrap(), long);
        for name in [&b"file"[..], b"again", b"link", b"link2", b"long"] {
            dir.unlink(name).unwrap();
        }
    }
}

#[test]
fn times_modes_and_owners() {
    let temp = tempfile::tempdir().unwrap();
    for dir in both(temp.path()) {
        let fd = dir.open_file(b"file", OpenFlags::create_new(0o600)).unwrap();
        dir.symlink(b"file", b"link").unwrap();
        for ns in [0, 1, -1, -1_500_000_000, 1_700_000_000_123_456_789, 4_000_000_000_000_000_001] {
            futimens(&fd, Times { atime_ns: Some(ns + 1), mtime_ns: Some(ns) }).unwrap();
            let meta = Meta::of(&fd).unwrap();
            assert_eq!((meta.atime_ns, meta.mtime_ns), (ns + 1, ns));
            dir.set_times_nofollow(b"link", Times::mtime(ns)).unwrap();
            assert_eq!(dir.stat(b"link").unwrap().mtime_ns, ns);
        }
        let before = Meta::of(&fd).unwrap();
        dir.set_times_nofollow(b"file", Times::mtime(5)).unwrap();
        let after = Meta::of(&fd).unwrap();
        assert_eq!((after.mtime_ns, after.atime_ns), (5, before.atime_ns));
        assert_eq!(futimens(&fd, Times::mtime(i128::MAX)).unwrap_err().kind(), ErrorKind::InvalidInput);

        for bits in [0o000, 0o444, 0o4755, 0o1777] {
            dir.chmod(b"file", bits).unwrap();
            assert_eq!(dir.stat(b"file").unwrap().mode, bits);
            fchmod(&fd, bits ^ 0o111).unwrap();
            assert_eq!(dir.stat(b"file").unwrap().mode, bits ^ 0o111);
        }
        if is_root() {
            fchown(&fd, Owner { uid: Some(12_345), gid: None }).unwrap();
            dir.chown_nofollow(b"link", Owner { uid: Some(1), gid: Some(2) }).unwrap();
            let (file, link) = (dir.stat(b"file").unwrap(), dir.stat(b"link").unwrap());
            assert_eq!((file.uid, file.gid, link.uid, link.gid), (12_345, before.gid, 1, 2));
        }
        let nobody = Owner { uid: Some(u32::MAX), gid: None };
        assert_eq!(fchown(&fd, nobody).unwrap_err().kind(), ErrorKind::InvalidInput);
        dir.unlink(b"file").unwrap();
        dir.unlink(b"link").unwrap();
    }
}

#[test]
fn attributes_agree_with_the_standard_library() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("file"), vec![1; 100_000]).unwrap();
    fs::set_permissions(temp.path().join("file"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("x", temp.path().join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(temp.path().join("socket")).unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    for (name, kind) in [("file", Kind::File), ("link", Kind::Symlink), ("socket", Kind::Socket)] {
        let ours = dir.stat(name.as_bytes()).unwrap();
        let portable = crate::file::meta::read_portable(std::os::fd::AsFd::as_fd(&dir), name.as_bytes()).unwrap();
        assert_eq!(ours, portable);
        let std = fs::symlink_metadata(temp.path().join(name)).unwrap();
        assert_eq!(ours.kind, kind);
        assert_eq!((ours.size, ours.mode, ours.ino, ours.dev), (std.size(), std.mode() & 0o7777, std.ino(), std.dev()));
        assert_eq!(
            (ours.uid, ours.gid, ours.nlink, ours.blocks),
            (std.uid(), std.gid(), std.nlink() as u32, std.blocks())
        );
        assert_eq!(ours.mtime_ns, i128::from(std.mtime()) * 1_000_000_000 + i128::from(std.mtime_nsec()));
        assert_eq!(ours.ctime_ns, i128::from(std.ctime()) * 1_000_000_000 + i128::from(std.ctime_nsec()));
    }
    let null = Dir::open("/dev").unwrap().stat(b"null").unwrap();
    assert_eq!((null.kind, null.rdev), (Kind::CharDevice, rustix::fs::makedev(1, 3)));
    assert_eq!(dir.stat(b"").unwrap().kind, Kind::Dir);
}

#[test]
fn large_directories_are_listed_once_each() {
    let temp = tempfile::tempdir().unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    for i in 0..5000 {
        dir.open_file(format!("a-rather-long-name-for-a-file-{i}").as_bytes(), OpenFlags::create_new(0o600)).unwrap();
    }
    let mut kinds = 0;
    let mut seen = std::collections::BTreeSet::new();
    for entry in dir.read_dir(b"").unwrap() {
        let entry = entry.unwrap();
        kinds += usize::from(entry.kind == Some(Kind::File));
        assert!(seen.insert(entry.name));
    }
    assert_eq!(seen.len(), 5000);
    assert!(kinds == 5000 || kinds == 0);
    // Two listings of one directory do not share a position.
    let (mut one, mut two) = (dir.read_dir(b"").unwrap(), dir.read_dir(b"").unwrap());
    assert_eq!(one.next().unwrap().unwrap(), two.next().unwrap().unwrap());
}

#[test]
fn a_directory_that_may_only_be_passed_through() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("dark")).unwrap();
    fs::write(temp.path().join("dark/file"), b"x").unwrap();
    fs::set_permissions(temp.path().join("dark"), fs::Permissions::from_mode(0o311)).unwrap();
    let dir = Dir::open(temp.path()).unwrap();
    let dark = dir.open_dir(b"dark").unwrap();
    assert_eq!(dark.stat(b"file").unwrap().size, 1);
    let (parent, name) = dir.parent(b"dark/file").unwrap();
    assert_eq!(parent.stat(name).unwrap().size, 1);
    // Root may list it all the same.
    assert_eq!(dark.read_dir(b"").is_ok(), is_root());
}

#[test]
fn extended_attributes() {
    let temp = tempfile::tempdir().unwrap();
    for dir in both(temp.path()) {
        let fd = dir.open_file(b"file", OpenFlags::create_new(0o600)).unwrap();
        dir.symlink(b"file", b"link").unwrap();
        if set_xattr(&fd, b"user.probe", b"").is_err() {
            return; // This file system has none.
        }
        assert!(remove_xattr(&fd, b"user.probe").unwrap());
        assert!(!remove_xattr(&fd, b"user.probe").unwrap());
        set_xattr(&fd, b"user.bytes\xff", &[0, 255, 10]).unwrap();
        dir.set_xattr_nofollow(b"file", b"user.large", &[7; 3000]).unwrap();
        let mut listed = list_xattrs(&fd).unwrap();
        listed.retain(|name| name.starts_with(b"user."));
        listed.sort();
        assert_eq!(listed, [&b"user.bytes\xff"[..], b"user.large"]);
        assert_eq!(get_xattr(&fd, b"user.bytes\xff").unwrap().unwrap(), [0, 255, 10]);
        assert_eq!(get_xattr(&fd, b"user.large").unwrap().unwrap(), [7; 3000]);
        assert_eq!(get_xattr(&fd, b"user.none").unwrap(), None);
        assert_eq!(dir.get_xattr_nofollow(b"file", b"user.large").unwrap().unwrap().len(), 3000);
        assert!(dir.remove_xattr_nofollow(b"file", b"user.large").unwrap());
        assert!(dir.list_xattrs_nofollow(b"file").unwrap().contains(&b"user.bytes\xff".to_vec()));
        // The link has none of its file's.
        assert!(!dir.list_xattrs_nofollow(b"link").unwrap().contains(&b"user.bytes\xff".to_vec()));
        assert!(dir.set_xattr_nofollow(b"link", b"user.x", b"y").is_err());
        if is_root() {
            dir.set_xattr_nofollow(b"link", b"trusted.x", b"y").unwrap();
            assert_eq!(dir.get_xattr_nofollow(b"link", b"trusted.x").unwrap().unwrap(), b"y");
            assert_eq!(get_xattr(&fd, b"trusted.x").unwrap(), None);
        }
        dir.unlink(b"file").unwrap();
        dir.unlink(b"link").unwrap();
    }
    // More names than the first try has room for.
    let dir = Dir::open(temp.path()).unwrap();
    let fd = dir.open_file(b"many", OpenFlags::create_new(0o600)).unwrap();
    for i in 0..60 {
        set_xattr(&fd, format!("user.attribute-{i:02}").as_bytes(), b"v").unwrap();
    }
    assert!(list_xattrs(&fd).unwrap().len() >= 60);
    let proc = fs::File::open("/proc/self/status").unwrap();
    assert!(list_xattrs(&proc).unwrap().is_empty());
}

#[test]
fn a_directory_knows_where_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(temp.path()).unwrap();
    fs::create_dir(real.join("odd \n")).unwrap();
    symlink("odd \n", real.join("link")).unwrap();
    for dir in both(&real.join("link")) {
        assert_eq!(dir.path().unwrap(), real.join("odd \n"));
        fs::rename(real.join("odd \n"), real.join("new")).unwrap();
        assert_eq!(dir.path().unwrap(), real.join("new"));
        fs::rename(real.join("new"), real.join("odd \n")).unwrap();
    }
}
