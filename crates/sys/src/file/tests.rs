mod beneath;
mod content;
mod names;
mod race;
mod volume;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// Both ways to resolve names, on the same directory.
fn both(path: &Path) -> [Dir; 2] {
    let kernel = Dir::open(path).unwrap();
    let walk = Dir::open_with(path, Resolver::Walk).unwrap();
    [kernel, walk]
}

/// A directory `root` with something precious beside it.
fn root_with_neighbour() -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("root")).unwrap();
    std::fs::write(temp.path().join("secret"), b"precious").unwrap();
    std::fs::create_dir(temp.path().join("outside")).unwrap();
    std::fs::write(temp.path().join("outside/secret"), b"precious").unwrap();
    temp
}

fn names(list: ReadDir) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = list.map(|entry| entry.unwrap().name).collect();
    names.sort();
    names
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}
