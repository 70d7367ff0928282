//! Names that change while they are resolved.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const TURNS: usize = 20_000;

/// Swaps `root/door` between a directory and a link that leads out, for as long as `body` runs.
fn while_swapping(root: &Path, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let started = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (door, dir, link) = (root.join("door"), root.join("dir"), root.join("link"));
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&door, &dir).unwrap();
                fs::rename(&link, &door).unwrap();
                started.store(true, Ordering::Relaxed);
                fs::rename(&door, &link).unwrap();
                fs::rename(&dir, &door).unwrap();
            }
        });
        while !started.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        body();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_link_swapped_in_never_leads_out() {
    let temp = root_with_neighbour();
    let root = temp.path().join("root");
    fs::create_dir(root.join("door")).unwrap();
    fs::write(root.join("door/secret"), b"harmless").unwrap();
    symlink("../outside", root.join("link")).unwrap();
    for dir in both(&root) {
        let (mut opened, mut refused) = (0, 0);
        while_swapping(&root, || {
            for turn in 0..TURNS {
                if let Ok(fd) = dir.open_file(b"door/secret", OpenFlags::read()) {
                    let mut content = [0; 16];
                    let n = read_exact_at(&fd, &mut content, 0).unwrap();
                    assert_eq!(&content[..n], b"harmless");
                    opened += 1;
                } else {
                    refused += 1;
                }
                if let Ok(meta) = dir.stat(b"door/secret") {
                    assert_eq!(meta.kind, Kind::File);
                }
                // What is made must be made inside.
                let name = format!("door/new{}", turn % 8);
                if dir.mkdir(name.as_bytes(), 0o700).is_err() {
                    let _ = dir.rmdir(name.as_bytes());
                }
                let _ = dir.rename(b"door/secret", b"door/secret2");
                let _ = dir.rename(b"door/secret2", b"door/secret");
                if let Ok((parent, name)) = dir.parent(b"door/secret") {
                    let _ = parent.chmod(name, 0o640);
                }
            }
        });
        assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused: no race was run");
    }
    let outside: Vec<_> = fs::read_dir(temp.path().join("outside")).unwrap().collect();
    assert_eq!(outside.len(), 1);
    let meta = fs::metadata(temp.path().join("outside/secret")).unwrap();
    assert_ne!(meta.mode() & 0o777, 0o640);
}

#[test]
fn a_pipe_swapped_in_does_not_stop_us() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    for dir in both(temp.path()) {
        // Opening it for reading would wait for a writer.
        let fd = dir.open_file(b"pipe", OpenFlags::read()).unwrap();
        assert_eq!(Meta::of(&fd).unwrap().kind, Kind::Fifo);
        let error = dir.open_file(b"pipe", OpenFlags::write());
        // The reader above is still open.
        assert!(error.is_ok());
        drop((fd, error));
        let error = dir.open_file(b"pipe", OpenFlags::write()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
    }
}

#[test]
fn many_make_the_same_directories() {
    let temp = tempfile::tempdir().unwrap();
    for dir in both(temp.path()) {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..200 {
                        let name = format!("{:?}/a{}/b/c{}", dir.resolver(), i % 10, i);
                        dir.mkdir_all(name.as_bytes(), 0o755).unwrap();
                    }
                });
            }
        });
        let top = format!("{:?}", dir.resolver());
        assert_eq!(dir.read_dir(top.as_bytes()).unwrap().count(), 10);
    }
}
