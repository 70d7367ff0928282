//! From the raw form to [`Config`].

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};

use mover::request::Hooks;
use mover::server::ServeLimits;
use service::config::Source;
use toml::Spanned;
use units::Bytes;

use super::raw::{Raw, RawHooks, RawLimits, RawRoot};
use super::{Config, ConfigError, DataAddress, Environment, Listen, Overrides, PORT};
use super::{controller, door};
use crate::roots::{Root, RootError, Roots};

const SESSIONS: (i64, RangeInclusive<i64>) = (64, 1..=4096);
const STREAMS: (i64, RangeInclusive<i64>) = (256, 1..=65_536);
const HANDSHAKES: (i64, RangeInclusive<i64>) = (64, 1..=65_536);
const MEMORY: Bytes = Bytes::mib(512);
/// Below this there is no room for a few chunks of each direction beside the program itself.
const MEMORY_MIN: Bytes = Bytes::mib(64);
/// Further data addresses; each is sent to every peer.
const ADDRESSES_MAX: usize = 64;

/// A value with where it came from, for the message.
pub(crate) struct From<'a> {
    pub(crate) source: &'a Source<'a>,
    pub(crate) key: &'a str,
    /// `None` for the command line.
    pub(crate) span: Option<Range<usize>>,
}

impl From<'_> {
    pub(crate) fn error(&self, text: impl Into<String>) -> ConfigError {
        match &self.span {
            Some(span) => self.source.error(self.key, span.clone(), text),
            None => ConfigError::new(None, self.key, text),
        }
    }
}

pub(super) fn check(
    raw: Raw,
    source: &Source<'_>,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<Config, ConfigError> {
    let listen = either(source, ("--listen", &overrides.listen), ("listen", &raw.listen), address)?;
    let metrics = either(source, ("--metrics", &overrides.metrics), ("metrics", &raw.metrics), address)?;
    let state_dir = state_dir(raw.state_dir, source, overrides, environment)?;
    let config = Config {
        door: door::address(raw.door, listen, source, overrides)?,
        listen: listen.map_or(DEFAULT_LISTEN, |address| Listen { address, by_default: false }),
        controller: controller::address(raw.controller, source, overrides)?,
        grants: controller::grants(&raw.grant, source, &state_dir)?,
        counters: controller::counters(raw.counter, source)?,
        state_dir,
        metrics,
        log: overrides.log.or(raw.log).unwrap_or_default(),
        addresses: addresses(&raw.addresses, source)?,
        roots: if overrides.roots.is_empty() { roots(&raw.root, source)? } else { override_roots(&overrides.roots)? },
        bounds: bounds(&raw.limits, source)?,
        hooks: hooks(raw.hooks, source)?,
        tests: raw.tests.allow,
        relay: raw.relay.allow,
        ready_file: overrides.ready_file.clone(),
        io: overrides.io,
    };
    if config.roots.is_empty() && !config.tests && !config.relay && config.controller.is_none() {
        let place = source.place(None);
        return Err(ConfigError::new(
            place,
            "root",
            "nothing is served: give --root DIR, or a [[root]] with `path = \"DIR\"`",
        ));
    }
    Ok(config)
}

pub(crate) const DEFAULT_LISTEN: Listen =
    Listen { address: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT), by_default: true };

/// The value of the command line, else that of the file, parsed.
pub(crate) fn either<T>(
    source: &Source<'_>,
    (option, over): (&str, &Option<String>),
    (key, raw): (&str, &Option<Spanned<String>>),
    parse: impl Fn(&str, &From<'_>) -> Result<T, ConfigError>,
) -> Result<Option<T>, ConfigError> {
    match (over, raw) {
        (Some(text), _) => parse(text, &From { source, key: option, span: None }).map(Some),
        (None, Some(text)) => parse(text.get_ref(), &From { source, key, span: Some(text.span()) }).map(Some),
        (None, None) => Ok(None),
    }
}

pub(crate) fn address(text: &str, from: &From<'_>) -> Result<SocketAddr, ConfigError> {
    let shown = text.escape_debug();
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(ip) => from.error(format!("`{shown}` has no port: write `{}`", SocketAddr::new(ip, PORT))),
        Err(_) => from.error(format!(
            "`{shown}` is no address with a port: write for example `[::]:{PORT}` or `127.0.0.1:{PORT}`"
        )),
    })
}

fn addresses(texts: &[Spanned<String>], source: &Source<'_>) -> Result<Vec<DataAddress>, ConfigError> {
    if let Some(text) = texts.get(ADDRESSES_MAX) {
        return Err(source.error("addresses", text.span(), format!("more than {ADDRESSES_MAX} addresses: name fewer")));
    }
    let check = |text: &Spanned<String>| {
        let error = |problem: String| Err(source.error("addresses", text.span(), problem));
        let shown = text.get_ref().escape_debug();
        let (ip, port) = if let Ok(ip) = text.get_ref().parse::<IpAddr>() {
            (ip, None)
        } else if let Ok(address) = text.get_ref().parse::<SocketAddr>() {
            (address.ip(), Some(address.port()))
        } else {
            return error(format!(
                "`{shown}` is no IP address: write for example `192.0.2.1` or `[2001:db8::1]:{PORT}`"
            ));
        };
        match ip.is_unspecified() || port == Some(0) {
            true => error(format!("nobody can connect to `{shown}`: name an address of this host")),
            false => Ok(DataAddress { ip, port }),
        }
    };
    texts.iter().map(check).collect()
}

fn state_dir(
    raw: Option<Spanned<PathBuf>>,
    source: &Source<'_>,
    overrides: &Overrides,
    environment: &Environment,
) -> Result<PathBuf, ConfigError> {
    if let Some(path) = &overrides.state_dir {
        return Ok(path.clone());
    }
    match raw {
        Some(path) => absolute(path.get_ref(), &From { source, key: "state_dir", span: Some(path.span()) }).cloned(),
        None => environment.state_dir().ok_or_else(|| {
            ConfigError::new(
                source.place(None),
                "state_dir",
                "there is no home directory to keep keys and tokens in: give --state-dir DIR",
            )
        }),
    }
}

/// A file is read by services and people in many places; a relative path in it means nothing.
pub(crate) fn absolute<'a>(path: &'a PathBuf, from: &From<'_>) -> Result<&'a PathBuf, ConfigError> {
    if path.is_absolute() {
        return Ok(path);
    }
    Err(from.error(format!("`{}` is not absolute: write the whole path, beginning with `/`", path.display())))
}

fn roots(raw: &[RawRoot], source: &Source<'_>) -> Result<Roots, ConfigError> {
    let mut roots = Roots::default();
    for root in raw {
        let from = From { source, key: "root.path", span: Some(root.path.span()) };
        let path = absolute(root.path.get_ref(), &from)?;
        add(&mut roots, path, root.write).map_err(|e| root_error(e, &from))?;
    }
    Ok(roots)
}

fn override_roots(texts: &[PathBuf]) -> Result<Roots, ConfigError> {
    let mut roots = Roots::default();
    let from = From { source: &Source::none(), key: "--root", span: None };
    for text in texts {
        let (path, write) = split_mode(text);
        let path = std::path::absolute(path).map_err(|e| {
            from.error("a directory is missing: write --root DIR or --root DIR:ro").with_source(Some(e))
        })?;
        add(&mut roots, &path, write).map_err(|e| root_error(e, &from))?;
    }
    Ok(roots)
}

/// `DIR:ro` and `DIR:rw`; anything else is a directory that may be written to, for the operator has named it.
fn split_mode(text: &Path) -> (&Path, bool) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = text.as_os_str().as_bytes();
    let path = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes));
    match bytes.strip_suffix(b":ro") {
        Some(dir) => (path(dir), false),
        None => (path(bytes.strip_suffix(b":rw").unwrap_or(bytes)), true),
    }
}

fn add(roots: &mut Roots, path: &Path, write: bool) -> Result<(), RootError> {
    roots.add(Root::new(path, write)?)
}

pub(super) fn root_error(error: RootError, from: &From<'_>) -> ConfigError {
    let text = error.to_string();
    let source = if let RootError::Open { source, .. } = error { Some(source) } else { None };
    from.error(text).with_source(source)
}

fn bounds(raw: &RawLimits, source: &Source<'_>) -> Result<ServeLimits, ConfigError> {
    let number = |key: &str, value: &Option<Spanned<i64>>, (default, allowed): &(i64, RangeInclusive<i64>)| {
        let (value, span) = value.as_ref().map_or((*default, 0..0), |v| (*v.get_ref(), v.span()));
        if !allowed.contains(&value) {
            let text = format!("{value} is out of range: write a number from {} to {}", allowed.start(), allowed.end());
            return Err(source.error(key, span, text));
        }
        Ok(usize::try_from(value).expect("the ranges begin above zero"))
    };
    let memory = raw.memory.as_ref().map_or(MEMORY, |memory| *memory.get_ref());
    if let Some(written) = raw.memory.as_ref().filter(|_| memory < MEMORY_MIN) {
        let text = format!("{memory:#} is too little to move anything: write at least `{MEMORY_MIN:#}`");
        return Err(source.error("limits.memory", written.span(), text));
    }
    if let Some(rate) = raw.rate.as_ref().filter(|rate| rate.get_ref().bps() == 0) {
        return Err(source.error(
            "limits.rate",
            rate.span(),
            "a rate of 0 moves nothing: leave the key out for no limit",
        ));
    }
    Ok(ServeLimits {
        sessions: number("limits.sessions", &raw.sessions, &SESSIONS)?,
        streams: number("limits.streams", &raw.streams, &STREAMS)?,
        handshakes: number("limits.handshakes", &raw.handshakes, &HANDSHAKES)?,
        memory_bytes: memory.get(),
        rate_bps: raw.rate.as_ref().map(|rate| rate.get_ref().bps()),
    })
}

fn hooks(raw: RawHooks, source: &Source<'_>) -> Result<Hooks, ConfigError> {
    let hook = |key: &str, value: Option<Spanned<String>>| match value {
        Some(program) if !program.get_ref().starts_with('/') || program.get_ref().contains('\0') => {
            let text =
                format!("`{}` is not absolute: write the whole path of the program", program.get_ref().escape_debug());
            Err(source.error(key, program.span(), text))
        }
        other => Ok(other.map(Spanned::into_inner)),
    };
    Ok(Hooks {
        before_file: hook("hooks.before_file", raw.before_file)?,
        after_file: hook("hooks.after_file", raw.after_file)?,
        before_dataset: hook("hooks.before_dataset", raw.before_dataset)?,
        after_dataset: hook("hooks.after_dataset", raw.after_dataset)?,
    })
}
