//! The ends of a copy or test, checked: where they are, and what lets us in.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use mover::request::Fingerprint;

use crate::args::groups::AccessArgs;
use crate::args::location::{Agent, Location, SshHost};
use crate::environment::Environment;
use crate::exit::usage;
use crate::known_hosts::KnownHosts;
use crate::reach::ssh::{SshCommand, SshSettings};

/// Bytes of a token; a longer one is none.
const TOKEN_BYTES_MAX: usize = 4096;

/// One end.
#[derive(Debug)]
pub(crate) enum End {
    /// Paths of this host.
    Local(Vec<PathBuf>),
    /// Standard input or output.
    Pipe,
    /// Paths at an agent.
    Agent(AgentEnd, Vec<Vec<u8>>),
    /// Paths at a host that is reached over ssh.
    Ssh(SshEnd, Vec<Vec<u8>>),
}

/// An agent, and what lets us in.
#[derive(Debug)]
pub(crate) struct AgentEnd {
    /// Where it is.
    pub(crate) agent: Agent,
    /// Access token.
    pub(crate) token: String,
    /// What it must show.
    pub(crate) trust: Trust,
}

/// How an agent is recognised.
#[derive(Debug, Clone)]
pub(crate) enum Trust {
    /// It has this fingerprint.
    Pinned(Fingerprint),
    /// It is in the file, or is put there.
    KnownHosts(KnownHosts),
}

/// A host that is reached over ssh.
#[derive(Debug)]
pub(crate) struct SshEnd {
    /// Login and host.
    pub(crate) host: SshHost,
    /// How.
    pub(crate) settings: SshSettings,
}

/// Checks what an end needs against what was given.
pub(crate) struct Access<'a> {
    args: &'a AccessArgs,
    environment: &'a Environment,
}

impl<'a> Access<'a> {
    /// From the options and the environment.
    pub(crate) fn new(args: &'a AccessArgs, environment: &'a Environment) -> Access<'a> {
        Access { args, environment }
    }

    /// The end at these places, which must all be on one host. `token_file` is where its token is, if that is
    /// another than the other end's.
    ///
    /// # Errors
    /// When the places are on several hosts, or what lets us in is missing.
    pub(crate) fn end(&self, mut places: Vec<Location>, token_file: Option<&Path>) -> Result<End> {
        let first = places.first().cloned().ok_or_else(|| usage("a source is missing"))?;
        if let Some(other) = places.iter().find(|place| !same_host(&first, place)) {
            return Err(usage(format!(
                "all sources are on one host, but {first} and {other} are not: copy them one after the other"
            )));
        }
        Ok(match first {
            Location::Pipe if places.len() > 1 => {
                return Err(usage("standard input is one source, and given twice"));
            }
            Location::Pipe => End::Pipe,
            Location::Local(_) => End::Local(places.drain(..).filter_map(local).collect()),
            Location::Agent(agent, _) => {
                End::Agent(self.agent(agent, token_file)?, places.drain(..).filter_map(remote).collect())
            }
            Location::Ssh(host, _) => End::Ssh(self.ssh(host)?, places.drain(..).filter_map(remote).collect()),
        })
    }

    fn agent(&self, agent: Agent, token_file: Option<&Path>) -> Result<AgentEnd> {
        let token = self.token(&agent, token_file)?;
        let trust = match (agent.pin, self.args.fingerprint) {
            (Some(with_address), Some(option)) if with_address != option => {
                return Err(usage(format!(
                    "{agent} is given with one fingerprint and --fingerprint says another: leave one of them"
                )));
            }
            (Some(pin), _) | (None, Some(pin)) => Trust::Pinned(pin),
            (None, None) => Trust::KnownHosts(known_hosts(self.args.known_hosts.as_deref(), self.environment)?),
        };
        Ok(AgentEnd { agent, token, trust })
    }

    fn token(&self, agent: &Agent, token_file: Option<&Path>) -> Result<String> {
        if let Some(path) = token_file.or(self.args.token_file.as_deref()) {
            return token_in(path);
        }
        match &self.environment.token {
            Some(text) => token(text, "LONGHAUL_TOKEN"),
            None => Err(usage(format!(
                "no token for {agent}: give --token-file FILE, or set LONGHAUL_TOKEN (the agent's main token is the file `token` in its state directory; `longhaul token new` there makes others)"
            ))),
        }
    }

    fn ssh(&self, host: SshHost) -> Result<SshEnd> {
        let settings = SshSettings {
            command: SshCommand::parse(&self.args.ssh)
                .map_err(|why| usage(format!("--ssh {}: {why}", self.args.ssh)))?,
            remote_longhaul: self.args.remote_longhaul.clone(),
            reverse: self.args.reverse_connect,
            ports: self.args.ssh_port_range,
        };
        Ok(SshEnd { host, settings })
    }

    /// Refuses options that nothing here has use for.
    ///
    /// # Errors
    /// When there is one.
    pub(crate) fn check_use(&self, ends: &[&End]) -> Result<()> {
        let agents = ends.iter().filter(|end| matches!(end, End::Agent(..))).count();
        let hosts = ends.iter().filter(|end| matches!(end, End::Ssh(..))).count();
        let needless = [
            (hosts == 0 && self.args.reverse_connect, "--reverse-connect", "host:/path"),
            (hosts == 0 && self.args.ssh_port_range.is_some(), "--ssh-port-range", "host:/path"),
            (agents == 0 && self.args.fingerprint.is_some(), "--fingerprint", "lh://host/path"),
            (agents == 0 && self.args.token_file.is_some(), "--token-file", "lh://host/path"),
        ];
        if let Some((_, option, place)) = needless.iter().find(|(found, ..)| *found) {
            return Err(usage(format!("{option} is for {place}, and none is given")));
        }
        if agents == 2 && self.args.fingerprint.is_some() {
            return Err(usage(
                "with an agent at both ends --fingerprint could mean either: write lh://sha256:<hex>@host/path",
            ));
        }
        Ok(())
    }
}

fn same_host(a: &Location, b: &Location) -> bool {
    match (a, b) {
        (Location::Pipe, Location::Pipe) | (Location::Local(_), Location::Local(_)) => true,
        (Location::Agent(a, _), Location::Agent(b, _)) => a == b,
        (Location::Ssh(a, _), Location::Ssh(b, _)) => a == b,
        _ => false,
    }
}

fn local(place: Location) -> Option<PathBuf> {
    match place {
        Location::Local(path) => Some(path),
        _ => None,
    }
}

fn remote(place: Location) -> Option<Vec<u8>> {
    match place {
        Location::Agent(_, path) | Location::Ssh(_, path) => Some(path),
        _ => None,
    }
}

/// The file of pinned fingerprints: the one that is given, else the user's.
///
/// # Errors
/// When there is no place for it.
pub(super) fn known_hosts(given: Option<&Path>, environment: &Environment) -> Result<KnownHosts> {
    let default = || environment.state_home.as_ref().map(|state| state.join("longhaul/known_hosts"));
    let path = given.map(Path::to_owned).or_else(default);
    path.map(KnownHosts::new).ok_or_else(|| usage("there is no place for pinned fingerprints: set HOME or XDG_STATE_HOME, or give --known-hosts or --fingerprint"))
}

/// The token in a file.
///
/// # Errors
/// When the file cannot be read or holds none.
pub(super) fn token_in(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the token file {}", path.display()));
    token(&text.map_err(crate::exit::as_usage)?, &path.display().to_string())
}

/// The token that a text is.
///
/// # Errors
/// When it is none; `from` says where it was.
pub(super) fn token(text: &str, from: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > TOKEN_BYTES_MAX || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(usage(format!("{from} holds no token: it is one line without spaces")));
    }
    Ok(text.to_owned())
}
