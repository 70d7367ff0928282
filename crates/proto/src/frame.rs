//! Frames of the control connection: a length and a message.
//!
//! ```text
//!  0       4                 4+n
//!  +-------+------------------+
//!  | n: LE |  postcard, n B   |
//!  +-------+------------------+
//! ```

use serde::{Serialize, de::DeserializeOwned};

/// Bytes of the length.
pub const PREFIX: usize = 4;

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// The length is above the limit in force.
    #[error("control frame of {len} bytes is over the limit of {max}")]
    Long {
        /// Announced length in bytes.
        len: usize,
        /// Limit in bytes.
        max: usize,
    },
    /// The bytes are no message of this version.
    #[error("control frame does not decode")]
    Decode(#[source] postcard::Error),
    /// Bytes are left over behind the message.
    #[error("control frame has {0} bytes too many")]
    Trailing(usize),
}

/// Appends one frame.
///
/// # Panics
/// If the message is longer than [`crate::limits::FRAME_MAX`]: the sender pages what can grow.
pub fn encode<M: Serialize>(message: &M, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    let body = postcard::to_stdvec(message).expect("messages of this crate serialise");
    assert!(body.len() <= crate::limits::FRAME_MAX, "control message of {} bytes", body.len());
    out.extend_from_slice(&body);
    let len = (out.len() - at - PREFIX) as u32;
    out[at..at + PREFIX].copy_from_slice(&len.to_le_bytes());
}

/// Bytes of the frame of a message, or of a part of one.
///
/// # Panics
/// If it does not serialise: what this crate sends does.
#[must_use]
pub fn frame_len<M: Serialize>(message: &M) -> usize {
    PREFIX + postcard::experimental::serialized_size(message).expect("messages of this crate serialise")
}

/// True if the frame of a message has a body of at most `max` bytes: for those whose length a user decides.
#[must_use]
pub fn fits<M: Serialize>(message: &M, max: usize) -> bool {
    frame_len(message) <= PREFIX + max
}

/// Length of the body announced by a prefix.
///
/// # Errors
/// When it is above `max`.
pub fn body_len(prefix: [u8; PREFIX], max: usize) -> Result<usize, FrameError> {
    let len = u32::from_le_bytes(prefix) as usize;
    if len > max { Err(FrameError::Long { len, max }) } else { Ok(len) }
}

/// Decodes the body of a frame.
///
/// # Errors
/// When the bytes are no message, or are more than one.
pub fn decode<M: DeserializeOwned>(body: &[u8]) -> Result<M, FrameError> {
    let (message, rest) = postcard::take_from_bytes(body).map_err(FrameError::Decode)?;
    if rest.is_empty() { Ok(message) } else { Err(FrameError::Trailing(rest.len())) }
}
