//! Pipes and other descriptors that are read or written from their begin to their end.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::poll::timespec;

/// Size that is asked for a pipe, bytes: what an unprivileged user may have (`/proc/sys/fs/pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Waits for at most `timeout` until a read of `fd` will not block: there are data, the end, or an error.
/// Regular files are always ready.
///
/// # Errors
///
/// What `poll` says; a signal counts as "not yet".
pub fn wait_readable(fd: impl AsFd, timeout: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    match poll(&mut fds, Some(&timespec(timeout))) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Makes a pipe as large as it may be; of no consequence when `fd` is none, or may not grow.
pub fn grow_pipe(fd: impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn waits_for_data_and_for_the_end() {
        let (read, mut write) = io::pipe().unwrap();
        grow_pipe(&read);
        assert!(!wait_readable(&read, Duration::from_millis(1)).unwrap());
        write.write_all(b"x").unwrap();
        assert!(wait_readable(&read, Duration::ZERO).unwrap());
        let (read, write) = io::pipe().unwrap();
        drop(write);
        assert!(wait_readable(&read, Duration::ZERO).unwrap(), "the end is something to read");
    }

    #[test]
    fn a_file_is_always_ready() {
        let file = tempfile::tempfile().unwrap();
        grow_pipe(&file);
        assert!(wait_readable(&file, Duration::ZERO).unwrap());
    }
}
