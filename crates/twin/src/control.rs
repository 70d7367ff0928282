//! What is said over an emulator's control socket: one JSON object a line, a question and its answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use model::network::Direction;
use model::scenario::Way;
use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::stats::Stats;

/// Longest line: a thousand links fit, with 10 KB each where histograms have a hundred buckets.
pub const LINE_MAX: u64 = 16 << 20;
/// How long an answer may take.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Ask {
    /// All devices are up: begin to carry packets.
    Begin,
    /// How are the links?
    Links,
    /// Change a link (by its place in the network). Who asks does not say what is to stay: another may change it meanwhile.
    Change {
        /// Which link.
        link: usize,
        /// Only this way.
        way: Option<Way>,
        /// Keys and texts of [`Direction::changed`].
        changes: Vec<(String, String)>,
    },
    /// Lose the next packets of a link.
    Drop {
        /// Which link.
        link: usize,
        /// How many, forward and backward.
        counts: [u32; 2],
    },
    /// Cut a link or heal it.
    Up {
        /// Which link.
        link: usize,
        /// To be healed.
        up: bool,
    },
    /// End.
    Stop,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// It is done.
    Done,
    /// It was not: why.
    Refused {
        /// In one line.
        why: String,
    },
    /// The links, in the order of the network; `None` for one that is not emulated.
    Links {
        /// Each link.
        links: Vec<Option<LinkState>>,
    },
}

/// A link as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// It carries packets.
    pub up: bool,
    /// Forward and backward.
    pub directions: [Direction; 2],
    /// What happened so far, forward and backward.
    pub stats: [Stats; 2],
}

/// Asks the emulator of a twin.
///
/// # Errors
/// When there is no such twin, its emulator has ended, or it refuses.
pub fn ask(place: &Place, ask: &Ask) -> Result<Answer> {
    if !place.exists() {
        return Err(place.absent());
    }
    let name = place.name();
    let mut socket = UnixStream::connect(place.file("control")).map_err(|error| {
        anyhow!(
            "the emulator of `{name}` does not answer ({error}): `longhaul twin down {name}` removes what is left of it"
        )
    })?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.set_write_timeout(Some(ANSWER_MAX))?;
    write(&mut socket, ask)?;
    match read(&socket).with_context(|| format!("the emulator of `{name}` does not answer"))? {
        Answer::Refused { why } => bail!("{why}"),
        answer => Ok(answer),
    }
}

/// Asks how the links are.
///
/// # Errors
/// As [`ask`].
pub fn links(place: &Place) -> Result<Vec<Option<LinkState>>> {
    match ask(place, &Ask::Links)? {
        Answer::Links { links } => Ok(links),
        other => Err(anyhow!("an answer to another question: {other:?}")),
    }
}

/// Writes one line.
///
/// # Errors
/// What the socket says.
pub fn write(socket: &mut UnixStream, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(socket.write_all(&line)?)
}

/// Reads one line of at most [`LINE_MAX`] bytes.
///
/// # Errors
/// What the socket says, or that it is not what was expected.
pub fn read<T: for<'de> Deserialize<'de>>(socket: &UnixStream) -> Result<T> {
    let mut line = Vec::new();
    BufReader::new(socket.take(LINE_MAX)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        bail!("the connection ended");
    }
    Ok(serde_json::from_slice(&line)?)
}
