//! Where threads run, and what they are called.

use std::ffi::CString;
use std::fs;
use std::io;

use rustix::thread::CpuSet;

use super::node::parse_list;

/// The CPUs that are switched on, by number.
///
/// # Errors
///
/// `NotFound` where `/sys` is not mounted.
pub fn online_cpus() -> io::Result<Vec<usize>> {
    parse_list(&fs::read_to_string("/sys/devices/system/cpu/online")?)
}

/// The CPUs that the calling thread may run on: fewer than [`online_cpus`] in a container.
///
/// # Errors
///
/// `InvalidInput` on a machine with more CPUs than the 1024 that a set has room for.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Has the calling thread, and those it starts from now on, run on these CPUs only.
///
/// # Errors
///
/// `InvalidInput` when none of them exists or is allowed, or one is 1024 or more.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such CPU"));
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Names the calling thread for `top` and debuggers: the first 15 bytes, cut at a character.
///
/// # Errors
///
/// `InvalidInput` for a name with a zero byte.
pub fn set_thread_name(name: &str) -> io::Result<()> {
    const NAME_BYTES_MAX: usize = 15;
    let cut = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|&i| name.is_char_boundary(i)).unwrap_or(0);
    let name = CString::new(&name[..cut])?;
    Ok(rustix::thread::set_name(&name)?)
}

/// How the thread's reads and writes rank among those of others, where the I/O scheduler looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    /// As the thread's CPU priority says.
    Default,
    /// Among the others: 0 is first, 7 last.
    BestEffort(u8),
    /// Only when nobody else wants the device.
    Idle,
}

/// Ranks the reads and writes of the calling thread.
///
/// # Errors
///
/// `InvalidInput` for a level above 7; `Unsupported` where the kernel has no I/O priorities.
pub fn set_io_priority(priority: IoPriority) -> io::Result<()> {
    // From `linux/ioprio.h`: the class above bit 13, the level below.
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_SHIFT: u32 = 13;
    let value: libc::c_int = match priority {
        IoPriority::Default => 0,
        IoPriority::BestEffort(level @ 0..=7) => (2 << CLASS_SHIFT) | libc::c_int::from(level),
        IoPriority::BestEffort(_) => return Err(io::ErrorKind::InvalidInput.into()),
        IoPriority::Idle => 3 << CLASS_SHIFT,
    };
    // SAFETY: takes three numbers and touches no memory; 0 is the calling thread.
    match unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_is_per_thread() {
        let before = allowed_cpus().unwrap();
        assert!(!before.is_empty());
        assert!(before.iter().all(|cpu| online_cpus().unwrap().contains(cpu)));
        let one = before[0];
        std::thread::spawn(move || {
            set_affinity(&[one]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [one]);
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus().unwrap(), before);
        for &one in &before {
            let ran_on = std::thread::spawn(move || {
                set_affinity(&[one]).unwrap();
                rustix::thread::sched_getcpu()
            });
            assert_eq!(ran_on.join().unwrap(), one);
        }
        for bad in [&[][..], &[1023], &[1024], &[usize::MAX]] {
            assert_eq!(set_affinity(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad:?}");
        }
    }

    #[test]
    fn thread_names_are_cut() {
        std::thread::spawn(|| {
            for (given, kept) in [
                ("writer-3", "writer-3"),
                ("", ""),
                ("a-name-that-is-too-long", "a-name-that-is-"),
                ("aaaaaaaaaaaaaaé", "aaaaaaaaaaaaaa"),
            ] {
                set_thread_name(given).unwrap();
                assert_eq!(rustix::thread::name().unwrap().to_str().unwrap(), kept);
            }
            assert_eq!(set_thread_name("a\0b").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn io_priority_is_taken() {
        std::thread::spawn(|| {
            for p in [IoPriority::Idle, IoPriority::BestEffort(7), IoPriority::Default] {
                set_io_priority(p).unwrap();
            }
            assert!(set_io_priority(IoPriority::BestEffort(8)).is_err());
        })
        .join()
        .unwrap();
    }
}
