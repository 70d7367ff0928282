//! What a door and an instance behind it say to each other: datagrams on a Unix socket, each one message.
//!
//! ```text
//!  door to instance      0                                  an accepted connection; its descriptor goes with the message
//!                        1  at: ip  from: ip, port  64 B    a probe arrived
//!  instance to door      2  ip …                            probes that arrive at these addresses are wanted; replaces those of before
//!                        3  from: ip  to: ip, port  marks  64 B    send this probe
//! ```
//!
//! An `ip` is 16 bytes, IPv4 as the IPv6 address that is mapped to it (RFC 4291 section 2.5.5.2); a port is 2 bytes, big endian.
//! Marks are a byte of the code point and 3 bytes of the flow label, 0 for none.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use units::Marks;

use crate::limits::PROBE_ADDRESSES_MAX;
use crate::probe::{BYTES as PROBE, Probe};

/// The longest message, bytes.
pub const MESSAGE_MAX: usize = 1 + IP * PROBE_ADDRESSES_MAX;

const IP: usize = 16;
const PORT: usize = 2;
const MARKS: usize = 4;
const CONNECTION: u8 = 0;
const ARRIVED: u8 = 1;
const WANTED: u8 = 2;
const SEND: u8 = 3;

/// A probe between an address of this host and one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// The address of this host.
    pub here: IpAddr,
    /// The other end.
    pub there: SocketAddr,
    /// A question or an answer: it has the form of a [`Probe`], and nothing else of it is known.
    pub bytes: [u8; PROBE],
}

/// What a door says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FromDoor {
    /// An accepted connection, from its first byte on; its descriptor goes with the message.
    Connection,
    /// A probe arrived.
    Arrived(Datagram),
}

/// What an instance says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromInstance {
    /// Probes that arrive at these addresses of the host are to be handed on; at most [`PROBE_ADDRESSES_MAX`].
    Wanted(Vec<IpAddr>),
    /// Send this probe, with these marks.
    Send(Datagram, Marks),
}

impl FromDoor {
    /// The message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromDoor::Connection => vec![CONNECTION],
            FromDoor::Arrived(datagram) => datagram.encode(ARRIVED, &[]),
        }
    }

    /// Reads a message; `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<FromDoor> {
        match bytes {
            [CONNECTION] => Some(FromDoor::Connection),
            [ARRIVED, said @ ..] => Datagram::decode(said, 0).map(|(datagram, _)| FromDoor::Arrived(datagram)),
            _ => None,
        }
    }
}

impl FromInstance {
    /// The message. Of more than [`PROBE_ADDRESSES_MAX`] addresses the first ones.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromInstance::Wanted(addresses) => {
                let mut bytes = vec![WANTED];
                addresses.iter().take(PROBE_ADDRESSES_MAX).for_each(|ip| bytes.extend(mapped(*ip)));
                bytes
            }
            FromInstance::Send(datagram, marks) => datagram.encode(SEND, &written(*marks)),
        }
    }

    /// Reads a message; `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<FromInstance> {
        match bytes {
            [WANTED, said @ ..] if said.len() <= IP * PROBE_ADDRESSES_MAX && said.len() % IP == 0 => {
                Some(FromInstance::Wanted(said.chunks_exact(IP).filter_map(address).collect()))
            }
            [SEND, said @ ..] => {
                let (datagram, marks) = Datagram::decode(said, MARKS)?;
                Some(FromInstance::Send(datagram, read(marks)?))
            }
            _ => None,
        }
    }
}

impl Datagram {
    fn encode(&self, kind: u8, more: &[u8]) -> Vec<u8> {
        let port = self.there.port().to_be_bytes();
        [&[kind], &mapped(self.here)[..], &mapped(self.there.ip()), &port, more, &self.bytes].concat()
    }

    /// What stands before the probe, and so many bytes more of it.
    fn decode(said: &[u8], more: usize) -> Option<(Datagram, &[u8])> {
        let (here, said) = said.split_at_checked(IP)?;
        let (there, said) = said.split_at_checked(IP)?;
        let (port, said) = said.split_at_checked(PORT)?;
        let (more, said) = said.split_at_checked(more)?;
        let there = SocketAddr::new(address(there)?, u16::from_be_bytes(port.try_into().ok()?));
        Probe::path_of(said)?;
        Some((Datagram { here: address(here)?, there, bytes: said.try_into().ok()? }, more))
    }
}

fn written(marks: Marks) -> [u8; MARKS] {
    let [_, high, middle, low] = marks.flow_label.unwrap_or(0).to_be_bytes();
    [marks.dscp.unwrap_or(0), high, middle, low]
}

/// `None` if packets cannot carry them.
fn read(bytes: &[u8]) -> Option<Marks> {
    let [dscp, high, middle, low] = *<&[u8; MARKS]>::try_from(bytes).ok()?;
    let flow_label = u32::from_be_bytes([0, high, middle, low]);
    let marks = Marks { dscp: (dscp != 0).then_some(dscp), flow_label: (flow_label != 0).then_some(flow_label) };
    marks.check().is_ok().then_some(marks)
}

fn mapped(ip: IpAddr) -> [u8; IP] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    Some(Ipv6Addr::from(<[u8; IP]>::try_from(bytes).ok()?).to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hello::SessionKey;

    fn datagram(here: IpAddr, there: SocketAddr) -> Datagram {
        let probe = Probe { is_answer: false, path: 1, number: 2, sent_us: 3 };
        Datagram { here, there, bytes: probe.encode(&SessionKey([4; 32])) }
    }

    proptest! {
        #[test]
        fn messages_come_back_as_they_were(
            here: u32,
            there: u128,
            port: u16,
            count in 0..=PROBE_ADDRESSES_MAX,
            dscp in prop::option::of(1..=units::dscp::DSCP_MAX),
            flow_label in prop::option::of(1..=units::marks::FLOW_LABEL_MAX),
        ) {
            let marks = Marks { dscp, flow_label };
            let (here, there) = (IpAddr::V4(here.into()), IpAddr::V6(there.into()).to_canonical());
            let datagram = datagram(here, SocketAddr::new(there, port));
            for message in [FromDoor::Connection, FromDoor::Arrived(datagram)] {
                prop_assert_eq!(FromDoor::decode(&message.encode()), Some(message));
            }
            for message in [FromInstance::Wanted(vec![there; count]), FromInstance::Send(datagram, marks)] {
                prop_assert!(message.encode().len() <= MESSAGE_MAX);
                prop_assert_eq!(FromInstance::decode(&message.encode()), Some(message));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (FromDoor::decode(&bytes), FromInstance::decode(&bytes));
        }
    }

    #[test]
    fn only_probes_are_datagrams() {
        let good = datagram(IpAddr::V4([192, 0, 2, 1].into()), "[2001:db8::1]:4810".parse().unwrap());
        let said = FromInstance::Send(good, Marks::NONE);
        let mut bytes = said.encode();
        assert_eq!(FromInstance::decode(&bytes), Some(said));
        assert_eq!(FromInstance::decode(&bytes[..bytes.len() - 1]), None);
        let mut marked = bytes.clone();
        marked[1 + 2 * IP + PORT] = 64;
        assert_eq!(FromInstance::decode(&marked), None, "there is no such code point");
        bytes[1 + 2 * IP + PORT + MARKS] = b'X';
        assert_eq!(FromInstance::decode(&bytes), None);
        assert_eq!(FromInstance::decode(&[&[WANTED][..], &[0; IP * (PROBE_ADDRESSES_MAX + 1)]].concat()), None);
    }
}
