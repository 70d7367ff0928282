//! A client that says exactly what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use service::Identity;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// No test waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it did not come in time")
}

pub(crate) async fn connect(address: SocketAddr) -> TlsStream<TcpStream> {
    connect_as(address, b"http/1.1", None).await.unwrap()
}

pub(crate) async fn connect_as(
    address: SocketAddr,
    protocol: &[u8],
    own: Option<&Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = mover::tls::client(Arc::new(|_| Ok(())), Arc::default(), &[protocol], own).unwrap();
    let tcp = TcpStream::connect(address).await?;
    soon(TlsConnector::from(config).connect(mover::tls::server_name(None), tcp)).await
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A request, written by hand.
pub(crate) struct Asking {
    head: String,
    body: Vec<u8>,
}

pub(crate) fn ask(method: &str, path: &str) -> Asking {
    Asking { head: format!("{method} {path} HTTP/1.1\r\nHost: controller\r\nConnection: close\r\n"), body: Vec::new() }
}

impl Asking {
    pub(crate) fn token(self, token: &str) -> Asking {
        self.field("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn field(mut self, name: &str, value: &str) -> Asking {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    pub(crate) fn json(self, value: &Value) -> Asking {
        self.field("Content-Type", "application/json").bytes(value.to_string().into_bytes())
    }

    pub(crate) fn bytes(self, body: Vec<u8>) -> Asking {
        Asking { body, ..self }
    }

    pub(crate) async fn of(self, address: SocketAddr) -> Reply {
        let mut stream = connect(address).await;
        let head = self.field_of_length();
        // A server that has answered already may read no more.
        let _ = stream.write_all(&head).await;
        soon(answer(&mut stream)).await
    }

    fn field_of_length(self) -> Vec<u8> {
        let length = self.body.len();
        let mut bytes = self.field_if(length > 0, "Content-Length", &length.to_string());
        bytes.head += "\r\n";
        [bytes.head.into_bytes(), bytes.body].concat()
    }

    fn field_if(self, is: bool, name: &str, value: &str) -> Asking {
        if is { self.field(name, value) } else { self }
    }
}

/// Reads an answer to the end of the connection.
pub(crate) async fn answer(stream: &mut TlsStream<TcpStream>) -> Reply {
    let mut bytes = Vec::new();
    // A connection that is cut instead of closed has said all it had to.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Reply { status, head: head.to_lowercase(), body: body.to_owned() }
}
