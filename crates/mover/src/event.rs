//! What a running copy or test tells: one JSON object per event, the same that people see as a line.

use std::collections::BTreeMap;

use proto::control::{DigestKind, StorageIo};
use serde::{Deserialize, Deserializer, Serialize};

use crate::control::attribution::Limit;

/// One of the few words of a field.
pub type Word = &'static str;

/// Outcomes of a [`FileEvent`].
const OUTCOMES: [Word; 8] = ["placed", "equal", "kept", "would", "failed", "changed", "corrupt", "deleted"];
/// Directions of an [`Interval`].
const DIRECTIONS: [Word; 2] = ["forward", "reverse"];

/// Reads one of a list of words; another one is an error.
fn known<'de, D: Deserializer<'de>>(input: D, words: &'static [Word]) -> Result<Word, D::Error> {
    let read = String::deserialize(input)?;
    let word = words.iter().find(|word| **word == read).copied();
    word.ok_or_else(|| serde::de::Error::unknown_variant(&read, words))
}

fn outcome<'de, D: Deserializer<'de>>(input: D) -> Result<Word, D::Error> {
    known(input, &OUTCOMES)
}

fn direction<'de, D: Deserializer<'de>>(input: D) -> Result<Word, D::Error> {
    known(input, &DIRECTIONS)
}

/// One event. As JSON Lines, the last one is always [`Event::Summary`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The session is open.
    Started(Started),
    /// Once a second.
    Progress(Progress),
    /// Once a second of a throughput test.
    Interval(Interval),
    /// An entry that is not in place, or a digest that was asked for.
    File(FileEvent),
    /// Something the user should know that does not end the copy.
    Warning {
        /// One line.
        text: String,
    },
    /// The connection was lost; the next attempt follows.
    Reconnect {
        /// Number of the attempt without progress.
        attempt: u32,
        /// Attempts in all.
        of: u32,
        /// What happened.
        why: String,
    },
    /// The end.
    Summary(Box<Summary>),
}

/// The session is open and its first data stream set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    /// The session, as hexadecimal digits; what `session set` wants.
    pub session: String,
    /// Protection in force.
    pub protection: proto::seal::Protection,
    /// Congestion control of the data streams, as the sending end's kernel says; `None` if no stream was set up within
    /// 5 s.
    pub congestion: Option<String>,
    /// Why that congestion control: the user named none, or another one that cannot be had.
    pub congestion_reason: Option<String>,
}

/// State of a copy.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
pub struct Progress {
    /// Seconds since the start.
    pub seconds: f64,
    /// Bytes in place or equal (file content).
    pub bytes_done: u64,
    /// Bytes of the dataset known so far.
    pub bytes_total: u64,
    /// True when the whole dataset is known.
    pub scanned: bool,
    /// Files done.
    pub files_done: u64,
    /// Files known so far.
    pub files_total: u64,
    /// Files that failed so far.
    pub files_failed: u64,
    /// Goodput of the last second, b/s of file bytes.
    pub rate_bps: u64,
    /// Goodput since the start, b/s of file bytes.
    pub mean_rate_bps: u64,
    /// Seconds to go, when it can be told.
    pub eta_s: Option<u64>,
    /// Data streams open.
    pub streams: u16,
    /// What limited the last second.
    pub limit: Limit,
    /// Segments sent again.
    #[serde(default)]
    pub retransmits: u64,
    /// Smoothed round trip, mean over streams, µs; 0 if not known.
    #[serde(default)]
    pub rtt_us: u64,
    /// Congestion windows, sum over streams, bytes; 0 if not known.
    #[serde(default)]
    pub cwnd_bytes: u64,
    /// Payload of a segment on the path, bytes; 0 if not known.
    #[serde(default)]
    pub mss_bytes: u32,
    /// TCP payload that the other end acknowledged in the last second, b/s, with all that goes beside file bytes; where this end sends. A socket's
    /// buffer fills faster than the path carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_bps: Option<u64>,
}

/// One second of a throughput test.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
pub struct Interval {
    /// Start and end, seconds.
    pub from_s: f64,
    /// End, seconds.
    pub to_s: f64,
    /// File bytes that arrived and were verified.
    pub bytes: u64,
    /// Goodput, b/s.
    pub rate_bps: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Smoothed round trip, mean over streams, µs.
    pub rtt_us: u64,
    /// Congestion windows, sum over streams, bytes.
    pub cwnd_bytes: u64,
    /// Streams.
    pub streams: u16,
    /// `"forward"` or `"reverse"`.
    #[serde(deserialize_with = "direction")]
    pub direction: Word,
    /// What limited it.
    pub limit: Limit,
}

/// An entry of note.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileEvent {
    /// Path beneath the destination, for people (escaped).
    pub path: String,
    /// The same as bytes, when the text is not just that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    /// `placed`, `equal`, `kept`, `would`, `failed`, `changed`, `corrupt`, `deleted`.
    #[serde(deserialize_with = "outcome")]
    pub outcome: Word,
    /// Bytes.
    pub size: u64,
    /// Why, for failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The digest that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The end of a copy or test.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
pub struct Summary {
    /// True if everything is in place.
    pub ok: bool,
    /// Exit code of the command (DESIGN: 0, 1, 2, 5, 6, 75).
    pub exit_code: u8,
    /// Bytes of the dataset (test: bytes received and verified).
    pub bytes: u64,
    /// The same as a decimal string, for readers that hold numbers as doubles.
    pub bytes_text: String,
    /// Bytes of payload moved in this run, repeats included.
    pub bytes_sent: u64,
    /// Files of the dataset.
    pub files: u64,
    /// Files put in place by this run.
    pub files_placed: u64,
    /// Files that were there, equal or kept.
    pub files_skipped: u64,
    /// Files that failed.
    pub files_failed: u64,
    /// Entries deleted at the destination.
    pub deleted: u64,
    /// Seconds.
    pub seconds: f64,
    /// Goodput over the run, b/s of payload moved (test: verified).
    pub rate_bps: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Smoothed round trip at the end, mean over streams, µs.
    pub rtt_us: u64,
    /// Congestion windows at the end, sum over streams, bytes.
    pub cwnd_bytes: u64,
    /// Streams at the end.
    pub streams: u16,
    /// Parcels verified by the receiving end.
    pub chunks_verified: u64,
    /// Parcels sent again because they arrived corrupt.
    pub repaired: u64,
    /// Data streams that ended otherwise than in good order, as this end saw it.
    pub streams_lost: u32,
    /// Reconnects.
    pub reconnects: u32,
    /// CPU seconds per 10^9 payload bytes: source, destination, both.
    pub cpu_s_per_gb: CpuPerGb,
    /// Peak resident set of source and destination process, bytes.
    pub peak_rss_bytes: Ends<u64>,
    /// Socket buffer memory of this end at the end, bytes; apart from the resident set.
    pub socket_buffer_bytes: u64,
    /// Shares of the time by limiting factor.
    pub limits: BTreeMap<String, f64>,
    /// The largest of them; [`Limit::Unknown`] if there is none.
    pub limited_by: Limit,
    /// What bytes were read and written with; `None` for an end of which it is not known.
    pub io: Ends<Option<StorageIo>>,
    /// Protection in force.
    pub protection: proto::seal::Protection,
    /// Congestion control of the data streams, as the sending end's kernel says.
    pub congestion: Option<String>,
    /// As in [`Started`].
    pub congestion_reason: Option<String>,
    /// File with whole-file digests, when they were asked for.
    pub digests_file: Option<String>,
    /// Kind of the digests.
    pub digest: Option<DigestKind>,
    /// What failed, at most [`ERRORS_MAX`]; all of it is in the report file.
    pub errors: Vec<FileEvent>,
    /// Knee of a `--sweep`: streams and goodput per step.
    pub sweep: Vec<SweepStep>,
    /// The number of streams beyond which throughput stops rising; `None` where it rose to the last step.
    pub knee: Option<u16>,
    /// Reverse direction of a bidirectional test, b/s.
    pub reverse_rate_bps: Option<u64>,
}

/// Errors that a summary carries.
pub const ERRORS_MAX: usize = 100;

/// One value per end.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
pub struct Ends<T> {
    /// At the source.
    pub source: T,
    /// At the destination.
    pub destination: T,
}

/// CPU seconds per 10^9 bytes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, Default)]
pub struct CpuPerGb {
    /// At the source.
    pub source: f64,
    /// At the destination.
    pub destination: f64,
    /// Both.
    pub total: f64,
}

/// One step of a sweep.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SweepStep {
    /// Streams.
    pub streams: u16,
    /// Goodput, b/s.
    pub rate_bps: u64,
}
