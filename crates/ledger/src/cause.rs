//! Why something failed, and what that means for trying again.

use serde::{Deserialize, Serialize};

use crate::Moment;
use crate::limits::{
    ATTEMPTS_FILE_MAX, ATTEMPTS_MAX, PAUSE_MAX_MS, PAUSE_MS, ROOM_PAUSE_MAX_MS, ROOM_PAUSE_MS, ROOM_WAIT_MAX_MS,
};

/// Why something failed: it decides whether, where and when it is tried again. The words are those of the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No grant of the host covers it.
    NotGranted,
    /// There is no such file or directory.
    NotFound,
    /// The host's user may not.
    Permission,
    /// The file is there already and may not be replaced.
    Exists,
    /// No room at the destination.
    NoSpace,
    /// The storage failed.
    Storage,
    /// The source changed while it was read.
    Changed,
    /// What arrived was not what was sent, again and again.
    Corrupt,
    /// The other agent was not reached, or lost.
    Network,
    /// The other agent refused the token or the path.
    Refused,
    /// The host has as much to do as it may.
    Busy,
    /// The host drains, is paused or stops.
    Leaving,
    /// It was stopped as asked.
    Stopped,
    /// Anything else.
    Other,
    /// It was stopped for work with a better claim to its place.
    GaveWay,
}

/// What is done about a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Again, after growing pauses, [`ATTEMPTS_MAX`] times without progress.
    Again,
    /// The files again, [`ATTEMPTS_FILE_MAX`] times without progress.
    Files,
    /// Long pauses, for [`ROOM_WAIT_MAX_MS`].
    Room,
    /// Nothing: it fails at once.
    Nothing,
    /// It was meant: no failure.
    Meant,
}

/// What becomes of a file that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is open again.
    Again,
    /// It has failed.
    Failed,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 15] = [
        Cause::NotGranted,
        Cause::NotFound,
        Cause::Permission,
        Cause::Exists,
        Cause::NoSpace,
        Cause::Storage,
        Cause::Changed,
        Cause::Corrupt,
        Cause::Network,
        Cause::Refused,
        Cause::Busy,
        Cause::Leaving,
        Cause::Stopped,
        Cause::Other,
        Cause::GaveWay,
    ];

    /// What is done about it.
    #[must_use]
    pub const fn remedy(self) -> Remedy {
        match self {
            Cause::Network | Cause::Busy | Cause::Leaving | Cause::Storage | Cause::Other => Remedy::Again,
            Cause::Changed | Cause::Corrupt => Remedy::Files,
            Cause::NoSpace => Remedy::Room,
            Cause::NotGranted | Cause::NotFound | Cause::Permission | Cause::Exists | Cause::Refused => Remedy::Nothing,
            Cause::Stopped | Cause::GaveWay => Remedy::Meant,
        }
    }

    /// Whether it is a host's own, so that other hosts may do better.
    #[must_use]
    pub const fn of_host(self) -> bool {
        matches!(self, Cause::Busy | Cause::Leaving | Cause::Storage | Cause::Other)
    }

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Cause::NotGranted => "no grant of the host covers it",
            Cause::NotFound => "there is no such file or directory",
            Cause::Permission => "the host's user may not",
            Cause::Exists => "the file is there already and may not be replaced",
            Cause::NoSpace => "there is no room at the destination",
            Cause::Storage => "the storage failed",
            Cause::Changed => "the source changed while it was read",
            Cause::Corrupt => "what arrived was not what was sent",
            Cause::Network => "the other agent was not reached, or lost",
            Cause::Refused => "the other agent refused",
            Cause::Busy => "the host has as much to do as it may",
            Cause::Leaving => "the host drains, is paused or stops",
            Cause::Stopped => "it was stopped as asked",
            Cause::Other => "it failed",
            Cause::GaveWay => "it gave its place to work with a better claim",
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub const fn way_out(self) -> &'static str {
        match self {
            Cause::NotGranted => "add a grant to the agent's configuration, or use another path",
            Cause::NotFound => "look at the path, then submit again",
            Cause::Permission => "give the agent's user the right, then submit again",
            Cause::Exists => "submit with overwrite `changed` or `always`, or to another path",
            Cause::NoSpace => "make room at the destination",
            Cause::Storage => "look at the storage of the host",
            Cause::Changed => "let the files rest, then submit again",
            Cause::Corrupt => "look at memory, disks and network cards of both hosts",
            Cause::Network => "look at the agents and the network between them",
            Cause::Refused => "look at grants and clocks of both agents",
            Cause::Busy => "wait, or raise the agent's greatest number of sessions",
            Cause::Leaving => "wait, or resume the host",
            Cause::Stopped => "resume the transfer",
            Cause::Other => "look at the log of the agent",
            Cause::GaveWay => "wait, or let the agents have more sessions",
        }
    }
}

impl Remedy {
    /// The pause before the next attempt, ms, after so many without progress.
    #[must_use]
    pub fn pause_ms(self, attempts: u32) -> u64 {
        let (first, most) = match self {
            Remedy::Room => (ROOM_PAUSE_MS, ROOM_PAUSE_MAX_MS),
            _ => (PAUSE_MS, PAUSE_MAX_MS),
        };
        doubled(first, attempts.saturating_sub(1), most)
    }

    /// Whether it is enough, after so many attempts without progress since `since`, the last at `last`.
    #[must_use]
    pub fn is_spent(self, attempts: u32, since: Moment, last: Moment) -> bool {
        match self {
            Remedy::Again => attempts >= ATTEMPTS_MAX,
            Remedy::Files => attempts >= ATTEMPTS_FILE_MAX,
            Remedy::Room => last.ms_since(since) >= ROOM_WAIT_MAX_MS,
            Remedy::Nothing => true,
            Remedy::Meant => false,
        }
    }
}

/// A first value, doubled so often, at most so much.
pub(crate) fn doubled(first: u64, times: u32, most: u64) -> u64 {
    first.saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound() {
        let pauses: Vec<u64> = (1..12).map(|attempts| Remedy::Again.pause_ms(attempts)).collect();
        assert_eq!(pauses[..4], [1_000, 2_000, 4_000, 8_000]);
        assert_eq!(pauses[9..], [PAUSE_MAX_MS; 2]);
        assert_eq!(Remedy::Room.pause_ms(1), 60_000);
        assert_eq!(Remedy::Room.pause_ms(u32::MAX), ROOM_PAUSE_MAX_MS);
    }

    #[test]
    fn every_remedy_ends_but_for_what_was_meant() {
        for cause in Cause::ALL {
            let spent = cause.remedy().is_spent(1_000, Moment(0), Moment(ROOM_WAIT_MAX_MS));
            assert_eq!(spent, cause.remedy() != Remedy::Meant, "{cause:?}");
            assert!(!cause.words().is_empty() && !cause.way_out().is_empty());
        }
        assert!(!Remedy::Again.is_spent(ATTEMPTS_MAX - 1, Moment(0), Moment(u64::MAX)));
        assert!(!Remedy::Room.is_spent(1_000, Moment(0), Moment(ROOM_WAIT_MAX_MS - 1)), "time bounds it, not number");
    }
}
