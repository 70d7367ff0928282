//! A tree of files that is awkward, and what is compared of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// A few hundred files in several directories, with links, empty directories and names that are hard to write.
pub(super) fn make(top: &Path) {
    for n in 0..300_usize {
        let dir = top.join(format!("run{}/part{}", n % 3, n % 7));
        fs::create_dir_all(&dir).unwrap();
        let content: Vec<u8> = (0..(n * 37) % 5000).map(|byte| (byte * n) as u8).collect();
        fs::write(dir.join(format!("{n:03}.root")), content).unwrap();
    }
    fs::write(top.join("run0/big"), vec![7; 3 << 20]).unwrap();
    fs::write(top.join(OsStr::from_bytes(b"run1/odd\n%\xff\\name")), "odd").unwrap();
    fs::create_dir_all(top.join("empty/inside")).unwrap();
    symlink("../run0/big", top.join("run1/link")).unwrap();
    symlink("/nowhere", top.join("dangling")).unwrap();
    fs::set_permissions(top.join("run0/big"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(top.join("empty"), fs::Permissions::from_mode(0o750)).unwrap();
    let mut age = 0;
    walk(top, Path::new(""), &mut |path, is_link| {
        age += 1;
        if !is_link {
            let time = UNIX_EPOCH + Duration::from_secs(1_500_000_000 + age);
            fs::File::open(path).unwrap().set_modified(time).unwrap();
        }
    });
}

/// Content, mode and time of everything, by name.
pub(super) fn look(top: &Path) -> BTreeMap<Vec<u8>, (Vec<u8>, u32, i64)> {
    let mut found = BTreeMap::new();
    walk(top, Path::new(""), &mut |path, is_link| {
        let meta = fs::symlink_metadata(path).unwrap();
        let content = match (is_link, meta.is_dir()) {
            (true, _) => fs::read_link(path).unwrap().into_os_string().into_encoded_bytes(),
            (_, true) => b"directory".to_vec(),
            _ => fs::read(path).unwrap(),
        };
        let name = path.strip_prefix(top).unwrap().as_os_str().as_bytes().to_vec();
        let time = if is_link { 0 } else { meta.mtime() };
        found.insert(name, (content, meta.mode(), time));
    });
    found
}

/// Everything beneath a directory, what is in a directory before itself.
fn walk(top: &Path, beneath: &Path, see: &mut impl FnMut(&Path, bool)) {
    let mut entries: Vec<_> = fs::read_dir(top.join(beneath)).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk(top, &beneath.join(entry.file_name()), see);
        }
        see(&entry.path(), kind.is_symlink());
    }
}
