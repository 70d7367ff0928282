//! What earlier sessions found of paths: a small file of the user's, so that the next session need not search.
//!
//! It is a hint: what cannot be read counts as nothing, and of two sessions that end together one is forgotten.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::control::tuner::Memory;

/// Paths that are remembered; the oldest ones go.
const PATHS_MAX: usize = 256;
/// A longer file is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file, and the path of one session in it.
#[derive(Debug, Clone)]
pub struct KnownPath {
    file: PathBuf,
    path: String,
}

impl KnownPath {
    /// The path called `path`, as kept in `file`.
    #[must_use]
    pub fn new(file: PathBuf, path: String) -> KnownPath {
        KnownPath { file, path }
    }

    /// What the path is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.path
    }

    /// What was found of it, if that can still be believed.
    #[must_use]
    pub fn recall(&self) -> Option<Memory> {
        let now_s = now_s();
        read(&self.file).into_iter().find(|memory| memory.path == self.path && memory.is_fresh(now_s))
    }

    /// Keeps what was found.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, memory: Memory) -> io::Result<()> {
        let mut all = read(&self.file);
        all.retain(|known| known.path != memory.path);
        all.push(memory);
        all.sort_by_key(|known| std::cmp::Reverse(known.at_s));
        all.truncate(PATHS_MAX);
        let dir = self.file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)?;
        let temp = self.file.with_extension(format!("{}.new", std::process::id()));
        std::fs::write(&temp, serde_json::to_vec_pretty(&all)?)?;
        std::fs::rename(&temp, &self.file)
    }
}

/// Seconds since 1970.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn read(file: &Path) -> Vec<Memory> {
    let is_ours = std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_BYTES_MAX);
    let text = if is_ours { std::fs::read(file).unwrap_or_default() } else { Vec::new() };
    parse(&text)
}

/// What the text of a file says; nothing, if it is none of ours.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Memory> {
    serde_json::from_slice(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Goodput;

    fn found(path: &str, streams: u16, at_s: u64) -> Memory {
        Memory { path: path.to_owned(), streams, at_s, rate: Goodput::gbps(1) }
    }

    #[test]
    fn keeps_the_newest_of_each_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state/paths.json");
        let path = KnownPath::new(file.clone(), "a".to_owned());
        assert_eq!(path.recall(), None);
        path.keep(found("a", 3, now_s())).unwrap();
        path.keep(found("b", 9, now_s())).unwrap();
        path.keep(found("a", 4, now_s())).unwrap();
        assert_eq!(path.recall().map(|memory| memory.streams), Some(4));
        path.keep(found("a", 5, 1_000)).unwrap();
        assert_eq!(path.recall(), None, "long ago");
        for n in 0..PATHS_MAX as u64 + 5 {
            path.keep(found(&format!("p{n}"), 1, now_s())).unwrap();
        }
        assert_eq!(read(&file).len(), PATHS_MAX);
        std::fs::write(&file, b"{ not ours").unwrap();
        assert_eq!(path.recall(), None);
    }
}
