//! Paths at agents: of an endpoint's root and what is beneath it.

use api::Name;
use ledger::{Endpoint, Location, State};

/// Two parts of a path, put together.
pub(crate) fn join(root: &[u8], beneath: &[u8]) -> Name {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let beneath = beneath.strip_prefix(b"/").unwrap_or(beneath);
    let mut path = root.to_vec();
    if !beneath.is_empty() || path.is_empty() {
        path.push(b'/');
        path.extend_from_slice(beneath);
    }
    Name(path)
}

/// Where a location is at the agents of its endpoint; `None` if the endpoint is no more.
pub(crate) fn absolute(state: &State, location: &Location) -> Option<Name> {
    let endpoint = state.endpoints.get(&location.endpoint)?;
    Some(join(&endpoint.root, &location.path))
}

/// What is beneath an endpoint's root of an absolute path; `None` if it is not beneath it.
pub(crate) fn beneath(endpoint: &Endpoint, path: &[u8]) -> Option<Vec<u8>> {
    let root = endpoint.root.strip_suffix(b"/").unwrap_or(&endpoint.root);
    let rest = path.strip_prefix(root)?;
    match rest {
        [] => Some(Vec::new()),
        [b'/', rest @ ..] => Some(rest.to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_together_and_apart() {
        for (root, rest, whole) in [
            ("/data", "a/b", "/data/a/b"),
            ("/data/", "", "/data"),
            ("/", "a", "/a"),
            ("/", "", "/"),
            ("/d", "/x", "/d/x"),
        ] {
            assert_eq!(join(root.as_bytes(), rest.as_bytes()).0, whole.as_bytes());
        }
        let endpoint = |root: &str| Endpoint { hosts: ["a".to_owned()].into(), root: root.as_bytes().to_vec() };
        let rest = |root: &str, path: &str| {
            beneath(&endpoint(root), path.as_bytes()).map(|rest| String::from_utf8(rest).unwrap())
        };
        assert_eq!(rest("/data", "/data/x/y").as_deref(), Some("x/y"));
        assert_eq!(rest("/data/", "/data").as_deref(), Some(""));
        assert_eq!(rest("/", "/x").as_deref(), Some("x"));
        assert_eq!(rest("/data", "/database"), None);
        assert_eq!(rest("/data", "/other"), None);
    }
}
