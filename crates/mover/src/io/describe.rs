//! What describes a file at the destination beside its content: mode, times, owner, extended attributes. Of the last two, what
//! cannot be set is gathered, for one line each at the end.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use proto::{Entry, RelPath};
use sys::file::{Dir, OpenFlags, Owner, Times, fchmod, fchown, futimens, get_xattr, set_xattr};

/// Kinds that are told apart; further ones are counted together.
const KINDS_MAX: usize = 32;

/// Opens a file for [`attributes`]: its owner may set what it is without being allowed to read, or to write, it.
///
/// # Errors
/// What the file system says if it may be neither read nor written.
pub fn open_to_describe(dir: &Dir, name: &[u8]) -> io::Result<OwnedFd> {
    match dir.open_file(name, OpenFlags::read()) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => dir.open_file(name, OpenFlags::write()),
        opened => opened,
    }
}

/// Sets what an entry says of a file that is open for writing, with owner and extended attributes where `preserve` gathers
/// those that are left out; the time last, for all else changes it.
///
/// # Errors
/// What the file system says of mode and time, and as [`LeftOut::preserve`].
pub fn attributes(file: impl AsFd + Copy, entry: &Entry, preserve: Option<&LeftOut>) -> io::Result<()> {
    if let Some(left_out) = preserve {
        left_out.preserve(file, entry)?;
    }
    // Creation leaves out what the umask or an access list of the directory takes away, and bits beyond the nine; a change
    // of owner takes those away too.
    fchmod(file, entry.mode)?;
    futimens(file, Times::mtime(super::nanoseconds(entry.mtime)))
}

/// Attributes that the destination does not take, by kind.
#[derive(Debug, Default)]
pub struct LeftOut(Mutex<BTreeMap<Kind, Seen>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Owner,
    Xattr(Vec<u8>),
    OtherXattrs,
}

#[derive(Debug)]
struct Seen {
    entries: u64,
    first: RelPath,
    why: io::Error,
}

impl LeftOut {
    /// Sets owner and extended attributes of what is open. What this user may not set, or this file system does not know, is
    /// left out and remembered.
    ///
    /// # Errors
    /// All else that the file system says: that an attribute does not fit, say.
    pub fn preserve(&self, file: impl AsFd + Copy, entry: &Entry) -> io::Result<()> {
        self.owner(entry, |owner| fchown(file, owner))?;
        self.xattrs(file, entry)
    }

    /// Sets the extended attributes that are not there yet.
    ///
    /// # Errors
    /// As [`LeftOut::preserve`].
    pub fn xattrs(&self, file: impl AsFd + Copy, entry: &Entry) -> io::Result<()> {
        for (name, value) in &entry.xattrs {
            // A change that changes nothing would still be one for whoever watches (ctime).
            if get_xattr(file, name).is_ok_and(|there| there.as_ref() == Some(value)) {
                continue;
            }
            let set = self.take(set_xattr(file, name, value), || Kind::Xattr(name.clone()), &entry.path);
            set.map_err(|error| no_room(name, &error))?;
        }
        Ok(())
    }

    /// Sets the owner by `chown`, if the entry has one.
    ///
    /// # Errors
    /// As [`LeftOut::preserve`].
    pub fn owner(&self, entry: &Entry, chown: impl FnOnce(Owner) -> io::Result<()>) -> io::Result<()> {
        let Some((uid, gid)) = entry.owner else { return Ok(()) };
        self.take(chown(Owner { uid: Some(uid), gid: Some(gid) }), || Kind::Owner, &entry.path)
    }

    fn take(&self, result: io::Result<()>, kind: impl FnOnce() -> Kind, path: &RelPath) -> io::Result<()> {
        use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        match result {
            // A user namespace answers so for an owner that it does not map.
            Err(why) if matches!(why.kind(), PermissionDenied | Unsupported | InvalidInput) => {
                self.add(kind(), path, why);
                Ok(())
            }
            other => other,
        }
    }

    fn add(&self, kind: Kind, path: &RelPath, why: io::Error) {
        let mut kinds = self.0.lock().expect("no panic under the lock");
        let is_new = !kinds.contains_key(&kind);
        let kind = if is_new && kinds.len() >= KINDS_MAX { Kind::OtherXattrs } else { kind };
        kinds.entry(kind).or_insert_with(|| Seen { entries: 0, first: path.clone(), why }).entries += 1;
    }

    /// A line for each kind since the last call. Owners are root's to give: only where `is_root` is it news that some were not.
    #[must_use]
    pub fn tell(&self, is_root: bool) -> Vec<String> {
        let kinds = std::mem::take(&mut *self.0.lock().expect("no panic under the lock"));
        let news = kinds.iter().filter(|(kind, _)| is_root || **kind != Kind::Owner);
        news.map(|(kind, seen)| {
            let what = match kind {
                Kind::Owner => "the owner".to_owned(),
                Kind::Xattr(name) => format!("the extended attribute {}", name.escape_ascii()),
                Kind::OtherXattrs => "further extended attributes".to_owned(),
            };
            let others = if seen.entries == 1 { String::new() } else { format!(" and {} more", seen.entries - 1) };
            format!("{what} of {}{others} could not be set and is left out: {}", seen.first, seen.why)
        })
        .collect()
    }
}

/// An attribute that does not fit is the trouble of one file, not of the disk: file systems have their own limits (ext4: one block).
fn no_room(name: &[u8], error: &io::Error) -> io::Error {
    io::Error::other(format!("extended attribute {}: {error}", name.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(left_out: &LeftOut, kind: Kind, path: &str) {
        let refused = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        left_out.take(refused, || kind, &RelPath::new(path).unwrap()).unwrap();
    }

    #[test]
    fn one_line_for_each_kind_however_many_there_are() {
        let left_out = LeftOut::default();
        for path in ["a", "b", "c"] {
            refused(&left_out, Kind::Owner, path);
        }
        for number in 0..100 {
            refused(&left_out, Kind::Xattr(format!("security.{number:03}").into_bytes()), "a");
        }
        let lines = left_out.tell(true);
        assert_eq!(lines.len(), KINDS_MAX + 1);
        assert_eq!(lines[0], "the owner of a and 2 more could not be set and is left out: permission denied");
        assert!(lines[1].starts_with("the extended attribute security.000 of a could"), "{}", lines[1]);
        assert!(lines[KINDS_MAX].starts_with("further extended attributes of a and 68 more could"));
        assert!(left_out.tell(true).is_empty(), "it is told once");
    }

    #[test]
    fn owners_that_nobody_but_root_can_give_are_no_news() {
        let left_out = LeftOut::default();
        refused(&left_out, Kind::Owner, "a");
        assert!(left_out.tell(false).is_empty());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = Err(io::Error::from(io::ErrorKind::StorageFull));
        let path = RelPath::new("a").unwrap();
        assert!(LeftOut::default().take(full, || Kind::Owner, &path).is_err());
    }
}
