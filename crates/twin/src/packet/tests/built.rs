//! Packets built field by field, with checksums summed word by word: what cut ones are compared with.

use proptest::prelude::*;

use crate::packet::Vnet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proto {
    Tcp,
    Udp,
}

/// A packet that may be a super-packet, and every piece of it.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) proto: Proto,
    pub(super) v6: bool,
    /// Type of service, or traffic class.
    pub(super) tos: u8,
    pub(super) id: u16,
    /// Of IPv4, or extension headers of IPv6: in words of 4 or of 8 bytes.
    pub(super) ip_options: usize,
    /// Words of 4 bytes.
    pub(super) tcp_options: usize,
    pub(super) sequence: u32,
    pub(super) flags: u8,
    pub(super) mss: usize,
    pub(super) payload: Vec<u8>,
}

impl Default for Built {
    fn default() -> Built {
        Built {
            proto: Proto::Tcp,
            v6: false,
            tos: 0,
            id: 0xfffe,
            ip_options: 0,
            tcp_options: 3,
            sequence: u32::MAX - 1000,
            flags: 0x99,
            mss: 1448,
            payload: vec![1, 2, 3],
        }
    }
}

pub(super) fn packets() -> impl Strategy<Value = Built> {
    let ip = (any::<bool>(), any::<u8>(), any::<u16>(), 0usize..=10);
    let transport = (any::<bool>(), 0usize..=10, any::<u32>(), any::<u8>());
    let payload = (1usize..300, prop::collection::vec(any::<u8>(), 0..4000));
    (ip, transport, payload).prop_map(
        |((v6, tos, id, ip_options), (tcp, tcp_options, sequence, flags), (mss, payload))| {
            let proto = if tcp { Proto::Tcp } else { Proto::Udp };
            // More extension headers than this are not understood.
            let ip_options = if v6 { ip_options.min(8) } else { ip_options };
            Built { proto, v6, tos, id, ip_options, tcp_options, sequence, flags, mss, payload }
        },
    )
}

impl Built {
    pub(super) fn segments(&self) -> usize {
        self.payload.len().div_ceil(self.mss).max(1)
    }

    pub(super) fn whole(&self) -> Vec<u8> {
        self.piece(0, self.segments())
    }

    /// Where the transport's header begins, from the first byte of the vnet header.
    pub(super) fn transport_start(&self) -> usize {
        Vnet::LEN + if self.v6 { 40 + 8 * self.ip_options } else { 20 + 4 * self.ip_options }
    }

    /// The vnet header and the packet of some segments.
    pub(super) fn piece(&self, first: usize, count: usize) -> Vec<u8> {
        let end = self.payload.len().min((first + count) * self.mss);
        let payload = &self.payload[first * self.mss..end];
        let mut transport = self.transport(first, count, payload);
        let ip = self.ip(first, transport.len());
        let (offset, protocol) = (self.checksum_offset(), self.protocol());
        let sum = one_complement(&self.pseudo(&ip, protocol, transport.len()));
        transport[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
        let is_super = count > 1;
        let headers = ip.len() + transport.len() - payload.len();
        let vnet = Vnet {
            flags: Vnet::NEEDS_CSUM,
            gso_type: if is_super { self.gso_type(first) } else { Vnet::GSO_NONE },
            hdr_len: if is_super { headers as u16 } else { 0 },
            gso_size: if is_super { self.mss as u16 } else { 0 },
            csum_start: ip.len() as u16,
            csum_offset: offset as u16,
        };
        [&vnet.encode()[..], &ip, &transport].concat()
    }

    /// A single segment, its checksum complete.
    pub(super) fn completed(&self, segment: usize) -> Vec<u8> {
        let mut buf = self.piece(segment, 1);
        buf[..Vnet::LEN].fill(0);
        let start = self.transport_start();
        let at = start + self.checksum_offset();
        let sum = !one_complement(&buf[start..]);
        let sum = if sum == 0 { 0xffff } else { sum };
        buf[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        buf
    }

    /// Whether the checksum of the transport is right.
    pub(super) fn verifies(&self, buf: &[u8]) -> bool {
        let (ip, transport) = (&buf[Vnet::LEN..], &buf[self.transport_start()..]);
        let mut bytes = self.pseudo(ip, self.protocol(), transport.len());
        bytes.extend_from_slice(transport);
        one_complement(&bytes) == 0xffff
    }

    fn protocol(&self) -> u8 {
        if self.proto == Proto::Tcp { 6 } else { 17 }
    }

    fn checksum_offset(&self) -> usize {
        if self.proto == Proto::Tcp { 16 } else { 6 }
    }

    fn gso_type(&self, first: usize) -> u8 {
        let ecn = if first == 0 && self.flags & 0x80 != 0 { Vnet::GSO_ECN } else { 0 };
        match (self.proto, self.v6) {
            (Proto::Tcp, false) => Vnet::GSO_TCPV4 | ecn,
            (Proto::Tcp, true) => Vnet::GSO_TCPV6 | ecn,
            (Proto::Udp, _) => Vnet::GSO_UDP_L4,
        }
    }

    /// Header without checksum, and payload.
    fn transport(&self, first: usize, count: usize, payload: &[u8]) -> Vec<u8> {
        let ports = [0x13, 0x88, 0xc0, 0x01];
        if self.proto == Proto::Udp {
            let length = (8 + payload.len()) as u16;
            return [&ports[..], &length.to_be_bytes(), &[0, 0], payload].concat();
        }
        let mut flags = self.flags;
        if first + count < self.segments() {
            flags &= !0x09;
        }
        if first > 0 {
            flags &= !0x80;
        }
        let sequence = self.sequence.wrapping_add((first * self.mss) as u32);
        let words = (5 + self.tcp_options) as u8;
        let rest = [1, 2, 3, 4, words << 4, flags, 0x20, 0x00, 0, 0, 0, 0];
        [&ports[..], &sequence.to_be_bytes(), &rest, &vec![1; 4 * self.tcp_options], payload].concat()
    }

    fn ip(&self, first: usize, transport: usize) -> Vec<u8> {
        if self.v6 { self.ip_v6(transport) } else { self.ip_v4(first, transport) }
    }

    fn ip_v4(&self, first: usize, transport: usize) -> Vec<u8> {
        let headers = 20 + 4 * self.ip_options;
        let length = ((headers + transport) as u16).to_be_bytes();
        let id = self.id.wrapping_add(first as u16).to_be_bytes();
        let mut ip = vec![0x40 | (headers / 4) as u8, self.tos, length[0], length[1], id[0], id[1], 0x40, 0];
        ip.extend([64, self.protocol(), 0, 0, 10, 192, 0, 1, 10, 192, 0, 2]);
        ip.resize(headers, 1);
        let sum = !one_complement(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip
    }

    fn ip_v6(&self, transport: usize) -> Vec<u8> {
        let length = ((8 * self.ip_options + transport) as u16).to_be_bytes();
        // Destination options: as many headers as there may be, hop-by-hop and routing among them.
        let kinds = [0, 43, 60, 60, 60, 60, 60, 60];
        let mut chain: Vec<u8> = kinds[..self.ip_options].to_vec();
        chain.push(self.protocol());
        let mut ip = vec![0x60 | self.tos >> 4, self.tos << 4 | 0x5, 0xab, 0xcd, length[0], length[1], chain[0], 64];
        ip.extend([0xfd, 0x4c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        ip.extend([0xfd, 0x4c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        for next in &chain[1..] {
            ip.extend([*next, 0, 1, 4, 0, 0, 0, 0]);
        }
        ip
    }

    fn pseudo(&self, ip: &[u8], protocol: u8, transport: usize) -> Vec<u8> {
        let addresses = if self.v6 { &ip[8..40] } else { &ip[12..20] };
        [addresses, &(transport as u32).to_be_bytes(), &[0, 0, 0, protocol]].concat()
    }
}

/// The sum of RFC 1071, word by word, each carry added at once.
pub(super) fn one_complement(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0, |sum: u16, word| {
        let word = u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]);
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// Changes the bit of that number, counted from the first byte's highest and modulo all there are.
pub(super) fn flip(bytes: &mut [u8], bit: usize) {
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 0x80 >> (bit % 8);
}
