//! The operator of the host asks the agent: `longhaul agent status`, `drain`, `pause`, `resume`, `forget`.
//!
//! A socket in the state directory ([`SOCKET_FILE`]): one line of JSON is asked, one is answered. Only the agent's own user and root are
//! heard. It works without the controller.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::Name;
use api::agent::{Mode, ModeSet, Role};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::cause::shown;
use super::{Site, lock, now};

/// The socket in the state directory.
pub const SOCKET_FILE: &str = "agent.sock";
/// Connections at once; a further one waits.
const CONNECTIONS_MAX: usize = 8;
/// Bytes of a question.
const ASKED_BYTES_MAX: u64 = 4096;
/// Bytes of an answer: so many sessions fit.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// How long asking and answering may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Question {
    /// How does it stand?
    Status,
    /// Nothing new; what runs ends.
    Drain {
        /// In the operator's words.
        #[serde(default)]
        reason: String,
    },
    /// Nothing new; what runs stands still.
    Pause {
        /// In the operator's words.
        #[serde(default)]
        reason: String,
    },
    /// As before the other two.
    Resume,
    /// The controller is dropped, until the agent is enrolled again.
    Forget,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Why it was not done; `None` if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How it stands after that.
    pub status: Status,
}

/// How an agent stands with its controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Where the controller is.
    pub controller: String,
    /// Its fingerprint, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// It is connected.
    pub connected: bool,
    /// What the controller calls this host, while it is connected.
    pub host: String,
    /// Since how many seconds it is (not) connected.
    pub since_s: u64,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The operator dropped the controller.
    pub forgotten: bool,
    /// What the operator decided.
    pub mode: Mode,
    /// Why.
    pub reason: String,
    /// What the agent drives.
    pub sessions: Vec<SessionStatus>,
    /// Sessions for the controller that other hosts drive with this one.
    #[serde(default)]
    pub served: usize,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number.
    pub session: u64,
    /// For whose transfer.
    pub collaboration: String,
    /// What this host does.
    pub role: Role,
    /// Where at this host.
    pub here: Name,
    /// The other host.
    pub other: String,
    /// Of the lease in force.
    pub generation: u64,
    /// The rate in force, b/s of IP packets.
    pub set_bps: u64,
    /// Whether that is the fall-back after the lease's end.
    pub fallen_back: bool,
    /// Measured in the last second, b/s of IP packets.
    pub rate_bps: u64,
    /// File bytes in place.
    pub bytes_done: u64,
    /// Files done.
    pub files_done: u64,
}

/// Why an agent was not asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error(
        "no agent with a controller runs with the state directory {}: start it with --controller, or name its state directory with --state-dir or its configuration with --config", dir.display()
    )]
    Nobody {
        /// The state directory.
        dir: PathBuf,
    },
    /// It does not answer as it should.
    #[error("the agent at {} does not answer", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It said no.
    #[error("the agent refuses: {0}")]
    No(String),
}

/// Asks the agent of a state directory. Blocks.
///
/// # Errors
/// When nobody answers, or the answer is no.
pub fn ask(state_dir: &Path, question: &Question) -> Result<Status, AskError> {
    let path = state_dir.join(SOCKET_FILE);
    let stream = BlockingStream::connect(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AskError::Nobody { dir: state_dir.to_owned() },
        _ => AskError::Silent { path: path.clone(), source },
    })?;
    let Answer { error, status } =
        talk(stream, question).map_err(|source| AskError::Silent { path: path.clone(), source })?;
    match error {
        None => Ok(status),
        Some(text) => Err(AskError::No(text)),
    }
}

fn talk(mut stream: BlockingStream, question: &Question) -> io::Result<Answer> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = serde_json::to_string(question).map_err(io::Error::other)? + "\n";
    stream.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut answer)?;
    serde_json::from_str(&answer).map_err(io::Error::other)
}

/// Listens until it is dropped. An agent that cannot is still an agent.
pub(crate) fn listen(site: Arc<Site>, state_dir: &Path) -> io::Result<Listening> {
    let path = state_dir.join(SOCKET_FILE);
    // Somebody who answers is another agent with the same directory; else it is what a killed one left.
    if BlockingStream::connect(&path).is_err() {
        let _ = std::fs::remove_file(&path);
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let task = tokio::spawn(accept_all(site, listener));
    Ok(Listening { path, task })
}

/// The socket; dropped it is gone.
pub(crate) struct Listening {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept_all(site: Arc<Site>, listener: UnixListener) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                tokio::spawn(async move {
                    // Who goes away or is too slow has nobody to be told.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &site)).await;
                    drop(slot);
                });
            }
            // Out of descriptors: later there may be some.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: UnixStream, site: &Arc<Site>) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    let own = sys::process::euid();
    let answer = if peer == own || peer == 0 {
        let mut line = String::new();
        tokio::io::BufReader::new((&mut stream).take(ASKED_BYTES_MAX)).read_line(&mut line).await?;
        let done = match serde_json::from_str::<Question>(&line) {
            Ok(question) => site.asked_by_operator(question),
            Err(error) => Err(format!("this is no question: {error}")),
        };
        Answer { error: done.err(), status: site.status() }
    } else {
        Answer { error: Some(format!("this agent belongs to user {own}")), status: Status::default() }
    };
    let line = serde_json::to_string(&answer).map_err(io::Error::other)? + "\n";
    stream.write_all(line.as_bytes()).await
}

impl Site {
    fn asked_by_operator(&self, question: Question) -> Result<(), String> {
        let decide = |mode, reason: String| self.decide(ModeSet { mode, reason: shown(&reason) });
        let done = match question {
            Question::Status => Ok(()),
            Question::Drain { reason } => decide(Mode::Draining, reason),
            Question::Pause { reason } => decide(Mode::Paused, reason),
            Question::Resume => decide(Mode::Active, String::new()),
            Question::Forget => self.forget(),
        };
        done.map_err(|error| mover::session::chain(&error))
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = lock(&self.state).kept().clone();
        let standing = lock(&self.standing).clone();
        let sessions: Vec<_> = lock(&self.sessions).values().cloned().collect();
        let sessions = sessions.iter().map(|driven| {
            let (generation, set_bps, fallen_back) = driven.in_force(state.mode);
            let progress = driven.shown();
            SessionStatus {
                session: driven.session,
                collaboration: driven.collaboration.clone(),
                role: driven.role,
                here: driven.here.clone(),
                other: driven.other.clone(),
                generation,
                set_bps,
                fallen_back,
                rate_bps: progress.rate_bps,
                bytes_done: progress.bytes_done,
                files_done: progress.files_done,
            }
        });
        Status {
            controller: self.address.to_string(),
            fingerprint: self.address.fingerprint.map(|pin| pin.to_string()).or(state.fingerprint),
            connected: standing.controller.is_some(),
            host: standing.host,
            since_s: now().saturating_sub(standing.since).as_secs(),
            problem: standing.problem,
            forgotten: state.forgotten,
            mode: state.mode,
            reason: state.reason,
            sessions: sessions.collect(),
            served: self.tokens.in_use(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_written_as_documented() {
        for (text, question) in [
            (r#"{"op":"status"}"#, Question::Status),
            (r#"{"op":"drain","reason":"disk"}"#, Question::Drain { reason: "disk".into() }),
            (r#"{"op":"pause","reason":""}"#, Question::Pause { reason: String::new() }),
            (r#"{"op":"resume"}"#, Question::Resume),
            (r#"{"op":"forget"}"#, Question::Forget),
        ] {
            assert_eq!(serde_json::from_str::<Question>(text).unwrap(), question);
            assert_eq!(serde_json::to_string(&question).unwrap(), text);
        }
        for bad in ["", "{}", r#"{"op":"halt"}"#, r#"{"op":"drain","why":"x"}"#] {
            assert!(serde_json::from_str::<Question>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn where_nobody_listens_the_way_out_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let text = ask(dir.path(), &Question::Status).unwrap_err().to_string();
        assert!(text.contains("--state-dir") && text.contains(&dir.path().display().to_string()), "{text}");
    }
}
