//! The stream between an agent and its controller.
//!
//! The agent connects out to the controller's port over TLS 1.3 with [`ALPN`] and shows its own certificate; each side knows the other by
//! the fingerprint of that. Messages go both ways as frames: a length of 4 bytes (big endian, at most [`MESSAGE_MAX`]) and that much
//! JSON. The agent begins with [`FromAgent::Hello`]; the controller answers with [`ToAgent::Welcome`] or [`ToAgent::Turned`]. Fields
//! that a reader does not know are skipped; a message that it does not know is answered by [`FromAgent::Failed`] or skipped.
//! Durations travel, never the time of day. Each side sends a `Ping` after [`PING_MS`] of silence of its own and gives the connection
//! up after [`SILENCE_MS`] without a frame from the other.
//!
//! A **session** is one run of a mover between two hosts for one leg of a transfer. Its number is the controller's. One of the two agents
//! is asked to [`ToAgent::Prepare`] (it listens and makes a token for this session and nothing else), the other to [`ToAgent::Run`]
//! (it connects and drives). The driver reports; rates are leases ([`Lease`]) given to the driver.
//!
//! Where the other host has several addresses that are liked in order ([`Run::in_order`]), each with one of this host and with marks that
//! packets carry ([`Run::marks`]), they are paths: the session goes over the first, and over another when [`ToAgent::Path`] says so or
//! nothing comes back. Agents ask each other over
//! paths by UDP ([`Probe`]), and tell what becomes of that ([`FromAgent::Paths`]).

mod counts;
mod inventory;
mod path;

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Marks;

use crate::Name;
pub use counts::{COUNT_EACH_MS, COUNTS_MAX, Counted, Uncounted, Way, is_interface};
pub use inventory::{Granted, Interface, Inventory};
pub use path::{PROBE_EACH_MS, PROBES_MAX, PathNews, PathState, Probe, SessionPath};

/// What the stream is called in the TLS handshake.
pub const ALPN: &[u8] = b"longhaul-agent/1";
/// Version of what is said here.
pub const PROTOCOL: u32 = 1;
/// The longest message, bytes of JSON.
pub const MESSAGE_MAX: usize = 4 << 20;
/// After so much silence of its own a side sends a ping, ms.
pub const PING_MS: u64 = 2_000;
/// After so much silence of the other a side gives the connection up, ms.
pub const SILENCE_MS: u64 = 10_000;
/// Entries of a page of a listing, and files of a session.
pub const PAGE_MAX: usize = 10_000;
/// Pages of a listing that an agent sends before it waits for [`ToAgent::Taken`].
pub const PAGES_AHEAD: u32 = 2;
/// Steps of the schedule of a lease.
pub const STEPS_MAX: usize = 64;
/// Sessions that an agent drives at once.
pub const SESSIONS_MAX: usize = 256;

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// First.
    Hello(Hello),
    /// What the host has, again when that changed.
    Inventory(Inventory),
    /// The operator of the host decided.
    Mode(ModeSet),
    /// A page of what was asked for by [`ToAgent::List`].
    Listed(Listed),
    /// The answer to [`ToAgent::Prepare`].
    Prepared(Prepared),
    /// What could not be done of what was asked by this request or for this session.
    Failed(Failed),
    /// A lease is in force, or was refused.
    Acknowledged(Acknowledged),
    /// A session, once a second.
    Progress(Progress),
    /// Files of a session that are finished.
    Files(Files),
    /// What became of questions over paths: those of which that changed, and now and then all.
    Paths {
        /// At most [`PROBES_MAX`].
        paths: Vec<PathNews>,
    },
    /// What interfaces carried, each [`COUNT_EACH_MS`].
    Counted {
        /// At most [`COUNTS_MAX`].
        counts: Vec<Counted>,
    },
    /// A session has ended; no more is said of it.
    Ended(Ended),
    /// Nothing else to say.
    Ping,
}

/// What a controller says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToAgent {
    /// The agent is known.
    Welcome(Welcome),
    /// The agent is not taken; the connection ends.
    Turned(Turned),
    /// Asks what is beneath a path.
    List(List),
    /// The page of this number of a listing was taken.
    Taken {
        /// Of [`List`].
        request: u64,
        /// Number of the page.
        page: u32,
    },
    /// Asks for a token with which another agent may connect for a session.
    Prepare(Prepare),
    /// The token of this session is to be good for nothing any more. A session that runs with it comes to its own end.
    Revoke {
        /// The session.
        session: u64,
    },
    /// Asks to drive a session.
    Run(Box<Run>),
    /// A new allocation for a session.
    Lease(LeaseFor),
    /// All paths over which to ask, or to answer; those of before that are not among them are over.
    Probes {
        /// At most [`PROBES_MAX`].
        probes: Vec<Probe>,
    },
    /// A session is to go over another one of its paths.
    Path(SessionPath),
    /// What was counted for a link is left aside; said once, until something else is wrong with it.
    Uncounted(Uncounted),
    /// Asks to end a session in good order: what is finished stays. Who drives it tells its end as any other. Who listens is asked when its
    /// driver is not there; the token is good for nothing any more, and when nothing runs with it the answer is a [`FromAgent::Failed`] with
    /// [`Cause::Stopped`].
    Stop {
        /// The session.
        session: u64,
    },
    /// Nothing else to say.
    Ping,
}

/// Who an agent is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Of the program.
    pub version: String,
    /// One-time token, the first time only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrol: Option<String>,
    /// A random number of this process: a new one has no sessions.
    pub process: u64,
    /// Sessions that it drives and did not report the end of.
    pub sessions: Vec<Held>,
    /// What the host has.
    pub inventory: Inventory,
    /// What its operator decided.
    pub mode: Mode,
}

/// A session that an agent drives, and the lease in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The session.
    pub session: u64,
    /// Of the lease in force.
    pub generation: u64,
    /// Rate in force, b/s of IP packets.
    pub rate_bps: u64,
}

/// What the operator of a host decided about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It takes part.
    #[default]
    Active,
    /// It ends what it has and takes nothing new.
    Draining,
    /// Its sessions stand still and it takes nothing new.
    Paused,
}

/// A decision, with why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeSet {
    /// What was decided.
    pub mode: Mode,
    /// In the operator's words.
    #[serde(default)]
    pub reason: String,
}

/// The agent is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// What the controller calls it: the host of its network.
    pub host: String,
    /// [`PROTOCOL`] of the controller.
    pub protocol: u32,
    /// Sessions of [`Hello::sessions`] that are to go on; others are to be stopped.
    pub keep: Vec<u64>,
}

/// The agent is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// For its operator: what is wrong, and the way out.
    pub reason: String,
    /// Whether to try again later; else only after the operator did something.
    pub again: bool,
}

/// What is beneath a path?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The controller's number.
    pub request: u64,
    /// For whose transfer.
    pub collaboration: String,
    /// A directory or a file, absolute.
    pub path: Name,
    /// Where an earlier listing of the path was cut off: its last name and the number of the page that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
}

/// How far a listing had come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    /// The last entry of the last page, beneath the path.
    pub name: Name,
    /// Number of the next page.
    pub page: u32,
}

/// A page of a listing, in the order of the names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Of [`List`].
    pub request: u64,
    /// From 0, or from that of [`After`].
    pub page: u32,
    /// At most [`PAGE_MAX`].
    pub entries: Vec<Entry>,
    /// Whether the path is a directory.
    pub directory: bool,
    /// No page follows.
    pub last: bool,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Beneath the path; empty if the path is a file itself.
    pub name: Name,
    /// Bytes of a file; 0 for others.
    pub size_bytes: u64,
    /// What it is.
    pub kind: Kind,
}

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// What an agent does to files in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It reads and sends.
    Source,
    /// It receives and writes.
    Destination,
}

/// Make a token for another agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepare {
    /// For which session.
    pub session: u64,
    /// For whose transfer.
    pub collaboration: String,
    /// What this agent will do.
    pub role: Role,
    /// Where, absolute: what is read, or where it is written.
    pub path: Name,
    /// How long the token may be used to begin with, ms; at most an hour.
    pub good_ms: u64,
}

/// A token for a session. Only the agent that made it knows it again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// For which session.
    pub session: u64,
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("session", &self.session).finish_non_exhaustive()
    }
}

/// What could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// A listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
    /// A session that did not begin, or that is over at the end that listens ([`ToAgent::Stop`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// Of what kind.
    pub cause: Cause,
    /// What happened and the way out, for people.
    pub text: String,
}

/// Why something failed: it decides whether, where and when it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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
}

/// Drive a session.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The session.
    pub session: u64,
    /// For whose transfer.
    pub collaboration: String,
    /// What this agent does.
    pub role: Role,
    /// Where at this host, absolute.
    pub here: Name,
    /// Where at the other host, absolute.
    pub there: Name,
    /// The other agent's addresses, best first.
    pub addresses: Vec<SocketAddr>,
    /// The fingerprint of its data port.
    pub fingerprint: String,
    /// Its token for this session.
    pub token: String,
    /// What it is called, for messages.
    pub other: String,
    /// Addresses of this host to connect from; empty for the kernel's choice.
    #[serde(default)]
    pub bind: Vec<std::net::IpAddr>,
    /// The addresses are paths, each from the one of `bind` at its place: only the first that is good is used. Else all are.
    #[serde(default)]
    pub in_order: bool,
    /// What packets of each path carry, each at the place of its address; empty if none of them carries anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Marks>,
    /// Names beneath the source, at most [`PAGE_MAX`]; empty for the one file that the paths name. `there` (or `here`) is then the
    /// directory or the file's own new path.
    pub names: Vec<Name>,
    /// How.
    pub how: How,
    /// How fast.
    pub lease: Lease,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Run");
        shown.field("session", &self.session).field("role", &self.role).field("here", &self.here);
        shown.field("there", &self.there).field("names", &self.names.len()).finish_non_exhaustive()
    }
}

/// How files are copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// `clear`, `integrity` or `private`; empty for the last.
    pub protect: String,
    /// `never`, `changed` or `always`; empty for `changed`.
    pub overwrite: String,
    /// A digest of each file, as `copy --checksum` calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Data streams that were wished for; 0 for as many as help.
    #[serde(default)]
    pub streams: u16,
    /// What the controller counts for this session of what both hosts have: data streams at most. 0 is no bound.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub streams_max: u16,
    /// Congestion control; `None` for the agent's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// A schedule of rates with an end. All durations begin when it is received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Rises with each allocation; an older one is refused.
    pub generation: u64,
    /// Rates in turn, the first from 0 on; at most [`STEPS_MAX`], rising in time.
    pub rates: Vec<Step>,
    /// How long it lasts, ms.
    pub length_ms: u64,
    /// What holds after that, b/s of IP packets; 0 stands still.
    pub fall_back_bps: u64,
}

/// A rate from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// After the lease was received, ms.
    pub after_ms: u64,
    /// b/s of IP packets; 0 stands still.
    pub rate_bps: u64,
}

/// A lease for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseFor {
    /// The session.
    pub session: u64,
    /// The lease.
    pub lease: Lease,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// The session.
    pub session: u64,
    /// Of the lease that came.
    pub generation: u64,
    /// It is in force; else a newer one is.
    pub accepted: bool,
    /// The rate in force, b/s of IP packets.
    pub rate_bps: u64,
}

/// How a session goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The session.
    pub session: u64,
    /// Of the lease in force.
    pub generation: u64,
    /// The rate in force, b/s of IP packets.
    pub set_bps: u64,
    /// Whether that is the fall-back after the lease's end.
    pub fallen_back: bool,
    /// File bytes in place or equal since the session began.
    pub bytes_done: u64,
    /// Files done since the session began.
    pub files_done: u64,
    /// Measured in the last second, b/s of IP packets.
    pub rate_bps: u64,
    /// Measured in the last second, b/s of file bytes.
    pub goodput_bps: u64,
    /// Data streams open.
    pub streams: u16,
    /// What limited the last second, as `copy` calls it.
    pub limit: String,
    /// Segments sent again since the session began.
    #[serde(default)]
    pub retransmits: u64,
    /// Smoothed round trip, mean over streams, µs; 0 if not known.
    #[serde(default)]
    pub rtt_us: u64,
    /// Congestion windows, sum over streams, bytes; 0 if not known.
    #[serde(default)]
    pub cwnd_bytes: u64,
}

/// Files that are finished: durable at the destination, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The session.
    pub session: u64,
    /// At most [`PAGE_MAX`].
    pub files: Vec<FileDone>,
}

/// A finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDone {
    /// Its place in [`Run::names`]; 0 if that is empty.
    pub number: u32,
    /// Its size, if it is in place and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Why it failed; `None` if it is in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What happened, for people, if it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Its digest, in hexadecimal, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A session is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The session.
    pub session: u64,
    /// Why it ended early; `None` if it came to its end, some files failed or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What happened, for people.
    #[serde(default)]
    pub text: String,
    /// File bytes in place or equal.
    pub bytes_done: u64,
    /// File bytes sent, again included.
    pub bytes_sent: u64,
    /// Files done.
    pub files_done: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// How long it ran, ms.
    pub ran_ms: u64,
}
