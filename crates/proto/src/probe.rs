//! Questions over a path, and their answers: one UDP datagram of [`BYTES`] each way, so that nothing is amplified.
//!
//! ```text
//!  0      4      5      6    8          16         24         32                 64
//!  ├──────┼──────┼──────┼────┼──────────┼──────────┼──────────┼──────────────────┤
//!  │ LHPB │ kind │ vers │ 0  │ path     │ number   │ sent, µs │ HMAC-SHA256      │   big endian
//!  └──────┴──────┴──────┴────┴──────────┴──────────┴──────────┴──────────────────┘
//! ```
//!
//! The key belongs to one path and comes to both ends over their authenticated connections to the controller. An answer repeats the
//! number and the time of its question, which mean something to the asking end alone.

use crate::hello::{SessionKey, mac, verify};

/// Length of a question, and of an answer, bytes.
pub const BYTES: usize = 64;
/// What is before the tag.
const SAID: usize = 32;
const MAGIC: &[u8; 4] = b"LHPB";
const VERSION: u8 = 1;

/// A question or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// It is an answer.
    pub is_answer: bool,
    /// Over which path.
    pub path: u64,
    /// Numbers the questions of a path.
    pub number: u64,
    /// When it was asked, µs by the clock of who asks.
    pub sent_us: u64,
}

impl Probe {
    /// The datagram.
    #[must_use]
    pub fn encode(&self, key: &SessionKey) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        (bytes[4], bytes[5]) = (u8::from(self.is_answer), VERSION);
        for (at, number) in [(8, self.path), (16, self.number), (24, self.sent_us)] {
            bytes[at..at + 8].copy_from_slice(&number.to_be_bytes());
        }
        let tag = mac(key, b"probe", &[&bytes[..SAID]]);
        bytes[SAID..].copy_from_slice(&tag);
        bytes
    }

    /// Of which path a datagram says to be; nothing of it is checked but its form.
    #[must_use]
    pub fn path_of(bytes: &[u8]) -> Option<u64> {
        let is_ours = bytes.len() == BYTES && bytes[..4] == *MAGIC && bytes[4] <= 1 && bytes[5..8] == [VERSION, 0, 0];
        is_ours.then(|| number_at(bytes, 8))
    }

    /// Reads a datagram; `None` if it is none, or its tag is not of this key.
    #[must_use]
    pub fn decode(bytes: &[u8], key: &SessionKey) -> Option<Probe> {
        let path = Probe::path_of(bytes)?;
        verify(key, b"probe", &[&bytes[..SAID]], &bytes[SAID..]).ok()?;
        Some(Probe { is_answer: bytes[4] == 1, path, number: number_at(bytes, 16), sent_us: number_at(bytes, 24) })
    }

    /// The answer to this question.
    #[must_use]
    pub fn answer(self) -> Probe {
        Probe { is_answer: true, ..self }
    }
}

/// Eight bytes from there on; the caller knows the length.
fn number_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: SessionKey = SessionKey([7; 32]);

    proptest! {
        #[test]
        fn a_probe_comes_back_as_it_was(is_answer: bool, path: u64, number: u64, sent_us: u64) {
            let probe = Probe { is_answer, path, number, sent_us };
            let bytes = probe.encode(&KEY);
            prop_assert_eq!(Probe::path_of(&bytes), Some(path));
            prop_assert_eq!(Probe::decode(&bytes, &KEY), Some(probe));
            prop_assert_eq!(Probe::decode(&bytes, &SessionKey([8; 32])), None);
        }

        #[test]
        fn one_bit_that_changed_is_seen(at in 0..BYTES * 8, number: u64) {
            let mut bytes = Probe { is_answer: false, path: 3, number, sent_us: 9 }.encode(&KEY);
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(Probe::decode(&bytes, &KEY), None);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..130)) {
            prop_assert_eq!(Probe::decode(&bytes, &KEY), None);
        }
    }

    #[test]
    fn an_answer_is_as_long_as_its_question() {
        let question = Probe { is_answer: false, path: 1, number: 2, sent_us: 3 };
        assert_eq!(question.encode(&KEY).len(), question.answer().encode(&KEY).len());
    }
}
