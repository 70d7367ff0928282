use std::fs;
use std::os::unix::fs::PermissionsExt;

use controller::store::{self, Archive, Place, StoreError};

use super::{World, chain};

pub(crate) fn held(world: &mut World) {
    let error = store::open(&world.place).err().expect("it is open");
    let text = chain(&error);
    assert!(matches!(error, StoreError::Held { .. }), "{text}");
    assert!(text.contains(&std::process::id().to_string()) || text.contains("longhaul controller"), "{text}");
    world.again();
}

fn refused(world: &mut World) -> String {
    world.store = None;
    chain(&store::open(&world.place).err().expect("it is refused"))
}

#[test]
fn only_the_owner_reads() {
    let mut world = World::sqlite();
    let Place::Directory(dir) = world.place.clone() else { unreachable!("it is one") };
    drop((world.log(), world.files()));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["log.sqlite", "files.sqlite", "archive.sqlite", "lock"] {
        assert!(files.contains(&dir.join(name)), "{files:?}");
    }
    assert!(files.iter().all(|path| mode(path) == 0o600));
    fs::set_permissions(dir.join("log.sqlite"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(&mut world).contains("mode 0640): run `chmod 600"));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(refused(&mut world).contains("mode 0770): run `chmod 700"));
}

#[test]
fn later_versions_and_other_files_are_refused() {
    let mut world = World::sqlite();
    let path = world.path("store/files.sqlite");
    let change = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    change("PRAGMA user_version = 2");
    let text = refused(&mut world);
    assert!(text.contains("schema version 2") && text.contains("knows up to 1"), "{text}");
    change("PRAGMA user_version = 1; PRAGMA application_id = 7");
    assert!(refused(&mut world).contains("is no store of longhaul"));
    fs::write(&path, "a letter to a friend, quite long enough to be looked at as the head of a database file").unwrap();
    let text = refused(&mut world);
    assert!(text.contains("the database of the file ledger") && text.contains("restore a backup"), "{text}");
}

#[test]
fn a_damaged_archive_begins_anew() {
    let mut world = World::sqlite();
    world.store = None;
    fs::write(world.path("store/archive.sqlite"), vec![b'x'; 9_000]).unwrap();
    world.again();
    assert_eq!(world.store().samples().unwrap().series().unwrap(), []);
    assert_eq!(fs::read(world.path("store/archive.damaged")).unwrap().len(), 9_000, "it is put aside");
    // One with a good head and nothing good behind it.
    let mut archive = Archive::open(world.store()).unwrap();
    archive.push(1_000, &[("a", 1.0)]).unwrap();
    archive.flush().unwrap();
    drop(archive);
    world.store = None;
    let path = world.path("store/archive.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4_096..].fill(b'x');
    fs::write(&path, bytes).unwrap();
    world.again();
    assert_eq!(world.store().samples().unwrap().series().unwrap(), []);
}
