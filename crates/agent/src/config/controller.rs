//! `[controller]`, `[[grant]]` and `[[counter]]`, checked.

use std::path::{Path, PathBuf};

use api::agent::{COUNTS_MAX, is_interface};
use mover::request::Fingerprint;
use toml::Spanned;
use units::Rate;

use service::config::Source;

use super::check::{From, absolute, root_error};
use super::raw::{RawController, RawCounter, RawGrant};
use super::{ConfigError, ControllerAddress, Overrides};
use crate::controller::count::Counter;
use crate::controller::grants::{COLLABORATION_CHARS_MAX, GRANTS_MAX, Grants, SiteGrant};
use crate::controller::inventory::Budget;
use crate::path::AbsPath;
use crate::roots::Root;

/// The controller's usual port.
const PORT: u16 = 4811;

pub(super) fn address(
    raw: Option<Spanned<RawController>>,
    source: &Source<'_>,
    overrides: &Overrides,
) -> Result<Option<ControllerAddress>, ConfigError> {
    let place = raw.as_ref().map(Spanned::span);
    let raw = raw.map(Spanned::into_inner);
    let written = raw.as_ref().and_then(|raw| raw.address.as_ref());
    let mut found = match (&overrides.controller, written) {
        (Some(text), _) => parse(text, &From { source, key: "--controller", span: None })?,
        (None, Some(text)) => {
            parse(text.get_ref(), &From { source, key: "controller.address", span: Some(text.span()) })?
        }
        (None, None) if raw.is_some() => {
            let text = format!("there is no address: write `address = \"HOST:{PORT}\"`, or give --controller");
            return Err(source.error("controller", place.unwrap_or(0..0), text));
        }
        (None, None) if overrides.enrol_token_file.is_some() => {
            let from = From { source, key: "--enrol-token-file", span: None };
            return Err(from.error("there is no controller to enrol at: give --controller HOST:PORT"));
        }
        (None, None) => return Ok(None),
    };
    // What is written in the file goes with the address that is.
    if let Some(text) = raw.as_ref().and_then(|raw| raw.fingerprint.as_ref()).filter(|_| overrides.controller.is_none())
    {
        let from = From { source, key: "controller.fingerprint", span: Some(text.span()) };
        let fingerprint = fingerprint(text.get_ref(), &from)?;
        if found.fingerprint.is_some_and(|other| other != fingerprint) {
            return Err(from.error("the address has another fingerprint behind its `#`: leave one"));
        }
        found.fingerprint = Some(fingerprint);
    }
    found.budget = budget(raw.as_ref(), source)?;
    found.enrol_token_file = match (&overrides.enrol_token_file, raw.and_then(|raw| raw.enrol_token_file)) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(path)) => {
            let from = From { source, key: "controller.enrol_token_file", span: Some(path.span()) };
            Some(absolute(path.get_ref(), &from)?.clone())
        }
        (None, None) => None,
    };
    Ok(Some(found))
}

fn budget(raw: Option<&RawController>, source: &Source<'_>) -> Result<Budget, ConfigError> {
    let rate = |key, written: &Option<Spanned<Rate>>| match written {
        Some(rate) if rate.get_ref().is_zero() => {
            let text = "a rate of 0 moves nothing: leave the key out for no limit, or pause the agent";
            Err(source.error(key, rate.span(), text))
        }
        written => Ok(written.as_ref().map(|rate| rate.get_ref().bps())),
    };
    let Some(raw) = raw else { return Ok(Budget::default()) };
    Ok(Budget {
        host_bps: rate("controller.host_rate", &raw.host_rate)?,
        core_bps: rate("controller.core_rate", &raw.core_rate)?,
    })
}

fn parse(text: &str, from: &From<'_>) -> Result<ControllerAddress, ConfigError> {
    let (address, pin) = text.split_once('#').map_or((text, None), |(address, pin)| (address, Some(pin)));
    let shown = address.escape_debug();
    // As people have it for the command line: there a port may be left out.
    let with_port;
    let address = match address.strip_prefix("https://").map(|rest| rest.strip_suffix('/').unwrap_or(rest)) {
        Some(rest) if rest.ends_with(']') || !rest.contains(':') => {
            with_port = format!("{rest}:{PORT}");
            with_port.as_str()
        }
        Some(rest) => rest,
        None => address,
    };
    let bad =
        || from.error(format!("`{shown}` is no host with a port: write for example `controller.example.org:{PORT}`"));
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let port: u16 = port.parse().map_err(|_| bad())?;
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && !b"/[]:#@".contains(&b));
    let host = match bare {
        Some(v6) if v6.parse::<std::net::Ipv6Addr>().is_ok() => v6,
        None if is_name(host) => host,
        _ => return Err(bad()),
    };
    if port == 0 {
        return Err(bad());
    }
    let fingerprint = pin.map(|pin| fingerprint(pin, from)).transpose()?;
    Ok(ControllerAddress {
        host: host.to_owned(),
        port,
        fingerprint,
        enrol_token_file: None,
        budget: Budget::default(),
    })
}

fn fingerprint(text: &str, from: &From<'_>) -> Result<Fingerprint, ConfigError> {
    text.parse().map_err(|error: mover::fingerprint::FingerprintError| from.error(error.to_string()))
}

pub(super) fn grants(raw: &[RawGrant], source: &Source<'_>, state_dir: &Path) -> Result<Grants, ConfigError> {
    if let Some(grant) = raw.get(GRANTS_MAX) {
        let text = format!("more than {GRANTS_MAX} grants: grant a directory that holds several of them");
        return Err(source.error("grant", grant.root.span(), text));
    }
    let state_dir = as_it_will_be(state_dir);
    raw.iter().map(|raw| grant(raw, source, &state_dir)).collect::<Result<_, _>>().map(Grants::new)
}

fn grant(raw: &RawGrant, source: &Source<'_>, state_dir: &Path) -> Result<SiteGrant, ConfigError> {
    let from = |key, span| From { source, key, span: Some(span) };
    let controller = match raw.controller.get_ref().as_str() {
        "*" => None,
        text => Some(fingerprint(text, &from("grant.controller", raw.controller.span()))?),
    };
    let collaboration = raw.collaboration.get_ref();
    let length = collaboration.chars().count();
    if length == 0 || length > COLLABORATION_CHARS_MAX || collaboration.contains(char::is_control) {
        let text =
            format!("a collaboration has a name of 1 to {COLLABORATION_CHARS_MAX} characters, or is `*` for any");
        return Err(source.error("grant.collaboration", raw.collaboration.span(), text));
    }
    if !raw.read && !raw.write {
        let text = "this grants nothing: write `read = true`, `write = true` or both";
        return Err(source.error("grant", raw.root.span(), text));
    }
    if let Some(rate) = raw.rate.as_ref().filter(|rate| rate.get_ref().is_zero()) {
        let text = "a rate of 0 moves nothing: leave the key out for no limit";
        return Err(source.error("grant.rate", rate.span(), text));
    }
    let place = from("grant.root", raw.root.span());
    let root =
        Root::new(absolute(raw.root.get_ref(), &place)?, raw.write).map_err(|error| root_error(error, &place))?;
    keeps_the_keys(&root, state_dir, &place)?;
    let rate_bps = raw.rate.as_ref().map(|rate| rate.get_ref().bps());
    let collaboration = collaboration.clone();
    Ok(SiteGrant { controller, collaboration, root, read: raw.read, write: raw.write, rate_bps, hooks: raw.hooks })
}

pub(super) fn counters(raw: Vec<RawCounter>, source: &Source<'_>) -> Result<Vec<Counter>, ConfigError> {
    let mut all: Vec<Counter> = Vec::with_capacity(raw.len().min(COUNTS_MAX));
    for RawCounter { interface, link, sends } in raw {
        let error = |key: &str, of: &Spanned<String>, text: String| Err(source.error(key, of.span(), text));
        let name = interface.get_ref();
        if !is_interface(name) {
            let text = format!("`{}` is no name of an interface: `ip link` lists them", name.escape_debug());
            return error("counter.interface", &interface, text);
        }
        if let Err(wrong) = api::rest::checked_name("link", link.get_ref()) {
            return error("counter.link", &link, wrong.why);
        }
        if all.iter().any(|known| known.link == *link.get_ref()) {
            let text = format!("`{}` is counted twice: leave one interface for it", link.get_ref());
            return error("counter.link", &link, text);
        }
        if all.len() >= COUNTS_MAX {
            return error("counter", &link, format!("more than {COUNTS_MAX} counters: leave some out"));
        }
        all.push(Counter { interface: interface.into_inner(), link: link.into_inner(), sends });
    }
    Ok(all)
}

/// A link anywhere beneath a root may lead to anywhere else beneath it: who is granted the root has the keys in it.
fn keeps_the_keys(root: &Root, state_dir: &Path, place: &From<'_>) -> Result<(), ConfigError> {
    use std::os::unix::ffi::OsStrExt;
    let Ok(state_dir) = AbsPath::new(state_dir.as_os_str().as_bytes()) else { return Ok(()) };
    if state_dir.beneath(root.path()).is_none() && root.path().beneath(&state_dir).is_none() {
        return Ok(());
    }
    Err(place.error(format!(
        "{} and the agent's own keys in {state_dir} lie in one another: grant another directory, or keep the keys elsewhere (--state-dir)",
        root.written()
    )))
}

/// The path of a directory without links, as far as it is there.
fn as_it_will_be(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}
