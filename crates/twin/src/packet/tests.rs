//! Cut packets against packets built from nothing, known packets, and bytes that are none.

mod built;

use proptest::prelude::*;
use sim::link::{Fate, Shape};

use super::{Cut, Joined, MAX_LEN, Malformed, Vnet, cut, shape};
use built::{Built, Proto, flip, one_complement};

/// The packet that is written for some segments of another.
fn written(buf: &[u8], first: u16, count: u16, fate: Fate) -> Result<Vec<u8>, Malformed> {
    let mut scratch = vec![0xaa; 50];
    cut(buf, first, count, fate, &mut scratch).map(|Cut { head, payload }| [head, payload].concat())
}

fn pieces(built: &Built, counts: &[usize]) {
    let whole = built.whole();
    let (mut first, mut payload) = (0, Vec::new());
    for &count in counts {
        let piece = written(&whole, first as u16, count as u16, Fate::Whole).unwrap();
        assert_eq!(piece, built.piece(first, count), "{count} segments from {first} of {built:?}");
        let shape = shape(&piece).unwrap();
        assert_eq!(shape.payload.div_ceil(shape.segment).max(1) as usize, count);
        payload.extend_from_slice(&piece[piece.len() - shape.payload as usize..]);
        first += count;
    }
    assert_eq!(first, built.segments());
    assert_eq!(payload, built.payload);
}

#[test]
fn any_cuts_of_five_segments_fit_together() {
    for proto in [Proto::Tcp, Proto::Udp] {
        for v6 in [false, true] {
            let built =
                Built { proto, v6, mss: 100, payload: (0..=249).cycle().take(450).collect(), ..Built::default() };
            assert_eq!(built.segments(), 5);
            for borders in 0..1 << 4 {
                let mut counts = vec![1];
                for border in 0..4 {
                    if borders >> border & 1 == 1 {
                        counts.push(1);
                    } else {
                        *counts.last_mut().unwrap() += 1;
                    }
                }
                pieces(&built, &counts);
            }
        }
    }
}

#[test]
fn an_untouched_packet_is_not_copied() {
    let whole = Built { mss: 100, payload: vec![1; 1000], ..Built::default() }.whole();
    let mut scratch = Vec::new();
    let cut = cut(&whole, 0, 10, Fate::Whole, &mut scratch).unwrap();
    assert!(std::ptr::eq(cut.head, whole.as_slice()) && cut.payload.is_empty());
    assert_eq!(scratch.capacity(), 0);
}

#[test]
fn the_payload_of_a_piece_is_not_copied() {
    let whole = Built { mss: 100, payload: vec![1; 1000], ..Built::default() }.whole();
    let mut scratch = Vec::new();
    let cut = cut(&whole, 3, 2, Fate::Marked, &mut scratch).unwrap();
    let headers = whole.len() - 1000;
    assert!(std::ptr::eq(cut.payload, &whole[headers + 300..headers + 500]));
    assert_eq!(cut.head.len(), headers);
}

#[test]
fn the_largest_packets_are_cut() {
    for (v6, proto) in [(false, Proto::Tcp), (true, Proto::Tcp), (false, Proto::Udp), (true, Proto::Udp)] {
        let room = Built { v6, proto, ..Built::default() };
        // The length of IPv4 counts its header, that of IPv6 does not.
        let payload = 65_535 + if v6 { 40 } else { 0 } + Vnet::LEN - room.whole().len();
        for mss in [1, 536, 1448, 65_495] {
            let built = Built { payload: vec![7; payload], mss, ..room.clone() };
            let segments = built.segments();
            let counts: &[usize] = if segments == 1 { &[1] } else { &[1, segments - 1] };
            pieces(&built, counts);
        }
    }
}

/// As the kernel sent them, through a device that leaves no checksum to be completed.
const KNOWN: [(&str, usize, u16); 3] = [
    (
        "4500003c6c1140004006baa80a0000010a000002a9c60050d014467500000000a002faf0d30c0000020405b40402080a63494213000000000103030a",
        20,
        16,
    ),
    (
        "600e4180000d1140fd000000000000000000000000000001fd000000000000000000000000000002e8240009000dd9cf68656c6c6f",
        40,
        6,
    ),
    ("4500002201b24000401125170a0000010a00000280600009000e277368656c6c6f21", 20, 6),
];

fn known(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

#[test]
fn checksums_of_known_packets_are_completed() {
    for (hex, start, offset) in KNOWN {
        let packet = known(hex);
        let at = start + usize::from(offset);
        // Back to the sum of the pseudo-header: that of all, less that of what follows it.
        let mut partial = packet.clone();
        partial[at..at + 2].copy_from_slice(&[0, 0]);
        let rest = one_complement(&partial[start..]);
        let checksum = u16::from_be_bytes([packet[at], packet[at + 1]]);
        let pseudo = one_complement(&[(!checksum).to_be_bytes(), (!rest).to_be_bytes()].concat());
        partial[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        let vnet = Vnet { flags: Vnet::NEEDS_CSUM, csum_start: start as u16, csum_offset: offset, ..Vnet::default() };
        let corrupt = written(&[&vnet.encode()[..], &partial].concat(), 0, 1, Fate::Corrupt(9)).unwrap();
        let headers = shape(&corrupt).unwrap().header as usize;
        // A SYN has no payload: the transport's header is hit.
        let hit = if headers == packet.len() { start } else { headers };
        let mut expected = packet.clone();
        flip(&mut expected[hit..], 9);
        assert_eq!(corrupt, [&[0; Vnet::LEN][..], &expected].concat());
    }
}

#[test]
fn known_packets_have_these_shapes() {
    let of = |hex| shape(&[&[0; Vnet::LEN][..], &known(hex)].concat()).unwrap();
    let plain = |header, payload, segment| Shape { header, payload, segment, markable: false };
    assert_eq!(of(KNOWN[0].0), plain(60, 0, 1));
    assert_eq!(of(KNOWN[1].0), plain(48, 5, 5));
    assert_eq!(of(KNOWN[2].0), plain(28, 6, 6));
}

#[test]
fn ect_asks_for_marks() {
    for v6 in [false, true] {
        for (tos, markable) in [(0, false), (1, true), (2, true), (3, false), (0xb8, false), (0xb9, true), (0xba, true)]
        {
            let built = Built { v6, tos, ..Built::default() };
            assert_eq!(shape(&built.whole()).unwrap().markable, markable, "{tos:#x}");
        }
    }
}

/// What is forwarded as one segment of headers only, and can be marked all the same.
#[test]
fn what_is_not_understood_is_one_segment() {
    let v4 = Built { tos: 2, mss: 100, payload: vec![1; 1000], ..Built::default() };
    let v6 = Built { v6: true, ..v4.clone() };
    let edited = |built: &Built, edit: &dyn Fn(&mut Vec<u8>)| {
        let mut whole = built.whole();
        edit(&mut whole);
        whole
    };
    let (ip, v4_tcp, v6_tcp) = (Vnet::LEN, Vnet::LEN + 20, Vnet::LEN + 40);
    let cases = [
        ("more fragments", edited(&v4, &|b| b[ip + 6] = 0x20)),
        ("a later fragment", edited(&v4, &|b| b[ip + 7] = 1)),
        ("another protocol", edited(&v4, &|b| b[ip + 9] = 1)),
        ("padding", edited(&v4, &|b| b.push(0))),
        ("short IPv4 header", edited(&v4, &|b| b[ip] = 0x44)),
        ("short TCP header", edited(&v4, &|b| b[v4_tcp + 12] = 0x40)),
        ("long TCP header", edited(&Built { payload: Vec::new(), ..v4.clone() }, &|b| b[v4_tcp + 12] = 0xf0)),
        ("UDP of another length", edited(&Built { proto: Proto::Udp, ..v4.clone() }, &|b| b[v4_tcp + 5] ^= 1)),
        ("segments without size", edited(&v4, &|b| b[4..6].fill(0))),
        ("segments of another protocol", edited(&v4, &|b| b[1] = Vnet::GSO_UDP_L4)),
        ("segments of fragments (UFO)", edited(&Built { proto: Proto::Udp, ..v4.clone() }, &|b| b[1] = 3)),
        ("segments of a complete checksum", edited(&v4, &|b| b[0] = 0)),
        ("segments of another checksum", edited(&v4, &|b| b[8] += 2)),
        ("fragment of IPv6", edited(&v6, &|b| b[ip + 6] = 44)),
        ("IPv6 of another length", edited(&v6, &|b| b[ip + 5] ^= 1)),
        ("endless extension header", edited(&v6, &|b| (b[ip + 6], b[v6_tcp + 1]) = (0, 255))),
        (
            "many extension headers",
            edited(&v6, &|b| {
                b[ip + 6] = 0;
                b[v6_tcp..].fill(0);
            }),
        ),
    ];
    for (what, buf) in cases {
        let length = buf.len() - Vnet::LEN;
        assert_eq!(shape(&buf), Ok(Shape { header: length as u32, payload: 0, segment: 1, markable: true }), "{what}");
        assert_eq!(written(&buf, 0, 1, Fate::Whole).as_ref(), Ok(&buf), "{what}");
        let marked = written(&buf, 0, 1, Fate::Marked).unwrap();
        assert_eq!(marked.len(), buf.len(), "{what}");
        assert_eq!(
            marked[ip..ip + 2].to_vec(),
            [buf[ip], buf[ip + 1] | if buf[ip] >> 4 == 4 { 3 } else { 0x30 }],
            "{what}"
        );
        assert_eq!(
            written(&buf, 1, 1, Fate::Whole),
            Err(Malformed::Segments { first: 1, count: 1, segments: 1 }),
            "{what}"
        );
    }
}

#[test]
fn bytes_that_are_no_ip_are_forwarded() {
    for packet in [&[0x45][..], &[0x60; 39], &[0x00; 100], &[0xff; 1500]] {
        let buf = [&[0; Vnet::LEN][..], packet].concat();
        let length = packet.len() as u32;
        assert_eq!(shape(&buf), Ok(Shape { header: length, payload: 0, segment: 1, markable: false }));
        assert_eq!(written(&buf, 0, 1, Fate::Marked).as_ref(), Ok(&buf));
        let mut corrupt = buf.clone();
        flip(&mut corrupt[Vnet::LEN..], 7);
        assert_eq!(written(&buf, 0, 1, Fate::Corrupt(7)).as_ref(), Ok(&corrupt));
    }
}

#[test]
fn what_is_no_packet_is_refused() {
    assert_eq!(shape(&[]), Err(Malformed::Short(0)));
    assert_eq!(shape(&[0; Vnet::LEN]), Err(Malformed::Short(Vnet::LEN)));
    assert_eq!(shape(&vec![0; MAX_LEN + 1]), Err(Malformed::Long(MAX_LEN + 1)));
    let vnet = Vnet { flags: Vnet::NEEDS_CSUM, csum_start: 20, csum_offset: 16, ..Vnet::default() };
    let outside = |length: usize| shape(&[&vnet.encode()[..], &vec![0; length]].concat());
    assert_eq!(outside(37), Err(Malformed::Checksum { start: 20, offset: 16 }));
    assert!(outside(38).is_ok());
    let whole = Built { mss: 100, payload: vec![1; 1000], ..Built::default() }.whole();
    for (first, count, fate) in [
        (0, 0, Fate::Whole),
        (0, 11, Fate::Whole),
        (10, 1, Fate::Marked),
        (u16::MAX, u16::MAX, Fate::Whole),
        (3, 2, Fate::Corrupt(0)),
    ] {
        assert_eq!(written(&whole, first, count, fate), Err(Malformed::Segments { first, count, segments: 10 }));
    }
}

/// A checksum that comes out as zero means to UDP that there is none: it is sent as the other zero.
#[test]
fn udp_has_no_checksum_of_zero() {
    let mut built = Built { proto: Proto::Udp, payload: vec![0, 0, 1], mss: 3, ..Built::default() };
    let plain = built.completed(0);
    let at = plain.len() - 5;
    // The payload takes up the checksum: the sum of all is then the other zero.
    built.payload[..2].copy_from_slice(&plain[at..at + 2]);
    let completed = built.completed(0);
    assert_eq!(completed[at..at + 2], [0xff, 0xff]);
    let corrupt = written(&built.whole(), 0, 1, Fate::Corrupt(23)).unwrap();
    assert_eq!(corrupt[at..at + 2], [0xff, 0xff]);
}

/// What all of these are written as, and how many of them that is.
fn join(packets: &[Vec<u8>]) -> (usize, Vec<u8>) {
    let mut joined = Joined::default();
    let count = packets.iter().take_while(|packet| joined.push(packet)).count();
    assert_eq!(joined.count(), count);
    let packet = joined.take().to_vec();
    assert!(joined.take().is_empty(), "once");
    (count, packet)
}

fn datagrams(payload: usize) -> Built {
    Built { proto: Proto::Udp, mss: 36, payload: (0..=251).cycle().take(payload).collect(), ..Built::default() }
}

fn singles(built: &Built) -> Vec<Vec<u8>> {
    (0..built.segments()).map(|n| built.piece(n, 1)).collect()
}

/// Puts the right checksum into a header of IPv4.
fn sum_anew(packet: &mut [u8]) {
    let header = &mut packet[Vnet::LEN..Vnet::LEN + 20];
    header[10..12].fill(0);
    let sum = !one_complement(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn datagrams_that_leave_together_are_one_packet() {
    for v6 in [false, true] {
        // The last is shorter, or as long as the others, or there is one only.
        for payload in [36 * 20 + 1, 36 * 20, 36, 7] {
            let built = Built { v6, ..datagrams(payload) };
            assert_eq!(join(&singles(&built)), (built.segments(), built.whole()), "{payload} bytes");
        }
    }
    let built = datagrams(36 * 5);
    let mut joined = Joined::default();
    for _ in 0..2 {
        assert!(singles(&built).iter().all(|packet| joined.push(packet)));
        assert_eq!(joined.take(), built.whole());
    }
}

#[test]
fn as_many_are_joined_as_a_packet_may_hold() {
    assert_eq!(join(&singles(&datagrams(36 * 70))).0, 64);
    let long = Built { mss: 8972, payload: vec![1; 8972 * 10], ..datagrams(0) };
    let (count, packet) = join(&(0..10).map(|n| long.piece(n, 1)).collect::<Vec<_>>());
    assert_eq!((count, packet), (7, long.piece(0, 7)));
}

#[test]
fn what_the_kernel_would_not_segment_so_is_not_joined() {
    let (ip, udp) = (Vnet::LEN, Vnet::LEN + 20);
    // What may be fragmented needs its identification.
    let fragmentable = |mut packet: Vec<u8>| {
        packet[ip + 6] = 0;
        sum_anew(&mut packet);
        packet
    };
    let [one, two] = [0, 1].map(|n| fragmentable(datagrams(36 * 3).piece(n, 1)));
    assert_eq!(join(&[one.clone(), two.clone()]).0, 2);
    let edited = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut two = two.clone();
        edit(&mut two);
        sum_anew(&mut two);
        two
    };
    let longer = fragmentable(Built { mss: 37, id: 0xffff, ..datagrams(37) }.whole());
    for (what, second) in [
        ("another source", edited(&|b| b[ip + 15] ^= 1)),
        ("another destination", edited(&|b| b[ip + 19] ^= 1)),
        ("another port it comes from", edited(&|b| b[udp] ^= 1)),
        ("another port it goes to", edited(&|b| b[udp + 3] ^= 1)),
        ("another class", edited(&|b| b[ip + 1] ^= 4)),
        ("another number of hops left", edited(&|b| b[ip + 8] ^= 1)),
        ("not the next identification", edited(&|b| b[ip + 5] ^= 1)),
        ("a wrong checksum of IP", [&two[..ip + 10], &[9, 9], &two[ip + 12..]].concat()),
        ("a complete checksum", edited(&|b| b[0] = 0)),
        ("one that says more", edited(&|b| b[0] |= 2)),
        ("a longer one", longer),
        ("a super-packet", datagrams(36 * 3).whole()),
        ("TCP", Built { proto: Proto::Tcp, ..datagrams(36) }.whole()),
        ("IPv6", Built { v6: true, ..datagrams(36) }.whole()),
        ("options", Built { ip_options: 1, ..datagrams(36) }.whole()),
        ("no payload", datagrams(0).whole()),
        ("no packet", vec![0; 5]),
    ] {
        assert_eq!(join(&[one.clone(), second.clone()]).0, 1, "{what}");
    }
    let last = fragmentable(Built { id: 0xffff, ..datagrams(35) }.whole());
    let after = fragmentable(Built { id: 0, ..datagrams(35) }.whole());
    assert_eq!(join(&[one, last, after]).0, 2, "after a shorter one");
}

/// RFC 6864: it means nothing where there are no fragments, and Linux has zero there for sockets that are not connected.
#[test]
fn an_identification_without_meaning_is_no_obstacle() {
    let whole = |id, byte| Built { id, payload: vec![byte; 36], ..datagrams(36) }.whole();
    let (count, packet) = join(&[whole(0, 1), whole(0, 2), whole(7, 3)]);
    assert_eq!(count, 3);
    assert!(packet.ends_with(&[[1; 36], [2; 36], [3; 36]].concat()));
}

proptest! {
    #[test]
    fn what_is_joined_is_cut_into_the_same(built in built::packets(), damage in (0usize..130, any::<u8>())) {
        let mut packets = singles(&built);
        if let Some(hit) = packets.last_mut().and_then(|last| last.get_mut(damage.0)) {
            *hit = damage.1;
        }
        let (count, whole) = join(&packets);
        for n in 0..count {
            let piece = written(&whole, n as u16, 1, Fate::Whole).unwrap();
            // One segment has no use for the length of its headers and the size of segments.
            let same = |piece: &[u8]| piece[..2] == packets[n][..2] && piece[6..] == packets[n][6..];
            let is_df = packets[0][Vnet::LEN] >> 4 == 4 && packets[0][Vnet::LEN + 6] & 0x40 != 0;
            prop_assert!(same(&piece) || is_df, "{n} of {count}");
        }
    }

    #[test]
    fn pieces_are_as_if_built_so(built in built::packets(), lengths in prop::collection::vec(1usize..20, 0..40)) {
        let mut left = built.segments();
        let mut counts = Vec::new();
        for length in lengths.into_iter().chain([usize::MAX]) {
            let count = length.min(left);
            left -= count;
            counts.extend((count > 0).then_some(count));
        }
        pieces(&built, &counts);
    }

    #[test]
    fn marks_are_all_that_changes(built in built::packets(), at in any::<prop::sample::Index>(), count in 1usize..10) {
        let first = at.index(built.segments());
        let count = count.min(built.segments() - first);
        let marked = written(&built.whole(), first as u16, count as u16, Fate::Marked).unwrap();
        let ce = Built { tos: built.tos | 3, ..built.clone() };
        prop_assert_eq!(marked, ce.piece(first, count));
    }

    #[test]
    fn one_bit_is_all_that_is_wrong(built in built::packets(), at in any::<prop::sample::Index>(), bit: u32) {
        let first = at.index(built.segments());
        let mut corrupt = written(&built.whole(), first as u16, 1, Fate::Corrupt(bit)).unwrap();
        let completed = built.completed(first);
        prop_assert!(!built.verifies(&corrupt));
        let headers = shape(&built.whole()).unwrap().header as usize + Vnet::LEN;
        let from = if headers < corrupt.len() { headers } else { built.transport_start() };
        flip(&mut corrupt[from..], bit as usize);
        prop_assert!(built.verifies(&corrupt));
        prop_assert_eq!(corrupt, completed);
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(buf in prop::collection::vec(any::<u8>(), 0..300), first: u16, count: u16, bit: u32) {
        survives(&buf, first, count, bit);
    }

    #[test]
    fn damaged_packets_do_no_harm(
        built in built::packets(),
        damage in prop::collection::vec((0usize..130, any::<u8>()), 0..4),
        keep in any::<prop::sample::Index>(),
        (cuts, first, count, bit) in any::<(bool, u16, u16, u32)>(),
    ) {
        let mut buf = built.whole();
        for (at, byte) in damage {
            if let Some(hit) = buf.get_mut(at) {
                *hit = byte;
            }
        }
        if cuts {
            buf.truncate(keep.index(buf.len()));
        }
        survives(&buf, first, count, bit);
    }
}

/// Whatever the bytes are: no panic, and a packet with a shape has as many segments as the shape says.
fn survives(buf: &[u8], first: u16, count: u16, bit: u32) {
    for fate in [Fate::Whole, Fate::Marked, Fate::Corrupt(bit)] {
        if let Ok(written) = written(buf, first, count, fate) {
            assert!(written.len() <= buf.len());
        }
    }
    let Ok(shape) = shape(buf) else { return };
    assert_eq!((shape.header + shape.payload) as usize, buf.len() - Vnet::LEN);
    let segments = shape.payload.div_ceil(shape.segment).max(1) as u16;
    assert_eq!(written(buf, 0, segments, Fate::Whole).as_deref(), Ok(buf));
    let mut payload = 0;
    for segment in 0..segments {
        let written = written(buf, segment, 1, Fate::Marked).unwrap();
        payload += written.len() - Vnet::LEN - shape.header as usize;
        assert!(written_again(&written));
    }
    assert_eq!(payload, shape.payload as usize);
    assert!(written(buf, segments, 1, Fate::Whole).is_err());
}

/// What is written by one link is read by the next.
fn written_again(buf: &[u8]) -> bool {
    written(buf, 0, 1, Fate::Corrupt(0)).is_ok_and(|corrupt| corrupt.len() == buf.len())
}
