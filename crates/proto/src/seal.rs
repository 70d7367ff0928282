//! Checks and seals of records, by protection.
//!
//! | protection | check field | payload | defends against |
//! |---|---|---|---|
//! | clear | CRC-64/NVME of the payload, then CRC-64/NVME of header and that | as it is | accidents |
//! | integrity | AES-128-GCM tag over payload (associated) and header (message, its ciphertext is not sent) | as it is | accidents and tampering |
//! | private | AES-128-GCM tag over header (associated) and payload | encrypted | accidents, tampering and reading |
//!
//! Keys: each stream and direction has a secret; epoch `e` of it has the key and the nonce salt
//! `HKDF-Expand(secret, "longhaul record" ‖ e)`. The nonce of record `n` is the salt xor `n`, and record
//! numbers are counted, not sent, so a record that is dropped, repeated or moved fails its check. A new epoch
//! begins every 2^18 records: at most 64 GiB or 2^32 blocks, where RFC 8446 section 5.5 allows a key 2^24.5
//! records of 2^10 blocks.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use crc_fast::{CrcAlgorithm, Digest, checksum};
use serde::{Deserialize, Serialize};

use crate::record::{CHECK, HEADER_COVERED};

/// How the data of a session is protected. The control connection is always TLS 1.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// A checksum against accidents.
    Clear,
    /// A keyed code against accidents and tampering.
    Integrity,
    /// Authenticated encryption.
    #[default]
    Private,
}

/// Records between two keys.
pub const RECORDS_PER_EPOCH: u64 = 1 << 18;

/// A record whose check fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// Header and payload cannot be trusted: the stream is out of step or somebody tampers. Close it.
    #[error("record does not pass its check: the stream is corrupt or tampered with")]
    Stream,
    /// The header is right, the payload is not (clear only): ask for the parcel again.
    #[error("payload of a record does not match its checksum")]
    Payload,
}

/// One direction of one stream: seals what is sent or opens what is received, in order.
pub struct Sealer {
    protection: Protection,
    secret: hkdf::Prk,
    key: LessSafeKey,
    salt: [u8; 12],
    count: u64,
}

impl Sealer {
    /// A sealer for a stream's direction, from the secret of [`crate::hello`].
    #[must_use]
    pub fn new(protection: Protection, secret: &[u8; 32]) -> Sealer {
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret);
        let (key, salt) = epoch_key(&secret, 0);
        Sealer { protection, secret, key, salt, count: 0 }
    }

    /// Seals one record and gives its check. With [`Protection::Private`] the encrypted payload is written to
    /// the front of `out`, which must be as long as the payload; else `out` is left alone and the payload
    /// itself is what is sent. The payload stays as it is, so a chunk can be sent twice.
    ///
    /// Writing to a small buffer that stays in cache is cheaper than encrypting a chunk in place.
    pub fn seal(&mut self, header: &[u8; HEADER_COVERED], payload: &[u8], out: &mut [u8]) -> [u8; CHECK] {
        let nonce = self.next_nonce();
        match self.protection {
            Protection::Clear => clear_check(header, payload_check(payload)),
            Protection::Integrity => self.mac(nonce, header, payload),
            Protection::Private => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                let mut tag = [0; CHECK];
                let out = &mut out[..payload.len()];
                let sealed = self.key.seal_out_of_place_scatter(nonce, Aad::from(header), payload, out, &[], &mut tag);
                sealed.expect("payload is below the limit of AES-GCM");
                tag
            }
        }
    }

    /// As [`Sealer::seal`] with [`Protection::Clear`], for a payload that was checked while it was made.
    pub fn seal_checked(&mut self, header: &[u8; HEADER_COVERED], payload: PayloadCheck) -> [u8; CHECK] {
        debug_assert_eq!(self.protection, Protection::Clear);
        self.next_nonce();
        clear_check(header, payload.0.finalize().to_le_bytes())
    }

    /// Opens one record: checks it and decrypts the payload in place (private only).
    ///
    /// # Errors
    /// [`CheckError::Payload`] for a payload that is wrong under a header that is right (clear only); the
    /// stream stays usable. [`CheckError::Stream`] for everything else.
    pub fn open(
        &mut self,
        header: &[u8; HEADER_COVERED],
        check: &[u8; CHECK],
        payload: &mut [u8],
    ) -> Result<(), CheckError> {
        let nonce = self.next_nonce();
        match self.protection {
            Protection::Clear => {
                if check[8..] != header_check(header, &check[..8]) {
                    return Err(CheckError::Stream);
                }
                if check[..8] == payload_check(payload) { Ok(()) } else { Err(CheckError::Payload) }
            }
            Protection::Integrity => {
                let same = aws_lc_rs::constant_time::verify_slices_are_equal(&self.mac(nonce, header, payload), check);
                same.map_err(|_| CheckError::Stream)
            }
            Protection::Private => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                let opened = self.key.open_in_place_separate_tag(nonce, Aad::from(header), check, payload);
                opened.map(|_| ()).map_err(|_| CheckError::Stream)
            }
        }
    }

    /// One tag over payload (associated data) and header (message), without joining them in memory.
    fn mac(&self, nonce: [u8; 12], header: &[u8; HEADER_COVERED], payload: &[u8]) -> [u8; CHECK] {
        // The encrypted header is thrown away: only its tag counts.
        let mut message = *header;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(payload), &mut message);
        tag.expect("payload is below the limit of AES-GCM").as_ref().try_into().expect("16 bytes")
    }

    fn next_nonce(&mut self) -> [u8; 12] {
        let n = self.count;
        if n != 0 && n.is_multiple_of(RECORDS_PER_EPOCH) {
            (self.key, self.salt) = epoch_key(&self.secret, n / RECORDS_PER_EPOCH);
        }
        self.count = n.checked_add(1).expect("2^64 records of one stream");
        let mut nonce = self.salt;
        for (b, x) in nonce[4..].iter_mut().zip(n.to_be_bytes()) {
            *b ^= x;
        }
        nonce
    }
}

/// The check of a payload with [`Protection::Clear`], piece by piece.
pub struct PayloadCheck(Digest);

impl Default for PayloadCheck {
    fn default() -> PayloadCheck {
        PayloadCheck(Digest::new(CrcAlgorithm::Crc64Nvme))
    }
}

impl PayloadCheck {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }
}

fn clear_check(header: &[u8; HEADER_COVERED], payload: [u8; 8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    check[..8].copy_from_slice(&payload);
    let over = header_check(header, &check[..8]);
    check[8..].copy_from_slice(&over);
    check
}

fn payload_check(payload: &[u8]) -> [u8; 8] {
    checksum(CrcAlgorithm::Crc64Nvme, payload).to_le_bytes()
}

fn header_check(header: &[u8; HEADER_COVERED], payload_check: &[u8]) -> [u8; 8] {
    let mut all = [0; HEADER_COVERED + 8];
    all[..HEADER_COVERED].copy_from_slice(header);
    all[HEADER_COVERED..].copy_from_slice(payload_check);
    checksum(CrcAlgorithm::Crc64Nvme, &all).to_le_bytes()
}

struct Len(usize);

impl hkdf::KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// `HKDF-Expand(secret, parts)`, 28 bytes: 16 of key, 12 of nonce salt.
fn epoch_key(secret: &hkdf::Prk, epoch: u64) -> (LessSafeKey, [u8; 12]) {
    let mut out = [0; 28];
    expand(secret, &[b"longhaul record", &epoch.to_be_bytes()], &mut out);
    let key = UnboundKey::new(&AES_128_GCM, &out[..16]).expect("16 bytes of key");
    (LessSafeKey::new(key), out[16..].try_into().expect("12 bytes"))
}

pub(crate) fn expand(secret: &hkdf::Prk, parts: &[&[u8]], out: &mut [u8]) {
    let okm = secret.expand(parts, Len(out.len())).expect("short output");
    okm.fill(out).expect("length was given");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Protection; 3] = [Protection::Clear, Protection::Integrity, Protection::Private];

    #[test]
    fn order_repeat_and_key_matter() {
        for protection in [Protection::Integrity, Protection::Private] {
            let (mut tx, mut rx) = (Sealer::new(protection, &[1; 32]), Sealer::new(protection, &[1; 32]));
            let mut payload = [7; 100];
            let mut first = payload;
            let check = tx.seal(&[0; 32], &payload, &mut first);
            payload = first;
            assert!(rx.open(&[0; 32], &check, &mut payload).is_ok());
            payload = first;
            assert_eq!(rx.open(&[0; 32], &check, &mut payload), Err(CheckError::Stream), "a repeat");
            let mut other = Sealer::new(protection, &[2; 32]);
            payload = first;
            assert_eq!(other.open(&[0; 32], &check, &mut payload), Err(CheckError::Stream), "another key");
        }
    }

    #[test]
    fn epochs_agree() {
        let (mut tx, mut rx) = (Sealer::new(Protection::Private, &[1; 32]), Sealer::new(Protection::Private, &[1; 32]));
        (tx.count, rx.count) = (RECORDS_PER_EPOCH - 1, RECORDS_PER_EPOCH - 1);
        for i in 0..3u8 {
            let mut payload = [0; 64];
            let check = tx.seal(&[i; 32], &[i; 64], &mut payload);
            rx.open(&[i; 32], &check, &mut payload).unwrap();
            assert_eq!(payload, [i; 64]);
        }
    }

    proptest! {
        #[test]
        fn every_flipped_bit_is_found(payload in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index, which in 0usize..3) {
            let protection = ALL[which];
            let header = [9u8; HEADER_COVERED];
            let mut sealed = payload.clone();
            let check = Sealer::new(protection, &[3; 32]).seal(&header, &payload, &mut sealed);
            let mut whole: Vec<u8> = [&header[..], &check, &sealed].concat();
            let bit = at.index(whole.len() * 8);
            whole[bit / 8] ^= 1 << (bit % 8);
            let (h, rest) = whole.split_at_mut(HEADER_COVERED);
            let (c, p) = rest.split_at_mut(CHECK);
            let got = Sealer::new(protection, &[3; 32]).open((&*h).try_into().unwrap(), (&*c).try_into().unwrap(), p);
            let in_payload = bit / 8 >= HEADER_COVERED + CHECK;
            let expected = if protection == Protection::Clear && in_payload { CheckError::Payload } else { CheckError::Stream };
            prop_assert_eq!(got, Err(expected));
        }
    }
}
