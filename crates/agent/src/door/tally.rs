//! What a door counts.

use std::sync::atomic::AtomicU64;

/// Numbers since the start. A connection that was accepted is handed over, which its backend counts, or closed for one of these reasons.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Connections accepted.
    pub(crate) accepted: AtomicU64,
    /// As many as may be looked at were.
    pub(crate) no_place: AtomicU64,
    /// They ended, or took too long, before they said whom they mean.
    pub(crate) silent: AtomicU64,
    /// They began as nothing of ours does.
    pub(crate) unreadable: AtomicU64,
    /// They meant no instance, and there is no default.
    pub(crate) nobody: AtomicU64,
    /// The instance was not there.
    pub(crate) away: AtomicU64,
    /// The instance had not taken what fits into its socket.
    pub(crate) full: AtomicU64,
    /// Probes that arrived and were handed to an instance, each counted.
    pub(crate) probes_in: AtomicU64,
    /// Probes sent for instances.
    pub(crate) probes_out: AtomicU64,
    /// Probes that could not be handed on or sent.
    pub(crate) probes_lost: AtomicU64,
}
