//! A client of `/api/v1` that knows when it was not answered: one connection for each request, and short patience.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// How long reaching the controller may take, and each read of its answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    /// The controller answered.
    Said(u16, Value),
    /// It did not: the request may have been done, or not.
    Lost(String),
}

/// The way to a controller; shared by those who ask it.
#[derive(Clone)]
pub(crate) struct Rest {
    address: Arc<Mutex<String>>,
    token: String,
    tls: Arc<rustls::ClientConfig>,
}

impl Rest {
    /// To a controller with that certificate.
    pub(crate) fn new(address: &str, fingerprint: &str, token: &str) -> Rest {
        let pinned = fingerprint.trim_start_matches("sha256:").to_owned();
        let judge = move |seen: &mover::request::Fingerprint| {
            let text = seen.to_string();
            if text.trim_start_matches("sha256:") == pinned { Ok(()) } else { Err(format!("it is {text}")) }
        };
        let tls = mover::tls::client(Arc::new(judge), Arc::default(), &[b"http/1.1"], None);
        Rest {
            address: Arc::new(Mutex::new(address.to_owned())),
            token: token.to_owned(),
            tls: tls.expect("TLS can be had"),
        }
    }

    /// It listens elsewhere now.
    pub(crate) fn moved(&self, address: &str) {
        address.clone_into(&mut self.address.lock().expect("no panic under the lock"));
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None, None)
    }

    pub(crate) fn post(&self, path: &str, body: Option<&Value>, key: Option<&str>) -> Reply {
        self.ask("POST", path, body, key)
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>, key: Option<&str>) -> Reply {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: controller\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n",
            self.token,
            body.len()
        );
        if !body.is_empty() {
            head += "Content-Type: application/json\r\n";
        }
        if let Some(key) = key {
            head += &format!("Idempotency-Key: {key}\r\n");
        }
        match self.exchange(&format!("{head}\r\n{body}")) {
            Ok(answer) => parse(&answer).unwrap_or_else(|| Reply::Lost(format!("cut off: {answer}"))),
            Err(error) => Reply::Lost(error.to_string()),
        }
    }

    fn exchange(&self, request: &str) -> std::io::Result<String> {
        let address = self.address.lock().expect("no panic under the lock").clone();
        let tcp = TcpStream::connect_timeout(&address.parse().expect("an address"), PATIENCE)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        tcp.set_nodelay(true)?;
        let session = rustls::ClientConnection::new(self.tls.clone(), mover::tls::server_name(None));
        let mut stream = rustls::StreamOwned::new(session.map_err(std::io::Error::other)?, tcp);
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        String::from_utf8(answer).map_err(std::io::Error::other)
    }
}

/// Status and body, if the answer is whole.
fn parse(answer: &str) -> Option<Reply> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    if length.is_some_and(|length: usize| body.len() != length) {
        return None;
    }
    let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body).ok()? };
    Some(Reply::Said(status, body))
}
