//! The Internet checksum (RFC 1071) and its change with one word (RFC 1624).

/// Adds `bytes` to `sum`, in one's complement; an odd last byte counts as if a zero followed.
pub(super) fn add(sum: u16, bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |&last| u64::from(last) << 8);
    fold(words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>() + u64::from(sum) + odd)
}

/// `sum` after one word that is in it went from `old` to `new`.
///
/// A checksum is the complement of a sum: complement it before and after (equation 3 of RFC 1624).
pub(super) fn replace(sum: u16, old: u16, new: u16) -> u16 {
    fold(u64::from(sum) + u64::from(!old) + u64::from(new))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[test]
fn example_of_rfc_1071() {
    assert_eq!(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
}

#[test]
fn example_of_rfc_1624() {
    assert_eq!(!replace(!0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn an_odd_byte_is_the_high_one() {
    assert_eq!(add(1, &[0x12, 0x34, 0x56]), 0x1234 + 0x5600 + 1);
}

#[test]
fn the_longest_sum_folds() {
    assert_eq!(add(0xffff, &[0xff; 65_535]), 0xff00);
}
