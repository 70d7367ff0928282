//! The configuration of a door: a file, what the command line says over it, and defaults, checked once.

use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use mover::request::Fingerprint;
use proto::instance::TAG;
use serde::Deserialize;
use service::config::Source;
use service::{ConfigError, Listen};
use toml::Spanned;

use crate::config::Log;
use crate::config::check::{DEFAULT_LISTEN, From, address, either};
use crate::config::door::socket;

/// Instances behind one door.
pub const INSTANCES_MAX: usize = 64;
/// Characters of the name of an instance.
const NAME_CHARS_MAX: usize = 64;
const CONNECTIONS: (i64, RangeInclusive<i64>) = (256, 1..=65_536);

/// What the command line says; it goes before the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--listen ADDR:PORT`.
    pub listen: Option<String>,
    /// `--instance NAME=SOCKET,FINGERPRINT`; if there is one, those of the file are not served.
    pub instances: Vec<String>,
    /// `--default NAME`.
    pub default: Option<String>,
    /// `--metrics ADDR:PORT`.
    pub metrics: Option<String>,
    /// `--ready-file FILE`.
    pub ready_file: Option<PathBuf>,
    /// `--log human|json`.
    pub log: Option<Log>,
    /// A service manager has the port and hands it over.
    pub is_inherited: bool,
}

/// An agent behind the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// What the operator calls it.
    pub name: String,
    /// Where it waits for the door.
    pub socket: PathBuf,
    /// Of its certificate: who connects names it by this.
    pub fingerprint: Fingerprint,
}

/// A configuration that passed its checks.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) listen: Listen,
    pub(crate) is_inherited: bool,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) log: Log,
    pub(crate) instances: Vec<Instance>,
    pub(crate) default: Option<usize>,
    /// Connections of which it is not known whom they mean.
    pub(crate) connections: usize,
    pub(crate) ready_file: Option<PathBuf>,
}

/// `door.toml` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: Option<Spanned<String>>,
    metrics: Option<Spanned<String>>,
    log: Option<Log>,
    default: Option<Spanned<String>>,
    #[serde(default)]
    instance: Vec<RawInstance>,
    #[serde(default)]
    limits: RawLimits,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInstance {
    name: Spanned<String>,
    socket: Spanned<PathBuf>,
    fingerprint: Spanned<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimits {
    connections: Option<Spanned<i64>>,
}

impl Config {
    /// Reads `file`, if there is one, puts `overrides` over it, and checks the whole.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it or on the command line cannot be.
    pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        let Some(path) = file else { return check(&Raw::default(), &Source::none(), overrides) };
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::unreadable(path, source))?;
        Config::parse(path, &text, overrides)
    }

    /// The same from a text already read; `path` is for messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<Config, ConfigError> {
        let source = Source::of(path, text);
        check(&toml::from_str(text).map_err(|error| source.syntax(error))?, &source, overrides)
    }

    /// Where it listens.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen
    }

    /// Where metrics are, if anywhere.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// How the log is to be written.
    #[must_use]
    pub fn log(&self) -> Log {
        self.log
    }

    /// Who is behind the door.
    #[must_use]
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Who gets connections that mean nobody.
    #[must_use]
    pub fn default_instance(&self) -> Option<&Instance> {
        self.default.and_then(|at| self.instances.get(at))
    }
}

fn check(raw: &Raw, source: &Source<'_>, overrides: &Overrides) -> Result<Config, ConfigError> {
    let listen = either(source, ("--listen", &overrides.listen), ("listen", &raw.listen), address)?;
    let metrics = either(source, ("--metrics", &overrides.metrics), ("metrics", &raw.metrics), address)?;
    let instances = instances(raw, source, overrides)?;
    let find = |name: &str, from: &From<'_>| {
        let found = instances.iter().position(|one| one.name == name);
        found.ok_or_else(|| from.error(format!("there is no instance `{}`", name.escape_debug())))
    };
    let default = either(source, ("--default", &overrides.default), ("default", &raw.default), find)?;
    Ok(Config {
        listen: listen.map_or(DEFAULT_LISTEN, |address| Listen { address, by_default: false }),
        // Who names an address has it, whatever the service manager does.
        is_inherited: overrides.is_inherited && overrides.listen.is_none(),
        metrics,
        log: overrides.log.or(raw.log).unwrap_or_default(),
        default,
        connections: connections(raw, source)?,
        ready_file: overrides.ready_file.clone(),
        instances,
    })
}

fn instances(raw: &Raw, source: &Source<'_>, overrides: &Overrides) -> Result<Vec<Instance>, ConfigError> {
    let mut all: Vec<Instance> = Vec::new();
    let mut add = |found: Instance, from: &From<'_>| -> Result<(), ConfigError> {
        if all.len() >= INSTANCES_MAX {
            return Err(from.error(format!("more than {INSTANCES_MAX} instances: give the rest another port")));
        }
        if let Some(same) = all.iter().find(|one| one.name == found.name || one.socket == found.socket) {
            return Err(from.error(format!("instance `{}` has the name or the socket of `{}`", found.name, same.name)));
        }
        if let Some(same) = all.iter().find(|one| one.fingerprint.0[..TAG] == found.fingerprint.0[..TAG]) {
            // By chance one time in four thousand million; else it was copied.
            return Err(from.error(format!(
                "the fingerprint of instance `{}` begins as that of `{}`: take the one that its own log says, or make it a new key",
                found.name, same.name
            )));
        }
        all.push(found);
        Ok(())
    };
    for text in &overrides.instances {
        let from = From { source, key: "--instance", span: None };
        add(written(text, &from)?, &from)?;
    }
    for raw in raw.instance.iter().filter(|_| overrides.instances.is_empty()) {
        let from = |key, span: Range<usize>| From { source, key, span: Some(span) };
        let socket_at = from("instance.socket", raw.socket.span());
        let print_at = from("instance.fingerprint", raw.fingerprint.span());
        let found = Instance {
            name: name(raw.name.get_ref(), &from("instance.name", raw.name.span()))?,
            socket: socket(raw.socket.get_ref(), &socket_at)?,
            fingerprint: fingerprint(raw.fingerprint.get_ref(), &print_at)?,
        };
        add(found, &from("instance", raw.name.span()))?;
    }
    match all.is_empty() {
        true => {
            let text = "nobody is behind this door: give --instance NAME=SOCKET,FINGERPRINT, or an [[instance]] with `name`, `socket` and `fingerprint`";
            Err(ConfigError::new(source.place(None), "instance", text))
        }
        false => Ok(all),
    }
}

/// `NAME=SOCKET,FINGERPRINT`.
fn written(text: &str, from: &From<'_>) -> Result<Instance, ConfigError> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.rsplit_once(',')?)));
    let Some((called, (path, print))) = parts else {
        let shown = text.escape_debug();
        return Err(from.error(format!("`{shown}` is not NAME=SOCKET,FINGERPRINT")));
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    Ok(Instance { name: name(called, from)?, socket: socket(&path, from)?, fingerprint: fingerprint(print, from)? })
}

fn name(text: &str, from: &From<'_>) -> Result<String, ConfigError> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > NAME_CHARS_MAX || !text.chars().all(is_good) {
        let shown = text.escape_debug();
        return Err(from.error(format!(
            "`{shown}` is no name of an instance: 1 to {NAME_CHARS_MAX} letters, digits, `-`, `_` and `.`"
        )));
    }
    Ok(text.to_owned())
}

fn fingerprint(text: &str, from: &From<'_>) -> Result<Fingerprint, ConfigError> {
    text.parse().map_err(|error: mover::fingerprint::FingerprintError| from.error(error.to_string()))
}

fn connections(raw: &Raw, source: &Source<'_>) -> Result<usize, ConfigError> {
    let (default, allowed) = CONNECTIONS;
    let (value, span) = raw.limits.connections.as_ref().map_or((default, 0..0), |v| (*v.get_ref(), v.span()));
    if !allowed.contains(&value) {
        let text = format!("{value} is out of range: write a number from {} to {}", allowed.start(), allowed.end());
        return Err(source.error("limits.connections", span, text));
    }
    Ok(usize::try_from(value).expect("the range begins above zero"))
}
