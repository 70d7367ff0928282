//! The stores: one suite for every database, and what only one of them can show.

mod archive;
mod backup;
mod bench;
mod damage;
mod files;
mod kill;
mod log;
mod place;
mod postgresql;
#[path = "../common/postgres.rs"]
mod server;
mod space;

use std::path::PathBuf;

use controller::store::{self, FileLedger, Keep, Log, NewFile, NewPage, PageId, Place, Store, StoreError};

/// A store of a test, with what it lies in.
struct World {
    place: Place,
    store: Option<Box<dyn Store>>,
    dir: tempfile::TempDir,
}

impl World {
    fn sqlite() -> World {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Directory(dir.path().join("store"));
        World { store: Some(store::open(&place).unwrap()), place, dir }
    }

    fn store(&self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }

    fn log(&self) -> Log {
        Log::open(self.store(), Keep::All).unwrap()
    }

    fn files(&self) -> FileLedger {
        FileLedger::open(self.store()).unwrap()
    }

    /// As if the controller had ended and begun again.
    fn again(&mut self) {
        self.store = None;
        self.store = Some(opened(&self.place).unwrap());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// A store that was closed just now. What another test starts at that moment shares its lock until it is a program of its own.
fn opened(place: &Place) -> Result<Box<dyn Store>, StoreError> {
    const TRIES: u32 = 500;
    for _ in 0..TRIES {
        match store::open(place) {
            Err(StoreError::Held { .. }) => std::thread::sleep(std::time::Duration::from_millis(20)),
            other => return other,
        }
    }
    store::open(place)
}

/// A test of a store, whatever its database.
type Test = fn(&mut World);

/// The suite: each is run against each database.
const SUITE: &[(&str, Test)] = &[
    ("log::appends_are_numbered_and_come_back", log::appends_are_numbered_and_come_back),
    ("log::bounds_of_an_append_hold", log::bounds_of_an_append_hold),
    ("log::two_snapshots_are_kept", log::two_snapshots_are_kept),
    ("log::a_trim_leaves_what_the_older_snapshot_needs", log::a_trim_leaves_what_the_older_snapshot_needs),
    ("log::a_frozen_log_stands_still", log::a_frozen_log_stands_still),
    ("files::a_page_goes_through_its_states", files::a_page_goes_through_its_states),
    ("files::sizes_that_were_not_known_count_when_told", files::sizes_that_were_not_known_count_when_told),
    ("files::orders_of_taking", files::orders_of_taking),
    ("files::what_is_done_stays_done", files::what_is_done_stays_done),
    ("files::settlements_are_all_or_none", files::settlements_are_all_or_none),
    ("files::pages_are_put_once", files::pages_are_put_once),
    ("files::bounds_of_pages_hold", files::bounds_of_pages_hold),
    ("files::failed_files_are_listed_by_pages", files::failed_files_are_listed_by_pages),
    ("files::digests_are_put_together", files::digests_are_put_together),
    ("files::a_restart_opens_what_was_given", files::a_restart_opens_what_was_given),
    ("files::a_transfer_is_deleted_whole", files::a_transfer_is_deleted_whole),
    ("files::the_cache_keeps_its_bound", files::the_cache_keeps_its_bound),
    ("files::any_course_of_events_agrees_with_a_model", files::any_course_of_events_agrees_with_a_model),
    ("archive::resolutions_fit_the_window", archive::resolutions_fit_the_window),
    ("archive::a_restart_loses_no_point_that_was_flushed", archive::a_restart_loses_no_point_that_was_flushed),
    ("archive::the_last_plannings_are_kept", archive::the_last_plannings_are_kept),
    ("archive::bounds_hold", archive::bounds_hold),
    ("backup::a_live_backup_comes_back", backup::a_live_backup_comes_back),
    ("backup::a_restore_that_was_cut_short_is_refused_and_done_again", backup::cut_short),
    ("place::a_second_controller_is_told_who_has_it", place::held),
];

fn suite(make: impl Fn() -> World) {
    for (name, test) in SUITE {
        // Shown when it fails.
        println!("{name}");
        let (mut world, began) = (make(), std::time::Instant::now());
        test(&mut world);
        println!("  took {:?}", began.elapsed());
    }
}

#[test]
fn the_suite_over_sqlite() {
    suite(World::sqlite);
}

/// Files with names as experiments have them.
fn new_page(transfer: u64, page: u32, legs: &[u32], files: u32) -> NewPage {
    let file = |number: u32| NewFile {
        name: format!(
            "run{page:05}/lumi_{:04}/AOD.{:08x}._{number:06}.pool.root.1",
            number / 100,
            number.wrapping_mul(2_654_435_761u32).wrapping_mul(page.wrapping_add(1))
        )
        .into_bytes(),
        size_bytes: 1_000 + u64::from(number * 7_919 % 10_007) * 1_000_000,
    };
    NewPage { transfer, page, legs: legs.to_vec(), files: (0..files).map(file).collect() }
}

fn id(transfer: u64, leg: u32, page: u32) -> PageId {
    PageId { transfer, leg, page }
}

/// The chain of an error in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source()).map(|cause| format!(": {cause}"));
    format!("{error}{}", causes.collect::<String>())
}

fn is_missing(tools: &[&str], root: bool) -> bool {
    let found = |tool: &&str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(tool).exists())
    };
    let missing = !tools.iter().all(found) || root && sys::process::euid() != 0;
    if missing {
        eprintln!("skipped: needs {tools:?}{}", if root { " and root" } else { "" });
    }
    missing
}
