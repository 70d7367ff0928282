//! From a relative name to an open file, without ever leaving the directory it starts in.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Longest relative name accepted. Names above the kernel's 4096 are resolved in parts.
pub const NAME_BYTES_MAX: usize = 1 << 16;

/// Longest part handed to one system call; the kernel's PATH_MAX, with its zero, is 4096.
const PART_BYTES_MAX: usize = 4000;

/// How often a resolution disturbed by somebody else's rename is repeated.
const RACES_MAX: u32 = 1000;

/// How names are kept beneath their directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolver {
    /// By the kernel: `openat2` with `RESOLVE_BENEATH` (Linux 5.6). Symbolic links on the way are
    /// followed for reading when they stay beneath, and refused for changes.
    Kernel,
    /// One component after the other, refusing every symbolic link. For older kernels and for
    /// sandboxes that refuse `openat2`.
    Walk,
}

/// Why a name was refused. Carried inside an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is empty or absolute, has an empty component, `.`, `..` or a zero byte, or is too long.
    #[error("not a plain relative name")]
    BadName,
    /// A symbolic link on the way leads outside.
    #[error("name leads outside its directory")]
    Outside,
    /// It is, or passes through, a symbolic link where none is allowed.
    #[error("name is or passes through a symbolic link")]
    Symlink,
}

impl Refusal {
    /// The refusal inside `error`, if that is what it is.
    pub fn of(error: &io::Error) -> Option<Refusal> {
        error.get_ref()?.downcast_ref::<Refusal>().copied()
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        let kind = match refusal {
            Refusal::BadName => io::ErrorKind::InvalidInput,
            Refusal::Outside | Refusal::Symlink => io::ErrorKind::PermissionDenied,
        };
        io::Error::new(kind, refusal)
    }
}

/// What to do about symbolic links on the way to the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// Follow those that stay beneath, where the resolver can.
    Beneath,
    /// Refuse them all.
    Refuse,
}

/// Whether `dir` can resolve by the kernel.
pub(super) fn probe(dir: BorrowedFd<'_>) -> Resolver {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(dir, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how) {
        Ok(_) => Resolver::Kernel,
        // ENOSYS from the kernel; EPERM and others from sandboxes.
        Err(_) => Resolver::Walk,
    }
}

/// The parent (`None`: the directory itself) and the last component of a checked name.
pub(super) fn split(rel: &[u8]) -> io::Result<(Option<&[u8]>, &[u8])> {
    check(rel)?;
    Ok(match rel.iter().rposition(|&b| b == b'/') {
        Some(at) => (Some(&rel[..at]), &rel[at + 1..]),
        None => (None, rel),
    })
}

fn check(rel: &[u8]) -> io::Result<()> {
    let plain = |part: &[u8]| !(part.is_empty() || part == b"." || part == b"..");
    let ok = rel.len() <= NAME_BYTES_MAX && !rel.contains(&0) && rel.split(|&b| b == b'/').all(plain);
    if ok { Ok(()) } else { Err(Refusal::BadName.into()) }
}

/// Opens `rel` beneath `root`. The last component is not followed if `flags` has `NOFOLLOW`.
pub(super) fn open_beneath(
    root: BorrowedFd<'_>,
    resolver: Resolver,
    rel: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> io::Result<OwnedFd> {
    check(rel)?;
    let mut held: Option<OwnedFd> = None;
    let mut rest = rel;
    while rest.len() > PART_BYTES_MAX {
        let Some(at) = rest[..PART_BYTES_MAX].iter().rposition(|&b| b == b'/') else {
            return Err(Errno::NAMETOOLONG.into());
        };
        let from = held.as_ref().map_or(root, |fd| fd.as_fd());
        held = Some(open_part(from, resolver, &rest[..at], PASSING, Mode::empty(), links)?);
        rest = &rest[at + 1..];
    }
    let from = held.as_ref().map_or(root, |fd| fd.as_fd());
    open_part(from, resolver, rest, flags | OFlags::CLOEXEC, mode, links)
}

/// How a directory on the way is opened: no permission but search is needed.
const PASSING: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open_part(
    from: BorrowedFd<'_>,
    resolver: Resolver,
    rel: &[u8],
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> io::Result<OwnedFd> {
    match resolver {
        Resolver::Kernel => by_kernel(from, rel, flags, mode, links),
        Resolver::Walk => by_walk(from, rel, flags, mode),
    }
}

fn by_kernel(from: BorrowedFd<'_>, rel: &[u8], flags: OFlags, mode: Mode, links: Links) -> io::Result<OwnedFd> {
    let mut how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    how.set(ResolveFlags::NO_SYMLINKS, links == Links::Refuse);
    let mut races = 0;
    loop {
        match rustix::fs::openat2(from, rel, flags, mode, how) {
            Ok(fd) => return Ok(fd),
            Err(Errno::XDEV) => return Err(Refusal::Outside.into()),
            Err(Errno::LOOP) => return Err(Refusal::Symlink.into()),
            Err(Errno::INTR) => {}
            // A link with `..` while somebody renames: the kernel could not be sure.
            Err(Errno::AGAIN) if races < RACES_MAX => races += 1,
            Err(e) => return Err(e.into()),
        }
    }
}

fn by_walk(from: BorrowedFd<'_>, rel: &[u8], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut held: Option<OwnedFd> = None;
    let mut parts = rel.split(|&b| b == b'/').peekable();
    while let Some(part) = parts.next() {
        let here = held.as_ref().map_or(from, |fd| fd.as_fd());
        let (flags, mode) = match parts.peek() {
            Some(_) => (PASSING, Mode::empty()),
            None => (flags, mode),
        };
        let opened = rustix::io::retry_on_intr(|| rustix::fs::openat(here, part, flags | OFlags::NOFOLLOW, mode));
        held = match opened {
            Ok(fd) => Some(fd),
            Err(Errno::LOOP) => return Err(Refusal::Symlink.into()),
            // What O_DIRECTORY says of a link that it may not follow.
            Err(Errno::NOTDIR) if is_link(here, part) => return Err(Refusal::Symlink.into()),
            Err(e) => return Err(e.into()),
        };
    }
    held.ok_or_else(|| Refusal::BadName.into())
}

fn is_link(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_symlink())
}
