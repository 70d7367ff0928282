//! Looking at one name: its attributes, and what else an entry needs.

use std::io;
use std::os::fd::AsRawFd;

use proto::{Entry, EntryKind, Identity, RelPath, Time};
use sys::file::{self, Dir, Kind, Meta, OpenFlags, Refusal};

use super::SourceRef;

/// Bytes of extended attributes that one entry may carry, names and values together; four entries of this
/// size fill a control frame. A file with more is carried without any, and that is an error.
pub const XATTRS_BYTES_MAX: usize = 1 << 20;

/// An extended attribute: name and value.
type Xattr = (Vec<u8>, Vec<u8>);

/// What there is to know of a name.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) meta: Meta,
    /// Of a symbolic link.
    pub(super) target: Vec<u8>,
    xattrs: Vec<Xattr>,
    /// Why extended attributes are missing.
    pub(super) trouble: Option<String>,
}

/// The state of a file, as the manifest tells it.
#[must_use]
pub fn identity_of(meta: &Meta) -> Identity {
    Identity { size: meta.size, mtime: time(meta.mtime_ns), ctime: time(meta.ctime_ns), ino: meta.ino, dev: meta.dev }
}

/// The entry of a file as it is now, for one that changed while it was read.
///
/// # Errors
/// What the file system says; `InvalidData` when it is no regular file any more.
pub fn entry_of(root: &Dir, source: &SourceRef, path: &RelPath, preserve_all: bool) -> io::Result<Entry> {
    let look = look(root, &source.path, preserve_all)?;
    if look.meta.kind != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file any more"));
    }
    let kind = EntryKind::File(identity_of(&look.meta));
    Ok(look.into_entry(path.clone(), kind, preserve_all))
}

impl Look {
    pub(super) fn into_entry(self, path: RelPath, kind: EntryKind, preserve_all: bool) -> Entry {
        let owner = preserve_all.then_some((self.meta.uid, self.meta.gid));
        Entry { path, kind, mode: self.meta.mode & 0o7777, mtime: time(self.meta.mtime_ns), owner, xattrs: self.xattrs }
    }
}

fn time(ns: i128) -> Time {
    const SECOND: i128 = 1_000_000_000;
    Time { sec: ns.div_euclid(SECOND) as i64, nsec: ns.rem_euclid(SECOND) as u32 }
}

/// Looks at `rel` in `dir`, not following it.
pub(super) fn look(dir: &Dir, rel: &[u8], preserve_all: bool) -> io::Result<Look> {
    let meta = dir.stat(rel)?;
    let target = if meta.kind == Kind::Symlink { dir.readlink(rel)? } else { Vec::new() };
    let carries = matches!(meta.kind, Kind::File | Kind::Dir | Kind::Symlink);
    let xattrs = match rel {
        _ if !preserve_all || !carries => Ok(Vec::new()),
        b"" => xattrs_of_dir(dir),
        _ => xattrs_of_name(dir, rel, meta.kind),
    };
    Ok(Look::new(meta, target, xattrs))
}

/// Looks at a directory that is open.
pub(super) fn look_at_dir(dir: &Dir, preserve_all: bool) -> io::Result<Look> {
    look(dir, b"", preserve_all)
}

impl Look {
    fn new(meta: Meta, target: Vec<u8>, xattrs: io::Result<Vec<Xattr>>) -> Look {
        let (xattrs, trouble) = match xattrs {
            Ok(xattrs) => (xattrs, None),
            Err(e) => (Vec::new(), Some(format!("copied without its extended attributes: {e}"))),
        };
        Look { meta, target, xattrs, trouble }
    }
}

fn xattrs_of_dir(dir: &Dir) -> io::Result<Vec<Xattr>> {
    gather(file::list_xattrs(dir)?, |name| file::get_xattr(dir, name))
}

fn xattrs_of_name(dir: &Dir, rel: &[u8], kind: Kind) -> io::Result<Vec<Xattr>> {
    match dir.list_xattrs_nofollow(rel) {
        Ok(names) => gather(names, |name| dir.get_xattr_nofollow(rel, name)),
        // It has vanished, or there is no /proc, by which names are asked: open it then.
        Err(e) if e.kind() == io::ErrorKind::NotFound && kind != Kind::Symlink => {
            let fd = dir.open_file(rel, OpenFlags::read())?;
            gather(file::list_xattrs(&fd)?, |name| file::get_xattr(&fd, name))
        }
        Err(e) => Err(e),
    }
}

/// The values of those that are carried, by name.
fn gather(mut names: Vec<Vec<u8>>, get: impl Fn(&[u8]) -> io::Result<Option<Vec<u8>>>) -> io::Result<Vec<Xattr>> {
    names.retain(|name| is_carried(name));
    names.sort_unstable();
    let mut xattrs = Vec::with_capacity(names.len());
    let mut bytes = 0;
    for name in names {
        let value = match get(&name) {
            Ok(Some(value)) => value,
            Ok(None) => continue,
            Err(e) if e.kind() == io::ErrorKind::Unsupported => continue,
            // The system's own; a user need not even be able to see them.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied && is_privileged(&name) => continue,
            Err(e) => return Err(e),
        };
        bytes += name.len() + value.len();
        if bytes > XATTRS_BYTES_MAX {
            let why = format!("they take more than {XATTRS_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        xattrs.push((name, value));
    }
    Ok(xattrs)
}

fn is_privileged(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") || name.starts_with(b"security.")
}

/// Of `system.*` only POSIX ACLs mean the same on another file system.
fn is_carried(name: &[u8]) -> bool {
    name.starts_with(b"user.") || is_privileged(name) || name.starts_with(b"system.posix_acl_")
}

/// Opens a directory, following `place` if it is a symbolic link that stays beneath `root`.
pub(super) fn open_following(root: &Dir, place: &[u8]) -> io::Result<Dir> {
    match root.open_dir(place) {
        Err(e) if Refusal::of(&e) == Some(Refusal::Symlink) => {
            let fd = root.open_file(place, OpenFlags { follow: true, ..OpenFlags::read() })?;
            if Meta::of(&fd)?.kind != Kind::Dir {
                return Err(io::Error::new(
                    io::ErrorKind::NotADirectory,
                    "a symbolic link to something that is not a directory",
                ));
            }
            // The kernel has checked the way; this names what it found.
            Dir::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970() {
        assert_eq!(time(-1), Time { sec: -1, nsec: 999_999_999 });
        assert_eq!(time(1_500_000_000), Time { sec: 1, nsec: 500_000_000 });
    }

    #[test]
    fn which_attributes_are_carried() {
        let names: Vec<Vec<u8>> =
            ["user.b", "system.nfs4_acl", "trusted.x", "system.posix_acl_access", "user.a", "user.gone", "security.no"]
                .map(|n| n.as_bytes().to_vec())
                .into();
        let get = |name: &[u8]| match name {
            b"security.no" => Err(io::ErrorKind::PermissionDenied.into()),
            b"user.gone" => Ok(None),
            _ => Ok(Some(name.to_vec())),
        };
        let got: Vec<_> = gather(names, get).unwrap().into_iter().map(|(n, _)| String::from_utf8(n).unwrap()).collect();
        assert_eq!(got, ["system.posix_acl_access", "trusted.x", "user.a", "user.b"]);
        let denied = gather(vec![b"user.a".to_vec()], |_| Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(denied.unwrap_err().kind(), io::ErrorKind::PermissionDenied, "a user's own is missed");
    }

    #[test]
    fn attributes_have_a_limit() {
        let names = |n: usize| (0..n).map(|i| format!("user.{i:03}").into_bytes()).collect::<Vec<_>>();
        let get = |_: &[u8]| Ok(Some(vec![0; 64 << 10]));
        assert_eq!(gather(names(15), get).unwrap().len(), 15);
        assert_eq!(gather(names(16), get).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
