//! Segments cut out of a packet, with headers and checksums right.

use sim::link::Fate;

use super::layout::{Ip, Layout, Transport, word};
use super::vnet::Vnet;
use super::{Malformed, checksum};

/// What is to be written to the other TUN: one after the other, in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    /// The vnet header and the headers of the packet; or all of it.
    pub head: &'a [u8],
    /// What follows of the payload: a part of the packet that was read. May be empty.
    pub payload: &'a [u8],
}

/// Segments `first` to `first + count` of the packet in `buf`, as one packet that has met its `fate`.
///
/// If these are all of them and nothing befell them, it is `buf` itself. Else `scratch` holds the new headers, and the
/// payload stays where it is; only a corrupted segment is copied. `scratch` never grows beyond
/// [`MAX_LEN`](super::MAX_LEN).
///
/// # Errors
/// If `buf` is no packet or has no such segments, or if several segments are to be corrupted at once.
pub fn cut<'a>(
    buf: &'a [u8],
    first: u16,
    count: u16,
    fate: Fate,
    scratch: &'a mut Vec<u8>,
) -> Result<Cut<'a>, Malformed> {
    let layout = Layout::parse(buf)?;
    let segments = layout.segments();
    let (from, to) = (usize::from(first), usize::from(first) + usize::from(count));
    let corrupt_many = matches!(fate, Fate::Corrupt(_)) && count > 1;
    if count == 0 || to > segments || corrupt_many {
        return Err(Malformed::Segments { first, count, segments });
    }
    let all = usize::from(count) == segments;
    if all && fate == Fate::Whole {
        return Ok(Cut { head: buf, payload: &[] });
    }
    let (headers, payload) = layout.packet.split_at(layout.headers);
    let payload = &payload[from * layout.segment..payload.len().min(to * layout.segment)];
    scratch.clear();
    scratch.extend_from_slice(&buf[..Vnet::LEN]);
    scratch.extend_from_slice(headers);
    if !all {
        shorten(&layout, Piece { from, count: to - from, last: to == segments, payload: payload.len() }, scratch);
    }
    match fate {
        Fate::Whole => {}
        Fate::Marked => mark(layout.ip, &mut scratch[Vnet::LEN..]),
        Fate::Corrupt(bit) => {
            scratch.extend_from_slice(payload);
            corrupt(&layout, bit, scratch);
            return Ok(Cut { head: scratch, payload: &[] });
        }
    }
    Ok(Cut { head: scratch, payload })
}

/// Which part of a super-packet.
struct Piece {
    /// Segments before it.
    from: usize,
    /// Segments in it, at least one.
    count: usize,
    /// No segments after it.
    last: bool,
    /// Its bytes of payload.
    payload: usize,
}

/// Makes the headers of the super-packet `layout`, copied to `head`, those of a piece of it.
fn shorten(layout: &Layout, piece: Piece, head: &mut [u8]) {
    let (vnet, head) = head.split_at_mut(Vnet::LEN);
    vnet.copy_from_slice(&piece_vnet(layout, &piece).encode());
    let lengths = Lengths { headers: layout.headers, payload: piece.payload, was: layout.packet.len() };
    put_lengths(layout.ip, layout.transport, layout.vnet, lengths, head);
    let (ip, transport) = head.split_at_mut(layout.start);
    if layout.ip == Ip::V4 {
        replace_v4(ip, 4, word(ip, 4).wrapping_add(piece.from as u16));
    }
    if layout.transport == Transport::Tcp {
        let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        let sequence = sequence.wrapping_add((piece.from * layout.segment) as u32);
        transport[4..8].copy_from_slice(&sequence.to_be_bytes());
        transport[13] &= kept_flags(&piece);
    }
}

/// Bytes of a packet whose headers change.
pub(super) struct Lengths {
    /// All headers, from the first byte of IP.
    pub(super) headers: usize,
    /// The payload that there is now.
    pub(super) payload: usize,
    /// The packet that the headers were of.
    pub(super) was: usize,
}

/// Puts the new lengths into all headers, `head`: of IP, of UDP, and into the sum of the pseudo-header, where `vnet` says that it is.
pub(super) fn put_lengths(ip: Ip, transport: Transport, vnet: Vnet, lengths: Lengths, head: &mut [u8]) {
    let start = usize::from(vnet.csum_start);
    // They fit: no packet is longer than 16 bits can say.
    let length = |from: usize| (lengths.headers - from + lengths.payload) as u16;
    match ip {
        Ip::V4 => replace_v4(head, 2, length(0)),
        Ip::V6 => put(head, 4, length(40)),
        Ip::Other => {}
    }
    let at = start + usize::from(vnet.csum_offset);
    // In the field is the sum of the pseudo-header, of which only the length changes.
    let sum = checksum::replace(word(head, at), (lengths.was - start) as u16, length(start));
    put(head, at, sum);
    if transport == Transport::Udp {
        put(head, start + 4, length(start));
    }
}

fn piece_vnet(layout: &Layout, piece: &Piece) -> Vnet {
    let whole = layout.vnet;
    if piece.count == 1 {
        return Vnet { gso_type: Vnet::GSO_NONE, gso_size: 0, hdr_len: 0, ..whole };
    }
    let ecn = if piece.from == 0 { whole.gso_type } else { whole.gso_type & !Vnet::GSO_ECN };
    // The kernel refuses a hint that is longer than the packet.
    Vnet { gso_type: ecn, hdr_len: layout.headers as u16, ..whole }
}

/// Flags of TCP that a piece may carry: it ends or pushes the stream only at the end, and answers a mark only once.
fn kept_flags(piece: &Piece) -> u8 {
    const FIN: u8 = 0x01;
    const PSH: u8 = 0x08;
    const CWR: u8 = 0x80;
    let at_end = if piece.last { FIN | PSH } else { 0 };
    let at_begin = if piece.from == 0 { CWR } else { 0 };
    !(FIN | PSH | CWR) | at_end | at_begin
}

/// Sets CE in the header of IP.
fn mark(ip: Ip, packet: &mut [u8]) {
    match ip {
        Ip::V4 => replace_v4(packet, 0, word(packet, 0) | 3),
        Ip::V6 => packet[1] |= 3 << 4,
        Ip::Other => {}
    }
}

/// Completes the checksum of the single segment in `buf` and then changes a bit of it, so that its receiver sees.
fn corrupt(layout: &Layout, bit: u32, buf: &mut [u8]) {
    let (head, packet) = buf.split_at_mut(Vnet::LEN);
    let vnet = layout.vnet;
    if vnet.needs_csum() {
        let start = usize::from(vnet.csum_start);
        let sum = !checksum::add(0, &packet[start..]);
        // To UDP zero means that there is none; both forms of zero are the same to others.
        put(packet, start + usize::from(vnet.csum_offset), if sum == 0 { 0xffff } else { sum });
    }
    head.copy_from_slice(&Vnet::default().encode());
    let changed = [layout.headers, layout.start, 0].into_iter().find(|&from| from < packet.len()).unwrap_or(0);
    let changed = &mut packet[changed..];
    let bit = bit as usize % (changed.len() * 8);
    changed[bit / 8] ^= 0x80 >> (bit % 8);
}

/// Puts a word into a header of IPv4 and changes the header's checksum with it: a wrong one stays wrong.
fn replace_v4(header: &mut [u8], at: usize, new: u16) {
    let sum = checksum::replace(!word(header, 10), word(header, at), new);
    put(header, 10, !sum);
    put(header, at, new);
}

/// Puts 16 bits at `at`, in the network's order.
fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
