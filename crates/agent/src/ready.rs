//! What the ready file of an agent says: where it is and how to get in, for whoever started it.

use std::net::SocketAddr;

use mover::request::Fingerprint;
use serde::Serialize;
use service::ready::reachable;

/// What it says.
#[derive(Debug, Serialize)]
pub(crate) struct Ready<'a> {
    /// `ip:port` that a client on this host can connect to.
    pub(crate) address: String,
    /// The main token.
    pub(crate) token: &'a str,
    /// Of the certificate.
    pub(crate) fingerprint: String,
    /// `ip:port` of metrics, if they are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
}

impl<'a> Ready<'a> {
    pub(crate) fn new(
        bound: SocketAddr,
        token: &'a str,
        fingerprint: Fingerprint,
        metrics: Option<SocketAddr>,
    ) -> Ready<'a> {
        Ready {
            address: reachable(bound).to_string(),
            token,
            fingerprint: fingerprint.to_string(),
            metrics: metrics.map(|address| reachable(address).to_string()),
        }
    }
}
