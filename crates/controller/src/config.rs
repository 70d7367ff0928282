//! The configuration of a controller: a file, what the command line says over it, and defaults, checked once.
//!
//! ```toml
//! listen = "[::]:4811"
//! store = "/var/lib/longhaul/store"
//! network = "/etc/longhaul/network.toml"
//! shares = "/etc/longhaul/shares.toml"
//! bookings = "/etc/longhaul/bookings.toml"
//!
//! [metrics]
//! open = true
//!
//! [paths]
//! hold = "60 s"
//!
//! [[counter]]
//! agent = "gw1"
//! links = ["ocean"]
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use service::config::Source;
use service::{ConfigError, Environment, Listen};
use toml::Spanned;

use crate::core::app::Trusted;
use crate::store::{Keep, Place};

/// The port of controllers.
pub const PORT: u16 = 4811;
/// Bytes of the files of a network, its shares and bookings.
const TEXT_MAX: u64 = ledger::limits::FILE_TEXT_MAX as u64;

const DEFAULT_LISTEN: Listen =
    Listen { address: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT), by_default: true };

/// What the command line says; it goes before the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--listen ADDR:PORT`.
    pub listen: Option<String>,
    /// `--store DIR|postgres://…`.
    pub store: Option<String>,
    /// `--state-dir DIR`.
    pub state_dir: Option<PathBuf>,
    /// `--network FILE`.
    pub network: Option<PathBuf>,
    /// `--shares FILE`.
    pub shares: Option<PathBuf>,
    /// `--bookings FILE`.
    pub bookings: Option<PathBuf>,
    /// `--ready-file FILE`.
    pub ready_file: Option<PathBuf>,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Where it was.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) listen: Listen,
    pub(crate) store: Place,
    pub(crate) state_dir: PathBuf,
    pub(crate) network: Option<Text>,
    pub(crate) shares: Option<Text>,
    pub(crate) bookings: Option<Text>,
    pub(crate) open_metrics: bool,
    /// Which events of the log stay.
    pub(crate) keep: Keep,
    /// How long a link is held down the first time that it fails.
    pub(crate) hold: Duration,
    /// For which links that do not end at their hosts agents may count.
    pub(crate) counting: Trusted,
    pub(crate) ready_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    listen: Option<Spanned<String>>,
    store: Option<Spanned<String>>,
    state_dir: Option<Spanned<PathBuf>>,
    network: Option<Spanned<PathBuf>>,
    shares: Option<Spanned<PathBuf>>,
    bookings: Option<Spanned<PathBuf>>,
    keep_events: Option<Spanned<String>>,
    #[serde(default)]
    metrics: RawMetrics,
    #[serde(default)]
    paths: RawPaths,
    #[serde(default)]
    counter: Vec<RawCounter>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCounter {
    agent: Spanned<String>,
    links: Vec<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMetrics {
    #[serde(default)]
    open: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPaths {
    hold: Option<Spanned<String>>,
}

/// A value of the command line or of the file, with where it stands.
struct Given<T> {
    value: T,
    key: &'static str,
    span: Option<std::ops::Range<usize>>,
}

impl<T> Given<T> {
    fn of(over: Option<T>, option: &'static str, raw: Option<Spanned<T>>, key: &'static str) -> Option<Given<T>> {
        match (over, raw) {
            (Some(value), _) => Some(Given { value, key: option, span: None }),
            (None, Some(raw)) => Some(Given { span: Some(raw.span()), value: raw.into_inner(), key }),
            (None, None) => None,
        }
    }

    fn error(&self, source: &Source<'_>, text: impl Into<String>) -> ConfigError {
        match &self.span {
            Some(span) => source.error(self.key, span.clone(), text),
            None => ConfigError::new(None, self.key, text),
        }
    }
}

impl Config {
    /// Reads a file, if there is one, and checks all of it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn load(file: Option<&Path>, over: Overrides, environment: &Environment) -> Result<Config, ConfigError> {
        let Some(path) = file else { return check(Raw::default(), &Source::none(), over, environment) };
        let text = std::fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, error))?;
        let source = Source::of(path, &text);
        let raw = toml::from_str(&text).map_err(|error| source.syntax(error))?;
        check(raw, &source, over, environment)
    }

    /// Where the store is.
    #[must_use]
    pub fn store(&self) -> &Place {
        &self.store
    }

    /// Where identity and the admin's token are.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Where it listens.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen
    }
}

fn check(raw: Raw, source: &Source<'_>, over: Overrides, environment: &Environment) -> Result<Config, ConfigError> {
    let listen = match Given::of(over.listen, "--listen", raw.listen, "listen") {
        Some(given) => {
            let text = "it is no address and port: write for example 0.0.0.0:4811 or [::]:4811";
            let address = given.value.parse().map_err(|_| given.error(source, text))?;
            Listen { address, by_default: false }
        }
        None => DEFAULT_LISTEN,
    };
    let state_dir = match Given::of(over.state_dir, "--state-dir", raw.state_dir, "state_dir") {
        Some(given) if given.value.as_os_str().is_empty() => {
            return Err(given.error(source, "it is empty: name a directory"));
        }
        Some(given) => given.value,
        None => environment
            .state_dir()
            .ok_or_else(|| ConfigError::new(None, "--state-dir", "there is no home directory: name one"))?
            .join("controller"),
    };
    let store = match Given::of(over.store, "--store", raw.store, "store") {
        Some(given) => {
            given.value.parse().map_err(|error: crate::store::StoreError| given.error(source, error.to_string()))?
        }
        None => Place::Directory(state_dir.join("store")),
    };
    let network = Given::of(over.network, "--network", raw.network, "network");
    let shares = Given::of(over.shares, "--shares", raw.shares, "shares");
    let bookings = Given::of(over.bookings, "--bookings", raw.bookings, "bookings");
    let config = Config {
        listen,
        store,
        state_dir,
        network: network.map(|given| read(&given, source)).transpose()?,
        shares: shares.map(|given| read(&given, source)).transpose()?,
        bookings: bookings.map(|given| read(&given, source)).transpose()?,
        open_metrics: raw.metrics.open,
        keep: keep(raw.keep_events.as_ref(), source)?,
        hold: hold(raw.paths.hold.as_ref(), source)?,
        counting: counting(raw.counter, source)?,
        ready_file: over.ready_file,
    };
    config.check_world()?;
    Ok(config)
}

/// The first hold-down of a link: 1 s to an hour, for as long as its flaps may double it.
fn hold(written: Option<&Spanned<String>>, source: &Source<'_>) -> Result<Duration, ConfigError> {
    const MOST: Duration = Duration::from_millis(ledger::limits::HOLD_MAX_MS);
    let Some(written) = written else { return Ok(Duration::from_millis(ledger::limits::HOLD_MS)) };
    let error = |text: String| source.error("paths.hold", written.span(), text);
    let span: units::Span = written.get_ref().parse().map_err(|wrong: units::ParseError| error(wrong.to_string()))?;
    match span.get() {
        hold if (Duration::from_secs(1)..=MOST).contains(&hold) => Ok(hold),
        _ => Err(error("a link is held down for 1 s to 1 h at first: write for example \"60 s\"".to_owned())),
    }
}

/// Which events of the log stay.
fn keep(written: Option<&Spanned<String>>, source: &Source<'_>) -> Result<Keep, ConfigError> {
    let Some(written) = written else { return Ok(Keep::All) };
    match written.get_ref().as_str() {
        "all" => Ok(Keep::All),
        "since_snapshot" => Ok(Keep::SinceSnapshot),
        _ => Err(source.error("keep_events", written.span(), "write \"all\" or \"since_snapshot\"")),
    }
}

/// Whose counts are taken for links that do not end at its host.
fn counting(raw: Vec<RawCounter>, source: &Source<'_>) -> Result<Trusted, ConfigError> {
    let checked = |key: &str, name: &Spanned<String>| {
        let wrong = |wrong: api::rest::Wrong| source.error(key, name.span(), wrong.why);
        api::rest::checked_name(key, name.get_ref()).map_err(wrong)
    };
    let mut all = Trusted::new();
    for RawCounter { agent, links } in raw {
        checked("counter.agent", &agent)?;
        if links.is_empty() {
            let text = "it names no link: write for example `links = [\"ocean\"]`, or leave it out";
            return Err(source.error("counter.links", agent.span(), text));
        }
        let of = all.entry(agent.into_inner()).or_default();
        for link in links {
            checked("counter.links", &link)?;
            of.insert(link.into_inner());
        }
    }
    Ok(all)
}

fn read(given: &Given<PathBuf>, source: &Source<'_>) -> Result<Text, ConfigError> {
    let path = given.value.clone();
    let refused = |error: std::io::Error| {
        let text = format!("cannot read {}", path.display());
        given.error(source, text).with_source(Some(error))
    };
    let length = std::fs::metadata(&path).map_err(refused)?.len();
    if length > TEXT_MAX {
        return Err(given.error(source, format!("{} has {length} bytes, {TEXT_MAX} are the most", path.display())));
    }
    let text = std::fs::read_to_string(&path).map_err(refused)?;
    Ok(Text { path, text })
}

impl Config {
    /// What can be said of network, shares and bookings without a state.
    fn check_world(&self) -> Result<(), ConfigError> {
        use model::bookings::Bookings;
        use model::network::Network;
        use model::shares::Shares;
        let wrong = |key: &str, error: model::network::NetworkError| ConfigError::new(None, key, error.to_string());
        let Some(network) = &self.network else { return Ok(()) };
        let file_name = network.path.display().to_string();
        let network = Network::from_toml(&network.text, &file_name).map_err(|error| wrong("network", error))?;
        if let Some(shares) = &self.shares {
            let file_name = shares.path.display().to_string();
            Shares::from_toml(&shares.text, &file_name, &network).map_err(|error| wrong("shares", error))?;
        }
        if let Some(bookings) = &self.bookings {
            let file_name = bookings.path.display().to_string();
            Bookings::from_toml(&bookings.text, &file_name, &network).map_err(|error| wrong("bookings", error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, over: Overrides) -> Result<Config, ConfigError> {
        let source = Source::of(Path::new("c.toml"), text);
        let raw = toml::from_str(text).map_err(|error| source.syntax(error))?;
        let environment = Environment { home: Some("/home/u".into()), ..Environment::default() };
        check(raw, &source, over, &environment)
    }

    #[test]
    fn what_is_not_said_is_usual() {
        let config = parse("", Overrides::default()).expect("it is right");
        assert_eq!(config.listen.address.port(), PORT);
        assert_eq!(config.store.to_string(), "/home/u/.local/state/longhaul/controller/store");
        let over = Overrides { listen: Some("127.0.0.1:0".into()), ..Overrides::default() };
        let config = parse("listen = \"[::1]:1\"\nstore = \"postgres://h/d\"", over).expect("it is right");
        assert_eq!(config.listen.address.to_string(), "127.0.0.1:0", "the command line goes before");
        assert_eq!((config.store.to_string().as_str(), config.keep), ("postgres://h/d", Keep::All));
        let config = parse("keep_events = \"since_snapshot\"", Overrides::default()).expect("it is right");
        assert_eq!(config.keep, Keep::SinceSnapshot);
    }

    #[test]
    fn errors_name_the_place_and_the_way_out() {
        let error = |text: &str| parse(text, Overrides::default()).expect_err("it is wrong").to_string();
        assert!(error("listen = 4811").starts_with("c.toml:1:10: listen"), "{}", error("listen = 4811"));
        assert!(error("\nlisten = \"here\"").starts_with("c.toml:2:10: listen: it is no address and port: write"));
        assert!(error("[paths]\nhold = \"0 s\"").starts_with("c.toml:2:8: paths.hold: a link is held down for 1 s"));
        assert!(error("[paths]\nhold = \"5\"").starts_with("c.toml:2:8: paths.hold: "));
        let counter = |text: &str| error(&format!("[[counter]]\n{text}"));
        assert!(counter("agent = \"g/1\"\nlinks = [\"o\"]").starts_with("c.toml:2:9: counter.agent: `g/1` is no name"));
        assert!(counter("agent = \"g\"\nlinks = []").starts_with("c.toml:2:9: counter.links: it names no link: write"));
        assert!(counter("agent = \"g\"\nlinks = [\"o\", \"\"]").starts_with("c.toml:3:15: counter.links: "));
        assert!(error("keep_events = \"some\"").starts_with("c.toml:1:15: keep_events: write \"all\""));
        assert!(error("listne = \"x\"").contains("listne"));
        assert!(error("store = \"mysql://x\"").contains("c.toml:1:9: store"));
        assert!(error("network = \"/nowhere/n.toml\"").contains("cannot read /nowhere/n.toml"));
        let over = Overrides { listen: Some("x".into()), ..Overrides::default() };
        assert!(parse("", over).expect_err("it is wrong").to_string().starts_with("--listen: "));
    }
}
