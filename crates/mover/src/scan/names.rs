//! A list of names, seen as a tree.

use std::ops::Range;

use proto::RelPath;

/// The names of one source, sorted so that what is beneath a directory stands together, the directory first.
#[derive(Debug, Default)]
pub(super) struct NameList {
    paths: Vec<RelPath>,
}

/// One name in a directory of the list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) name: Vec<u8>,
    pub(super) listed: Listed,
}

/// What the list says of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// It is in the list; else it only leads to what is.
    pub(super) itself: bool,
    /// What of the list is beneath it.
    pub(super) inner: Range<usize>,
}

impl NameList {
    /// Takes a new list; gives the range of its top.
    pub(super) fn set(&mut self, mut paths: Vec<RelPath>) -> Range<usize> {
        paths.sort_by(|a, b| a.names().cmp(b.names()));
        paths.dedup();
        // The top itself is announced anyway.
        paths.retain(|path| !path.is_root());
        self.paths = paths;
        0..self.paths.len()
    }

    /// The first name of a directory `depth` levels below the top, where `range` is what is beneath it, and
    /// what is left of the range.
    pub(super) fn first(&self, range: Range<usize>, depth: usize) -> Option<(Child, Range<usize>)> {
        let paths = &self.paths[range.clone()];
        let name = name_at(paths.first()?, depth);
        let same = paths.partition_point(|path| name_at(path, depth) == name);
        let itself = paths[0].names().count() == depth + 1;
        let end = range.start + same;
        let listed = Listed { itself, inner: range.start + usize::from(itself)..end };
        Some((Child { name: name.to_vec(), listed }, end..range.end))
    }
}

fn name_at(path: &RelPath, depth: usize) -> &[u8] {
    path.names().nth(depth).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(list: &NameList, mut range: Range<usize>, depth: usize) -> Vec<(String, Range<usize>)> {
        let mut all = Vec::new();
        while let Some((child, rest)) = list.first(range, depth) {
            all.push((String::from_utf8(child.name).unwrap(), child.listed.inner));
            range = rest;
        }
        all
    }

    #[test]
    fn a_list_is_a_tree() {
        let mut list = NameList::default();
        let paths = ["b/c/d", "a.x", "b", "a/2", "b/c/e", "a/1", "b", "a-b/1"].map(|p| RelPath::new(p).unwrap());
        let top = list.set(paths.to_vec());
        let got = children(&list, top, 0);
        assert_eq!(got, [("a".into(), 0..2), ("a-b".into(), 2..3), ("a.x".into(), 4..4), ("b".into(), 5..7)]);
        assert_eq!(children(&list, 0..2, 1), [("1".into(), 1..1), ("2".into(), 2..2)]);
        assert_eq!(children(&list, 5..7, 1), [("c".into(), 5..7)]);
        assert_eq!(children(&list, 5..7, 2), [("d".into(), 6..6), ("e".into(), 7..7)]);
        let root = list.set(vec![RelPath::root()]);
        assert_eq!(children(&list, root, 0), []);
    }
}
