//! The identity of this boot, and the time since it. Any other time is the caller's: it comes in as an argument.

use std::io;
use std::time::Duration;

/// Time since the boot, that in which the host slept included (`CLOCK_BOOTTIME`): it never goes back, and nobody sets it.
#[must_use]
pub fn since_boot() -> Duration {
    duration(rustix::time::ClockId::Boottime)
}

/// The time of CLOCK_MONOTONIC: [`std::time::Instant`] does not tell it, and what the kernel stamps is compared with it.
#[must_use]
pub fn monotonic() -> Duration {
    duration(rustix::time::ClockId::Monotonic)
}

fn duration(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}

/// The kernel's boot id: 36 characters, another after every reboot.
///
/// A journal that names the boot that wrote it can tell a crash of the program from a crash of the
/// machine, after which unsynced data is gone.
///
/// # Errors
///
/// `NotFound` and the like where `/proc` is not mounted.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn time_since_the_boot_goes_on() {
        let before = super::since_boot();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let passed = super::since_boot() - before;
        assert!(passed >= std::time::Duration::from_millis(2), "{passed:?}");
    }

    #[test]
    fn is_a_stable_uuid() {
        let id = super::boot_id().unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!(id, super::boot_id().unwrap());
    }
}
