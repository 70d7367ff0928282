//! Records of a data stream: 48 bytes of header, then the payload.
//!
//! ```text
//!  0     1      2     3   4        8         16       24        32            48
//!  +-----+------+-----+---+--------+---------+--------+---------+-------------+----------------+
//!  | kind| flags| gen | 0 | length | parcel  | file   | offset  | check, 16 B | payload        |
//!  +-----+------+-----+---+--------+---------+--------+---------+-------------+----------------+
//! ```
//!
//! All numbers are little-endian. The check covers the first 32 bytes and the payload; [`crate::seal`] says
//! how, by protection. A **parcel** is the unit that a stream carries and a destination acknowledges: the
//! records of one chunk of a file, or those of a batch of whole small files. Its records follow one another
//! on one stream, the last one flagged. What of a chunk or a small file no record covers are zeros: holes.

use crate::limits::RECORD_PAYLOAD_MAX;

/// Bytes of a record header.
pub const HEADER: usize = 48;
/// Bytes of the header that the check covers.
pub const HEADER_COVERED: usize = 32;
/// Bytes of the check.
pub const CHECK: usize = 16;

/// The record is the last one of its parcel.
pub const LAST: u8 = 1;
/// The file of this record is read to its end and had not changed: it may be published.
pub const FILE_END: u8 = 2;
/// The records after this one are the rest of a parcel that was begun on a stream that has ended: what comes before
/// them is kept by the receiver. This one has no payload and names the place, as [`Begun`](crate::control::Begun) did.
pub const REST: u8 = 4;

/// What a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Part of a chunk of a file. A chunk that is all hole is one record without payload.
    Chunk = 1,
    /// Part of a small file in a batch.
    Small = 2,
    /// Test data, counted and dropped.
    Memory = 3,
    /// The sender closes the stream in good order; no more records follow.
    End = 4,
}

/// Header of a record, without its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the record carries.
    pub kind: Kind,
    /// [`LAST`], [`FILE_END`] and [`REST`].
    pub flags: u8,
    /// How often the file was started again: data of an older state of it are dropped, not mixed.
    pub generation: u8,
    /// Bytes of payload.
    pub len: u32,
    /// Number of the parcel in the session.
    pub parcel: u64,
    /// Index of the file in the manifest.
    pub file: u64,
    /// Offset of the payload in the file, in bytes.
    pub offset: u64,
}

/// Why bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No such kind.
    #[error("record of unknown kind {0}")]
    Kind(u8),
    /// Payload longer than [`RECORD_PAYLOAD_MAX`].
    #[error("record of {0} bytes is longer than {RECORD_PAYLOAD_MAX}")]
    Long(u32),
    /// Unknown flags, or bits set that must be zero.
    #[error("record has unknown flags")]
    Flags,
    /// Offset and length run over the end of the number space.
    #[error("record ends beyond any file")]
    Range,
}

impl Header {
    /// The covered bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_COVERED] {
        let mut b = [0; HEADER_COVERED];
        b[0] = self.kind as u8;
        b[1] = self.flags;
        b[2] = self.generation;
        b[4..8].copy_from_slice(&self.len.to_le_bytes());
        b[8..16].copy_from_slice(&self.parcel.to_le_bytes());
        b[16..24].copy_from_slice(&self.file.to_le_bytes());
        b[24..32].copy_from_slice(&self.offset.to_le_bytes());
        b
    }

    /// Reads the covered bytes. Nothing in them can be trusted before the check was made, but nothing in
    /// them can make the receiver take more than [`RECORD_PAYLOAD_MAX`] bytes either.
    ///
    /// # Errors
    /// When a field has a value that no sender of this version writes.
    pub fn decode(b: &[u8; HEADER_COVERED]) -> Result<Header, RecordError> {
        let word = |at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"));
        let kind = match b[0] {
            1 => Kind::Chunk,
            2 => Kind::Small,
            3 => Kind::Memory,
            4 => Kind::End,
            other => return Err(RecordError::Kind(other)),
        };
        if b[1] & !(LAST | FILE_END | REST) != 0 || b[3] != 0 {
            return Err(RecordError::Flags);
        }
        let len = u32::from_le_bytes(b[4..8].try_into().expect("4 bytes"));
        // What names a place carries nothing, and ends nothing.
        if b[1] & REST != 0 && (b[1] != REST || len != 0 || !matches!(kind, Kind::Chunk | Kind::Small)) {
            return Err(RecordError::Flags);
        }
        if len as usize > RECORD_PAYLOAD_MAX {
            return Err(RecordError::Long(len));
        }
        let offset = word(24);
        if offset.checked_add(u64::from(len)).is_none_or(|end| end > i64::MAX as u64) {
            return Err(RecordError::Range);
        }
        Ok(Header { kind, flags: b[1], generation: b[2], len, parcel: word(8), file: word(16), offset })
    }

    /// True for the last record of a parcel.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    /// True if the file is read to its end.
    #[must_use]
    pub fn is_file_end(&self) -> bool {
        self.flags & FILE_END != 0
    }

    /// True if it says where the rest of a parcel begins.
    #[must_use]
    pub fn is_rest(&self) -> bool {
        self.flags & REST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn header_round_trip(kind in 1u8..=4, flags in 0u8..4, generation: u8, len in 0u32..=RECORD_PAYLOAD_MAX as u32,
                             parcel: u64, file: u64, offset in 0u64..(1 << 62)) {
            let kind = [Kind::Chunk, Kind::Small, Kind::Memory, Kind::End][kind as usize - 1];
            let header = Header { kind, flags, generation, len, parcel, file, offset };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        /// What names the place of a rest carries nothing and ends nothing.
        #[test]
        fn a_place_has_no_payload(kind in 1u8..=4, more in 0u8..4, len in 0u32..2, parcel: u64, file: u64, offset in 0u64..(1 << 62)) {
            let kind = [Kind::Chunk, Kind::Small, Kind::Memory, Kind::End][kind as usize - 1];
            let header = Header { kind, flags: REST | more, generation: 0, len, parcel, file, offset };
            let is_place = more == 0 && len == 0 && matches!(kind, Kind::Chunk | Kind::Small);
            let decoded = if is_place { Ok(header) } else { Err(RecordError::Flags) };
            prop_assert_eq!(Header::decode(&header.encode()), decoded);
        }

        #[test]
        fn any_bytes_decode_or_not(b: [u8; 32]) {
            if let Ok(h) = Header::decode(&b) {
                prop_assert!(h.len as usize <= RECORD_PAYLOAD_MAX);
                prop_assert_eq!(h.encode(), b);
            }
        }
    }
}
