//! Digests of whole files, computed in the pass that copies them.
//!
//! A [`Digest`] takes the bytes of a file strictly in order. Chunks are read and written in any order, so a
//! [`Lane`] in front of it puts them in order.

mod lane;
#[cfg(test)]
mod tests;

use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use md5::Md5;
use md5::digest::Digest as _;
use proto::control::DigestKind;
use simd_adler32::Adler32;
use xxhash_rust::xxh3::Xxh3;

pub use lane::Lane;

/// Zeros that are hashed where no shorter way is known, and below which none is looked for.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The largest prime below 2¹⁶, the modulus of Adler-32 (RFC 1950).
const ADLER_MOD: u64 = 65521;

/// Bytes of the longest digest.
const VALUE_BYTES_MAX: usize = 32;

/// A digest in the making.
#[derive(Clone)]
pub struct Digest {
    state: State,
}

#[derive(Clone)]
enum State {
    Adler32(Adler32),
    Crc32c(Box<crc_fast::Digest>),
    Md5(Box<Md5>),
    Sha256(Box<Context>),
    Blake3(Box<blake3::Hasher>),
    Xxh3(Box<Xxh3>),
}

/// A finished digest. Shown as lower-case hex, as `sha256sum` and its kin and WLCG's catalogues do.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DigestValue {
    kind: DigestKind,
    bytes: [u8; VALUE_BYTES_MAX],
}

impl Digest {
    /// Of nothing so far.
    #[must_use]
    pub fn new(kind: DigestKind) -> Digest {
        let state = match kind {
            DigestKind::Adler32 => State::Adler32(Adler32::new()),
            DigestKind::Crc32c => State::Crc32c(Box::new(crc_fast::Digest::new(Crc32Iscsi))),
            DigestKind::Md5 => State::Md5(Box::default()),
            DigestKind::Sha256 => State::Sha256(Box::new(Context::new(&SHA256))),
            DigestKind::Blake3 => State::Blake3(Box::default()),
            DigestKind::Xxh3 => State::Xxh3(Box::default()),
        };
        Digest { state }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Adler32(adler) => adler.write(bytes),
            State::Crc32c(crc) => crc.update(bytes),
            State::Md5(md5) => md5.update(bytes),
            State::Sha256(sha) => sha.update(bytes),
            State::Blake3(blake) => {
                blake.update(bytes);
            }
            State::Xxh3(xxh) => xxh.update(bytes),
        }
    }

    /// Takes a hole: `len_bytes` zeros. For Adler-32 and CRC-32C that costs O(log) of its length; the others
    /// have no way but to hash zeros.
    pub fn update_zeros(&mut self, len_bytes: u64) {
        match &mut self.state {
            State::Adler32(adler) => *adler = adler_zeros(adler, len_bytes),
            State::Crc32c(crc) => crc_zeros(crc, len_bytes),
            _ => {
                let mut left = len_bytes;
                while left > 0 {
                    let step = left.min(ZEROS.len() as u64);
                    self.update(&ZEROS[..step as usize]);
                    left -= step;
                }
            }
        }
    }

    /// The digest of all that was taken.
    #[must_use]
    pub fn finish(self) -> DigestValue {
        match self.state {
            State::Adler32(adler) => DigestValue::new(DigestKind::Adler32, &adler.finish().to_be_bytes()),
            State::Crc32c(crc) => DigestValue::new(DigestKind::Crc32c, &(crc.finalize() as u32).to_be_bytes()),
            State::Md5(md5) => DigestValue::new(DigestKind::Md5, &md5.finalize()),
            State::Sha256(sha) => DigestValue::new(DigestKind::Sha256, sha.finish().as_ref()),
            State::Blake3(blake) => DigestValue::new(DigestKind::Blake3, blake.finalize().as_bytes()),
            State::Xxh3(xxh) => DigestValue::new(DigestKind::Xxh3, &xxh.digest().to_be_bytes()),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.clone().finish())
    }
}

/// With a zero, Adler's sum `a` stays and `a` is added to `b`.
fn adler_zeros(adler: &Adler32, len_bytes: u64) -> Adler32 {
    let sum = u64::from(adler.finish());
    let (a, b) = (sum & 0xffff, sum >> 16);
    let b = (b + len_bytes % ADLER_MOD * a) % ADLER_MOD;
    Adler32::from_checksum((b << 16 | a) as u32)
}

/// CRCs of runs of zeros are made by doubling, and combined.
fn crc_zeros(crc: &mut crc_fast::Digest, len_bytes: u64) {
    let (mut runs, rest) = (len_bytes / ZEROS.len() as u64, len_bytes % ZEROS.len() as u64);
    crc.update(&ZEROS[..rest as usize]);
    if runs == 0 {
        return;
    }
    let mut run = crc_fast::Digest::new(Crc32Iscsi);
    run.update(&ZEROS);
    loop {
        if runs & 1 == 1 {
            crc.combine(&run);
        }
        runs >>= 1;
        if runs == 0 {
            return;
        }
        let same = run;
        run.combine(&same);
    }
}

impl DigestValue {
    fn new(kind: DigestKind, digest: &[u8]) -> DigestValue {
        assert_eq!(digest.len(), value_bytes(kind), "length of {kind:?}");
        let mut bytes = [0; VALUE_BYTES_MAX];
        bytes[..digest.len()].copy_from_slice(digest);
        DigestValue { kind, bytes }
    }

    /// What made it.
    #[must_use]
    pub fn kind(&self) -> DigestKind {
        self.kind
    }

    /// The bytes, most significant first where it is a number.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..value_bytes(self.kind)]
    }
}

const fn value_bytes(kind: DigestKind) -> usize {
    match kind {
        DigestKind::Adler32 | DigestKind::Crc32c => 4,
        DigestKind::Xxh3 => 8,
        DigestKind::Md5 => 16,
        DigestKind::Sha256 | DigestKind::Blake3 => 32,
    }
}

impl fmt::Display for DigestValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for DigestValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{self}", self.kind)
    }
}
