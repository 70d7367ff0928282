//! Where data is: what a user writes for a source or a destination.
//!
//! | written | means |
//! |---|---|
//! | `-` | standard input or output |
//! | `lh://host[:port][,host2[:port2]…]/path` | an agent; further hosts are further addresses of the same agent |
//! | `lh://sha256:<hex>@host…/path` | the same, and the agent must have this fingerprint |
//! | `[user@]host:/path` | the far end is started over ssh; a relative path begins at the login's home |
//! | anything else | a path of this host; `./a:b` for a name with a colon, as in scp and rsync |
//!
//! Paths are taken byte for byte: nothing is decoded, and they need not be UTF-8.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use mover::request::Fingerprint;

/// Port of an agent that names none.
pub(crate) const PORT_DEFAULT: u16 = 4810;

/// Addresses that one agent may be given.
pub(crate) const HOSTS_MAX: usize = 16;

/// A source or a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// Standard input or output.
    Pipe,
    /// A path of this host.
    Local(PathBuf),
    /// A path at an agent; empty where none was written.
    Agent(Agent, Vec<u8>),
    /// A path at a host that is reached over ssh; empty where none was written.
    Ssh(SshHost, Vec<u8>),
}

/// An agent, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agent {
    /// The fingerprint given with the address.
    pub(crate) pin: Option<Fingerprint>,
    /// Its addresses; at least one.
    pub(crate) hosts: Vec<HostPort>,
}

/// A host name or address with a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// Name or address, without brackets.
    pub(crate) host: String,
    /// Port.
    pub(crate) port: u16,
}

/// A host for ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshHost {
    /// Login, if it was given.
    pub(crate) user: Option<String>,
    /// What ssh calls the host; it may be an alias of its configuration.
    pub(crate) host: String,
}

/// What is no location; the text says why and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoLocation(String);

fn no<T>(text: impl Into<String>) -> Result<T, NoLocation> {
    Err(NoLocation(text.into()))
}

impl Location {
    /// Reads a source or a destination of a copy: one that has a path.
    ///
    /// # Errors
    /// When it is none of the forms above, or a path is missing.
    pub(crate) fn parse(text: OsString) -> Result<Location, NoLocation> {
        let location = Location::split(text)?;
        match &location {
            Location::Agent(agent, path) if path.is_empty() => no(format!("a path is missing: write {agent}/path")),
            Location::Ssh(host, path) => Ok(Location::Ssh(host.clone(), from_home(path)?)),
            _ => Ok(location),
        }
    }

    fn split(text: OsString) -> Result<Location, NoLocation> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return no("an empty path; write . for this directory");
        }
        if bytes == b"-" {
            return Ok(Location::Pipe);
        }
        if let Some(rest) = bytes.strip_prefix(b"lh://") {
            let (authority, path) = rest.split_at(rest.iter().position(|b| *b == b'/').unwrap_or(rest.len()));
            return Ok(Location::Agent(Agent::parse(utf8(authority)?)?, path.to_vec()));
        }
        match colon(bytes) {
            None => Ok(Location::Local(PathBuf::from(text))),
            Some(at) => {
                let (host, path) = (utf8(&bytes[..at])?, &bytes[at + 1..]);
                if path.starts_with(b"//") {
                    return no(format!(
                        "{host}:// is not known here: write lh://host/path, host:/path or a local path"
                    ));
                }
                if host == "lh" {
                    return no("an agent is written lh://host/path");
                }
                Ok(Location::Ssh(SshHost::parse(host)?, path.to_vec()))
            }
        }
    }

    /// Reads the far end of a test: `host[:port]`, `lh://host[:port]`, or `[user@]host:` for ssh.
    ///
    /// # Errors
    /// When it is none of these.
    pub(crate) fn parse_host(text: OsString) -> Result<Location, NoLocation> {
        let bytes = text.as_bytes();
        let agent = |text: &str| Ok(Location::Agent(Agent::parse(text)?, Vec::new()));
        if bytes.starts_with(b"lh://") {
            return Location::split(text);
        }
        let whole = utf8(bytes)?;
        if whole.parse::<std::net::Ipv6Addr>().is_ok() {
            return agent(&format!("[{whole}]"));
        }
        match colon(bytes) {
            Some(at) if at + 1 == bytes.len() => Ok(Location::Ssh(SshHost::parse(&whole[..at])?, Vec::new())),
            _ if whole.contains('@') && !whole.starts_with("sha256:") => {
                no(format!("for a host reached over ssh write {whole}: with a colon at the end"))
            }
            _ => agent(whole),
        }
    }
}

impl Agent {
    /// What stands between `lh://` and the path.
    fn parse(authority: &str) -> Result<Agent, NoLocation> {
        let (pin, hosts) = match authority.split_once('@') {
            None => (None, authority),
            Some((pin, hosts)) => match pin.parse() {
                Ok(pin) if authority.starts_with("sha256:") => (Some(pin), hosts),
                _ => {
                    return no(format!(
                        "`{pin}` before the @ is no fingerprint (sha256: and 64 hexadecimal digits); an agent has no user names, it has tokens"
                    ));
                }
            },
        };
        let mut found: Vec<HostPort> = Vec::new();
        for host in hosts.split(',') {
            let port = found.last().map_or(PORT_DEFAULT, |before| before.port);
            found.push(HostPort::parse(host, port)?);
        }
        if found.len() > HOSTS_MAX {
            return no(format!("more than {HOSTS_MAX} addresses for one agent"));
        }
        Ok(Agent { pin, hosts: found })
    }
}

impl HostPort {
    /// `host`, `host:port`, `[address]` or `[address]:port`; `port` where none is written.
    pub(crate) fn parse(text: &str, port: u16) -> Result<HostPort, NoLocation> {
        let (host, port_text) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, after)) if after.starts_with(':') => (host, Some(&after[1..])),
                _ => return no(format!("`{text}` has no closing bracket before its port")),
            },
            None if text.matches(':').count() > 1 => {
                return no(format!("an IPv6 address is written in brackets: [{text}]"));
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = match port_text {
            None => port,
            Some(digits) => match digits.parse() {
                Ok(port) if port > 0 => port,
                _ => return no(format!("`{digits}` is no port: 1 to 65535")),
            },
        };
        Ok(HostPort { host: host_name(host)?.to_owned(), port })
    }
}

impl SshHost {
    /// `[user@]host`, the host perhaps in brackets.
    fn parse(text: &str) -> Result<SshHost, NoLocation> {
        // As ssh does: a login may contain an @, a host may not.
        let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let user = match user {
            // A leading hyphen would be read as an option by ssh.
            Some(user) if user.is_empty() || user.starts_with('-') || user.contains(char::is_whitespace) => {
                return no(format!("`{user}` is no login name"));
            }
            user => user.map(str::to_owned),
        };
        Ok(SshHost { user, host: host_name(host)?.to_owned() })
    }
}

/// A path as the far end takes it: relative ones begin at the home of the login, as with scp.
fn from_home(path: &[u8]) -> Result<Vec<u8>, NoLocation> {
    match path.strip_prefix(b"~") {
        None if path.is_empty() => Ok(b"./".to_vec()),
        None => Ok(path.to_vec()),
        Some(b"" | b"/") => Ok(b"./".to_vec()),
        Some(rest) => match rest.strip_prefix(b"/") {
            Some(beneath) if !beneath.starts_with(b"/") => Ok(beneath.to_vec()),
            _ => {
                no("no shell looks up ~ at the far end: write an absolute path, or one that begins at your home there")
            }
        },
    }
}

fn host_name(host: &str) -> Result<&str, NoLocation> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "@/[],".contains(c);
    if host.is_empty() {
        return no("a host name is missing");
    }
    if host.starts_with('-') || host.contains(odd) {
        return no(format!("`{}` is no host name", host.escape_debug()));
    }
    Ok(host)
}

/// Where the colon is that ends a host name: before any slash, outside brackets.
fn colon(bytes: &[u8]) -> Option<usize> {
    let mut inside = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'/' => return None,
            b'[' => inside = true,
            b']' => inside = false,
            b':' if !inside => return Some(at),
            _ => {}
        }
    }
    None
}

fn utf8(bytes: &[u8]) -> Result<&str, NoLocation> {
    std::str::from_utf8(bytes).or_else(|_| no("a host name is not UTF-8; write ./ before a local name with a colon"))
}

impl fmt::Display for Location {
    /// As the user would write it; bytes that are not printable are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Pipe => f.write_str("-"),
            Location::Local(path) => show_bytes(path.as_os_str().as_bytes(), f),
            Location::Agent(agent, path) => {
                write!(f, "{agent}")?;
                show_bytes(path, f)
            }
            Location::Ssh(host, path) => {
                write!(f, "{host}:")?;
                show_bytes(path, f)
            }
        }
    }
}

fn show_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = OsString::from_vec(bytes.to_vec());
    let text = text.to_string_lossy();
    text.chars().try_for_each(|c| if c.is_control() { write!(f, "{}", c.escape_default()) } else { write!(f, "{c}") })
}

impl fmt::Display for Agent {
    /// Without the fingerprint, which is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lh://")?;
        for (at, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for SshHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') { write!(f, "[{}]", self.host) } else { f.write_str(&self.host) }
    }
}

impl SshHost {
    /// As ssh takes it on its command line: without brackets.
    pub(crate) fn ssh_destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
