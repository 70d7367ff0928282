//! Names of namespaces and devices.

use model::network::Network;

use super::PlanError;

/// What all namespaces of twins begin with.
pub const NAMESPACES: &str = "twin.";
/// As long as names in a description; so `twin.TWIN.NODE` is a file name and `NODE.PATH` that of a host.
const MAX_NAME: usize = model::network::limits::NAME_MAX;
/// What the kernel has room for in the name of a device.
const MAX_DEVICE: usize = 15;
/// Names that are taken: the loopback device, and what sysctl says for all devices.
const RESERVED: [&str; 3] = ["lo", "all", "default"];

/// # Errors
/// If a name cannot be part of the name of a namespace or host.
pub(super) fn check(network: &Network, twin: &str) -> Result<(), PlanError> {
    let nodes = network.nodes.iter().map(|node| ("node", node.name.as_str()));
    let paths = network.paths.iter().map(|path| ("path", path.name.as_str()));
    for (what, name) in [("twin", twin)].into_iter().chain(nodes).chain(paths) {
        if !is_plain(name) || name.len() > MAX_NAME {
            return Err(PlanError::Name { what, name: name.to_owned(), max: MAX_NAME });
        }
    }
    Ok(())
}

/// What the namespaces of a twin begin with, and those of no other: a twin's name has no dot.
#[must_use]
pub fn namespace_prefix(twin: &str) -> String {
    format!("{NAMESPACES}{twin}.")
}

/// The namespace of a node.
pub(super) fn namespace(twin: &str, node: &str) -> String {
    format!("{NAMESPACES}{twin}.{node}")
}

/// The device at both ends of a link: its own name if a device can have it, else `l` and its number.
pub(super) fn device(index: usize, link: &str) -> String {
    let numbered = link.strip_prefix('l').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    if is_plain(link) && link.len() <= MAX_DEVICE && !numbered && !RESERVED.contains(&link) {
        link.to_owned()
    } else {
        format!("l{index}")
    }
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
