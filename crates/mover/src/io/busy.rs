//! How busy the threads of a disk are: that is what names the disk as the limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

/// The same of one thread whose operations may take longer than the time between two looks, as making much durable does: what is not over
/// counts as far as it is.
#[derive(Debug, Default)]
pub struct LongBusy(Mutex<Long>);

#[derive(Debug, Default)]
struct Long {
    since: Option<Instant>,
    ended: Duration,
}

impl LongBusy {
    /// Counts from now until what this gives is dropped.
    pub fn begin(&self) -> impl Drop {
        self.change(|long| long.since = Some(Instant::now()));
        Ends(self)
    }

    /// Time since the last call, µs.
    pub fn take(&self) -> u64 {
        self.change(|long| {
            let under_way = long.since.as_mut().map_or(Duration::ZERO, |since| {
                let now = Instant::now();
                now - std::mem::replace(since, now)
            });
            (std::mem::take(&mut long.ended) + under_way).as_micros() as u64
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Long) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Ends<'a>(&'a LongBusy);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.change(|long| long.ended += long.since.take().map_or(Duration::ZERO, |since| since.elapsed()));
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn what_takes_long_counts_before_it_is_over_and_each_moment_once() {
        let (busy, moment) = (LongBusy::default(), Duration::from_millis(20));
        let begin = Instant::now();
        let work = busy.begin();
        std::thread::sleep(moment);
        let first = busy.take();
        assert!(first >= 20_000, "{first}");
        std::thread::sleep(moment);
        drop(work);
        let second = busy.take();
        assert!(second >= 20_000, "{second}");
        assert!(u128::from(first + second) <= begin.elapsed().as_micros());
        std::thread::sleep(moment);
        assert_eq!(busy.take(), 0, "it is over");
    }
}
