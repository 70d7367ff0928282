//! A directory of SQLite files, one for each store, and a lock that one controller holds.

mod log;
mod pages;
mod samples;
mod shared;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Params, Row};
use sys::file::{Lock, LockMode, lock};

use self::shared::Room;
use super::error::{Part, Result, StoreError};
use super::rows::{LogRows, PageRows, SampleRows};
use super::{Frozen, SCHEMA_VERSION, Store};

/// Mode of the directory, when it is made here.
const DIR_MODE: u32 = 0o700;
/// Mode of the files.
const FILE_MODE: u32 = 0o600;
/// Held by the controller that has the store open; says who that is.
const LOCK_FILE: &str = "lock";
/// What is read of the lock file: it holds one line.
const LOCK_TEXT_MAX: u64 = 200;
/// Marks our files (`file` and others show it): "LHST".
const APPLICATION_ID: i64 = 0x4c48_5354;
/// How long a statement waits for another connection of the same program: for a checkpoint, or a backup's first look.
const BUSY: Duration = Duration::from_secs(10);
/// A write-ahead log longer than this is cut after its checkpoint, bytes.
const WAL_BYTES_KEPT: u32 = 64 << 20;
/// Findings that SQLite lists when it checks a file.
const CHECK_FINDINGS_MAX: u32 = 20;

/// The files, and how each is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Log,
    Files,
    Archive,
}

impl Kind {
    fn file(self) -> &'static str {
        match self {
            Kind::Log => "log.sqlite",
            Kind::Files => "files.sqlite",
            Kind::Archive => "archive.sqlite",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::Files => "file ledger",
            Kind::Archive => "archive",
        }
    }

    /// A commit of the archive need not be on the disk, but what is there must be whole after a power cut: the log is written before what it
    /// overwrites. One of the others is on the disk when it returns.
    fn synchronous(self) -> &'static str {
        match self {
            Kind::Log | Kind::Files => "FULL",
            Kind::Archive => "NORMAL",
        }
    }

    fn tables(self) -> &'static str {
        match self {
            Kind::Log => log::TABLES,
            Kind::Files => pages::TABLES,
            Kind::Archive => samples::TABLES,
        }
    }
}

/// A directory with the three files.
pub(super) struct Directory {
    path: PathBuf,
    place: String,
    /// Room for what SQLite maps, of each of the files.
    shared: [Room; 3],
    /// Holds the lock as long as it is open; `None` of one that only looks.
    _lock: Option<File>,
}

impl Directory {
    /// Opens the store in a directory; makes both when they are not there.
    pub(super) fn open(path: &Path) -> Result<Directory> {
        make_dir(path)?;
        let lock = take_lock(path)?;
        let directory = Directory {
            path: path.to_owned(),
            place: path.display().to_string(),
            shared: Default::default(),
            _lock: Some(lock),
        };
        directory.connect(Kind::Log)?;
        directory.connect(Kind::Files)?;
        directory.revive_archive()?;
        sync_dir(path)?;
        Ok(directory)
    }

    /// The store in a directory, without the lock, to look at it.
    pub(super) fn beside(path: &Path) -> Result<Directory> {
        let directory = Directory {
            path: path.to_owned(),
            place: path.display().to_string(),
            shared: Default::default(),
            _lock: None,
        };
        match [Kind::Log, Kind::Files].iter().all(|kind| path.join(kind.file()).is_file()) {
            true => Ok(directory),
            false => Err(StoreError::Missing { place: directory.place }),
        }
    }

    fn connect(&self, kind: Kind) -> Result<Db> {
        let path = self.path.join(kind.file());
        make_file(&path)?;
        let mut db = Db::open(&self.path, kind)?;
        // Who only looks leaves the files as they are.
        if self._lock.is_some() {
            db.room = self.shared[kind as usize].hold(&path);
        }
        Ok(db)
    }

    /// The archive may be lost: one that cannot be read is put aside, and begun anew.
    fn revive_archive(&self) -> Result<()> {
        let why = match self.connect(Kind::Archive).and_then(|mut db| db.is_readable()) {
            Err(StoreError::Damaged { why, .. }) => why,
            other => return other,
        };
        let path = self.path.join(Kind::Archive.file());
        let aside = path.with_extension("damaged");
        tracing::warn!(archive = %path.display(), aside = %aside.display(), why, "the archive is damaged: it begins anew");
        fs::rename(&path, &aside).map_err(|source| io_error("put aside", &path, source))?;
        for suffix in ["sqlite-wal", "sqlite-shm"] {
            match fs::remove_file(path.with_extension(suffix)) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_error("remove the log of", &path, e)),
                _ => {}
            }
        }
        self.connect(Kind::Archive).map(drop)
    }
}

impl Store for Directory {
    fn place(&self) -> &str {
        &self.place
    }

    fn log(&self) -> Result<Box<dyn LogRows>> {
        Ok(Box::new(self.connect(Kind::Log)?))
    }

    fn pages(&self) -> Result<Box<dyn PageRows>> {
        Ok(Box::new(self.connect(Kind::Files)?))
    }

    fn samples(&self) -> Result<Box<dyn SampleRows>> {
        Ok(Box::new(self.connect(Kind::Archive)?))
    }

    fn frozen(&self) -> Result<Frozen> {
        let log = self.connect(Kind::Log)?.freeze()?;
        let pages = self.connect(Kind::Files)?.freeze()?;
        Ok(Frozen { is_together: false, log: Box::new(log), pages: Box::new(pages) })
    }
}

/// A connection to one of the files.
struct Db {
    connection: Connection,
    kind: Kind,
    place: String,
    /// Closed after the connection: fields are dropped in order.
    room: Option<Arc<File>>,
}

impl Db {
    fn open(dir: &Path, kind: Kind) -> Result<Db> {
        let path = dir.join(kind.file());
        let place = dir.display().to_string();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&path, flags);
        let connection = opened.map_err(|source| map(kind, &place, "open the database", source))?;
        let db = Db { connection, kind, place, room: None };
        db.set_up().map_err(|source| db.error("open the database", source))?;
        db.check_schema()?;
        Ok(db)
    }

    fn set_up(&self) -> rusqlite::Result<()> {
        let db = &self.connection;
        db.busy_timeout(BUSY)?;
        db.set_prepared_statement_cache_capacity(32);
        db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
        // Only in a new file: else it would write, which a full disk refuses.
        if db.query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0))? == 0 {
            db.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
        }
        // Changing to WAL reads the file's head: what is no database is found here.
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        db.query_row(&format!("PRAGMA journal_size_limit = {WAL_BYTES_KEPT}"), [], |_| Ok(()))?;
        db.execute_batch(&format!("PRAGMA synchronous = {}", self.kind.synchronous()))
    }

    /// Makes the tables in an empty file; refuses files that are not ours, or of a later version.
    fn check_schema(&self) -> Result<()> {
        let what = "read the schema";
        let pragma = |name: &str| {
            let found = self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
            found.map_err(|source| self.error(what, source))
        };
        let (version, application) = (pragma("user_version")?, pragma("application_id")?);
        let file = || format!("{} of {}", self.kind.file(), self.place);
        if application == 0 && version == 0 && pragma("schema_version")? == 0 {
            let marks = format!("PRAGMA user_version = {SCHEMA_VERSION}; PRAGMA application_id = {APPLICATION_ID};");
            let batch = format!("BEGIN IMMEDIATE; {} {marks} COMMIT;", self.kind.tables());
            return self.connection.execute_batch(&batch).map_err(|source| self.error("make the tables", source));
        }
        if application != APPLICATION_ID {
            return Err(StoreError::NotOurs { place: file() });
        }
        if version > SCHEMA_VERSION {
            return Err(StoreError::Newer { place: file(), found: version, known: SCHEMA_VERSION });
        }
        Ok(())
    }

    /// From now on it shows what is there at this moment, and writes nothing.
    fn freeze(self) -> Result<Db> {
        // The first read takes the snapshot; a transaction alone does not.
        let begin = "PRAGMA query_only = ON; BEGIN; SELECT count(*) FROM sqlite_schema;";
        self.connection.execute_batch(begin).map_err(|source| self.error("freeze the database", source))?;
        Ok(self)
    }

    /// Runs statements that belong together; none happened if one fails.
    fn transact<T>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let outcome = (|| {
            let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })();
        outcome.map_err(|source| self.error(what, source))
    }

    fn error(&self, what: &'static str, source: rusqlite::Error) -> StoreError {
        map(self.kind, &self.place, what, source)
    }

    /// All rows of a query.
    fn list<T>(
        &self,
        what: &'static str,
        query: &str,
        with: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let listed =
            (|| self.connection.prepare_cached(query)?.query_map(with, row)?.collect::<rusqlite::Result<_>>())();
        listed.map_err(|source| self.error(what, source))
    }

    fn check(&self) -> Result<Vec<String>> {
        let findings = (|| {
            let mut check = self.connection.prepare(&format!("PRAGMA integrity_check({CHECK_FINDINGS_MAX})"))?;
            check.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()
        })();
        match findings {
            Ok(found) if found == ["ok"] => Ok(Vec::new()),
            Ok(found) => Ok(found),
            Err(source) => match self.error("check the database", source) {
                StoreError::Damaged { why, .. } => Ok(vec![why]),
                other => Err(other),
            },
        }
    }

    /// Bytes in use; free pages within the file do not count.
    fn bytes(&self) -> Result<u64> {
        let query = "SELECT (p.page_count - f.freelist_count) * s.page_size
            FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s";
        let bytes = self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        bytes.map(whole).map_err(|source| self.error("measure the database", source))
    }

    /// Gives at most so many free pages back to the file system. It is no matter if that does not work.
    fn give_back(&self, pages: u32) {
        if let Err(error) = self.connection.execute_batch(&format!("PRAGMA incremental_vacuum({pages})")) {
            tracing::debug!(store = self.place, %error, "cannot give room back");
        }
    }
}

/// What SQLite says, in our words.
fn map(kind: Kind, place: &str, what: &'static str, source: rusqlite::Error) -> StoreError {
    let place = place.to_owned();
    let is_other_type = matches!(
        source,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    );
    match source.sqlite_error_code() {
        // We write no such values.
        None if is_other_type => {
            StoreError::Damaged { what: Part::Database(kind.name()), place, why: source.to_string() }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { what, place, source: source.into() },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { what: Part::Database(kind.name()), place, why: source.to_string() }
        }
        _ => StoreError::Database { what, place, source: source.into() },
    }
}

/// SQLite's whole numbers are signed; ours are kept bit for bit.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn whole(number: i64) -> u64 {
    number.cast_unsigned()
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { what, path: path.to_owned(), source }
}

fn make_dir(path: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(path);
    made.map_err(|source| io_error("make the directory", path, source))?;
    let meta = fs::metadata(path).map_err(|source| io_error("look at", path, source))?;
    let mode = meta.mode() & 0o7777;
    match mode & 0o022 {
        0 => Ok(()),
        _ => Err(StoreError::Loose { what: "change", path: path.to_owned(), mode, fix: "700" }),
    }
}

/// Makes the file for its owner only: SQLite would ask the umask. Its `-wal` and `-shm` get the same mode.
fn make_file(path: &Path) -> Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(file) => file.sync_all().map_err(|source| io_error("make", path, source)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let meta = fs::metadata(path).map_err(|source| io_error("look at", path, source))?;
            match meta.permissions().mode() & 0o077 {
                0 => Ok(()),
                _ => {
                    let mode = meta.mode() & 0o7777;
                    Err(StoreError::Loose { what: "read", path: path.to_owned(), mode, fix: "600" })
                }
            }
        }
        Err(source) => Err(io_error("make", path, source)),
    }
}

/// The names of the files are as durable as what is in them.
fn sync_dir(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|dir| dir.sync_all());
    synced.map_err(|source| io_error("sync the directory", path, source))
}

fn take_lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK_FILE);
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
    let mut file = opened.map_err(|source| io_error("open", &path, source))?;
    match lock(&file, LockMode::Exclusive).map_err(|source| io_error("lock", &path, source))? {
        Lock::Taken => {
            // Only for messages: on a full disk the lock is none the worse for it.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "process {} on {}", std::process::id(), hostname()));
            Ok(file)
        }
        Lock::Held { by } => {
            let mut text = String::new();
            // What cannot be read is not told.
            let _ = file.take(LOCK_TEXT_MAX).read_to_string(&mut text);
            let by = match (text.trim(), by) {
                ("", Some(pid)) => format!("process {pid}"),
                ("", None) => "another process".to_owned(),
                (text, _) => text.to_owned(),
            };
            Err(StoreError::Held { place: dir.display().to_string(), by })
        }
    }
}

fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "this host".to_owned(),
        name => name.to_owned(),
    }
}
