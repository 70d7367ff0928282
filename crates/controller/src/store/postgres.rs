//! A database of a PostgreSQL server. All tables are in the schema `longhaul`.
//!
//! Each store has a connection of its own. One more holds an advisory lock as long as the store is open, so that two controllers never
//! have one database; when that connection breaks the server frees the lock. A **term** in the database fences: who opens the store
//! raises it, and each writing transaction looks whether it is still its own, so a controller that lost its lock writes nothing more.
//!
//! The client waits in a runtime of its own, which a thread that drives another one, as the core's, may not do: there each of its calls is
//! made on a thread beside it. That costs some tens of microseconds, less than a round trip.
//!
//! Connections that break are made anew with the next request. What was under way is [`StoreError::Lost`]; see
//! [`Log::append`](super::Log::append) for what becomes of an append.

mod connection;
mod log;
mod pages;
mod samples;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Config, Row, Transaction};

use self::connection::{Asking, Connection, Statements};
use super::error::{Part, Result, StoreError};
use super::rows::{LogRows, PageRows, SampleRows};
use super::{Frozen, Place, SCHEMA_VERSION, Store};

/// What our sessions are called in `pg_stat_activity`.
const NAME: &str = "longhaul controller";
/// Key of the advisory lock: "longhaul" in ASCII.
const LOCK_KEY: i64 = 0x6c6f_6e67_6861_756c;
/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(5);

/// The server frees the lock of a controller that is gone when it sees the connection end: so often, and so far apart, it is asked.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

const TABLES: &str = "
    CREATE TABLE longhaul.marks (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO longhaul.marks VALUES ('term', 0), ('restoring', 0);";

/// A database on a server.
pub(super) struct Server {
    access: Arc<Access>,
    /// Holds the lock as long as it is connected, unless it only looks.
    _lock: std::sync::Mutex<Connection>,
}

/// How to connect, and under which term.
struct Access {
    config: Config,
    place: String,
    term: AtomicI64,
}

impl Server {
    /// Opens the store in a database; makes the tables when they are not there.
    pub(super) fn open(url: &str) -> Result<Server> {
        let access = Access::of(url)?;
        let mut lock = access.connect("open the database")?;
        let term = lock.with(|client, _| {
            access.take_lock(client)?;
            access.check_schema(client)?;
            let raise = "UPDATE longhaul.marks SET value = value + 1 WHERE name = 'term' RETURNING value";
            let term = client.query_one(raise, &[]).map_err(|e| access.error("raise the term", e))?;
            access.get(&term, 0)
        })?;
        access.term.store(term, Ordering::Relaxed);
        Ok(Server { access: Arc::new(access), _lock: std::sync::Mutex::new(lock) })
    }

    /// The store in a database, without the lock and with no term of its own, to look at it.
    pub(super) fn beside(url: &str) -> Result<Server> {
        let access = Access::of(url)?;
        let mut client = access.connect("open the database")?;
        client.with(|client, _| {
            if !access.is_there(client)? {
                return Err(StoreError::Missing { place: access.place.clone() });
            }
            access.check_schema(client)
        })?;
        Ok(Server { access: Arc::new(access), _lock: std::sync::Mutex::new(client) })
    }

    fn link(&self) -> Result<Link> {
        let client = Some(self.access.connect("open the database")?);
        Ok(Link { access: Arc::clone(&self.access), client, is_frozen: false })
    }

    /// A connection that sees one moment: that of a snapshot of another one, or now.
    fn frozen_link(&self, snapshot: Option<&str>) -> Result<Link> {
        let mut link = Link { is_frozen: true, ..self.link()? };
        let moment = snapshot.map_or_else(String::new, |id| format!("SET TRANSACTION SNAPSHOT '{id}';"));
        link.run("freeze the database", |client, _| {
            // The first query takes the snapshot; the transaction alone does not.
            client.batch_execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {moment} SELECT count(*) FROM longhaul.marks"
            ))
        })?;
        Ok(link)
    }
}

impl Store for Server {
    fn place(&self) -> &str {
        &self.access.place
    }

    fn log(&self) -> Result<Box<dyn LogRows>> {
        Ok(Box::new(self.link()?))
    }

    fn pages(&self) -> Result<Box<dyn PageRows>> {
        Ok(Box::new(self.link()?))
    }

    fn samples(&self) -> Result<Box<dyn SampleRows>> {
        Ok(Box::new(self.link()?))
    }

    fn frozen(&self) -> Result<Frozen> {
        // A busy controller appends more often than connections can be made: the second has the first one's snapshot, not a later one.
        let mut log = self.frozen_link(None)?;
        let query = "SELECT pg_export_snapshot()";
        let shared = log.list("freeze the database", query, &[], |row| row.try_get::<_, String>(0))?;
        let pages = self.frozen_link(shared.first().map(String::as_str))?;
        Ok(Frozen { is_together: true, log: Box::new(log), pages: Box::new(pages) })
    }
}

impl Access {
    fn of(url: &str) -> Result<Access> {
        let place = Place::Postgres(url.to_owned()).to_string();
        let mut config: Config = url.parse().map_err(|_| StoreError::Place { text: place.clone() })?;
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        config.application_name(NAME).connect_timeout(CONNECT);
        Ok(Access { config, place, term: AtomicI64::new(0) })
    }

    fn is_there(&self, client: &mut Client) -> Result<bool> {
        let found = client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = 'longhaul'", &[]);
        found.map(|row| row.is_some()).map_err(|e| self.error("look for the tables", e))
    }

    fn connect(&self, what: &'static str) -> Result<Connection> {
        Connection::of(&self.config).map_err(|e| self.error(what, e))
    }

    fn take_lock(&self, client: &mut Client) -> Result<()> {
        for attempt in 0..LOCK_TRIES {
            let taken = client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK_KEY]);
            if self.get(&taken.map_err(|e| self.error("lock the database", e))?, 0)? {
                return Ok(());
            }
            std::thread::sleep(if attempt + 1 < LOCK_TRIES { LOCK_PAUSE } else { Duration::ZERO });
        }
        let holder = client.query_opt(
            "SELECT a.application_name || ', process ' || a.pid || ' of the server, from ' ||
                coalesce(host(a.client_addr), 'its own host') || ' since ' || to_char(a.backend_start, 'YYYY-MM-DD HH24:MI TZ')
            FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
            WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND (l.classid::bigint << 32 | l.objid::bigint) = $1",
            &[&LOCK_KEY],
        );
        let by = holder.ok().flatten().and_then(|row| row.try_get(0).ok());
        let by = by.unwrap_or_else(|| "another controller".to_owned());
        Err(StoreError::Held { place: self.place.clone(), by })
    }

    fn check_schema(&self, client: &mut Client) -> Result<()> {
        let what = "make the tables";
        let found = client.query_opt("SELECT obj_description(oid) FROM pg_namespace WHERE nspname = 'longhaul'", &[]);
        let Some(found) = found.map_err(|e| self.error(what, e))? else {
            let tables = [TABLES, log::TABLES, pages::TABLES, samples::TABLES].concat();
            let batch = format!(
                "BEGIN; CREATE SCHEMA longhaul; COMMENT ON SCHEMA longhaul IS 'longhaul store, schema {SCHEMA_VERSION}'; {tables} COMMIT;"
            );
            return client.batch_execute(&batch).map_err(|e| self.error(what, e));
        };
        let comment: Option<String> = self.get(&found, 0)?;
        let version = comment.and_then(|text| text.strip_prefix("longhaul store, schema ")?.parse::<i64>().ok());
        match version {
            None => Err(StoreError::NotOurs { place: format!("the schema `longhaul` in {}", self.place) }),
            Some(found) if found > SCHEMA_VERSION => {
                Err(StoreError::Newer { place: self.place.clone(), found, known: SCHEMA_VERSION })
            }
            Some(_) => Ok(()),
        }
    }

    fn get<T: FromSqlOwned>(&self, row: &Row, column: usize) -> Result<T> {
        row.try_get(column).map_err(|e| self.error("read a row", e))
    }

    /// What the server says, in our words.
    fn error(&self, what: &'static str, error: postgres::Error) -> StoreError {
        let place = self.place.clone();
        let code = error.code().cloned();
        let is_lost = error.is_closed()
            || error.code().is_none()
                && std::error::Error::source(&error).is_some_and(|source| source.is::<std::io::Error>());
        let (why, source) = (error.to_string(), Box::new(error));
        match code {
            Some(code) if code == SqlState::DISK_FULL => StoreError::Full { what, place, source },
            Some(code) if code == SqlState::DATA_CORRUPTED || code == SqlState::INDEX_CORRUPTED => {
                StoreError::Damaged { what: Part::Database("store"), place, why }
            }
            Some(SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW) => {
                StoreError::Lost { what, place, source }
            }
            _ if is_lost => StoreError::Lost { what, place, source },
            _ => StoreError::Database { what, place, source },
        }
    }
}

/// A connection that is made anew when it broke.
struct Link {
    access: Arc<Access>,
    client: Option<Connection>,
    /// A frozen one ends with its connection.
    is_frozen: bool,
}

impl Link {
    /// Does something over the connection; one that broke is dropped.
    fn run<T: Send>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&mut Client, &mut Statements) -> std::result::Result<T, postgres::Error> + Send,
    ) -> Result<T> {
        let client = match &mut self.client {
            Some(client) if self.is_frozen || !client.is_closed() => client,
            client => client.insert(self.access.connect(what)?),
        };
        let done = client.with(work).map_err(|e| self.access.error(what, e));
        if matches!(done, Err(StoreError::Lost { .. })) && !self.is_frozen {
            self.client = None;
        }
        done
    }

    /// A transaction that writes, under this controller's term; none of it happened if it fails, unless the connection broke.
    fn transact<T: Send>(
        &mut self,
        what: &'static str,
        durable: bool,
        work: impl FnOnce(&mut Asking<'_, Transaction<'_>>) -> std::result::Result<T, postgres::Error> + Send,
    ) -> Result<T> {
        let term = self.access.term.load(Ordering::Relaxed);
        let done = self.run(what, |client, statements| {
            let mut transaction = client.transaction()?;
            if !durable {
                transaction.batch_execute("SET LOCAL synchronous_commit = off")?;
            }
            let mut asking = Asking { client: &mut transaction, statements };
            // The row is locked against a new term.
            let mine = "SELECT value FROM longhaul.marks WHERE name = 'term' AND value = $1 FOR SHARE";
            if asking.query(mine, &[&term])?.is_empty() {
                return Ok(None);
            }
            let value = work(&mut asking)?;
            transaction.commit()?;
            Ok(Some(value))
        })?;
        done.ok_or_else(|| StoreError::TakenOver { place: self.access.place.clone() })
    }

    fn list<T: Send>(
        &mut self,
        what: &'static str,
        query: &str,
        with: &[&(dyn ToSql + Sync)],
        row: impl Fn(&Row) -> std::result::Result<T, postgres::Error> + Send,
    ) -> Result<Vec<T>> {
        self.run(what, |client, statements| Asking { client, statements }.query(query, with)?.iter().map(row).collect())
    }

    /// Bytes of tables with their indexes.
    fn bytes_of(&mut self, tables: &[&str]) -> Result<u64> {
        let names: Vec<String> = tables.iter().map(|table| format!("longhaul.{table}")).collect();
        let query =
            "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint FROM unnest($1::text[]) AS name";
        let sizes = self.list("measure the tables", query, &[&names], |row| row.try_get::<_, i64>(0))?;
        Ok(sizes.first().map_or(0, |bytes| whole(*bytes)))
    }
}

/// The server's whole numbers are signed; ours are kept bit for bit.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn whole(number: i64) -> u64 {
    number.cast_unsigned()
}

/// Numbers of 32 bits are kept in columns of 64.
fn small(row: &Row, column: usize) -> std::result::Result<u32, postgres::Error> {
    row.try_get::<_, i64>(column).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
