//! Which files were met before under another name.

use std::collections::HashMap;

use proto::RelPath;
use sys::file::Meta;

/// Memory for first names whose other names are still to come, in bytes. At this limit further files are
/// carried once for each of their names: correct, but not linked.
pub const LINKS_BYTES_MAX: usize = 64 << 20;

/// What a first name costs beside its bytes: the map's slot and the allocation.
const LINK_OVERHEAD_BYTES: usize = 96;

/// First names of files that have several.
#[derive(Debug)]
pub(super) struct LinkTable {
    first: HashMap<(u64, u64), First>,
    bytes: usize,
    bytes_max: usize,
    overflowed: bool,
}

#[derive(Debug)]
struct First {
    path: RelPath,
    /// Names that were not met yet, as far as the file system counts them.
    left: u32,
}

/// What the table knows of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The name under which it was met first, unless that is this one.
    pub(super) first: Option<RelPath>,
    /// True once: the table is full.
    pub(super) overflow: bool,
}

impl Default for LinkTable {
    fn default() -> Self {
        LinkTable::new(LINKS_BYTES_MAX)
    }
}

impl LinkTable {
    pub(super) fn new(bytes_max: usize) -> LinkTable {
        LinkTable { first: HashMap::new(), bytes: 0, bytes_max, overflowed: false }
    }

    pub(super) fn see(&mut self, meta: &Meta, path: &RelPath) -> Seen {
        let new = Seen { first: None, overflow: false };
        if meta.nlink < 2 {
            return new;
        }
        let id = (meta.dev, meta.ino);
        if let Some(first) = self.first.get_mut(&id) {
            let target = first.path.clone();
            first.left -= 1;
            if first.left == 0 {
                // The last name: the table stays small where all names are within the sources.
                self.bytes -= cost(&target);
                self.first.remove(&id);
            }
            return Seen { first: Some(target), overflow: false };
        }
        if self.bytes + cost(path) > self.bytes_max {
            return Seen { overflow: !std::mem::replace(&mut self.overflowed, true), ..new };
        }
        self.bytes += cost(path);
        self.first.insert(id, First { path: path.clone(), left: meta.nlink - 1 });
        new
    }
}

fn cost(path: &RelPath) -> usize {
    path.as_bytes().len() + LINK_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::file::Kind;

    fn meta(ino: u64, nlink: u32) -> Meta {
        let (size, mode, uid, gid, dev, rdev, blocks) = (0, 0, 0, 0, 1, 0, 0);
        Meta {
            kind: Kind::File,
            size,
            mode,
            uid,
            gid,
            nlink,
            dev,
            ino,
            rdev,
            atime_ns: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            blocks,
        }
    }

    fn path(name: &str) -> RelPath {
        RelPath::new(name).unwrap()
    }

    #[test]
    fn names_are_forgotten_when_all_were_met() {
        let mut table = LinkTable::default();
        assert_eq!(table.see(&meta(1, 1), &path("single")).first, None);
        assert_eq!(table.bytes, 0);
        assert_eq!(table.see(&meta(2, 3), &path("a")).first, None);
        assert_eq!(table.see(&meta(2, 3), &path("b")).first, Some(path("a")));
        assert!(table.bytes > 0);
        assert_eq!(table.see(&meta(2, 3), &path("c")).first, Some(path("a")));
        assert_eq!((table.bytes, table.first.len()), (0, 0));
    }

    #[test]
    fn a_full_table_says_so_once() {
        let mut table = LinkTable::new(2 * (LINK_OVERHEAD_BYTES + 1));
        let mut see = |ino, name| table.see(&meta(ino, 2), &path(name));
        assert!(!see(1, "a").overflow && !see(2, "b").overflow);
        assert_eq!(see(3, "c"), Seen { first: None, overflow: true });
        assert_eq!(see(3, "d"), Seen { first: None, overflow: false });
        assert_eq!(see(1, "e").first, Some(path("a")), "what is in stays");
        assert!(!see(4, "f").overflow);
    }
}
