//! What interfaces of a host have carried, for links that its operator named.

use serde::{Deserialize, Serialize};

use crate::rest::checked_name;

/// Interfaces and links that an agent counts.
pub const COUNTS_MAX: usize = 64;
/// Between two counts, ms.
pub const COUNT_EACH_MS: u64 = 2_000;

/// Bytes of the name of an interface (`IFNAMSIZ` less the zero byte, `netdevice(7)`).
const INTERFACE_BYTES_MAX: usize = 15;

/// Whether an interface may be called so.
#[must_use]
pub fn is_interface(name: &str) -> bool {
    let is_odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && !name.contains(is_odd)
}

/// A way along a link of the controller's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the first of its ends in the file to the second.
    Forward,
    /// Back.
    Backward,
}

/// What an interface has carried since it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The interface.
    pub interface: String,
    /// The link that it counts for: all that goes through one goes through the other.
    pub link: String,
    /// Which way of the link is what the interface sends; what it receives is the other.
    pub sends: Way,
    /// Sent, bytes of IP packets.
    pub sent_bytes: u64,
    /// Received, bytes of IP packets.
    pub received_bytes: u64,
    /// When it was read, ms on a clock of the host that never goes back.
    pub read_ms: u64,
}

impl Counted {
    /// Whether its names can be ones: they are kept, and shown.
    #[must_use]
    pub fn has_names(&self) -> bool {
        is_interface(&self.interface) && checked_name("link", &self.link).is_ok()
    }
}

/// What an agent counts for a link is left aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uncounted {
    /// Of [`Counted`].
    pub link: String,
    /// Why, and the way out, for the host's operator.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{FromAgent, MESSAGE_MAX, ToAgent};

    fn counted() -> Counted {
        let (interface, link) = ("eth1".to_owned(), "ocean".to_owned());
        Counted { interface, link, sends: Way::Backward, sent_bytes: 7, received_bytes: u64::MAX, read_ms: 5_000 }
    }

    #[test]
    fn counts_are_said_as_they_were() {
        let said = FromAgent::Counted { counts: vec![counted()] };
        let text = r#"{"type":"counted","counts":[{"interface":"eth1","link":"ocean","sends":"backward","sent_bytes":7,"received_bytes":18446744073709551615,"read_ms":5000}]}"#;
        assert_eq!(serde_json::to_string(&said).unwrap(), text);
        assert_eq!(serde_json::from_str::<FromAgent>(text).unwrap(), said);
        let answer = ToAgent::Uncounted(Uncounted { link: "ocean".to_owned(), reason: "it is not there".to_owned() });
        let text = r#"{"type":"uncounted","link":"ocean","reason":"it is not there"}"#;
        assert_eq!(serde_json::to_string(&answer).unwrap(), text);
        assert_eq!(serde_json::from_str::<ToAgent>(text).unwrap(), answer);
    }

    #[test]
    fn names_are_those_that_the_kernel_and_networks_have() {
        assert!(counted().has_names());
        for interface in ["", "0123456789abcdef", "e/1", "e 1", "e\n"] {
            assert!(!Counted { interface: interface.to_owned(), ..counted() }.has_names(), "{interface:?}");
        }
        for link in ["".to_owned(), "x".repeat(65), "a b".to_owned()] {
            assert!(!Counted { link, ..counted() }.has_names());
        }
    }

    #[test]
    fn the_longest_message_of_counts_fits() {
        let long = Counted { interface: "\"".repeat(15), link: "\"".repeat(64), ..counted() };
        let said = FromAgent::Counted { counts: vec![long; COUNTS_MAX] };
        assert!(serde_json::to_vec(&said).unwrap().len() < MESSAGE_MAX / 16);
    }
}
