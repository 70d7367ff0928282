//! Resource limits of this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// In force.
    pub soft: Option<u64>,
    /// How far the process may raise it.
    pub hard: Option<u64>,
}

impl From<Rlimit> for Limit {
    fn from(limit: Rlimit) -> Limit {
        Limit { soft: limit.current, hard: limit.maximum }
    }
}

/// How many descriptors the process may have open (RLIMIT_NOFILE).
pub fn nofile_limit() -> Limit {
    getrlimit(Resource::Nofile).into()
}

/// Raises the number of descriptors to the hard limit; returns the limit in force. Leave it alone
/// in programs that use `select`.
///
/// # Errors
///
/// What the kernel says; the limit stays as it was.
pub fn raise_nofile() -> io::Result<Limit> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(nofile_limit())
}

/// How many bytes the process may lock in memory (RLIMIT_MEMLOCK); registering buffers with
/// io_uring counts, unless the process has CAP_IPC_LOCK.
pub fn memlock_limit() -> Limit {
    getrlimit(Resource::Memlock).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nofile_reaches_the_hard_limit() {
        let hard = nofile_limit().hard;
        assert_eq!(raise_nofile().unwrap(), Limit { soft: hard, hard });
        assert_eq!(nofile_limit().soft, hard);
        let memlock = memlock_limit();
        assert!(memlock.hard.is_none() || memlock.soft <= memlock.hard);
    }
}
