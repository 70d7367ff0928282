//! Where the parts of a packet are.

use super::vnet::Vnet;
use super::{MAX_LEN, Malformed};

/// Extension headers of IPv6 that are skipped at most; who sends more is not understood.
const MAX_EXTENSIONS: usize = 8;

/// Whose header a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
    /// Neither, or too short for one.
    Other,
}

/// What the IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    /// Neither, or a fragment, or lengths that do not agree.
    Other,
}

impl Transport {
    /// Where in its header the checksum is.
    fn csum_offset(self) -> Option<u16> {
        match self {
            Transport::Tcp => Some(16),
            Transport::Udp => Some(6),
            Transport::Other => None,
        }
    }
}

/// A packet taken apart. Offsets count from the first byte of IP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<'a> {
    pub(super) vnet: Vnet,
    /// The IP packet, not empty.
    pub(super) packet: &'a [u8],
    pub(super) ip: Ip,
    pub(super) transport: Transport,
    /// Where the transport's header begins; where IP's ends, if it is not understood.
    pub(super) start: usize,
    /// Where the headers end: at the end of the packet, if the transport is not understood.
    pub(super) headers: usize,
    /// Payload bytes of each segment but the last, at least one.
    pub(super) segment: usize,
}

impl<'a> Layout<'a> {
    /// # Errors
    /// If the bytes are no packet.
    pub(super) fn parse(buf: &'a [u8]) -> Result<Layout<'a>, Malformed> {
        let (vnet, packet) = Vnet::parse(buf)?;
        if packet.is_empty() {
            return Err(Malformed::Short(buf.len()));
        }
        if buf.len() > MAX_LEN {
            return Err(Malformed::Long(buf.len()));
        }
        let (start, offset) = (vnet.csum_start, vnet.csum_offset);
        if vnet.needs_csum() && usize::from(start) + usize::from(offset) + 2 > packet.len() {
            return Err(Malformed::Checksum { start, offset });
        }
        let (ip, start, protocol) = network(packet);
        let (mut transport, mut headers) = transport(packet, start, protocol);
        let is_super = is_super(vnet, ip, transport, start);
        if vnet.gso_type != Vnet::GSO_NONE && !is_super {
            (transport, headers) = (Transport::Other, packet.len());
        }
        let segment = if is_super { usize::from(vnet.gso_size) } else { (packet.len() - headers).max(1) };
        Ok(Layout { vnet, packet, ip, transport, start, headers, segment })
    }

    /// How many segments it is, at least one.
    pub(super) fn segments(&self) -> usize {
        (self.packet.len() - self.headers).div_ceil(self.segment).max(1)
    }

    /// Whether its sender asks for marks: ECT(0) or ECT(1). What is marked already (CE) stays so and need not be again.
    pub(super) fn markable(&self) -> bool {
        let ecn = match self.ip {
            Ip::V4 => self.packet[1] & 3,
            Ip::V6 => self.packet[1] >> 4 & 3,
            Ip::Other => 0,
        };
        matches!(ecn, 1 | 2)
    }
}

/// Which IP it is, where its header ends, and the number of the protocol inside if that can be looked at.
fn network(packet: &[u8]) -> (Ip, usize, Option<u8>) {
    match (packet[0] >> 4, packet.len()) {
        (4, 20..) => network_v4(packet),
        (6, 40..) => network_v6(packet),
        _ => (Ip::Other, 0, None),
    }
}

fn network_v4(packet: &[u8]) -> (Ip, usize, Option<u8>) {
    let end = usize::from(packet[0] & 0xf) * 4;
    if end < 20 || end > packet.len() {
        return (Ip::V4, 20, None);
    }
    let whole = usize::from(word(packet, 2)) == packet.len();
    // Neither "more fragments" nor an offset.
    let unfragmented = word(packet, 6) & 0x3fff == 0;
    (Ip::V4, end, (whole && unfragmented).then_some(packet[9]))
}

fn network_v6(packet: &[u8]) -> (Ip, usize, Option<u8>) {
    /// Hop-by-hop options, routing, destination options: all of the same form.
    const SKIPPED: [u8; 3] = [0, 43, 60];
    let (mut end, mut protocol) = (40, packet[6]);
    if usize::from(word(packet, 4)) + end != packet.len() {
        return (Ip::V6, end, None);
    }
    for _ in 0..=MAX_EXTENSIONS {
        if !SKIPPED.contains(&protocol) {
            return (Ip::V6, end, Some(protocol));
        }
        let Some(&[next, eights]) = packet.get(end..end + 2) else { break };
        let next_end = end + (usize::from(eights) + 1) * 8;
        if next_end > packet.len() {
            break;
        }
        (end, protocol) = (next_end, next);
    }
    (Ip::V6, end, None)
}

/// What the transport is and where its header ends.
fn transport(packet: &[u8], start: usize, protocol: Option<u8>) -> (Transport, usize) {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let rest = &packet[start..];
    match (protocol, rest.len()) {
        (Some(TCP), 20..) => {
            let length = usize::from(rest[12] >> 4) * 4;
            if (20..=rest.len()).contains(&length) {
                return (Transport::Tcp, start + length);
            }
        }
        (Some(UDP), 8..) if usize::from(word(rest, 4)) == rest.len() => return (Transport::Udp, start + 8),
        _ => {}
    }
    (Transport::Other, packet.len())
}

/// Whether the vnet header asks for segments of this very transport, with the checksum where it has one. The kernel
/// always leaves the checksum of a super-packet to be completed.
fn is_super(vnet: Vnet, ip: Ip, transport: Transport, start: usize) -> bool {
    let fits = match vnet.gso_type & !Vnet::GSO_ECN {
        Vnet::GSO_TCPV4 => (ip, transport) == (Ip::V4, Transport::Tcp),
        Vnet::GSO_TCPV6 => (ip, transport) == (Ip::V6, Transport::Tcp),
        Vnet::GSO_UDP_L4 => transport == Transport::Udp,
        _ => false,
    };
    let summed = usize::from(vnet.csum_start) == start && Some(vnet.csum_offset) == transport.csum_offset();
    fits && vnet.gso_size > 0 && vnet.needs_csum() && summed
}

/// The 16 bits at `at`, in the network's order.
pub(super) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
