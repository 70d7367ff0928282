//! What clients may use.

use std::time::Duration;

/// Connections that shake hands at once; further ones are closed.
pub const HANDSHAKES_MAX: usize = 512;
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Agents' connections at once; further ones are closed.
pub const AGENTS_MAX: usize = 4096;
/// HTTP connections at once; further ones are closed.
pub const CONNECTIONS_MAX: usize = 1024;
/// Connections at once of one address (of IPv6: of one /64), agents' not counted; further ones are closed.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
/// Bytes of the head of a request; a longer one is answered 431.
pub const HEADER_BYTES_MAX: usize = 8 << 10;
/// Fields of the head of a request; more are answered 431.
pub const HEADERS_MAX: usize = 64;
/// How long the head of a request may take, and how long a connection may idle between two.
pub const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long the body of a request may take.
pub const BODY_TIME: Duration = Duration::from_secs(30);
/// How long a client may take no byte of what is written to it.
pub const WRITE_TIME: Duration = Duration::from_secs(30);
/// Bodies of up to [`api::rest::BODY_LARGE_MAX`] in memory at once; further ones wait.
pub const BODIES_LARGE_MAX: usize = 16;
/// Requests of one token in a second, in the long run.
pub const REQUESTS_PER_SECOND: u32 = 200;
/// Requests of one token at once, after it rested.
pub const REQUESTS_BURST: u32 = 400;
/// Requests without a good token of one address (of IPv6: of one /64) in a second, in the long run.
pub const STRANGERS_PER_SECOND: u32 = 20;
/// Requests without a good token of one address at once, after it rested.
pub const STRANGERS_BURST: u32 = 40;
/// Clients that listen to events at once.
pub const LISTENERS_MAX: usize = 64;
/// How long answers may take once the port is asked to stop.
pub const STOP_GRACE: Duration = Duration::from_secs(5);

/// The bounds in force; by default the constants of this module.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// [`HANDSHAKES_MAX`].
    pub handshakes: usize,
    /// [`HANDSHAKE_TIME`].
    pub handshake_time: Duration,
    /// [`AGENTS_MAX`].
    pub agents: usize,
    /// [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// [`CONNECTIONS_PER_ADDRESS_MAX`].
    pub per_address: usize,
    /// [`HEADER_TIME`].
    pub header_time: Duration,
    /// [`BODY_TIME`].
    pub body_time: Duration,
    /// [`WRITE_TIME`].
    pub write_time: Duration,
    /// [`BODIES_LARGE_MAX`].
    pub large_bodies: usize,
    /// [`REQUESTS_PER_SECOND`] and [`REQUESTS_BURST`].
    pub requests: (u32, u32),
    /// [`STRANGERS_PER_SECOND`] and [`STRANGERS_BURST`].
    pub strangers: (u32, u32),
    /// [`LISTENERS_MAX`].
    pub listeners: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            handshakes: HANDSHAKES_MAX,
            handshake_time: HANDSHAKE_TIME,
            agents: AGENTS_MAX,
            connections: CONNECTIONS_MAX,
            per_address: CONNECTIONS_PER_ADDRESS_MAX,
            header_time: HEADER_TIME,
            body_time: BODY_TIME,
            write_time: WRITE_TIME,
            large_bodies: BODIES_LARGE_MAX,
            requests: (REQUESTS_PER_SECOND, REQUESTS_BURST),
            strangers: (STRANGERS_PER_SECOND, STRANGERS_BURST),
            listeners: LISTENERS_MAX,
        }
    }
}
