//! The asking side: finds sessions and talks to them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::place::Place;
use super::wire::{Reply, Request, Status};
use crate::exit::usage;

/// How long a session may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(8);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// After this a socket nobody listens at is dead; before, its process may be just about to.
const DEAD_AFTER: Duration = Duration::from_millis(50);

/// The sessions that run, oldest id first; what dead ones left behind is removed.
///
/// # Errors
/// When the directory cannot be used.
pub(crate) fn list(place: &Place) -> Result<Vec<Status>> {
    let sockets = place.sockets()?;
    Ok(sockets.iter().filter_map(|(_, socket)| status(socket)).collect())
}

/// A session that does not answer is none; one that cannot any more is removed.
fn status(socket: &Path) -> Option<Status> {
    match ask(socket, &Request::Status) {
        Ok(reply) => reply.status,
        Err(error) => {
            remove_if_dead(socket, &error);
            None
        }
    }
}

fn remove_if_dead(socket: &Path, error: &io::Error) {
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if !refused(error) {
        return;
    }
    std::thread::sleep(DEAD_AFTER);
    if UnixStream::connect(socket).is_err_and(|error| refused(&error)) {
        // Another `session ls` may have been quicker.
        let _ = std::fs::remove_file(socket);
    }
}

/// Asks the session whose id begins with `id`.
///
/// # Errors
/// When there is none or more than one, it does not answer, or it refuses.
pub(crate) fn request(place: &Place, id: &str, request: &Request) -> Result<Status> {
    let (session, socket) = find(place, id)?;
    let reply = ask(&socket, request).inspect_err(|error| remove_if_dead(&socket, error));
    let reply = reply.with_context(|| format!("session {session} {}", how_silent(&socket)))?;
    match reply {
        Reply { ok: true, status: Some(status), .. } => Ok(status),
        Reply { error, .. } => {
            Err(anyhow!("session {session} refuses: {}", error.as_deref().unwrap_or("no reason given")))
        }
    }
}

/// In words: the socket of a session goes when it ends, which it may have done when it was asked.
fn how_silent(socket: &Path) -> &'static str {
    if socket.exists() { "does not answer" } else { "ended before it answered" }
}

fn find(place: &Place, id: &str) -> Result<(String, PathBuf)> {
    let mut fitting = place.sockets()?;
    fitting.retain(|(session, _)| session.starts_with(id));
    match fitting.len() {
        1 if !id.is_empty() => Ok(fitting.remove(0)),
        0 => Err(usage(format!("no session {} runs here: `longhaul session ls` lists them", id.escape_debug()))),
        _ => {
            let ids: Vec<String> = fitting.into_iter().map(|(session, _)| session).collect();
            Err(usage(format!("`{}` is the beginning of several sessions: {}", id.escape_debug(), ids.join(", "))))
        }
    }
}

fn ask(socket: &Path, request: &Request) -> io::Result<Reply> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    stream.write_all((serde_json::to_string(request)? + "\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
