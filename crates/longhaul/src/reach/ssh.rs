//! The far end of `host:/path`: started over the user's own ssh, reached over direct TCP.
//!
//! ```text
//! this end ── ssh host longhaul serve --oneshot ─▶ far end
//!          ── {"key", "connect": null} ──────────▶              standard input
//!          ◀── {"port", "addresses", "fingerprint"} ──          standard output
//!          ══ TCP to that port, TLS, the key as token ══▶
//! ```
//!
//! With `--reverse-connect` this end listens, and `connect` names its addresses. The key is 32 random bytes
//! that are good for this one process. When standard input closes, the far end finishes and ends.

mod command;
mod ours;
mod said;

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use mover::request::{Fingerprint, Reach, Remote};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use command::real_name;
use ours::Ours;
use said::Said;

pub(crate) use command::SshCommand;

use super::address::{self, Families};
use crate::action::SshEnd;
use crate::args::location::HostPort;
use crate::args::value::Ports;

/// How long the login may take; somebody may have to type a password.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(600);
/// Bytes before the answer and of it; shells sometimes greet.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// How long the far end may take to end by itself.
const END_TIME_MAX: Duration = Duration::from_secs(3);
/// Addresses of this host that the far end is offered, as many as it offers.
const OFFERED_MAX: usize = 64;
/// What ssh and shells say when a command is not there.
const NOT_FOUND: i32 = 127;
/// What ssh ends with when it fails itself, not what it runs.
const SSH_FAILED: i32 = 255;

/// How ssh is run.
#[derive(Debug, Clone)]
pub(crate) struct SshSettings {
    /// The command.
    pub(crate) command: SshCommand,
    /// What it runs there, as the far shell reads it.
    pub(crate) remote_longhaul: String,
    /// The far end connects to this one.
    pub(crate) reverse: bool,
    /// Ports that the connected-to end may listen on.
    pub(crate) ports: Option<Ports>,
}

/// A far end that was started over ssh and lives until this is ended.
pub(crate) struct SshLogin {
    /// How it is reached; it is gone when ssh is.
    pub(crate) remote: Remote,
    input: ChildStdin,
    /// Waits for the end of ssh.
    watcher: JoinHandle<()>,
    /// Ends ssh when it is dropped.
    hold: oneshot::Sender<()>,
}

impl SshLogin {
    /// Lets it end, and ends it if it does not.
    pub(crate) async fn end(self) {
        let SshLogin { input, mut watcher, hold, .. } = self;
        drop(input);
        if timeout(END_TIME_MAX, &mut watcher).await.is_err() {
            drop(hold);
            let _ = watcher.await;
        }
    }
}

/// What the far end is told.
#[derive(Serialize)]
struct Call<'a> {
    key: &'a str,
    connect: Option<&'a [SocketAddr]>,
    fingerprint: Option<String>,
}

/// What it says.
#[derive(Deserialize)]
struct Answer {
    port: Option<u16>,
    addresses: Vec<IpAddr>,
    fingerprint: Option<String>,
}

/// Starts the far end.
///
/// # Errors
/// When the login fails, there is no program of ours, or its port cannot be reached.
pub(crate) async fn start(end: &SshEnd, families: Families) -> Result<SshLogin> {
    let key = new_key()?;
    let host = end.host.to_string();
    let ours = match end.settings.reverse {
        true => Some(Ours::bind(end, families).await?),
        false => None,
    };
    let call = Call {
        key: &key,
        connect: ours.as_ref().map(|ours| ours.addresses.as_slice()),
        fingerprint: ours.as_ref().map(|ours| Fingerprint::of(&ours.listener.identity.certificate).to_string()),
    };
    let mut started = Started::spawn(end)?;
    let answer = match timeout(LOGIN_TIME_MAX, started.talk(&call)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(started.explain(error, end).await),
        Err(_) => bail!("the login at {host} took longer than {} s", LOGIN_TIME_MAX.as_secs()),
    };
    let (reach, pin) = match ours {
        // What connects proves itself by the key, and shows no certificate.
        Some(ours) => (Reach::Accept(Arc::new(ours.listener)), None),
        None => {
            let pin = answer.fingerprint.as_deref().and_then(|text| text.parse().ok());
            let pin: Fingerprint = pin.with_context(|| format!("longhaul at {host} did not tell its fingerprint"))?;
            (Reach::Connect(vec![address_of(end, &answer, families).await?]), Some(pin))
        }
    };
    let judge: mover::request::Judge = match pin {
        Some(pin) => super::only(pin, format!("over ssh {host} said that it has")),
        None => Arc::new(|_| Ok(())),
    };
    let Started { child, input, said, .. } = started;
    let (tell, gone) = watch::channel(None);
    let (hold, held) = oneshot::channel();
    let who = format!("the login at {host} is over, and longhaul there with it: {}", end.settings.command.program);
    let watcher = tokio::spawn(watch_over(child, said, who, tell, held));
    Ok(SshLogin {
        remote: Remote { reach, expected: pin, judge, token: key, label: host, gone: Some(gone) },
        input,
        watcher,
        hold,
    })
}

/// Waits for the end of ssh and tells why; ends it when it is not `held` any more.
async fn watch_over(
    mut child: Child,
    said: Said,
    who: String,
    tell: watch::Sender<Option<String>>,
    held: oneshot::Receiver<()>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        _ = held => {
            // By its own id, and waited for; it may be gone already.
            let _ = child.kill().await;
            return;
        }
    };
    let ended = status.map_or_else(|error| format!("is lost ({error})"), |status| format!("ended with {status}"));
    let said = said.last().await.map(|line| format!(": {line}")).unwrap_or_default();
    tell.send_replace(Some(format!("{who} {ended}{said}")));
}

/// A running ssh.
struct Started {
    child: Child,
    said: Said,
    input: ChildStdin,
    output: BufReader<tokio::io::Take<ChildStdout>>,
}

impl Started {
    fn spawn(end: &SshEnd) -> Result<Started> {
        let ports = end.settings.ports.map(|ports| format!(" --ports {ports}")).unwrap_or_default();
        let mut command = end.settings.command.command();
        command.arg(end.host.ssh_destination()).arg(format!("{} serve --oneshot{ports}", end.settings.remote_longhaul));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {}", end.settings.command.program))?;
        let (input, output) =
            child.stdin.take().zip(child.stdout.take()).context("ssh has no standard input or output")?;
        let said = Said::hear(child.stderr.take().context("ssh has no standard error")?);
        Ok(Started { child, said, input, output: BufReader::new(output.take(ANSWER_BYTES_MAX)) })
    }

    async fn talk(&mut self, call: &Call<'_>) -> Result<Answer> {
        let line = serde_json::to_string(call)? + "\n";
        self.input.write_all(line.as_bytes()).await.context("ssh does not take input")?;
        self.input.flush().await.context("ssh does not take input")?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = self.output.read_until(b'\n', &mut line).await.context("cannot read from ssh")?;
            ensure!(read > 0, "it ended without an answer");
            // Before it, a shell may greet.
            if line.starts_with(b"{") {
                return serde_json::from_slice(&line).context("its answer is not what this version understands");
            }
        }
    }

    /// Why there was no answer: the exit status says more than the pipe.
    async fn explain(self, error: anyhow::Error, end: &SshEnd) -> anyhow::Error {
        let Started { mut child, said, input, output } = self;
        drop((input, output));
        let host = &end.host;
        let ended = timeout(END_TIME_MAX, child.wait()).await;
        // All of it stands above what is told now.
        said.last().await;
        match ended {
            Ok(Ok(status)) if status.code() == Some(NOT_FOUND) => {
                anyhow!(
                    "there is no `{}` at {host}: install it there, or say where it is with --remote-longhaul",
                    end.settings.remote_longhaul
                )
            }
            Ok(Ok(status)) if status.code() == Some(SSH_FAILED) => {
                let program = &end.settings.command.program;
                anyhow!("the login at {host} failed, {program} says why above: it must work without longhaul first")
            }
            Ok(Ok(status)) if !status.success() => {
                anyhow!("cannot start longhaul at {host}: {} ended with {status}", end.settings.command.program)
            }
            _ => error.context(format!("cannot start longhaul at {host}")),
        }
    }
}

/// 32 random bytes in hexadecimal.
pub(super) fn new_key() -> Result<String> {
    let mut bytes = [0; 32];
    sys::random::fill(&mut bytes).context("cannot get random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where the far end can be connected to: what ssh calls the host first, then what it says of itself.
async fn address_of(end: &SshEnd, answer: &Answer, families: Families) -> Result<SocketAddr> {
    let host = &end.host;
    let port = answer.port.with_context(|| format!("longhaul at {host} did not tell its port"))?;
    let mut candidates =
        address::of_host(&HostPort { host: real_name(end).await, port }, families).await.unwrap_or_default();
    for ip in &answer.addresses {
        let address = SocketAddr::new(*ip, port);
        if !candidates.contains(&address) {
            candidates.push(address);
        }
    }
    candidates.truncate(OFFERED_MAX);
    address::first_to_answer(&candidates).await.with_context(|| {
        format!("longhaul runs at {host}, but its port {port} cannot be reached: let ports through and name them with --ssh-port-range, or give --reverse-connect")
    })
}

#[test]
fn keys_differ() {
    let (one, two) = (new_key().unwrap(), new_key().unwrap());
    assert!(one != two && one.len() == 64, "{one}");
}
