//! One driver at a time works on a network namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sys::file::{LockMode, lock};

/// Where the locks are, unless systemd says otherwise (`RuntimeDirectory=longhaul-driver`).
pub const DIRECTORY: &str = "/run/longhaul-driver";
/// How long to wait for another driver: it works for some milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(20);

/// Held while a driver works. The kernel frees it when its holder dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another driver works, and goes on.
    #[error("another driver works on this host{}: wait for it", .by.map(|by| format!(" (process {by})")).unwrap_or_default())]
    Held {
        /// Its process.
        by: Option<u32>,
    },
    /// The file cannot be had.
    #[error("cannot lock {}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Lock {
    /// Waits for the lock of the network namespace of this thread; `directory` is made if it is not there.
    ///
    /// # Errors
    /// When another driver keeps it, or the file cannot be had.
    pub fn take(directory: &Path) -> Result<Lock, LockError> {
        let mut path = directory.to_owned();
        let failed = |path: &Path, source| LockError::File { path: path.to_owned(), source };
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| failed(&path, error))?,
        }
        let namespace = fs::metadata("/proc/thread-self/ns/net").map_err(|error| failed(&path, error))?.ino();
        path.push(format!("net-{namespace}.lock"));
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.map_err(|error| failed(&path, error))?;
        let begun = Instant::now();
        loop {
            match lock(&file, LockMode::Exclusive).map_err(|error| failed(&path, error))? {
                sys::file::Lock::Taken => return Ok(Lock { _file: file }),
                sys::file::Lock::Held { by } if begun.elapsed() >= PATIENCE => return Err(LockError::Held { by }),
                sys::file::Lock::Held { .. } => std::thread::sleep(AGAIN),
            }
        }
    }
}

#[test]
fn a_second_one_waits() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let held = Lock::take(&dir.path().join("locks")).expect("nobody has it");
    let path = dir.path().join("locks");
    let second = std::thread::spawn(move || Lock::take(&path).map(|_| Instant::now()));
    std::thread::sleep(Duration::from_millis(100));
    let freed = Instant::now();
    drop(held);
    assert!(second.join().expect("no panic").expect("it comes in") >= freed);
}
