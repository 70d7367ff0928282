//! The suite over a private PostgreSQL server, and what only a server can do: go away and come back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use controller::store::{self, Keep, Log, NewPage, Order, Place, Settlement, StoreError};

use super::files::done;
use super::log::event;
use super::{World, chain, id, new_page, suite};

/// A server in a temporary directory, reached over a unix socket; it ends when this goes.
struct Server {
    bin: PathBuf,
    data: PathBuf,
    databases: AtomicU32,
    dir: tempfile::TempDir,
}

impl Server {
    /// `None`, with a message, where there is no PostgreSQL.
    fn start() -> Option<Server> {
        let Some(bin) = bin() else {
            eprintln!("skipped: needs `initdb` and `pg_ctl` of PostgreSQL in the PATH or /usr/lib/postgresql");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        if is_root() {
            if super::is_missing(&["setpriv"], false) {
                return None;
            }
            // It does not run as root.
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let server = Server { bin, data, databases: AtomicU32::new(0), dir };
        server.run("initdb", &["-U", "longhaul", "--auth=trust", "--no-sync", "-D"]);
        server.up();
        Some(server)
    }

    fn up(&self) {
        let options = format!("-c listen_addresses= -c unix_socket_directories={} -c fsync=off", self.data.display());
        let log = self.data.join("server.log");
        self.run("pg_ctl", &["start", "-w", "-s", "-l", log.to_str().unwrap(), "-o", &options, "-D"]);
    }

    fn down(&self) {
        self.run("pg_ctl", &["stop", "-w", "-s", "-m", "immediate", "-D"]);
    }

    fn run(&self, tool: &str, with: &[&str]) {
        let program = self.bin.join(tool);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let user = NOBODY.to_string();
                command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.args(with).arg(&self.data).current_dir(&self.data);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{tool} failed");
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://longhaul:secret@{}/{database}", self.data.display().to_string().replace('/', "%2F"))
    }

    fn admin(&self, sql: &str) {
        let mut client = postgres::Client::connect(&self.url("postgres"), postgres::NoTls).unwrap();
        client.batch_execute(sql).unwrap();
    }

    /// A store in a new database.
    fn world(&self) -> World {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.admin(&format!("CREATE DATABASE {name}"));
        let place: Place = self.url(&name).parse().unwrap();
        World { store: Some(store::open(&place).unwrap()), place, dir: tempfile::tempdir().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.dir.path().exists());
        }
        self.down();
    }
}

/// Who runs the server when we are root: the user that owns nothing.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    sys::process::euid() == 0
}

fn bin() -> Option<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = installed.chain(std::env::split_paths(&path)).collect();
    dirs.retain(|dir: &PathBuf| ["initdb", "pg_ctl", "postgres"].iter().all(|tool| Path::new(dir).join(tool).exists()));
    dirs.into_iter().next()
}

#[test]
fn the_suite_over_postgresql() {
    let Some(server) = Server::start() else { return };
    suite(|| server.world());
}

#[test]
fn a_server_that_comes_back_is_used_again() {
    let Some(server) = Server::start() else { return };
    let world = server.world();
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
    let world = server.world();
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
    let mut world = server.world();
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
    let world = server.world();
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
