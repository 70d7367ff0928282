//! What the kernel has dropped at a device before the emulator could read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use sys::netns::Namespace;

/// How much of the kernel's table is read at once.
const PIECE: usize = 4096;
/// Place of the packets dropped on their way out among the numbers of a device.
const TX_DROPPED: usize = 11;

/// The kernel's counter of one device.
pub(super) struct Unread {
    /// `/proc/net/dev` as the namespace of the device has it, where it was opened: to enter a namespace for each look would take a
    /// thread each time.
    table: File,
    device: String,
    /// Where it stood when packets began to be carried: what had been dropped before was never the link's.
    before: u64,
    /// What was counted last.
    last: AtomicU64,
}

impl Unread {
    /// That of `device` in `namespace`, from now on.
    ///
    /// # Errors
    /// When the namespace or the device is not there.
    pub(super) fn new(namespace: &Namespace, device: &str) -> io::Result<Unread> {
        let table = namespace.run(|| File::open("/proc/thread-self/net/dev"))?;
        let mut unread = Unread { table, device: device.to_owned(), before: 0, last: AtomicU64::new(0) };
        unread.restart()?;
        Ok(unread)
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// When the device is gone.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        (self.before, self.last) = (self.dropped()?, AtomicU64::new(0));
        Ok(())
    }

    /// Packets that the kernel has dropped: the device was full, or down. If somebody took the device away, as far as was counted.
    pub(super) fn count(&self) -> u64 {
        match self.dropped() {
            // A device of that name that was made anew begins at 0.
            Ok(dropped) => self.last.store(dropped.saturating_sub(self.before), Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, device = self.device, "asking for what was dropped unread"),
        }
        self.last.load(Ordering::Relaxed)
    }

    fn dropped(&self) -> io::Result<u64> {
        let (mut table, mut piece) = (Vec::new(), [0; PIECE]);
        loop {
            match self.table.read_at(&mut piece, table.len() as u64)? {
                0 => break,
                len => table.extend_from_slice(&piece[..len]),
            }
        }
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("the kernel does not know {}", self.device));
        dropped(&String::from_utf8_lossy(&table), &self.device).ok_or_else(gone)
    }
}

/// What the table says of a device.
fn dropped(table: &str, device: &str) -> Option<u64> {
    let numbers = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    numbers.split_whitespace().nth(TX_DROPPED)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_number_of_the_right_device() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
    ab:      21      22   23   24   25    26         27        28       29      30   31   32   33    34      35         36
   ab1: 123456789012  42   43   44   45    46         47        48       49      50   51   52   53    54      55         56
";
        assert_eq!(
            ["lo", "ab", "ab1", "a", "b"].map(|device| dropped(table, device)),
            [Some(12), Some(32), Some(52), None, None]
        );
    }
}
