//! Network namespaces with names, the same that `ip netns` sees.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::process::Process;

/// Where namespaces have their names, as for `ip netns`.
pub const DIRECTORY: &str = "/run/netns";

/// A network namespace that has a name. Dropping this leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// The namespace of this name, whether or not it is there.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a name that is not the name of a file.
    pub fn named(name: &str) -> io::Result<Namespace> {
        if name.is_empty() || name.len() > 255 || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a namespace"));
        }
        Ok(Namespace { name: name.to_owned() })
    }

    /// Makes a namespace.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `PermissionDenied` without CAP_SYS_ADMIN.
    pub fn create(name: &str) -> io::Result<Namespace> {
        let namespace = Namespace::named(name)?;
        share_directory()?;
        let path = namespace.path();
        OpenOptions::new().write(true).create_new(true).open(&path)?;
        let made = in_a_thread({
            let path = path.clone();
            move || {
                // SAFETY: only this thread, which ends here, changes its namespace.
                unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
                mount_bind("/proc/thread-self/ns/net", &path)?;
                Ok(())
            }
        });
        if made.is_err() {
            let _ = fs::remove_file(&path);
        }
        made.map(|()| namespace)
    }

    /// Takes its name away; the namespace ends with the last process and the last device handle in it.
    ///
    /// # Errors
    ///
    /// `NotFound` when there is none of this name.
    pub fn delete(&self) -> io::Result<()> {
        let path = self.path();
        // What was left half made is a file without a mount.
        match unmount(&path, UnmountFlags::DETACH) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => fs::remove_file(&path),
            Err(error) => Err(error.into()),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }

    /// The processes whose main thread is in it, with their ids.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read or the namespace is not there.
    pub fn processes(&self) -> io::Result<Vec<(u32, Process)>> {
        let wanted = fs::metadata(self.path())?;
        // A process that has just ended is in no namespace.
        let is_here = |pid: u32| {
            let its = fs::metadata(format!("/proc/{pid}/ns/net"));
            its.is_ok_and(|its| (its.dev(), its.ino()) == (wanted.dev(), wanted.ino()))
        };
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if is_here(pid)
                && let Ok(process) = Process::open(pid)
                && is_here(pid)
            {
                // The second look: until it was held, its id could go to a process elsewhere.
                found.push((pid, process));
            }
        }
        Ok(found)
    }

    /// Runs `work` on a thread of its own inside the namespace.
    ///
    /// # Errors
    ///
    /// Those of `work`; `NotFound` when the namespace is not there.
    ///
    /// # Panics
    ///
    /// When `work` does.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let file = File::open(self.path())?;
        in_a_thread(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        })
    }

    /// Has `command` start inside the namespace: with `/sys` of the namespace, and with `hosts` in the place of `/etc/hosts` if
    /// given. Nothing else sees these mounts.
    ///
    /// # Errors
    ///
    /// `NotFound` when the namespace is not there.
    pub fn start_in(&self, command: &mut Command, hosts: Option<&Path>) -> io::Result<()> {
        let file = File::open(self.path())?;
        let hosts = hosts.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
        let enter = move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            // SAFETY: after the fork there is one thread, and the file system view is its own from here.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
            mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
            // Where /sys cannot be had (an unprivileged container) the program sees the outer one.
            if unmount(c"/sys", UnmountFlags::DETACH).is_ok() {
                let _ = mount(c"sysfs", c"/sys", c"sysfs", MountFlags::empty(), None);
            }
            if let Some(hosts) = &hosts {
                mount_bind(hosts.as_c_str(), c"/etc/hosts")?;
            }
            Ok(())
        };
        // SAFETY: only system calls, on strings made before the fork; nothing allocates or locks.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

/// Runs `work` on a thread of its own inside a new namespace that has no name. It lives as long as a device handle, a socket or a process that `work` leaves
/// in it.
///
/// # Errors
///
/// Those of `work`; `PermissionDenied` without CAP_SYS_ADMIN.
///
/// # Panics
///
/// When `work` does.
pub fn unnamed<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    in_a_thread(move || {
        // SAFETY: only this thread, which ends here, changes its namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        work()
    })
}

/// Names of the namespaces there are that begin with `prefix`, sorted.
///
/// # Errors
///
/// When the directory of names cannot be read; that there is none is no error.
pub fn names(prefix: &str) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok().filter(|name| name.starts_with(prefix)));
    }
    names.sort();
    Ok(names)
}

/// The directory of names must be a shared mount: else a namespace could not be deleted while a process with mounts
/// of its own lives (as `ip netns add` does it).
fn share_directory() -> io::Result<()> {
    fs::create_dir_all(DIRECTORY)?;
    if mount_change(DIRECTORY, MountPropagationFlags::SHARED | MountPropagationFlags::REC).is_err() {
        rustix::mount::mount_bind_recursive(DIRECTORY, DIRECTORY)?;
        mount_change(DIRECTORY, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
    }
    Ok(())
}

fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let thread = thread::Builder::new().name("lh-netns".to_owned()).spawn(work)?;
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::euid;

    struct Scratch(Namespace);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = self.0.delete();
        }
    }

    fn scratch(topic: &str) -> Option<Scratch> {
        if euid() != 0 {
            eprintln!("skipped: namespaces need root");
            return None;
        }
        Some(Scratch(Namespace::create(&format!("lh-test-{topic}-{}", std::process::id())).unwrap()))
    }

    #[test]
    fn one_is_made_entered_and_gone() {
        let Some(scratch) = scratch("life") else { return };
        let name = scratch.0.name().to_owned();
        assert!(names(&name).unwrap().contains(&name));
        assert_eq!(Namespace::create(&name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let inside = scratch.0.run(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        assert_eq!(inside.lines().filter(|line| line.contains(':')).count(), 1, "only lo: {inside}");
        scratch.0.delete().unwrap();
        assert!(names(&name).unwrap().is_empty());
        assert!(scratch.0.run(|| Ok(())).is_err());
    }

    #[test]
    fn a_program_runs_in_it_with_its_own_hosts() {
        let Some(scratch) = scratch("exec") else { return };
        let dir = tempfile::tempdir().unwrap();
        let hosts = dir.path().join("hosts");
        fs::write(&hosts, "10.9.8.7 far-away\n").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "cat /etc/hosts; ls /sys/class/net"]);
        scratch.0.start_in(&mut command, Some(&hosts)).unwrap();
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["10.9.8.7", "far-away", "lo"]);
        assert!(!fs::read_to_string("/etc/hosts").unwrap().contains("far-away"));
    }

    #[test]
    fn a_tun_device_lives_in_the_namespace_of_its_maker() {
        let Some(scratch) = scratch("tun") else { return };
        let tun = scratch.0.run(|| crate::tun::Tun::create("t0")).unwrap();
        let devices = || scratch.0.run(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        assert!(devices().contains("t0:"));
        assert_eq!(tun.read(&mut [0; 128]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(scratch.0.run(|| crate::tun::Tun::create("t0")).is_err());
        drop(tun);
        // A program that another test is just starting has the descriptor until it runs.
        let gone = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !devices().contains("t0:")
        });
        assert!(gone);
    }

    #[test]
    fn odd_names_are_refused() {
        for name in ["", ".", "..", "a/b", ".hidden"] {
            assert_eq!(Namespace::named(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }
}
