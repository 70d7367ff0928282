//! The network side of the byte path: few threads, each serving many streams without a lock between them.

pub mod ahead;
pub mod backlog;
pub mod gate;
pub mod kept;
pub mod open;
pub mod receiver;
pub mod sender;
pub mod test_data;
pub mod tune;
mod wake;

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::control::Arrived;
use proto::hello::StreamSecrets;

/// An open stream on its way to a network thread.
pub struct Opened {
    /// Number in the session.
    pub id: u16,
    /// The socket, non-blocking.
    pub socket: Arc<TcpStream>,
    /// Its secrets.
    pub secrets: StreamSecrets,
    /// True if this end connected: it sends with the forward secret.
    pub connected: bool,
    /// Its place in the budget of an accepting end.
    pub permit: Option<crate::accept::Permit>,
}

/// What network threads tell the session.
#[derive(Debug)]
pub enum NetEvent {
    /// A stream is closed. The reason is `None` if it ended in good order.
    Closed {
        /// Its number.
        id: u16,
        /// Why.
        why: Option<String>,
        /// Of a receiving end: what came over it. More whole parcels than can wait to be written are not named.
        arrived: Arrived,
    },
    /// A parcel begins to be sent on a stream.
    Sending {
        /// Number of the parcel.
        parcel: u64,
        /// Number of the stream.
        stream: u16,
        /// Its payload, bytes.
        bytes: u64,
    },
    /// A parcel is to come again.
    Corrupt {
        /// Number of the parcel.
        parcel: u64,
        /// It was damaged on its way (clear protection); else it is the rest of one of which the begin is not here.
        is_damaged: bool,
    },
}

/// Counters of one direction of a session, written by network threads, read once a second.
#[derive(Debug, Default)]
pub struct NetStats {
    /// Payload bytes handed to the kernel or verified.
    pub bytes: AtomicU64,
    /// Payload bytes of a test's records: of those that were checked, and what has come of those of which the rest is still to come.
    pub test_bytes: AtomicU64,
    /// Records.
    pub records: AtomicU64,
    /// Parcels complete.
    pub parcels: AtomicU64,
    /// Time that threads were busy, µs, summed over threads.
    pub busy_us: AtomicU64,
    /// Time that the gate of the pacer was the reason to wait, µs.
    pub gated_us: AtomicU64,
    /// Time that a writable stream had nothing to send (sender), or that data waited for a frame (receiver), µs.
    pub starved_us: AtomicU64,
}

impl NetStats {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        // Only statistics: no other memory depends on it.
        counter.fetch_add(n, Ordering::Relaxed);
    }
}
