//! Paths: what agents ask over them, what they find, and which one a session takes.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use units::Marks;

/// Paths that an agent asks over, or answers on, at once.
pub const PROBES_MAX: usize = 512;
/// Between two questions over a path, ms: with an answer of the same size, 64 bytes of UDP, 18 kb/s at most.
pub const PROBE_EACH_MS: u64 = 100;

/// A path over which a host asks another whether it is there, each [`PROBE_EACH_MS`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The controller's number of the path.
    pub path: u64,
    /// Of the path: with it both know each other's words again. 64 hexadecimal digits.
    pub key: String,
    /// This host's address.
    pub here: IpAddr,
    /// The other host's address and port.
    pub there: SocketAddr,
    /// This host asks; else it answers.
    pub asks: bool,
    /// What questions and answers carry.
    #[serde(default, skip_serializing_if = "Marks::is_none")]
    pub marks: Marks,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Probe");
        shown.field("path", &self.path).field("here", &self.here).field("there", &self.there);
        shown.field("asks", &self.asks).field("marks", &self.marks).finish_non_exhaustive()
    }
}

/// What became of the questions over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathNews {
    /// Of [`Probe`].
    pub path: u64,
    /// How it is.
    pub state: PathState,
    /// Smoothed round trip, µs; 0 if none is known.
    #[serde(default)]
    pub rtt_us: u64,
    /// The shortest and the longest round trip since this was last told, µs; 0 if no answer came since.
    #[serde(default)]
    pub rtt_low_us: u64,
    /// See `rtt_low_us`.
    #[serde(default)]
    pub rtt_high_us: u64,
    /// Questions since the path was named, but for those that may still be answered in time, or were asked when the host slept.
    #[serde(default)]
    pub asked: u64,
    /// Of these, answers that came in time or late.
    #[serde(default)]
    pub answered: u64,
}

/// How a path is, by the answers to questions over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// They come.
    Answering,
    /// They came, and then three in a row did not.
    Suspect,
    /// None ever came: that says nothing of links, as a filter may drop them.
    Silent,
}

/// The path that a session is to go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPath {
    /// The session.
    pub session: u64,
    /// One of [`super::Run::addresses`].
    pub to: SocketAddr,
    /// The one of [`super::Run::bind`] that belongs to it, if any does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// The one of [`super::Run::marks`] that belongs to it.
    #[serde(default, skip_serializing_if = "Marks::is_none")]
    pub marks: Marks,
    /// Nothing comes back over the path so far: what is on its way there is sent again over this one.
    #[serde(default)]
    pub is_cut: bool,
}
