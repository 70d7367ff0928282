//! The configuration of an agent: a file, what the command line says over it, and defaults, checked once.
//!
//! The file is read into a raw form that knows only syntax; [`Config`] is what passed the checks, and
//! can be made no other way. Every error names file, line, column and key, and the way out.

pub(crate) mod check;
mod controller;
pub(crate) mod door;
mod raw;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use mover::request::{Fingerprint, Hooks, IoChoice};
use mover::server::ServeLimits;

use crate::controller::count::Counter;
use crate::controller::grants::Grants;
use crate::controller::inventory::Budget;
use crate::roots::Roots;

pub use service::{ConfigError, Environment, Listen};

/// The port of agents, for control and data.
pub const PORT: u16 = 4810;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// Lines for people.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// What the command line says; it goes before the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--listen ADDR:PORT`.
    pub listen: Option<String>,
    /// `--root DIR`, or `--root DIR:ro` (read-only); if there is one, those of the file are not served.
    pub roots: Vec<PathBuf>,
    /// `--state-dir DIR`.
    pub state_dir: Option<PathBuf>,
    /// `--metrics ADDR:PORT`.
    pub metrics: Option<String>,
    /// `--ready-file FILE`.
    pub ready_file: Option<PathBuf>,
    /// `--door SOCKET`.
    pub door: Option<PathBuf>,
    /// `--door-user USER`.
    pub door_user: Option<String>,
    /// `--controller HOST:PORT[#FINGERPRINT]`, or `https://HOST[:PORT][#FINGERPRINT]`.
    pub controller: Option<String>,
    /// `--enrol-token-file FILE`.
    pub enrol_token_file: Option<PathBuf>,
    /// `--log human|json`.
    pub log: Option<Log>,
    /// Which storage I/O may be used; the command takes it from the environment, for tests.
    pub io: IoChoice,
}

/// A further address of this host that peers may open streams to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataAddress {
    /// The address.
    pub ip: IpAddr,
    /// The port, if it is another than the agent listens on (behind a port forward).
    pub port: Option<u16>,
}

/// The controller that an agent connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerAddress {
    /// Name or address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Who answers there; without it whoever does the first time is pinned.
    pub fingerprint: Option<Fingerprint>,
    /// File with a one-time token, for the first time.
    pub enrol_token_file: Option<PathBuf>,
    /// What it may plan for.
    pub budget: Budget,
}

/// The door that has the port of this agent and hands over the connections that are for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorAddress {
    /// The socket at which the agent waits for its door.
    pub socket: PathBuf,
    /// The id of the user that the door runs as: nobody else is listened to there.
    pub uid: u32,
}

impl std::fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ControllerAddress { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A configuration that passed its checks.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) listen: Listen,
    pub(crate) door: Option<DoorAddress>,
    pub(crate) state_dir: PathBuf,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) log: Log,
    pub(crate) addresses: Vec<DataAddress>,
    pub(crate) roots: Roots,
    pub(crate) bounds: ServeLimits,
    pub(crate) hooks: Hooks,
    pub(crate) tests: bool,
    pub(crate) relay: bool,
    pub(crate) controller: Option<ControllerAddress>,
    pub(crate) grants: Grants,
    pub(crate) counters: Vec<Counter>,
    pub(crate) ready_file: Option<PathBuf>,
    pub(crate) io: IoChoice,
}

impl Config {
    /// Reads `file`, if there is one, puts `overrides` over it, and checks the whole.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it or on the command line cannot be.
    pub fn load(file: Option<&Path>, overrides: &Overrides, environment: &Environment) -> Result<Config, ConfigError> {
        let Some(path) = file else {
            return check::check(raw::Raw::default(), &service::config::Source::none(), overrides, environment);
        };
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::unreadable(path, source))?;
        Config::parse(path, &text, overrides, environment)
    }

    /// The same for a text that was read from `path`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(
        path: &Path,
        text: &str,
        overrides: &Overrides,
        environment: &Environment,
    ) -> Result<Config, ConfigError> {
        let source = service::config::Source::of(path, text);
        let raw = toml::from_str(text).map_err(|error| source.syntax(error))?;
        check::check(raw, &source, overrides, environment)
    }

    /// Where identity and tokens are: what `longhaul token` needs of a configuration.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// What is served.
    #[must_use]
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// How the log is to be written.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log
    }

    /// Where it listens, or its door does.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen
    }

    /// The door that has its port, if it has none of its own.
    #[must_use]
    pub fn door(&self) -> Option<&DoorAddress> {
        self.door.as_ref()
    }

    /// Where metrics are, if anywhere.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Further addresses.
    #[must_use]
    pub fn addresses(&self) -> &[DataAddress] {
        &self.addresses
    }

    /// Bounds over all sessions.
    #[must_use]
    pub fn bounds(&self) -> ServeLimits {
        self.bounds
    }

    /// Programs around files and datasets.
    #[must_use]
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Whether throughput tests are allowed.
    #[must_use]
    pub fn tests(&self) -> bool {
        self.tests
    }

    /// The controller, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&ControllerAddress> {
        self.controller.as_ref()
    }

    /// What a controller may ask for.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Interfaces that count for links of the controller's network.
    #[must_use]
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Whether third-party copies are allowed.
    #[must_use]
    pub fn relay(&self) -> bool {
        self.relay
    }
}
