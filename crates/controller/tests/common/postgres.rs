//! A private PostgreSQL server for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server in a temporary directory, reached over a unix socket; it ends when this goes.
pub(crate) struct Server {
    bin: PathBuf,
    data: PathBuf,
    databases: AtomicU32,
    dir: tempfile::TempDir,
}

impl Server {
    /// `None`, with a message, where there is no PostgreSQL.
    pub(crate) fn start() -> Option<Server> {
        let Some(bin) = bin() else {
            eprintln!("skipped: needs `initdb` and `pg_ctl` of PostgreSQL in the PATH or /usr/lib/postgresql");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        if is_root() {
            let has = |dir: PathBuf| dir.join("setpriv").exists();
            if !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(has) {
                eprintln!("skipped: needs `setpriv`");
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

    pub(crate) fn up(&self) {
        let options = format!("-c listen_addresses= -c unix_socket_directories={} -c fsync=off", self.data.display());
        let log = self.data.join("server.log");
        self.run("pg_ctl", &["start", "-w", "-s", "-l", log.to_str().unwrap(), "-o", &options, "-D"]);
    }

    pub(crate) fn down(&self) {
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

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://longhaul:secret@{}/{database}", self.data.display().to_string().replace('/', "%2F"))
    }

    pub(crate) fn admin(&self, sql: &str) {
        let mut client = postgres::Client::connect(&self.url("postgres"), postgres::NoTls).unwrap();
        client.batch_execute(sql).unwrap();
    }

    /// How a new database is reached.
    pub(crate) fn database(&self) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.admin(&format!("CREATE DATABASE {name}"));
        self.url(&name)
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
