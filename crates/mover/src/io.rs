//! The storage side of the byte path: readers, writers, decisions about what is there, and commits.

pub mod arrivals;
pub mod busy;
pub mod commit;
pub mod decide;
pub mod delete;
pub mod describe;
pub mod epochs;
pub mod input;
pub mod journal;
pub mod open;
pub mod output;
pub mod place;
pub mod read;
pub mod target;
pub mod trial;
pub mod write;

use std::io;

use proto::Time;
use sys::ring::Ring;

use crate::frame::Pool;
use crate::request::IoChoice;

/// Nanoseconds since 1970 as the protocol has them.
#[must_use]
pub fn time(ns: i128) -> Time {
    const SECOND: i128 = 1_000_000_000;
    Time { sec: ns.div_euclid(SECOND) as i64, nsec: ns.rem_euclid(SECOND) as u32 }
}

/// The protocol's time as nanoseconds since 1970.
#[must_use]
pub fn nanoseconds(time: Time) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}

/// An error of the operating system as a line for the user: what was tried, on what, why not.
#[must_use]
pub fn say(doing: &str, error: &io::Error) -> String {
    format!("{doing}: {error}")
}

/// Rings for chunk readers or writers of a pool's frames: one of io_uring where it may be used, else some of plain calls.
#[must_use]
pub fn rings(choice: IoChoice, depth: u32, plain: usize, pool: &Pool) -> Vec<Ring> {
    if choice == IoChoice::Measure {
        let known = |mut ring: Ring| ring.register(pool.slab()).map(|_| ring);
        match Ring::new(depth).and_then(known) {
            Ok(ring) => return vec![ring],
            Err(error) => tracing::info!(%error, "io_uring is not to be had; plain reads and writes it is"),
        }
    }
    (0..plain).map(|_| Ring::blocking(1)).collect()
}

/// True for errors that will meet every further file too: going on would only waste the user's time.
#[must_use]
pub fn is_fatal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    )
}
