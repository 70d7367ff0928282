use proptest::prelude::*;

use super::*;

const KINDS: [DigestKind; 6] = [
    DigestKind::Adler32,
    DigestKind::Crc32c,
    DigestKind::Md5,
    DigestKind::Sha256,
    DigestKind::Blake3,
    DigestKind::Xxh3,
];

fn of(kind: DigestKind, bytes: &[u8]) -> String {
    let mut digest = Digest::new(kind);
    digest.update(bytes);
    digest.finish().to_string()
}

/// Of nothing and of the check string of the CRC catalogue.
#[test]
fn known_answers() {
    let known = [
        // RFC 1950 for the empty string; the other by hand: a = 1 + 477 = 0x1de, b = 0x91e.
        (DigestKind::Adler32, "00000001", "091e01de"),
        // RFC 3720, and the catalogue's CRC-32/ISCSI.
        (DigestKind::Crc32c, "00000000", "e3069283"),
        // RFC 1321, and md5sum.
        (DigestKind::Md5, "d41d8cd98f00b204e9800998ecf8427e", "25f9e794323b453885f5181f1b624d0b"),
        // FIPS 180-4, and sha256sum.
        (
            DigestKind::Sha256,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
        ),
        // BLAKE3's test_vectors.json for the empty string; the other from its reference implementation.
        (
            DigestKind::Blake3,
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1",
        ),
        // XXH3_64bits with seed 0: the first from the xxHash test suite, the other from its C library.
        (DigestKind::Xxh3, "2d06800538d394c2", "72dcb18b67a17dff"),
    ];
    for (kind, empty, digits) in known {
        assert_eq!(of(kind, b""), empty, "{kind:?}");
        assert_eq!(of(kind, b"123456789"), digits, "{kind:?}");
    }
}

#[test]
fn leading_zeros_are_shown() {
    let value = DigestValue::new(DigestKind::Crc32c, &[0, 1, 2, 255]);
    assert_eq!(
        (value.to_string().as_str(), value.kind(), value.as_bytes()),
        ("000102ff", DigestKind::Crc32c, &[0, 1, 2, 255][..])
    );
    assert_eq!(format!("{value:?}"), "Crc32c:000102ff");
}

/// A petabyte hole takes no time where there is a shorter way.
#[test]
fn huge_holes() {
    const PETA: u64 = 1_000_000_000_000_000;
    for kind in [DigestKind::Adler32, DigestKind::Crc32c] {
        let (mut whole, mut halves) = (Digest::new(kind), Digest::new(kind));
        for digest in [&mut whole, &mut halves] {
            digest.update(b"head");
        }
        whole.update_zeros(PETA + 7);
        halves.update_zeros(PETA / 2 + 7);
        halves.update_zeros(PETA / 2);
        for digest in [&mut whole, &mut halves] {
            digest.update(b"tail");
        }
        assert_eq!(whole.finish(), halves.finish(), "{kind:?}");
    }
}

fn pieces() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    // Bytes, then a hole; short ones and some around the length of the page of zeros.
    let hole = prop_oneof![0_u64..300, 65_500_u64..65_600, 130_000_u64..400_000];
    prop::collection::vec((prop::collection::vec(any::<u8>(), 0..2000), hole), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunking_does_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..20_000), cuts in prop::collection::vec(1_usize..5000, 1..20)) {
        for kind in KINDS {
            let mut digest = Digest::new(kind);
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                let (head, tail) = rest.split_at(rest.len().min(*cut));
                digest.update(head);
                rest = tail;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(digest.finish().to_string(), of(kind, &bytes));
        }
    }

    #[test]
    fn holes_are_zeros(pieces in pieces()) {
        for kind in KINDS {
            let mut digest = Digest::new(kind);
            let mut flat = Vec::new();
            for (bytes, hole) in &pieces {
                digest.update(bytes);
                digest.update_zeros(*hole);
                flat.extend_from_slice(bytes);
                flat.resize(flat.len() + *hole as usize, 0);
            }
            prop_assert_eq!(digest.finish().to_string(), of(kind, &flat));
        }
    }

    /// Readers finish in any order, keep what does not fit, and offer some twice: it comes out once, in order.
    #[test]
    fn a_lane_orders(window in 1_usize..6, picks in prop::collection::vec(any::<prop::sample::Index>(), 60)) {
        let mut lane = Lane::new(window);
        let (mut held, mut begun, mut out) = (Vec::new(), 0_u64, Vec::new());
        for pick in picks {
            // As many readers as the window and one more, so that its end is met.
            while held.len() <= window {
                held.push(begun);
                begun += 1;
            }
            let no = held.swap_remove(pick.index(held.len()));
            match lane.offer(no, no) {
                Ok(ready) => out.extend(ready),
                Err(back) => held.push(back),
            }
            if let Ok(again) = lane.offer(no, u64::MAX) && !held.contains(&no) {
                prop_assert_eq!(again.count(), 0);
            }
        }
        prop_assert_eq!(&out, &(0..out.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(lane.next_no(), out.len() as u64);
    }
}

#[test]
fn a_lane_has_an_end() {
    let mut lane = Lane::new(2);
    assert_eq!(lane.offer(1, 'b').unwrap().count(), 0);
    assert_eq!(lane.offer(2, 'c').err(), Some('c'));
    assert_eq!(lane.offer(0, 'a').unwrap().collect::<String>(), "ab");
    assert_eq!(lane.offer(2, 'c').unwrap().collect::<String>(), "c");
}
