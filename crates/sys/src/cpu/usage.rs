//! What has been used so far.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Sub;
use std::time::Duration;

/// CPU time since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl CpuTime {
    /// Both together.
    pub fn total(&self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

impl Sub for CpuTime {
    type Output = CpuTime;

    /// What was used between two readings; the kernel may shift a little between user and system,
    /// so neither goes below zero.
    fn sub(self, earlier: CpuTime) -> CpuTime {
        CpuTime { user: self.user.saturating_sub(earlier.user), system: self.system.saturating_sub(earlier.system) }
    }
}

/// Of all threads of this process, those that have ended too.
///
/// # Errors
///
/// None in practice.
pub fn process_time() -> io::Result<CpuTime> {
    Ok(cpu_time(&usage(libc::RUSAGE_SELF)?))
}

/// Of the calling thread.
///
/// # Errors
///
/// None in practice.
pub fn thread_time() -> io::Result<CpuTime> {
    Ok(cpu_time(&usage(libc::RUSAGE_THREAD)?))
}

fn cpu_time(usage: &libc::rusage) -> CpuTime {
    CpuTime { user: span(usage.ru_utime), system: span(usage.ru_stime) }
}

#[allow(clippy::unnecessary_cast, reason = "the widths of these fields differ between architectures")]
fn span(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec.max(0) as u64)
}

fn usage(who: libc::c_int) -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure, live for the call.
    match unsafe { libc::getrusage(who as _, usage.as_mut_ptr()) } {
        // SAFETY: filled; and all zeros would be a value too.
        0 => Ok(unsafe { usage.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// CPU time of all cores of the host since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTime {
    /// Doing something, for anybody, time stolen by the hypervisor included.
    pub busy: Duration,
    /// Busy and idle.
    pub total: Duration,
}

/// Reads the host's CPU time from `/proc/stat` (resolution 10 ms).
///
/// # Errors
///
/// Without `/proc`.
pub fn host_time() -> io::Result<HostTime> {
    let stat = fs::read_to_string("/proc/stat")?;
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest time is in user already.
    let total: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let span = |ticks: u64| Duration::from_millis(ticks * 10);
    Ok(HostTime { busy: span(total.saturating_sub(idle)), total: span(total) })
}

/// Memory in use by this process, in bytes. Pages of [`Slab`](crate::buffer::Slab)s count from
/// their first use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub rss_bytes: u64,
    /// The most that ever was resident.
    pub peak_rss_bytes: u64,
}

/// Reads both numbers from `/proc/self/status`; without `/proc` the peak stands for both.
///
/// # Errors
///
/// None in practice.
pub fn memory() -> io::Result<Memory> {
    if let Some(memory) = fs::read_to_string("/proc/self/status").ok().as_deref().and_then(parse) {
        return Ok(memory);
    }
    let peak = (usage(libc::RUSAGE_SELF)?.ru_maxrss.max(0) as u64).saturating_mul(1024);
    Ok(Memory { rss_bytes: peak, peak_rss_bytes: peak })
}

/// Resident memory now, in bytes.
///
/// # Errors
///
/// As [`memory`].
pub fn rss_bytes() -> io::Result<u64> {
    Ok(memory()?.rss_bytes)
}

/// The most memory that ever was resident, in bytes.
///
/// # Errors
///
/// As [`memory`].
pub fn peak_rss_bytes() -> io::Result<u64> {
    Ok(memory()?.peak_rss_bytes)
}

fn parse(status: &str) -> Option<Memory> {
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    Some(Memory { rss_bytes: bytes("VmRSS:")?, peak_rss_bytes: bytes("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_with_work() {
        let (process, thread) = (process_time().unwrap(), thread_time().unwrap());
        let mut sum = 0u64;
        while (thread_time().unwrap() - thread).total() < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!((process_time().unwrap() - process).total() >= Duration::from_millis(15));
        let other = std::thread::spawn(|| thread_time().unwrap()).join().unwrap();
        assert!(other.total() < thread_time().unwrap().total());
        assert_eq!((thread - thread_time().unwrap()).total(), Duration::ZERO);
    }

    #[test]
    fn memory_shows_what_is_touched() {
        let before = memory().unwrap();
        let (_slab, mut buffers) = crate::buffer::Slab::new(1, 64 << 20).unwrap();
        buffers[0].fill(1);
        let after = memory().unwrap();
        assert!(after.peak_rss_bytes >= before.rss_bytes + (60 << 20));
        assert!(after.rss_bytes <= after.peak_rss_bytes);
        assert!(peak_rss_bytes().unwrap() >= after.peak_rss_bytes);
        assert!(rss_bytes().unwrap() > 0);
    }

    #[test]
    fn parses_status() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse(text), Some(Memory { rss_bytes: 1 << 20, peak_rss_bytes: 2 << 20 }));
        for bad in ["", "VmRSS: 1 kB", "VmHWM: x kB\nVmRSS: 1 kB", "VmHWM: 1\nVmRSS: 99999999999999999999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
