//! Datagrams of one flow that leave together, as one packet: a write takes the kernel longer than a datagram does.

use super::Vnet;
use super::checksum;
use super::cut::{Lengths, put_lengths};
use super::layout::{Ip, Layout, Transport, word};

/// Datagrams in one packet at most (`UDP_MAX_SEGMENTS` of kernels before 6.9).
const DATAGRAMS_MAX: usize = 64;
/// Bytes of IP at most.
const JOINED_MAX: usize = 65_535;
/// "Don't fragment", in the word of IPv4 that has the flags.
const DF: u16 = 0x4000;

/// Datagrams that are written as one packet, in the form in which the kernel gives one that its sender had segmented (`UDP_SEGMENT`): the headers of
/// the first, and the payload of all. They arrive as they are, but for the identification of IPv4 where it means nothing (those that are not to be fragmented;
/// RFC 6864, section 4.1).
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// The first packet as it was, then the payload of the others.
    buf: Vec<u8>,
    count: usize,
    /// Bytes of all headers, from the first byte of IP.
    headers: usize,
    /// Bytes of payload in each but the last.
    segment: usize,
    /// The last one is shorter: none can follow.
    is_full: bool,
}

impl Joined {
    /// Adds the packet in `buf`, a vnet header and an IP packet, behind those that are there. False if it is none that can be: it is not a datagram whose
    /// checksum is still to be completed, not of their flow, longer than they are, or too many.
    pub fn push(&mut self, buf: &[u8]) -> bool {
        let Some(layout) = datagram(buf) else { return false };
        let payload = layout.packet.len() - layout.headers;
        if self.count == 0 {
            self.buf.clear();
            self.buf.extend_from_slice(buf);
            (self.headers, self.segment, self.is_full) = (layout.headers, payload, false);
        } else {
            let is_room = self.count < DATAGRAMS_MAX && self.buf.len() - Vnet::LEN + payload <= JOINED_MAX;
            if !is_room || self.is_full || payload > self.segment || !self.is_followed_by(&layout) {
                return false;
            }
            self.buf.extend_from_slice(&layout.packet[layout.headers..]);
            self.is_full = payload < self.segment;
        }
        self.count += 1;
        true
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// All of them as one packet, empty if there is none. It begins anew with the next.
    pub fn take(&mut self) -> &[u8] {
        match std::mem::take(&mut self.count) {
            0 => return &[],
            1 => {}
            _ => self.extend_headers(),
        }
        &self.buf
    }

    /// Whether the headers of a datagram are those that the kernel would give to the next one.
    fn is_followed_by(&self, next: &Layout) -> bool {
        let (first, next, ports) = (&self.buf[Vnet::LEN..], next.packet, self.headers - 8);
        let same = |from: usize, to: usize| first[from..to] == next[from..to];
        let is_same_ip = match first[0] >> 4 {
            // All but its length, identification and checksum.
            4 => {
                let id = word(first, 4).wrapping_add(self.count as u16);
                same(0, 2) && same(6, 10) && same(12, 20) && (word(first, 6) & DF != 0 || word(next, 4) == id)
            }
            _ => same(0, 4) && same(6, 40),
        };
        // The sum of the pseudo-header knows the length.
        let sum = checksum::replace(word(first, ports + 6), word(first, ports + 4), word(next, ports + 4));
        is_same_ip && same(ports, ports + 4) && word(next, ports + 6) == sum
    }

    /// Makes the headers of the first datagram those of all.
    fn extend_headers(&mut self) {
        let Some(first) = Vnet::parse(&self.buf).ok().map(|(vnet, _)| vnet) else { return };
        let vnet =
            Vnet { gso_type: Vnet::GSO_UDP_L4, hdr_len: self.headers as u16, gso_size: self.segment as u16, ..first };
        let payload = self.buf.len() - Vnet::LEN - self.headers;
        let (head, packet) = self.buf.split_at_mut(Vnet::LEN);
        head.copy_from_slice(&vnet.encode());
        let ip = if packet[0] >> 4 == 4 { Ip::V4 } else { Ip::V6 };
        let lengths = Lengths { headers: self.headers, payload, was: self.headers + self.segment };
        put_lengths(ip, Transport::Udp, vnet, lengths, &mut packet[..self.headers]);
    }
}

/// A single datagram that may be joined: no options, so that where its headers are says which IP it is; a checksum that the kernel completes.
fn datagram(buf: &[u8]) -> Option<Layout<'_>> {
    let layout = Layout::parse(buf).ok()?;
    let Vnet { flags, gso_type, csum_start, csum_offset, .. } = layout.vnet;
    let is_plain = match layout.ip {
        // The kernel would sum the header anew: a wrong sum is to stay wrong.
        Ip::V4 => layout.start == 20 && checksum::add(0, &layout.packet[..20]) == 0xffff,
        Ip::V6 => layout.start == 40,
        Ip::Other => false,
    };
    let is_summed = flags == Vnet::NEEDS_CSUM && (usize::from(csum_start), csum_offset) == (layout.start, 6);
    let is_single = gso_type == Vnet::GSO_NONE && layout.headers < layout.packet.len();
    (is_plain && is_summed && is_single && layout.transport == Transport::Udp).then_some(layout)
}
