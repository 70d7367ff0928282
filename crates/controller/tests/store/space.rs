//! A full disk: what is refused is refused whole, reads go on, and it works again when there is room.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use controller::store::{
    Archive, FileLedger, Keep, Log, LogReader, Order, Place, Settlement, StoreError, open, verify,
};

use super::files::done;
use super::{chain, id, is_missing, new_page};

/// A file system in memory; unmounted when it goes.
struct Memory(PathBuf);

impl Memory {
    fn mount(at: PathBuf, options: &str) -> Memory {
        fs::create_dir(&at).unwrap();
        run(&["mount", "-t", "tmpfs", "-o", options, "longhaul-test"], &at);
        Memory(at)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &[&str], at: &std::path::Path) {
    assert!(Command::new(command[0]).args(&command[1..]).arg(at).status().unwrap().success());
}

/// Fills the disk to the last block.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    if is_missing(&["mount", "umount"], true) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::mount(dir.path().join("disk"), "size=8m,mode=0700");
    let store = open(&Place::Directory(memory.0.join("store"))).unwrap();
    let mut log = Log::open(&*store, Keep::All).unwrap();
    let mut files = FileLedger::open(&*store).unwrap();
    let mut archive = Archive::open(&*store).unwrap();
    let mut append = |size: usize| log.append(&vec![(1, vec![5; size]); 3]);
    append(1_000).unwrap();
    files.put(&[new_page(1, 0, &[0], 100)]).unwrap();
    archive.push(1_000_000, &[("a", 1.0)]).unwrap();

    fill(&memory.0.join("ballast"));
    let mut kept = 3;
    let refused = loop {
        match append(20_000) {
            Ok(_) => kept += 3,
            Err(error) => break error,
        }
        assert!(kept < 3_000, "the disk is full");
    };
    let text = chain(&refused);
    assert!(matches!(refused, StoreError::Full { .. }) && text.contains("free some space"), "{text}");
    let put = files.put(&[new_page(1, 1, &[0], 9_000)]);
    assert!(matches!(put, Err(StoreError::Full { .. })), "{put:?}");
    let mut reader = LogReader::open(&*store).unwrap();
    assert_eq!(reader.last().unwrap(), kept, "nothing half-written");
    assert_eq!(reader.read(1, 10_000).unwrap().len() as u64, kept, "reads go on");
    assert_eq!(files.reader().files(id(1, 0, 0), 0, 1_000).unwrap().len(), 100);
    assert!(matches!(files.reader().named(id(1, 0, 1), &[]), Err(StoreError::NoSuchPage(_))));
    assert!(verify(&*store).unwrap().damaged.is_empty());
    for second in 0..200 {
        // The archive holds on to what it cannot write.
        let _ = archive.push(1_000_000 + second * 1_000, &[("a", 1.0)]);
    }

    fs::remove_file(memory.0.join("ballast")).unwrap();
    assert_eq!(append(20_000).unwrap(), kept + 1, "numbers go on without a gap");
    files.put(&[new_page(1, 1, &[0], 9_000)]).unwrap();
    assert_eq!(files.take(id(1, 0, 1), 9_999, Order::Largest).unwrap().len(), 9_000);
    files.settle(&[Settlement { page: id(1, 0, 1), outcomes: done(0..9_000) }]).unwrap();
    archive.flush().unwrap();
    let points = archive.query("a", 1_000_000, 1_200_000, 15).unwrap().points;
    assert_eq!(points.iter().map(|point| point.count).sum::<u32>(), 201, "{points:?}");
    assert!(verify(&*store).unwrap().damaged.is_empty());
}
