//! Room for the index of a write-ahead log, which SQLite maps (`-shm`).
//!
//! SQLite lengthens that file by a byte to each 4096. Where the file system has smaller blocks (ext4 makes them of 1 KiB below 512 MiB) the
//! rest is holes, and on a full disk the kernel ends a program that writes into one with SIGBUS. So all of it gets blocks when a store is opened.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sys::file::fallocate;

/// Bytes that are reserved: the index of some 131,000 pages, a log of 512 MiB. It is cut at 64 MiB when it can be.
const INDEX_BYTES: u64 = 1 << 20;

/// The index of one file's log, while somebody has that file open.
///
/// A process loses its POSIX locks on a file with the first descriptor of it that it closes. SQLite has its locks on this one, so ours is held
/// for as long as any connection, and closed after the last.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Weak<File>>);

impl Room {
    /// Reserves it, if it is not yet; to be dropped after the connection. It is no error that it cannot be had: the controller works without.
    pub(super) fn hold(&self, database: &Path) -> Option<Arc<File>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = held.upgrade() {
            return Some(file);
        }
        let path = database.with_extension("sqlite-shm");
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let no_index = |error: &io::Error| tracing::debug!(path = %path.display(), %error, "there is no index yet");
        let file = Arc::new(opened.inspect_err(no_index).ok()?);
        *held = Arc::downgrade(&file);
        match fallocate(&*file, 0, INDEX_BYTES, false) {
            Ok(true) => {}
            Ok(false) => tracing::debug!(path = %path.display(), "the file system reserves no room"),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "no room for the index of the log: a full disk may end the controller");
            }
        }
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn what_sqlite_maps_has_its_blocks_and_its_locks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sqlite");
        let open = || {
            let db = Connection::open(&path).unwrap();
            db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
            db.execute_batch("CREATE TABLE IF NOT EXISTS t (x)").unwrap();
            db
        };
        let room = Room::default();
        let first = (open(), room.hold(&path));
        let index = std::fs::metadata(dir.path().join("a.sqlite-shm")).unwrap();
        assert_eq!(index.len(), INDEX_BYTES);
        assert!(index.blocks() * 512 >= INDEX_BYTES, "{} blocks", index.blocks());
        let second = (open(), room.hold(&path));
        first.0.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        drop(first);
        // The locks of the second are still there: another process cannot take the log for its own and cut it.
        second.0.execute_batch("BEGIN; SELECT * FROM t; INSERT INTO t VALUES (2)").unwrap();
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let inode = format!(":{} ", std::fs::metadata(dir.path().join("a.sqlite-shm")).unwrap().ino());
        assert!(locks.lines().any(|line| line.contains("POSIX") && line.contains(&inode)), "{inode} in {locks}");
        second.0.execute_batch("COMMIT").unwrap();
        drop(second);
        assert!(room.0.lock().unwrap().upgrade().is_none());
        let third = (open(), room.hold(&path));
        let count = third.0.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count, 2);
    }
}
