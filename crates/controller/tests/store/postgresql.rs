//! The suite over a private PostgreSQL server, and what only a server can do: go away and come back.

use controller::store::{self, Keep, Log, NewPage, Order, Place, Settlement, StoreError};

use super::files::done;
use super::log::event;
use super::server::Server;
use super::{World, chain, id, new_page, suite};

/// A store in a new database.
fn world(server: &Server) -> World {
    let place: Place = server.database().parse().unwrap();
    World { store: Some(store::open(&place).unwrap()), place, dir: tempfile::tempdir().unwrap() }
}

#[test]
fn the_suite_over_postgresql() {
    let Some(server) = Server::start() else { return };
    suite(|| world(&server));
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let Some(server) = Server::start() else { return };
    let world = world(&server);
    let (mut log, mut files) = (world.log(), world.files());
    log.append(&[event(1)]).unwrap();
    files.put(&[new_page(1, 0, &[0], 9)]).unwrap();
    server.down();
    // The server says so with the first request, and is away with the next: nobody knows of the first.
    let error = log.append(&[event(2)]).unwrap_err();
    let text = chain(&error);
    assert!(matches!(error, StoreError::InDoubt { .. }) && text.contains("restart the controller"), "{text}");
    let error = files.put(&[new_page(1, 1, &[0], 9)]).unwrap_err();
    let text = chain(&error);
    assert!(matches!(error, StoreError::Lost { .. }) && !text.contains("secret"), "{text}");
    server.up();
    assert!(matches!(log.append(&[event(2)]), Err(StoreError::InDoubt { .. })), "until it is known what is true");
    let mut log = world.log();
    assert_eq!(log.append(&[event(2)]).unwrap(), 2);
    files.put(&[new_page(1, 1, &[0], 9)]).unwrap();
    files.settle(&[Settlement { page: id(1, 0, 0), outcomes: done(0..9) }]).unwrap();
    assert_eq!(files.take(id(1, 0, 1), 99, Order::Number).unwrap().len(), 9);
    // A connection that was cut while nothing was under way: it is made anew and nobody notices.
    server.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'd0'");
    assert_eq!(log.append(&[event(3)]).unwrap(), 3);
    assert_eq!(log.reader().read(1, 9).unwrap().len(), 3);
}

#[test]
fn who_lost_the_lock_writes_nothing_more() {
    let Some(server) = Server::start() else { return };
    let world = world(&server);
    let (mut log, mut files) = (world.log(), world.files());
    log.append(&[event(1)]).unwrap();
    server.admin("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted");
    let second = store::open(&world.place).unwrap();
    let put = files.put(&[new_page(1, 0, &[0], 9)]);
    for taken in [log.append(&[event(2)]).map(drop), put] {
        assert!(matches!(taken, Err(StoreError::TakenOver { .. })), "{taken:?}");
    }
    let mut new = Log::open(&*second, Keep::All).unwrap();
    assert_eq!(new.append(&[event(2)]).unwrap(), 2);
}

#[test]
fn a_later_schema_is_refused() {
    let Some(server) = Server::start() else { return };
    let mut world = world(&server);
    world.store = None;
    let mut client = postgres::Client::connect(&server.url("d0"), postgres::NoTls).unwrap();
    for (comment, says) in [("longhaul store, schema 2", "schema version 2"), ("mine", "is no store of longhaul")] {
        client.batch_execute(&format!("COMMENT ON SCHEMA longhaul IS '{comment}'")).unwrap();
        let text = chain(&store::open(&world.place).err().expect("it is refused"));
        assert!(text.contains(says) && !text.contains("secret"), "{text}");
    }
}

#[test]
#[ignore = "measures how fast the store is, for whoever changes it: a timed test is no test"]
fn bench_postgresql() {
    let Some(server) = Server::start() else { return };
    let world = world(&server);
    let mut files = world.files();
    for size in [10_000u32, 200] {
        let pages: Vec<NewPage> = (0..100_000 / size).map(|page| new_page(u64::from(size), page, &[0], size)).collect();
        let began = std::time::Instant::now();
        pages.into_iter().for_each(|page| files.put(&[page]).unwrap());
        println!("put, {size} files a request: {:.0} files/s", 1e5 / began.elapsed().as_secs_f64());
    }
    let mut log = world.log();
    let began = std::time::Instant::now();
    for turn in 0..100 {
        log.append(&(0..40).map(|part| event(turn * 40 + part)).collect::<Vec<_>>()).unwrap();
    }
    println!("{:.0} events/s, 40 in a turn", 4e3 / began.elapsed().as_secs_f64());
}
