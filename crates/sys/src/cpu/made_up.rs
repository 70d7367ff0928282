//! Made-up sysfs trees for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A tree in a directory of its own, laid out as Linux does.
pub(super) struct Tree(tempfile::TempDir);

impl Tree {
    pub(super) fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for dir in ["class/net", "devices/virtual/net", "devices/system/node"] {
            fs::create_dir_all(tree.path().join(dir)).unwrap();
        }
        tree
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Nodes with what their lists of processors say.
    pub(super) fn nodes(&self, all: &[(u32, &str)]) {
        let at = self.path().join("devices/system/node");
        let numbers: Vec<String> = all.iter().map(|(number, _)| number.to_string()).collect();
        fs::write(at.join("online"), numbers.join(",") + "\n").unwrap();
        for (number, cpus) in all {
            fs::create_dir_all(at.join(format!("node{number}"))).unwrap();
            fs::write(at.join(format!("node{number}/cpulist")), cpus).unwrap();
        }
    }

    /// A card of its own PCI device, which says where it is, or does not.
    pub(super) fn card(&self, name: &str, node: Option<&str>) {
        let pci = self.path().join("devices/pci0000:80").join(name);
        let at = pci.join("net").join(name);
        fs::create_dir_all(&at).unwrap();
        symlink(&pci, at.join("device")).unwrap();
        if let Some(node) = node {
            fs::write(pci.join("numa_node"), format!("{node}\n")).unwrap();
        }
        symlink(&at, self.class(name)).unwrap();
    }

    /// A virtual interface that stands on these.
    pub(super) fn virtual_over(&self, name: &str, lower: &[&str]) {
        let at = self.path().join("devices/virtual/net").join(name);
        fs::create_dir_all(&at).unwrap();
        for below in lower {
            symlink(fs::canonicalize(self.class(below)).unwrap(), at.join(format!("lower_{below}"))).unwrap();
        }
        symlink(&at, self.class(name)).unwrap();
    }

    fn class(&self, name: &str) -> PathBuf {
        self.path().join("class/net").join(name)
    }
}
