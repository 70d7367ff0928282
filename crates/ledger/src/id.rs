//! Moments, numbers and digests.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment: milliseconds of Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(pub u64);

impl Moment {
    /// So many milliseconds later; the last moment there is, if that is past it.
    #[must_use]
    pub const fn after_ms(self, ms: u64) -> Moment {
        Moment(self.0.saturating_add(ms))
    }

    /// Milliseconds since an earlier moment; 0 if that is later, as clocks are set back.
    #[must_use]
    pub const fn ms_since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time since an earlier moment; none if that is later.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.ms_since(earlier))
    }
}

/// As people write it: `2026-03-01T06:00:00Z`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i64::try_from(self.0).ok().and_then(|ms| ms.checked_mul(1_000_000));
        match nanos {
            Some(nanos) => write!(f, "{}", units::Utc(nanos)),
            None => write!(f, "{} ms of Unix time", self.0),
        }
    }
}

/// A transfer, shown `t17`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransferId(pub u64);

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// A text that is no number of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no transfer: write `t` and its number, for example `t17`")]
pub struct TransferIdError;

impl FromStr for TransferId {
    type Err = TransferIdError;

    fn from_str(text: &str) -> Result<TransferId, TransferIdError> {
        let digits = text.strip_prefix('t').ok_or(TransferIdError)?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // One text for each number: `t007` would be a second one.
        if !plain || (digits.len() > 1 && digits.starts_with('0')) {
            return Err(TransferIdError);
        }
        digits.parse().map(TransferId).map_err(|_| TransferIdError)
    }
}

/// A session, shown `s5`: one run of a mover between two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A digest of 32 bytes, made outside: of a token, a key, a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_has_one_text() {
        for number in [0, 7, 17, u64::MAX] {
            assert_eq!(TransferId(number).to_string().parse(), Ok(TransferId(number)));
        }
        for bad in ["", "t", "17", "t-1", "t+1", "t007", "T7", "t18446744073709551616", "t1 "] {
            assert_eq!(bad.parse::<TransferId>(), Err(TransferIdError), "{bad}");
        }
    }

    #[test]
    fn moments_do_not_wrap() {
        assert_eq!(Moment(5).ms_since(Moment(9)), 0, "a clock was set back");
        assert_eq!(Moment(u64::MAX).after_ms(1), Moment(u64::MAX));
        assert_eq!(Moment(1_772_344_800_000).to_string(), "2026-03-01T06:00:00Z");
        assert!(!Moment(u64::MAX).to_string().is_empty());
    }
}
