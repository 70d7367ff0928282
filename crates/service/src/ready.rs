//! The ready file: where a service is and how to get in, for whoever started it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sys::file::{Dir, Meta};

use crate::private::write_beside;

/// Where a client on this host can connect to. Nobody can connect to "any address"; IPv4 loopback is part of it, also when it is IPv6's.
#[must_use]
pub fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = if bound.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bound.ip() };
    SocketAddr::new(ip, bound.port())
}

/// The file; removed when this is dropped, if it is still the one that was written.
#[derive(Debug)]
pub struct ReadyFile {
    path: PathBuf,
    dir: Dir,
    written: Option<Meta>,
}

impl ReadyFile {
    /// Takes away one that an earlier service left behind: who waits for the file must not find that.
    ///
    /// # Errors
    /// When its directory cannot be opened, or the system does not let go of what is there.
    pub fn prepare(path: &Path) -> io::Result<ReadyFile> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = ReadyFile { path: path.to_owned(), dir: Dir::open(parent)?, written: None };
        match file.dir.unlink(file.name()?) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(file),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes it, all at once: one line of JSON.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&mut self, content: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(content).map_err(io::Error::other)? + "\n";
        self.written = Some(self.try_write(text.as_bytes())?);
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
