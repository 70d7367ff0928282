//! The header in front of a packet that says what is left to do: `struct virtio_net_hdr`.

use super::Malformed;

/// What of segmenting and summing is left to do on a packet.
///
/// Offsets count from the first byte of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vnet {
    /// [`Vnet::NEEDS_CSUM`], or nothing that matters here.
    pub flags: u8,
    /// How to segment: one of the `GSO_` constants, with [`Vnet::GSO_ECN`] added if the first segment carries CWR.
    pub gso_type: u8,
    /// Bytes of all headers: a hint.
    pub hdr_len: u16,
    /// Bytes of payload in each segment but the last.
    pub gso_size: u16,
    /// Where what is summed begins.
    pub csum_start: u16,
    /// Where the sum is, from there.
    pub csum_offset: u16,
}

impl Vnet {
    /// Bytes of the header.
    pub const LEN: usize = sys::tun::VNET_HEADER;
    /// In `flags`: the field of the checksum holds the sum of the pseudo-header; the rest is to be added.
    pub const NEEDS_CSUM: u8 = 1;
    /// One segment.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP datagrams, each with a header of its own.
    pub const GSO_UDP_L4: u8 = 5;
    /// Added to the type of TCP: the first segment carries CWR.
    pub const GSO_ECN: u8 = 0x80;

    /// The header at the begin of `buf`, and what follows.
    ///
    /// # Errors
    /// If `buf` is too short.
    pub fn parse(buf: &[u8]) -> Result<(Vnet, &[u8]), Malformed> {
        let (head, rest) = buf.split_first_chunk::<{ Vnet::LEN }>().ok_or(Malformed::Short(buf.len()))?;
        // The order of the machine, not of the network: TUN's default.
        let word = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
        let vnet = Vnet {
            flags: head[0],
            gso_type: head[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        };
        Ok((vnet, rest))
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(self) -> [u8; Vnet::LEN] {
        let mut bytes = [0; Vnet::LEN];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (at, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            at.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Whether the checksum is to be completed.
    #[must_use]
    pub const fn needs_csum(self) -> bool {
        self.flags & Vnet::NEEDS_CSUM != 0
    }
}
