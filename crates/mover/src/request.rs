//! What a copy or a test is asked to do: the one place between a command (or a controller) and the mover.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::control::{CopyOptions, Settings};
use sys::file::{Cache, can_pass};
use units::{Bytes, Marks};

use crate::way::Way;

/// SHA-256 of a certificate (DER).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// Says whether a peer with this fingerprint is the one meant; the text is for the user.
pub type Judge = Arc<dyn Fn(&Fingerprint) -> Result<(), String> + Send + Sync>;

/// How an agent is reached.
#[derive(Clone)]
pub enum Reach {
    /// Connect to one of these addresses; further ones carry streams too.
    Connect(Vec<SocketAddr>),
    /// It connects to us (it was started over ssh behind a firewall).
    Accept(Arc<crate::server::Listener>),
}

/// Turns to why when what started an agent is gone, and the agent with it.
pub type Gone = tokio::sync::watch::Receiver<Option<String>>;

/// An agent at the far end.
#[derive(Clone)]
pub struct Remote {
    /// How it is reached.
    pub reach: Reach,
    /// Who it is known to be before it answers, for a door in front of it; the judge decides.
    pub expected: Option<Fingerprint>,
    /// Whether it is the one meant.
    pub judge: Judge,
    /// Access token or one-time key.
    pub token: String,
    /// For messages: what the user called it.
    pub label: String,
    /// If it lives only as long as something at this end, such as a login.
    pub gone: Option<Gone>,
}

/// One end of a copy.
#[derive(Clone)]
pub enum Place {
    /// Paths of this host. A trailing slash counts as rsync's.
    Local(Vec<PathBuf>),
    /// Standard input or output.
    Pipe,
    /// Paths at an agent.
    Agent(Remote, Vec<Vec<u8>>),
    /// Paths beneath the roots of this agent, when it drives a copy for somebody who may do what the grant says.
    Served(Arc<dyn crate::server::Grant>, Vec<Vec<u8>>),
}

/// Programs run at this end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Before each file is read or written.
    pub before_file: Option<String>,
    /// After each file is read or published.
    pub after_file: Option<String>,
    /// Before the first entry.
    pub before_dataset: Option<String>,
    /// After the last entry.
    pub after_dataset: Option<String>,
}

/// What this end may use, whatever is moved.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Memory of the process: buffers are what is left of it after fixed costs.
    pub memory: Bytes,
    /// Local addresses to connect from; empty for the kernel's choice.
    pub bind: Vec<IpAddr>,
    /// What packets to each address of the other end carry, in turn; empty for what the session's settings say.
    pub marks: Vec<Marks>,
    /// Addresses of the other end are liked in their order: streams go over the first that is good, the rest wait. Else all are used.
    pub in_order: bool,
    /// Data streams at most where their number is to be found.
    pub streams_auto: u16,
    /// Without any progress for this long the attempt is given up.
    pub timeout: Duration,
    /// Where what is found of paths is kept for the next session; `None` keeps nothing.
    pub paths_file: Option<PathBuf>,
    /// `posix` forces the fallback of storage I/O (tests, bench).
    pub io: IoChoice,
}

/// Data streams at most where their number is to be found, if nobody says less.
pub const STREAMS_AUTO_MAX: u16 = 16;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: Bytes::new(512 << 20),
            bind: Vec::new(),
            marks: Vec::new(),
            in_order: false,
            streams_auto: STREAMS_AUTO_MAX,
            timeout: Duration::from_secs(60),
            paths_file: None,
            io: IoChoice::default(),
        }
    }
}

/// Which storage I/O may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// What measures best here.
    #[default]
    Measure,
    /// The same without io_uring, which many sites turn off: threads with positional reads and writes.
    Threads,
    /// Without O_DIRECT as well, as on file systems that do not offer it.
    Posix,
    /// The same as before Linux 6.16: no `RWF_DONTCACHE`.
    PosixOld,
}

impl IoChoice {
    /// Files may be opened with O_DIRECT.
    #[must_use]
    pub fn may_be_direct(self) -> bool {
        matches!(self, IoChoice::Measure | IoChoice::Threads)
    }

    /// What becomes of the page cache behind reads of a file that is not opened with O_DIRECT.
    #[must_use]
    pub fn cache(self, fd: impl AsFd) -> Cache {
        if self != IoChoice::PosixOld && can_pass(fd) { Cache::Passes } else { Cache::Stays }
    }
}

/// Share of [`Limits::memory`] that is for buffers; the rest is for the manifest and the program.
pub const BUFFER_SHARE: u64 = 2;

/// A copy.
#[derive(Clone)]
pub struct CopyRequest {
    /// Where from.
    pub source: Place,
    /// Where to (one path).
    pub destination: Place,
    /// List of names beneath the one source; empty for everything.
    pub names: Vec<proto::RelPath>,
    /// What is copied how.
    pub options: CopyOptions,
    /// How bytes move. `streams_max` 0 stands for "auto".
    pub settings: Settings,
    /// Programs run at this end.
    pub hooks: Hooks,
    /// What this end may use.
    pub limits: Limits,
    /// File for the whole-file digests.
    pub digests_file: Option<PathBuf>,
    /// Every entry is reported as a [`crate::event::FileEvent`], not only failures.
    pub every_file: bool,
}

/// A throughput test.
#[derive(Clone)]
pub struct TestRequest {
    /// The far end.
    pub remote: Remote,
    /// How bytes move. `streams_max` 0 stands for "auto".
    pub settings: Settings,
    /// How long.
    pub duration: Duration,
    /// Between two interval lines.
    pub interval: Duration,
    /// The far end sends.
    pub reverse: bool,
    /// Both send.
    pub bidirectional: bool,
    /// Raise the number of streams until throughput stops rising.
    pub sweep: bool,
    /// What this end may use.
    pub limits: Limits,
}

/// A change while the session runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steer {
    /// New set point, b/s of IP packets; `None` lifts it.
    Rate(Option<u64>),
    /// New number of streams.
    Streams(u16),
    /// Another way to the other end, of those that the session was begun with, goes before all others ([`Limits::in_order`]).
    Path {
        /// Which.
        to: Way,
        /// Nothing comes back over the others: what is on its way there is sent again, not waited for.
        is_cut: bool,
    },
    /// Finish what is in flight and stop; the copy can be resumed.
    Stop,
}

/// Why a copy or test did not do all it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct MoveError {
    /// Exit code of the command.
    pub exit_code: u8,
    /// One line for the user: the operation, the thing, the way out.
    pub text: String,
    /// What lies behind it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
    /// True if trying again may help (the connection was lost).
    pub again: bool,
    /// Of what kind it is, for who decides what to do about it.
    pub why: Why,
}

/// Kinds of reasons why a copy did not do all it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Why {
    /// An end refused, or the other end gave up, with this code; the number of an error of the operating system behind it, if
    /// it told one.
    Refused(proto::control::Code, Option<i32>),
    /// The other end was not reached, or lost.
    Network,
    /// The operating system said no, at this end; its number for that, if it has one.
    System(Option<i32>),
    /// Somebody else is at the destination.
    Busy,
    /// It was stopped as asked.
    Stopped,
    /// Anything else.
    #[default]
    Other,
}

impl Why {
    /// The number at the end of what the operating system calls an error, as in `No space left on device (os error 28)`. The protocol
    /// carries reasons as text; this is the part of it that means the same everywhere.
    #[must_use]
    pub fn system_number(text: &str) -> Option<i32> {
        let (_, rest) = text.rsplit_once("(os error ")?;
        rest.split_once(')')?.0.parse().ok()
    }
}
