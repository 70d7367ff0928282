//! The ready file: where the agent is and how to get in, for whoever started it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mover::request::Fingerprint;
use serde::Serialize;
use sys::file::{Dir, Meta};

use crate::error::AgentError;
use crate::private::write_beside;

/// What it says.
#[derive(Debug, Serialize)]
pub(crate) struct Ready<'a> {
    /// `ip:port` that a client on this host can connect to.
    pub(crate) address: String,
    /// The main token.
    pub(crate) token: &'a str,
    /// Of the certificate.
    pub(crate) fingerprint: String,
    /// `ip:port` of metrics, if they are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
}

impl<'a> Ready<'a> {
    pub(crate) fn new(
        bound: SocketAddr,
        token: &'a str,
        fingerprint: Fingerprint,
        metrics: Option<SocketAddr>,
    ) -> Ready<'a> {
        Ready {
            address: reachable(bound).to_string(),
            token,
            fingerprint: fingerprint.to_string(),
            metrics: metrics.map(|address| reachable(address).to_string()),
        }
    }
}

/// Nobody can connect to "any address"; IPv4 loopback is part of it, also when it is IPv6's.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = if bound.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bound.ip() };
    SocketAddr::new(ip, bound.port())
}

/// The file; removed when this is dropped, if it is still the one that was written.
#[derive(Debug)]
pub(crate) struct ReadyFile {
    path: PathBuf,
    dir: Dir,
    written: Option<Meta>,
}

impl ReadyFile {
    /// Takes away one that an earlier agent left behind: who waits for the file must not find that.
    pub(crate) fn prepare(path: &Path) -> Result<ReadyFile, AgentError> {
        let error = |source| AgentError::Ready { path: path.to_owned(), source };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = ReadyFile { path: path.to_owned(), dir: Dir::open(parent).map_err(error)?, written: None };
        match file.dir.unlink(file.name().map_err(error)?) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(error(e)),
            _ => Ok(file),
        }
    }

    /// Writes it, all at once.
    pub(crate) fn write(&mut self, ready: &Ready<'_>) -> Result<(), AgentError> {
        let text = serde_json::to_string(ready).expect("plain text fields") + "\n";
        let written = self.try_write(text.as_bytes());
        self.written = Some(written.map_err(|source| AgentError::Ready { path: self.path.clone(), source })?);
        Ok(())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<Meta> {
        let name = self.name()?;
        write_beside(&self.dir, name, bytes, |_| Ok(()), |temporary| self.dir.rename(temporary, name).map(|()| true))?;
        self.dir.stat(name)
    }

    fn name(&self) -> io::Result<&[u8]> {
        let name = self.path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        Ok(name.as_bytes())
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let Some(written) = self.written else { return };
        let Ok(name) = self.name() else { return };
        if self.dir.stat(name).is_ok_and(|now| now.is_same_file(&written)) {
            // Nobody is left to be told.
            let _ = self.dir.unlink(name);
        }
    }
}
