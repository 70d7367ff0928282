//! Who and where this process is, and the few things about it that one changes.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal};

/// The host's name as the kernel has it, not necessarily qualified; lossy if it is not UTF-8.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The kernel's release, such as `6.1.0-18-amd64`.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The kernel's version: the first two numbers of its release.
pub fn kernel_version() -> Option<(u32, u32)> {
    version_of(&kernel_release())
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The real user id.
pub fn uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The effective user id: the one that permissions are checked against.
pub fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective group id.
pub fn egid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The id of the user of this name, as the system knows its users; `None` if there is none.
///
/// # Errors
///
/// When the system cannot look it up.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    // An entry of more than that is none that anybody logs in with.
    let mut space = vec![0; 16 << 10];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: all four places are live for the call, which writes at most the length given into `space`.
    let error =
        unsafe { libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), space.as_mut_ptr(), space.len(), &mut found) };
    match (error, found.is_null()) {
        // SAFETY: it was found, so the entry has been written.
        (0, false) => Ok(Some(unsafe { entry.assume_init() }.pw_uid)),
        // Some systems say that there is none by an error (getpwnam(3)).
        (0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, true) => Ok(None),
        (error, _) => Err(io::Error::from_raw_os_error(error)),
    }
}

/// What the kernel sends this process when its parent dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentDeath {
    /// Nothing: the process outlives its parent.
    Nothing,
    /// SIGHUP, as when a terminal closes.
    Hangup,
    /// SIGTERM: it may still clean up.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Sets what happens when the parent *thread* that started this process ends.
///
/// A parent already gone sends nothing: compare the parent's id before and after.
///
/// # Errors
///
/// What `prctl` says.
pub fn set_parent_death_signal(death: ParentDeath) -> io::Result<()> {
    let signal = match death {
        ParentDeath::Nothing => None,
        ParentDeath::Hangup => Some(Signal::HUP),
        ParentDeath::Terminate => Some(Signal::TERM),
        ParentDeath::Kill => Some(Signal::KILL),
    };
    Ok(rustix::process::set_parent_process_death_signal(signal)?)
}

/// Sends SIGKILL to every process of a group; `leader` is the id of the process that leads it.
///
/// # Errors
///
/// `ESRCH` when nothing of the group is left; `PermissionDenied` when none of it may be signalled.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let leader = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    let leader = leader.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::process::kill_process_group(leader, Signal::KILL)?)
}

/// A process, held on to: its id may go to another one when it has ended, this does not.
#[derive(Debug)]
pub struct Process {
    fd: OwnedFd,
}

impl Process {
    /// The process that has this id now. Whether it is the one that was meant is to be looked at after this, by what made
    /// it known: what still holds of the id then holds of this process, or of none that this reaches.
    ///
    /// # Errors
    ///
    /// `ESRCH` when there is none.
    pub fn open(pid: u32) -> io::Result<Process> {
        let fd = rustix::process::pidfd_open(named(pid)?, rustix::process::PidfdFlags::empty())?;
        Ok(Process { fd })
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    ///
    /// `ESRCH` when it has ended; `PermissionDenied` when it may not be signalled.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.fd, Signal::TERM)?)
    }

    /// Ends it (SIGKILL).
    ///
    /// # Errors
    ///
    /// As [`Process::terminate`].
    pub fn kill(&self) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(&self.fd, Signal::KILL)?)
    }
}

/// Asks a child that was not waited for, or another process whose id cannot have gone to a third, to end (SIGTERM).
///
/// # Errors
///
/// `ESRCH` when there is no such process; `PermissionDenied` when it may not be signalled.
pub fn terminate(pid: u32) -> io::Result<()> {
    Ok(rustix::process::kill_process(named(pid)?, Signal::TERM)?)
}

fn named(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Whether this process was started so that SIGHUP does nothing to it, as by `nohup`.
pub fn ignores_hangup() -> bool {
    // SAFETY: all zeros is a valid sigaction, and a null pointer only asks for what is set.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut action) == 0).then_some(action)
    };
    action.is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// The id of the parent, or `None` when it lives outside this process namespace.
pub fn parent_pid() -> Option<u32> {
    rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32)
}

/// Sets which permission bits new files never get (such as `0o022`) and returns the former value.
///
/// The whole process shares it: set it once, before threads start.
pub fn set_umask(mask: u32) -> u32 {
    rustix::process::umask(Mode::from_raw_mode(mask & 0o777)).as_raw_mode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_itself() {
        let proc = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(hostname(), proc.trim());
        assert!(kernel_release().contains('.'));
        assert_eq!((uid(), euid()), (rustix::process::getuid().as_raw(), uid()));
        assert!(parent_pid().is_some());
    }

    #[test]
    fn versions_are_two_numbers() {
        assert_eq!(version_of("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version_of("6.18-rc3"), Some((6, 18)));
        assert_eq!([version_of("6"), version_of("linux"), version_of("")], [None; 3]);
        assert!(kernel_version().is_some_and(|version| version >= (4, 0)));
    }

    #[test]
    fn parent_death_can_be_set_and_cleared() {
        set_parent_death_signal(ParentDeath::Terminate).unwrap();
        assert_eq!(rustix::process::parent_process_death_signal().unwrap(), Some(Signal::TERM));
        set_parent_death_signal(ParentDeath::Nothing).unwrap();
        assert_eq!(rustix::process::parent_process_death_signal().unwrap(), None);
    }

    #[test]
    fn a_group_is_killed_and_nothing_else() {
        use std::os::unix::process::{CommandExt, ExitStatusExt};
        let sleep = || std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let (mut one, mut other) = (sleep(), sleep());
        kill_group(one.id()).unwrap();
        assert_eq!(one.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(kill_group(one.id()).unwrap_err().raw_os_error(), Some(3), "nothing is left");
        assert_eq!(kill_group(0).unwrap_err().kind(), io::ErrorKind::InvalidInput, "not one's own group");
    }

    #[test]
    fn a_process_that_is_held_is_never_another() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let held = Process::open(child.id()).unwrap();
        held.terminate().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
        // Its id is free from here on, and whoever has it is not meant.
        assert_eq!(held.kill().unwrap_err().raw_os_error(), Some(3));
        assert_eq!(Process::open(0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn hangups_are_ignored_as_by_nohup() {
        // In processes of their own: the setting is the whole process'. This test again is one that says it.
        if std::env::var_os("LONGHAUL_TEST_HANGUP").is_some() {
            println!("ignored: {}", ignores_hangup());
            return;
        }
        let this = std::env::current_exe().unwrap();
        // A shell could not take it back where the tests themselves run under nohup.
        for (how, ignored) in [("--ignore-signal=HUP", true), ("--default-signal=HUP", false)] {
            let mut env = std::process::Command::new("env");
            env.args([how, "LONGHAUL_TEST_HANGUP=1"]).arg(&this);
            env.args(["--exact", "process::tests::hangups_are_ignored_as_by_nohup", "--nocapture"]);
            let output = env.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains(&format!("ignored: {ignored}")), "{said}");
        }
    }

    #[test]
    fn users_have_ids() {
        assert_eq!(user_id("root").unwrap(), Some(0));
        for none in ["", "no such user of this host", "a\0b"] {
            assert_eq!(user_id(none).unwrap(), None, "{none:?}");
        }
    }

    #[test]
    fn umask_returns_what_it_replaced() {
        // The default of the test process stays as it was.
        let before = set_umask(0o022);
        assert_eq!(set_umask(before), 0o022);
    }
}
