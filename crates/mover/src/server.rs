//! The accepting end: one TCP port, or a share of one behind a door, for control connections (TLS) and data streams.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use proto::control::{Direction, Refusal};
use tokio::sync::{Mutex, mpsc, watch};

pub use service::Identity;

use crate::request::Hooks;

/// Decides who may do what. An agent has one from its configuration; a command that is connected back to
/// has one that admits a single one-time key.
pub trait Policy: Send + Sync + 'static {
    /// Checks a token in constant time.
    ///
    /// # Errors
    /// A refusal that says nothing an outsider could use.
    fn admit(&self, token: &str, from: SocketAddr) -> Result<Arc<dyn Grant>, Refusal>;
}

/// What the operator of the accepting end lets a session do while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// It goes on.
    #[default]
    Goes,
    /// It stands still until it goes on.
    Still,
    /// It ends in good order.
    Over,
}

/// What an admitted peer may do.
pub trait Grant: Send + Sync {
    /// Finds an absolute path beneath one of the roots: the root opened, and the path relative to it.
    ///
    /// # Errors
    /// When it is beneath no root that may be used this way.
    fn resolve(&self, direction: Direction, path: &[u8]) -> Result<(sys::file::Dir, proto::RelPath), Refusal>;
    /// May it run throughput tests?
    fn may_test(&self) -> bool;
    /// May it have this agent drive a session with another (third party)?
    fn may_relay(&self) -> bool;
    /// Programs of this agent's own configuration.
    fn hooks(&self) -> Hooks;
    /// For the log: whose token it was.
    fn name(&self) -> String;
    /// Greatest set point of its sessions, b/s of IP packets, beside that of the agent.
    fn rate_bps(&self) -> Option<u64> {
        None
    }
    /// True if several copies may write into one directory at once, each its own names: whoever asks for them keeps the names apart.
    fn is_shared(&self) -> bool {
        false
    }
    /// What its sessions may do while they run, where somebody decides that.
    fn standing(&self) -> Option<watch::Receiver<Standing>> {
        None
    }
}

/// Bounds of an accepting end, over all its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeLimits {
    /// Sessions at once.
    pub sessions: usize,
    /// Data streams at once.
    pub streams: usize,
    /// Connections that are not authenticated yet; further ones are closed at once.
    pub handshakes: usize,
    /// Memory for buffers over all sessions, bytes.
    pub memory_bytes: u64,
    /// Greatest set point that a session may have, b/s of IP packets; `None` for no bound.
    pub rate_bps: Option<u64>,
}

/// Where connections come from.
pub enum Port {
    /// A port of this process.
    Own(TcpListener),
    /// A door that has the port, and hands over those that are for this end. It is over when the sender is dropped.
    Door(Mutex<mpsc::Receiver<TcpStream>>),
}

/// A port with the identity it answers with.
pub struct Listener {
    /// The port.
    pub port: Port,
    /// Who we are.
    pub identity: Identity,
}

/// Numbers of an accepting end since its start, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Sessions begun.
    pub sessions: std::sync::atomic::AtomicU64,
    /// Copies with another agent that this one drove.
    pub relays: std::sync::atomic::AtomicU64,
    /// Sessions running.
    pub sessions_active: std::sync::atomic::AtomicU64,
    /// Data streams open.
    pub streams_active: std::sync::atomic::AtomicU64,
    /// Connections refused before a session, by any cause.
    pub refused: std::sync::atomic::AtomicU64,
    /// File bytes received and verified.
    pub bytes_in: std::sync::atomic::AtomicU64,
    /// File bytes sent.
    pub bytes_out: std::sync::atomic::AtomicU64,
    /// Files put in place.
    pub files_placed: std::sync::atomic::AtomicU64,
    /// Files that failed.
    pub files_failed: std::sync::atomic::AtomicU64,
    /// Parcels that arrived corrupt.
    pub corrupt: std::sync::atomic::AtomicU64,
    /// TCP segments sent again.
    pub retransmits: std::sync::atomic::AtomicU64,
}

/// What an accepting end is set up with.
pub struct ServeOptions {
    /// Who may do what.
    pub policy: Arc<dyn Policy>,
    /// Bounds.
    pub bounds: ServeLimits,
    /// What a session at this end may use.
    pub limits: crate::request::Limits,
    /// Numbers for metrics.
    pub counters: Arc<Counters>,
    /// Further addresses (`ip:port`) that peers may open streams to.
    pub addresses: Vec<String>,
}
