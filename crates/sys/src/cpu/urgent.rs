//! Threads that must run when their time has come.

use std::io;

/// Runs the calling thread before all ordinary ones (SCHED_FIFO, the lowest of its priorities), until it sleeps.
///
/// # Errors
///
/// `PermissionDenied` without CAP_SYS_NICE, or in a control group that has no real-time share.
pub fn set_real_time() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 1 };
    // SAFETY: reads one sched_param; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has the kernel end the calling thread's sleeps when they are due, not up to 50 µs later.
///
/// # Errors
///
/// What `prctl` says.
pub fn set_exact_sleep() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_can_be_exact_and_real_time_is_given_or_refused_clearly() {
        std::thread::spawn(|| {
            set_exact_sleep().unwrap();
            if let Err(error) = set_real_time() {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            }
        })
        .join()
        .unwrap();
    }
}
