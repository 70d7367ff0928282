//! How busy the threads of a disk are: that is what names the disk as the limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Time that threads which do the same had something in hand, µs. What overlaps, as the operations of one ring do, counts
/// each for itself.
#[derive(Debug, Default)]
pub struct Busy(AtomicU64);

impl Busy {
    /// Something was in hand from `begin` until now.
    pub fn since(&self, begin: Instant) {
        self.0.fetch_add(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// Time since the last call, per thread, µs.
    pub fn take(&self, threads: usize) -> u64 {
        self.0.swap(0, Ordering::Relaxed) / threads.max(1) as u64
    }
}

/// The two kinds of threads that a disk has.
#[derive(Debug, Default)]
pub struct DiskBusy {
    /// Those of chunks of big files.
    pub chunks: Busy,
    /// Those of small files.
    pub files: Busy,
}

impl DiskBusy {
    /// Time since the last call for the busier kind, per thread, µs. A mean over both would call a disk idle that all
    /// readers of big files wait for, because those of small files have nothing to do.
    pub fn take(&self, chunk_threads: usize, file_threads: usize) -> u64 {
        self.chunks.take(chunk_threads).max(self.files.take(file_threads))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn threads_that_have_nothing_to_do_do_not_hide_those_that_wait() {
        let disk = DiskBusy::default();
        let second_ago = Instant::now() - Duration::from_secs(1);
        (0..2).for_each(|_| disk.chunks.since(second_ago));
        let busy = disk.take(2, 4);
        assert!((1_000_000..2_000_000).contains(&busy), "{busy}");
        assert_eq!(disk.take(2, 4), 0, "it is taken once");
        disk.files.since(second_ago);
        assert!((250_000..500_000).contains(&disk.take(2, 4)));
    }
}
