//! One connection: a client that is used on any thread, and the statements that it prepared.

use std::collections::HashMap;

use postgres::types::ToSql;
use postgres::{Client, Config, GenericClient, NoTls, Row, Statement};

type Rows<T> = std::result::Result<T, postgres::Error>;

/// A client, which is there until this is dropped.
pub(super) struct Connection {
    client: Option<Client>,
    statements: Statements,
}

/// What was prepared over a connection, by its text. The texts are those of this program: some forty.
#[derive(Default)]
pub(super) struct Statements(HashMap<String, Statement>);

impl Connection {
    /// Connects. Whatever the server's default is, what is acknowledged will be on its disk.
    pub(super) fn of(config: &Config) -> Rows<Connection> {
        let client = apart(|| {
            let mut client = config.connect(NoTls)?;
            client.batch_execute("SET synchronous_commit = on").map(|()| client)
        })?;
        Ok(Connection { client: Some(client), statements: Statements::default() })
    }

    /// Does something with the client.
    pub(super) fn with<T: Send>(&mut self, work: impl FnOnce(&mut Client, &mut Statements) -> T + Send) -> T {
        let client = self.client.as_mut().expect("a connection has its client until it is dropped");
        let statements = &mut self.statements;
        apart(|| work(client, statements))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.as_ref().is_none_or(Client::is_closed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let client = self.client.take();
        apart(|| drop(client));
    }
}

/// Does what waits in a runtime: beside this thread, if that drives another one.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if tokio::runtime::Handle::try_current().is_err() {
        return work();
    }
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A client, or a transaction of it, which is asked by statements that are prepared once: one round trip each from then on.
pub(super) struct Asking<'a, C> {
    pub(super) client: &'a mut C,
    pub(super) statements: &'a mut Statements,
}

impl<C: GenericClient> Asking<'_, C> {
    pub(super) fn query(&mut self, text: &str, with: &[&(dyn ToSql + Sync)]) -> Rows<Vec<Row>> {
        let statement = self.prepared(text)?;
        self.client.query(&statement, with)
    }

    pub(super) fn execute(&mut self, text: &str, with: &[&(dyn ToSql + Sync)]) -> Rows<u64> {
        let statement = self.prepared(text)?;
        self.client.execute(&statement, with)
    }

    fn prepared(&mut self, text: &str) -> Rows<Statement> {
        if let Some(there) = self.statements.0.get(text) {
            return Ok(there.clone());
        }
        let made = self.client.prepare(text)?;
        self.statements.0.insert(text.to_owned(), made.clone());
        Ok(made)
    }
}
