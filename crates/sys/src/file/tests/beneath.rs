//! Names that try to get out.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;

use super::*;

fn refused<T: std::fmt::Debug>(result: std::io::Result<T>) -> Refusal {
    let error = result.unwrap_err();
    Refusal::of(&error).unwrap_or_else(|| panic!("not a refusal: {error:?}"))
}

/// Every operation that takes a name, on that name.
fn every(dir: &Dir, rel: &[u8]) -> Vec<(&'static str, std::io::Result<()>)> {
    let write = OpenFlags { write: true, ..OpenFlags::default() };
    let create = OpenFlags { create: true, mode: 0o600, ..write };
    vec![
        ("read", dir.open_file(rel, OpenFlags::read()).map(drop)),
        ("follow", dir.open_file(rel, OpenFlags { follow: true, ..OpenFlags::read() }).map(drop)),
        ("write", dir.open_file(rel, write).map(drop)),
        ("create", dir.open_file(rel, create).map(drop)),
        ("create_new", dir.open_file(rel, OpenFlags::create_new(0o600)).map(drop)),
        ("parent", dir.parent(rel).map(drop)),
        ("mkdir", dir.mkdir(rel, 0o700)),
        ("rename from", dir.rename(rel, b"taken")),
        ("rename to", dir.rename(b"victim", rel)),
        ("rename_noreplace from", dir.rename_noreplace(rel, b"taken")),
        ("rename_noreplace to", dir.rename_noreplace(b"victim", rel)),
        ("link from", dir.link(rel, b"taken")),
        ("link to", dir.link(b"victim", rel)),
        ("symlink", dir.symlink(b"x", rel)),
        ("unlink", dir.unlink(rel)),
        ("rmdir", dir.rmdir(rel)),
        ("readlink", dir.readlink(rel).map(drop)),
        ("chmod", dir.chmod(rel, 0o777)),
        ("times", dir.set_times_nofollow(rel, Times::mtime(0))),
        ("chown", dir.chown_nofollow(rel, Owner::default())),
        ("list xattrs", dir.list_xattrs_nofollow(rel).map(drop)),
        ("get xattr", dir.get_xattr_nofollow(rel, b"user.x").map(drop)),
        ("set xattr", dir.set_xattr_nofollow(rel, b"user.x", b"y")),
        ("remove xattr", dir.remove_xattr_nofollow(rel, b"user.x").map(drop)),
    ]
}

/// Those that take the directory itself too.
fn of_itself_too(dir: &Dir, rel: &[u8]) -> Vec<(&'static str, std::io::Result<()>)> {
    vec![
        ("stat", dir.stat(rel).map(drop)),
        ("open_dir", dir.open_dir(rel).map(drop)),
        ("read_dir", dir.read_dir(rel).map(drop)),
        ("mkdir_all", dir.mkdir_all(rel, 0o700).map(drop)),
    ]
}

#[test]
fn bad_names_are_refused_everywhere() {
    let temp = root_with_neighbour();
    fs::write(temp.path().join("root/victim"), b"v").unwrap();
    let long = vec![b'a'; NAME_BYTES_MAX + 1];
    let bad: [&[u8]; 16] = [
        b"..",
        b"../secret",
        b"a/..",
        b"a/../b",
        b"a/../../secret",
        b"/",
        b"/etc/passwd",
        b"//x",
        b"a//b",
        b"a/",
        b"./a",
        b"a/./b",
        b"a/.",
        b"a\0b",
        b"\0",
        &long,
    ];
    for dir in both(&temp.path().join("root")) {
        for rel in bad {
            for (what, result) in every(&dir, rel).into_iter().chain(of_itself_too(&dir, rel)) {
                let shown = String::from_utf8_lossy(&rel[..rel.len().min(20)]);
                assert_eq!(refused(result), Refusal::BadName, "{what} {shown:?} {:?}", dir.resolver());
            }
        }
        // An empty name and a dot mean the directory itself to some, and nothing to the others.
        for rel in [&b""[..], b"."] {
            for (what, result) in every(&dir, rel) {
                assert_eq!(refused(result), Refusal::BadName, "{what}");
            }
            for (what, result) in of_itself_too(&dir, rel) {
                assert!(result.is_ok(), "{what}");
            }
        }
    }
    assert_eq!(fs::read(temp.path().join("secret")).unwrap(), b"precious");
    assert_eq!(fs::read(temp.path().join("root/victim")).unwrap(), b"v");
}

#[test]
fn links_on_the_way_out_are_refused_everywhere() {
    let temp = root_with_neighbour();
    let root = temp.path().join("root");
    fs::write(root.join("victim"), b"v").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    symlink("../outside", root.join("relative")).unwrap();
    symlink(temp.path().join("outside"), root.join("absolute")).unwrap();
    symlink("/", root.join("slash")).unwrap();
    symlink("../..", root.join("sub/up")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let etc = temp.path().to_str().unwrap().trim_start_matches('/').to_owned();
    let through_slash = format!("slash/{etc}/secret");
    let through_magic = format!("magic/{etc}/secret");
    let ways: [&[u8]; 6] = [
        b"relative/secret",
        b"absolute/secret",
        b"sub/up/secret",
        b"loop/secret",
        through_slash.as_bytes(),
        through_magic.as_bytes(),
    ];
    for dir in both(&root) {
        for rel in ways {
            for (what, result) in every(&dir, rel).into_iter().chain(of_itself_too(&dir, rel)) {
                let refusal = refused(result);
                let shown = String::from_utf8_lossy(rel);
                assert_ne!(refusal, Refusal::BadName, "{what} {shown}");
            }
        }
    }
    assert_eq!(fs::read(temp.path().join("secret")).unwrap(), b"precious");
    assert_eq!(fs::read(temp.path().join("outside/secret")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(temp.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn the_last_component_is_not_followed() {
    let temp = root_with_neighbour();
    let root = temp.path().join("root");
    fs::write(root.join("inside"), b"inside").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink("inside", root.join("in")).unwrap();
    symlink("sub", root.join("insub")).unwrap();
    symlink("../outside", root.join("outdir")).unwrap();
    for dir in both(&root) {
        for rel in [&b"out"[..], b"in"] {
            assert_eq!(refused(dir.open_file(rel, OpenFlags::read())), Refusal::Symlink);
            assert_eq!(refused(dir.open_file(rel, OpenFlags::write())), Refusal::Symlink);
            let create = OpenFlags { create: true, ..OpenFlags::write() };
            assert_eq!(refused(dir.open_file(rel, create)), Refusal::Symlink);
            assert_eq!(refused(dir.chmod(rel, 0o777)), Refusal::Symlink);
            assert_eq!(dir.stat(rel).unwrap().kind, Kind::Symlink);
            let new = dir.open_file(rel, OpenFlags::create_new(0o600));
            assert!(new.is_err(), "a link is in the way");
        }
        for rel in [&b"insub"[..], b"outdir"] {
            assert_eq!(refused(dir.open_dir(rel)), Refusal::Symlink, "{:?}", dir.resolver());
            assert_eq!(refused(dir.read_dir(rel).map(drop)), Refusal::Symlink);
            assert_eq!(refused(dir.mkdir_all(rel, 0o700)), Refusal::Symlink);
        }
        assert_eq!(dir.readlink(b"out").unwrap(), b"../secret");
        let follow = OpenFlags { follow: true, ..OpenFlags::read() };
        assert!(Refusal::of(&dir.open_file(b"out", follow).unwrap_err()).is_some());
        assert_eq!(dir.open_dir(b"inside").unwrap_err().kind(), ErrorKind::NotADirectory);
    }
    let [kernel, walk] = both(&root);
    if kernel.resolver() == Resolver::Walk {
        return; // This kernel has no `openat2`.
    }
    let follow = OpenFlags { follow: true, ..OpenFlags::read() };
    assert_eq!(refused(kernel.open_file(b"out", follow)), Refusal::Outside);
    let fd = kernel.open_file(b"in", follow).unwrap();
    let mut content = [0; 16];
    assert_eq!(read_exact_at(&fd, &mut content, 0).unwrap(), 6);
    assert_eq!(refused(walk.open_file(b"in", follow)), Refusal::Symlink);
    assert_eq!(fs::read(temp.path().join("secret")).unwrap(), b"precious");
}

#[test]
fn links_that_stay_beneath_serve_looking_and_not_changing() {
    let temp = root_with_neighbour();
    let root = temp.path().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/file"), b"x").unwrap();
    symlink("a/b", root.join("short")).unwrap();
    symlink("../b", root.join("a/b/dots")).unwrap();
    let [kernel, walk] = both(&root);
    if kernel.resolver() == Resolver::Walk {
        return; // This kernel has no `openat2`.
    }
    for rel in [&b"short/file"[..], b"a/b/dots/file"] {
        assert_eq!(kernel.stat(rel).unwrap().size, 1);
        kernel.open_file(rel, OpenFlags::read()).unwrap();
        assert_eq!(refused(kernel.open_file(rel, OpenFlags::write())), Refusal::Symlink);
        assert_eq!(refused(kernel.parent(rel)), Refusal::Symlink);
        assert_eq!(refused(kernel.unlink(rel)), Refusal::Symlink);
        assert_eq!(refused(walk.stat(rel)), Refusal::Symlink);
    }
    fs::create_dir(root.join("a/b/c")).unwrap();
    assert_eq!(kernel.read_dir(b"short/c").unwrap().count(), 0);
    assert_eq!(refused(kernel.rmdir(b"short/c")), Refusal::Symlink);
}

#[test]
fn a_subdirectory_is_a_root_of_its_own() {
    let temp = root_with_neighbour();
    let root = temp.path().join("root");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("top"), b"x").unwrap();
    symlink("../../top", root.join("a/b/top")).unwrap();
    for dir in both(&root) {
        let b = dir.open_dir(b"a").unwrap().open_dir(b"b").unwrap();
        assert_eq!(b.resolver(), dir.resolver());
        let follow = OpenFlags { follow: true, ..OpenFlags::read() };
        assert!(Refusal::of(&b.open_file(b"top", follow).unwrap_err()).is_some());
    }
    // From further up it stays beneath.
    let follow = OpenFlags { follow: true, ..OpenFlags::read() };
    let [kernel, _] = both(&root);
    assert!(kernel.resolver() == Resolver::Walk || kernel.open_file(b"a/b/top", follow).is_ok());
}

#[test]
fn errors_of_the_system_are_not_refusals() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("file"), b"").unwrap();
    for dir in both(temp.path()) {
        for (error, kind) in [
            (dir.stat(b"none").unwrap_err(), ErrorKind::NotFound),
            (dir.stat(b"none/x").unwrap_err(), ErrorKind::NotFound),
            (dir.stat(b"file/x").unwrap_err(), ErrorKind::NotADirectory),
            (dir.open_dir(b"file").unwrap_err(), ErrorKind::NotADirectory),
            (dir.mkdir(b"file", 0o700).unwrap_err(), ErrorKind::AlreadyExists),
        ] {
            assert_eq!(Refusal::of(&error), None);
            assert_eq!(error.kind(), kind, "{:?}", dir.resolver());
        }
    }
    assert!(Dir::open(temp.path().join("file")).is_err());
    assert_eq!(Dir::open(temp.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
}
