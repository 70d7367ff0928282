//! `[door]`, checked.

use std::net::SocketAddr;
use std::path::PathBuf;

use service::config::Source;
use toml::Spanned;

use super::check::{From, absolute};
use super::raw::RawDoor;
use super::{ConfigError, DoorAddress, Overrides};

/// The user that the packaged door runs as.
const USER: &str = "longhaul-door";
/// The longest path of a socket: `sun_path` of the kernel without its end.
const SOCKET_BYTES_MAX: usize = 107;

/// `listen` is where the door listens, if that is said.
pub(super) fn address(
    raw: Option<Spanned<RawDoor>>,
    listen: Option<SocketAddr>,
    source: &Source<'_>,
    overrides: &Overrides,
) -> Result<Option<DoorAddress>, ConfigError> {
    let place = raw.as_ref().map_or(0..0, Spanned::span);
    let raw = raw.map(Spanned::into_inner);
    let option = From { source, key: "--door", span: None };
    let socket = match (&overrides.door, raw.as_ref().map(|raw| &raw.socket)) {
        (Some(path), _) => socket(&std::path::absolute(path).unwrap_or_else(|_| path.clone()), &option)?,
        (None, Some(Some(path))) => {
            socket(path.get_ref(), &From { source, key: "door.socket", span: Some(path.span()) })?
        }
        (None, Some(None)) => {
            let text = "there is no socket: write `socket = \"/run/longhaul-door/NAME/door.sock\"`, or give --door";
            return Err(source.error("door", place, text));
        }
        (None, None) if overrides.door_user.is_some() => {
            let from = From { source, key: "--door-user", span: None };
            return Err(from.error("there is no door: give --door SOCKET"));
        }
        (None, None) => return Ok(None),
    };
    if listen.is_some_and(|address| address.port() == 0) {
        let text =
            "behind a door `listen` is where the door listens, for those who are told where to connect: name its port";
        return Err(option.error(text));
    }
    let uid = match (&overrides.door_user, raw.as_ref().and_then(|raw| raw.user.as_ref())) {
        (Some(name), _) => user(name, &From { source, key: "--door-user", span: None })?,
        (None, Some(name)) => user(name.get_ref(), &From { source, key: "door.user", span: Some(name.span()) })?,
        (None, None) => user(USER, &From { source, key: "door.user", span: raw.is_some().then_some(place) })?,
    };
    Ok(Some(DoorAddress { socket, uid }))
}

/// A path that a socket can have.
pub(crate) fn socket(path: &PathBuf, from: &From<'_>) -> Result<PathBuf, ConfigError> {
    let path = absolute(path, from)?;
    let length = path.as_os_str().len();
    match length > SOCKET_BYTES_MAX {
        true => {
            Err(from.error(format!("a path of {length} bytes is too long for a socket: at most {SOCKET_BYTES_MAX}")))
        }
        false => Ok(path.clone()),
    }
}

/// The id of a user who is named, or the number of one.
fn user(name: &str, from: &From<'_>) -> Result<u32, ConfigError> {
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    let shown = name.escape_debug();
    match sys::process::user_id(name) {
        Ok(Some(uid)) => Ok(uid),
        Ok(None) => {
            Err(from
                .error(format!("there is no user `{shown}`: name the one that `longhaul door` runs as, or its number")))
        }
        Err(source) => Err(from.error(format!("cannot look up the user `{shown}`")).with_source(Some(source))),
    }
}
