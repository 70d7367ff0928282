//! Taking up a session over another control connection: two messages that prove both ends hold the session's key.
//!
//! ```text
//! connecting end                                     accepting end
//!   Attach {session, attempt, received, proof}  ─▶
//!                                               ◀─   Attached {received, proof}   or Refused
//!   frames that the other end lacks, then new ones, in both directions
//! ```
//!
//! Each proof is HMAC-SHA256 under the session's key over what the message says and a secret of this one TLS
//! connection, exported from it (RFC 8446 section 7.5). So neither fits on any other connection, and nobody between two
//! connections can pass them on. Attempts count up: one that was overtaken on the way is refused.

use serde::{Deserialize, Serialize};

use crate::hello::{HelloError, SessionId, SessionKey, mac, verify};

/// Label of the exporter for a connection's binding; its context is the session.
pub const BINDING_LABEL: &[u8] = b"EXPORTER-longhaul-attach-v1";

/// What binds proofs to one TLS connection.
#[derive(Clone)]
pub struct Binding(pub [u8; 32]);

impl std::fmt::Debug for Binding {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Binding(…)")
    }
}

/// First message of a connection that is to carry a session which there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// The session.
    pub session: SessionId,
    /// Number of the attempt, from 1; greater than that of every one before it.
    pub attempt: u32,
    /// Frames that this end has taken.
    pub received: u64,
    /// Proof of the key.
    pub proof: [u8; 32],
}

impl Attach {
    /// The message for one connection.
    #[must_use]
    pub fn new(key: &SessionKey, binding: &Binding, session: SessionId, attempt: u32, received: u64) -> Attach {
        let said = said(&session, attempt, received);
        Attach { session, attempt, received, proof: mac(key, b"attach", &[&said, &binding.0]) }
    }

    /// Checks the proof, in constant time.
    ///
    /// # Errors
    /// When the other end does not hold the key, or the message is of another connection.
    pub fn verify(&self, key: &SessionKey, binding: &Binding) -> Result<(), HelloError> {
        let said = said(&self.session, self.attempt, self.received);
        verify(key, b"attach", &[&said, &binding.0], &self.proof)
    }

    /// The answer, of an end that has taken `received` frames.
    #[must_use]
    pub fn answer(&self, key: &SessionKey, binding: &Binding, received: u64) -> Attached {
        let said = said(&self.session, self.attempt, self.received);
        Attached { received, proof: mac(key, b"attached", &[&said, &received.to_le_bytes(), &binding.0]) }
    }
}

/// Answer to [`Attach`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Frames that the accepting end has taken.
    pub received: u64,
    /// Proof of the key.
    pub proof: [u8; 32],
}

impl Attached {
    /// Checks that this answers `attach`, in constant time.
    ///
    /// # Errors
    /// When the other end does not hold the key, or answers something else.
    pub fn verify(&self, key: &SessionKey, binding: &Binding, attach: &Attach) -> Result<(), HelloError> {
        let said = said(&attach.session, attach.attempt, attach.received);
        verify(key, b"attached", &[&said, &self.received.to_le_bytes(), &binding.0], &self.proof)
    }
}

/// What an [`Attach`] says, as it is proved: 28 bytes.
fn said(session: &SessionId, attempt: u32, received: u64) -> [u8; 28] {
    let mut said = [0; 28];
    said[..16].copy_from_slice(session);
    said[16..20].copy_from_slice(&attempt.to_le_bytes());
    said[20..].copy_from_slice(&received.to_le_bytes());
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SessionKey = SessionKey([5; 32]);
    const HERE: Binding = Binding([6; 32]);

    #[test]
    fn both_ends_prove_the_key() {
        let attach = Attach::new(&KEY, &HERE, [1; 16], 2, 3);
        assert_eq!(attach.verify(&KEY, &HERE), Ok(()));
        let answer = attach.answer(&KEY, &HERE, 4);
        assert_eq!(answer.verify(&KEY, &HERE, &attach), Ok(()));
    }

    #[test]
    fn nothing_fits_elsewhere() {
        let attach = Attach::new(&KEY, &HERE, [1; 16], 2, 3);
        let answer = attach.answer(&KEY, &HERE, 4);
        let (other, there) = (SessionKey([7; 32]), Binding([8; 32]));
        assert_eq!(attach.verify(&other, &HERE), Err(HelloError::Key));
        assert_eq!(attach.verify(&KEY, &there), Err(HelloError::Key), "it was recorded on another connection");
        assert_eq!(answer.verify(&KEY, &there, &attach), Err(HelloError::Key));
        for changed in [
            Attach { session: [2; 16], ..attach.clone() },
            Attach { attempt: 3, ..attach.clone() },
            Attach { received: 2, ..attach.clone() },
        ] {
            assert_eq!(changed.verify(&KEY, &HERE), Err(HelloError::Key), "{changed:?}");
            assert_eq!(answer.verify(&KEY, &HERE, &changed), Err(HelloError::Key), "{changed:?}");
        }
        let changed = Attached { received: 5, ..answer.clone() };
        assert_eq!(changed.verify(&KEY, &HERE, &attach), Err(HelloError::Key));
        // What the connecting end says cannot be handed back to it.
        let reflected = Attached { received: attach.received, proof: attach.proof };
        assert_eq!(reflected.verify(&KEY, &HERE, &attach), Err(HelloError::Key));
    }
}
