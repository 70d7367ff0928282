//! Messages of the control connection.
//!
//! ```text
//! driver ── Hello ─▶ agent          the versions it speaks, its token
//!        ◀─ Welcome ──              the version chosen
//!        ── Open ─▶                 a copy or a test; who is source
//!        ◀─ Opened | Refused ──
//!        ◀═ Source / Destination messages, Telemetry, Ping ═▶
//!        ── Bye ─▶
//! ```
//!
//! The **driver** is the side that was asked by a user. It is usually the one that connects; when the far
//! end was started over ssh and connects back, it is not.

mod settings;

use serde::{Deserialize, Serialize};

pub use self::settings::{FlowLabel, Settings};
use crate::attach::{Attach, Attached};
use crate::hello::SessionId;
use crate::limits::{CONGESTION_CHARS_MAX, REASON_BYTES_MAX};
use crate::{ChunkSet, Entry, RelPath};

/// Lowest version of the control protocol spoken here.
pub const VERSION_MIN: u16 = 1;
/// Highest version of the control protocol spoken here.
pub const VERSION_MAX: u16 = 1;

/// The version that both ends speak.
#[must_use]
pub fn negotiate(theirs: (u16, u16)) -> Option<u16> {
    let version = theirs.1.min(VERSION_MAX);
    (version >= VERSION_MIN && version >= theirs.0).then_some(version)
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Control {
    /// The connecting end, first.
    Hello(Hello),
    /// The accepting end, if it lets the other in.
    Welcome(Welcome),
    /// The driver asks for a session.
    Open(Open),
    /// The agent has one.
    Opened(Opened),
    /// The agent has none, or the session ends here; with the reason.
    Refused(Refusal),
    /// From the source role to the destination role.
    Source(ToDestination),
    /// From the destination role to the source role.
    Destination(ToSource),
    /// Once a second, from each end.
    Telemetry(Telemetry),
    /// The driver changes the set point, in b/s of IP packets; `None` lifts it.
    SetRate(Option<u64>),
    /// The driver changes the number of streams.
    SetStreams(u16),
    /// What an agent that drives a relayed copy tells of it: whole lines, each a JSON event.
    Event(String),
    /// Is anybody there?
    Ping(u64),
    /// Yes.
    Pong(u64),
    /// The session is over; sockets close after this.
    Bye(Bye),
    /// Answer to [`Work::Delegate`].
    Delegated(Delegated),
    /// The source's kernel on its data streams, to a destination that drives.
    Congestion(Congestion),
    /// Part of the list that [`Open::names`] announces, after it: what of the source is meant.
    Names(Vec<RelPath>),
    /// The connecting end, first: this connection is to carry a session that there is.
    Attach(Attach),
    /// The accepting end has the session.
    Attached(Attached),
    /// So many frames of the session were taken; this one is not counted (see [`replay`](crate::replay)).
    Received(u64),
    /// The sending end has given up a data stream: nothing came back on it.
    StreamLost(u16),
    /// The receiving end reads nothing more from a data stream, however it ended.
    StreamEnded {
        /// Its number.
        stream: u16,
        /// What came over it, and need not be sent again.
        arrived: Arrived,
    },
}

/// What came over a data stream that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arrived {
    /// The parcels that came last, whole and sound. At most
    /// [`ARRIVED_PARCELS_MAX`](crate::limits::ARRIVED_PARCELS_MAX), and as many as may not have landed.
    pub whole: Vec<u64>,
    /// The parcel that was under way, if what came of it is kept.
    pub begun: Option<Begun>,
}

/// A parcel of which the destination keeps what came: of a chunk all before a place in its file, of a batch all files
/// up to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Number of the parcel.
    pub parcel: u64,
    /// Index of the file: of a batch the last that came whole.
    pub file: u64,
    /// Where the rest of a chunk begins in its file, bytes; 0 of a batch.
    pub offset: u64,
}

/// First message.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Versions spoken: lowest, highest.
    pub versions: (u16, u16),
    /// Access token, or the one-time key of an ssh start.
    pub token: String,
    /// Name and version of the program, for the log.
    pub program: String,
    /// True if the connecting end is the agent (it was started over ssh and connects back).
    pub reverse: bool,
}

impl std::fmt::Debug for Hello {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hello {{ versions: {:?}, program: {:?}, reverse: {} }}", self.versions, self.program, self.reverse)
    }
}

/// Answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version in force from here on.
    pub version: u16,
    /// Name and version of the program, for the log.
    pub program: String,
}

/// Which role the driver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// The driver is the source.
    Push,
    /// The driver is the destination.
    Pull,
}

/// What the driver asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Names the user's command: a reconnect carries the same, and ends what is left of the session before.
    pub job: [u8; 16],
    /// The session that is asked for; [`Work::Relay`] and [`Work::Delegate`] open none.
    pub session: SessionId,
    /// Driver's role.
    pub direction: Direction,
    /// What is moved.
    pub work: Work,
    /// How.
    pub settings: Settings,
    /// Length of the list of names beneath the one source, which follows in [`Control::Names`]; 0 for everything.
    pub names: u32,
}

/// What is moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// A dataset.
    Copy {
        /// Absolute paths at the agent: the sources of a pull, or the one destination of a push. A trailing
        /// slash means "the contents of" (source) or "a directory" (destination).
        paths: Vec<Vec<u8>>,
        /// How.
        options: CopyOptions,
        /// Push only: the source is one thing that is no directory, so the destination may be its new name.
        single: bool,
        /// Names the source (host and paths) so that a destination knows an interrupted copy of the same.
        source_key: [u8; 16],
        /// Pull only: the driver writes a pipe, and can hold so many chunks until they are due; else `None`.
        reorder_chunks: Option<u32>,
    },
    /// Bytes from memory to memory.
    Memory {
        /// How long, in milliseconds.
        duration_ms: u64,
    },
    /// Third party: the agent is to drive a copy with another agent, in the role that the direction names.
    Relay(Relay),
    /// Third party: another agent is to be let in for one copy, as if this driver asked for it.
    Delegate {
        /// As in [`Work::Copy`].
        paths: Vec<Vec<u8>>,
        /// As in [`Work::Copy`].
        options: CopyOptions,
    },
}

/// A copy that an agent drives for a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    /// Absolute paths at the agent that drives: its sources, or the one destination.
    pub paths: Vec<Vec<u8>>,
    /// How the dataset is copied.
    pub options: CopyOptions,
    /// Tell every entry, not only failures.
    pub every_file: bool,
    /// The other agent.
    pub peer: Peer,
}

/// The agent at the other end of a relayed copy.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Where it listens, `ip:port`.
    pub addresses: Vec<String>,
    /// SHA-256 of its certificate, as the command saw it.
    pub fingerprint: [u8; 32],
    /// A delegated token.
    pub token: String,
    /// Absolute paths there.
    pub paths: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Peer {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Peer {{ addresses: {:?}, paths: {:?} }}", self.addresses, self.paths)
    }
}

/// A token that opens one copy and nothing else. It lasts as long as the control connection that asked for it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Delegated {
    /// The token.
    pub token: String,
    /// How long it lasts beyond the connection, if that is lost: milliseconds.
    pub grace_ms: u64,
}

impl std::fmt::Debug for Delegated {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delegated {{ grace_ms: {} }}", self.grace_ms)
    }
}

/// Replace what is at the destination?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Overwrite {
    /// What is there stays.
    Never,
    /// What differs in size or mtime (or digest, with `by_checksum`) is replaced.
    Changed,
    /// Always.
    #[default]
    Always,
}

/// Whole-file digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestKind {
    /// Adler-32, as WLCG keeps it.
    Adler32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// MD5.
    Md5,
    /// SHA-256.
    Sha256,
    /// BLAKE3, 256 bits.
    Blake3,
    /// XXH3, 64 bits.
    Xxh3,
}

/// One rule of `--include` and `--exclude`, in order; gitignore syntax.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterRule {
    /// True for include.
    pub include: bool,
    /// The glob.
    pub glob: String,
}

/// How a dataset is copied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct CopyOptions {
    /// Replace what is there?
    pub overwrite: Overwrite,
    /// Compare contents, not times.
    pub by_checksum: bool,
    /// Remove from the destination what the source does not have.
    pub delete: bool,
    /// Decide, but change nothing.
    pub dry_run: bool,
    /// Hard links, extended attributes, ACLs, owners too.
    pub preserve_all: bool,
    /// What is left out.
    pub filters: Vec<FilterRule>,
    /// Digest of every file for the report.
    pub digest: Option<DigestKind>,
}

/// Answer to [`Open`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// What is in force: the driver's wish within the agent's limits.
    pub settings: Settings,
    /// Pull only: the source is one thing that is no directory.
    pub single: bool,
    /// Pull only: names the source.
    pub source_key: [u8; 16],
    /// More addresses of the agent, `ip:port`, for further streams.
    pub addresses: Vec<String>,
    /// Greatest set point that the agent allows, b/s of IP packets, also later; `None` for no bound.
    pub rate_max_bps: Option<u64>,
}

/// Why a request is refused or a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// The token is wrong, expired, or does not cover this.
    Denied,
    /// The path is not beneath a root, or cannot be used.
    Path,
    /// Somebody else is writing there, or a limit of the agent is reached: try again later.
    Busy,
    /// The other end does not keep to the protocol.
    Protocol,
    /// The agent is stopping; the session can be resumed.
    Stopping,
    /// It failed.
    Failed,
    /// No version in common.
    Version,
    /// A relayed copy: the other agent cannot be reached from this one.
    Unreachable,
}

/// A refusal with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Kind.
    pub code: Code,
    /// One line for the user: names the thing and the way out.
    pub text: String,
}

/// How the session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bye {
    /// All is done.
    Done,
    /// It is given up; the journal stays for a resume.
    Abandoned(Refusal),
}

/// From source to destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToDestination {
    /// A page of the manifest. Indexes count from `first` without gaps; a directory stands before what is in it,
    /// a file before its further names, and no path stands twice.
    Page {
        /// Index of the first entry.
        first: u64,
        /// The entries.
        entries: Vec<Entry>,
    },
    /// All entries of a directory (its index) have been sent, except what is in its subdirectories.
    Listed {
        /// Index of the directory.
        dir: u64,
        /// True if the directory was read whole: only then may what is missing be deleted.
        complete: bool,
    },
    /// The manifest is complete.
    ScanDone {
        /// Entries in all.
        entries: u64,
    },
    /// A file that is sent in chunks has been read to its end.
    FileEnd {
        /// Its index.
        index: u64,
        /// What came of it.
        end: FileEnd,
    },
    /// Something at the source that is no entry and is not copied: a directory that cannot be read, say.
    Problem {
        /// Where, beneath the destination.
        path: RelPath,
        /// Why, for the user.
        why: String,
    },
    /// A file changed while it was read: what arrived is void, it starts again in this state.
    Restart {
        /// Its index.
        index: u64,
        /// The new entry.
        entry: Entry,
    },
    /// The digest of a whole file that is in place, for the report of a driver that is the destination.
    Digest {
        /// Where, beneath the destination.
        path: RelPath,
        /// Size in bytes.
        size: u64,
        /// In hexadecimal; at most [`DIGEST_CHARS_MAX`](crate::limits::DIGEST_CHARS_MAX) characters.
        value: String,
    },
    /// Chunks of a file that are holes as a whole: they read as zeros, and no parcel carries them.
    Holes {
        /// Index of the file.
        index: u64,
        /// The chunks; none of them was there, landed or told before.
        chunks: ChunkSet,
    },
    /// Something at the source that the user should know; nothing is missing.
    Warning(String),
}

/// What came of reading a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileEnd {
    /// Read whole and unchanged; size in bytes.
    Whole {
        /// Size in bytes, which was not known before for a pipe.
        size: u64,
    },
    /// The content at the destination is the same (compared by digest).
    Same,
    /// Given up because it cannot be read; drop it.
    Failed {
        /// The reason for the user.
        why: String,
    },
    /// Given up because it changed each time that it was read; drop it.
    Changed {
        /// The reason for the user.
        why: String,
    },
    /// Given up because it arrived corrupt each time that it was sent; drop it.
    Corrupt {
        /// The reason for the user.
        why: String,
    },
    /// The source's filter leaves it out, which is no failure; what is at its place stays.
    LeftOut,
}

impl FileEnd {
    /// The outcome that it makes, if the file was given up.
    #[must_use]
    pub fn given_up(&self) -> Option<Outcome> {
        match self {
            FileEnd::LeftOut => Some(Outcome::Kept),
            FileEnd::Whole { .. } | FileEnd::Same => None,
            FileEnd::Failed { why } | FileEnd::Changed { why } => Some(Outcome::Failed(cut(why.clone()))),
            FileEnd::Corrupt { why } => Some(Outcome::Corrupt(cut(why.clone()))),
        }
    }
}

/// From destination to source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToSource {
    /// What the destination wants of entries, in any order.
    Wants(Vec<(u64, Want)>),
    /// Parcels that are verified and written (not yet durable).
    Landed(Vec<u64>),
    /// A parcel arrived corrupt: send it again.
    Repair(u64),
    /// Entries that are in place and durable, or will never be.
    Done(Vec<(u64, Outcome)>),
    /// What a dry run would delete, for the report of a driver that is the source; at most
    /// [`WOULD_DELETE_MAX`](crate::limits::WOULD_DELETE_MAX) at once.
    WouldDelete(Vec<RelPath>),
    /// Something at the destination that the user should know, in one line.
    Warning(String),
    /// Parcels that may be under way to each disk, from being read until they have landed, from now on; none is said
    /// while there is one disk. What is on its way already stays.
    Window(u32),
}

/// A file that the destination wants, and where it goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Number of the disk that it is written to, below [`DISKS_MAX`](crate::limits::DISKS_MAX).
    pub disk: u8,
    /// What of it is wanted.
    pub what: Wanted,
}

/// What the destination wants of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// All of it.
    All,
    /// What is missing: these chunks are there already and durable.
    Rest {
        /// Chunks that are there.
        have: ChunkSet,
    },
    /// All of it, if its BLAKE3 digest is not this one.
    IfDiffers([u8; 32]),
}

/// What came of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// In place and durable.
    Placed,
    /// It was there, equal.
    Equal,
    /// It was there and is to stay (`--overwrite never`).
    Kept,
    /// Dry run: would be copied.
    Would,
    /// Not in place; the reason for the user.
    Failed(String),
    /// Arrived corrupt too often.
    Corrupt(String),
}

impl Outcome {
    /// True if the entry is not in place.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Outcome::Failed(_) | Outcome::Corrupt(_))
    }

    /// The same with a reason that fits into a message.
    #[must_use]
    pub(crate) fn cut(self) -> Outcome {
        match self {
            Outcome::Failed(why) => Outcome::Failed(cut(why)),
            Outcome::Corrupt(why) => Outcome::Corrupt(cut(why)),
            other => other,
        }
    }

    /// Bytes of its reason.
    #[must_use]
    pub(crate) fn reason_len(&self) -> usize {
        match self {
            Outcome::Failed(why) | Outcome::Corrupt(why) => why.len(),
            _ => 0,
        }
    }
}

/// A reason that fits into a message.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > REASON_BYTES_MAX {
        let end = (0..=REASON_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// The congestion control of data streams, as the kernel of the sending end says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Congestion {
    /// Its name, at most [`CONGESTION_CHARS_MAX`] characters; `None` if the kernel does not say.
    pub name: Option<String>,
    /// Why this one, if it was not asked for: one line for the user.
    pub reason: Option<String>,
    /// True if another one was asked for and cannot be had.
    pub refused: bool,
}

impl Congestion {
    /// True if it can be shown as it is: of bounded length and without control characters. What a peer says
    /// must be.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let name = self.name.as_deref().unwrap_or_default();
        let reason = self.reason.as_deref().unwrap_or_default();
        name.len() <= CONGESTION_CHARS_MAX
            && name.bytes().all(|byte| byte.is_ascii_graphic())
            && reason.len() <= REASON_BYTES_MAX
            && !reason.contains(char::is_control)
    }
}

/// What an end reads or writes its data with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageIo {
    /// Test data: no storage.
    Memory,
    /// A pipe.
    Pipe,
    /// A ring of io_uring.
    IoUring,
    /// Positional calls (`pread`, `pwrite`).
    Posix,
    /// Several disks, some of them with a ring and some with positional calls.
    Mixed,
}

/// One second of one end, for attribution and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Telemetry {
    /// File bytes sent or verified so far.
    pub bytes: u64,
    /// CPU time of the process for the session so far, µs.
    pub cpu_us: u64,
    /// Peak resident set, bytes.
    pub rss_bytes: u64,
    /// Records whose check was made so far.
    pub records_checked: u64,
    /// Parcels whose records were all verified so far.
    pub parcels_checked: u64,
    /// Share of the last second in which network threads were busy, per mille of one core, busiest thread.
    pub net_busy: u16,
    /// Share in which storage threads were all busy, per mille.
    pub disk_busy: u16,
    /// Share in which no buffer was free, per mille.
    pub starved: u16,
    /// Busy share of all cores of the host, per mille.
    pub host_busy: u16,
    /// Entries deleted at the destination so far.
    pub deleted: u64,
    /// Time of the sample by the end's own monotonic clock, µs.
    pub at_us: u64,
    /// What limited the last second, by the mover's codes; 0 for nothing known.
    pub limit: u8,
    /// Segments sent again so far.
    pub retransmits: u64,
    /// Mean smoothed round trip, µs.
    pub rtt_us: u64,
    /// Least round trip of a stream's path, mean over the streams, µs; 0, or the greatest number of 32 bits, if it is not known.
    pub min_rtt_us: u64,
    /// Segments lost in the last second, in a million of those sent.
    pub loss_ppm: u32,
    /// Sum of congestion windows, bytes.
    pub cwnd_bytes: u64,
    /// What this end reads or writes with; `None` until that is known.
    pub io: Option<StorageIo>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(negotiate((1, 1)), Some(1));
        assert_eq!(negotiate((1, 9)), Some(1));
        assert_eq!(negotiate((2, 9)), None);
        assert_eq!(negotiate((0, 0)), None);
    }

    #[test]
    fn a_congestion_control_that_would_change_a_terminal_is_unsound() {
        let told = |name: &str, reason: &str| Congestion {
            name: Some(name.to_owned()),
            reason: Some(reason.to_owned()),
            refused: true,
        };
        assert!(told("cubic", "bbr cannot be set: é").is_sound());
        assert!(Congestion { name: None, reason: None, refused: false }.is_sound());
        assert!(told(&"x".repeat(CONGESTION_CHARS_MAX), &"x".repeat(REASON_BYTES_MAX)).is_sound());
        for (name, reason) in [("cu bic", ""), ("c\u{1b}", ""), ("cubic", "a\nb"), ("0123456789abcdef", "")] {
            assert!(!told(name, reason).is_sound(), "{name:?} {reason:?}");
        }
        assert!(!told("cubic", &"x".repeat(REASON_BYTES_MAX + 1)).is_sound());
    }
}
