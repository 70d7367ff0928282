//! What a host has, and what its site grants.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Name;

/// What a host has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Name of the host as it calls itself.
    pub hostname: String,
    /// Where other agents connect to: address and data port.
    pub addresses: Vec<SocketAddr>,
    /// Fingerprint of its data port's certificate, 64 hexadecimal digits.
    pub fingerprint: String,
    /// Network interfaces that are up, but for loopback.
    pub interfaces: Vec<Interface>,
    /// What it may be asked for, as its configuration grants it to this controller.
    pub grants: Vec<Granted>,
    /// Processors.
    pub cores: u32,
    /// Sessions at once, at either role.
    pub sessions_max: u32,
    /// Data streams at once.
    pub streams_max: u32,
    /// Greatest rate of a session, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// What all sessions may use together each way, b/s of IP packets, as its site says; `None` for what the interfaces carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bps: Option<u64>,
    /// What its processors move, both ways together, b/s of IP packets, as its site says; `None` if nobody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_bps: Option<u64>,
    /// The UDP port from which it asks and at which it answers over paths; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_port: Option<u16>,
}

impl Inventory {
    /// What all its sessions together may use each way, b/s: the least of what its site says and what its interfaces carry, if they all tell.
    #[must_use]
    pub fn each_way_bps(&self) -> Option<u64> {
        let of_all = self.interfaces.iter().try_fold(0_u64, |sum, of| Some(sum.saturating_add(of.rate_bps?)));
        of_all.filter(|_| !self.interfaces.is_empty()).into_iter().chain(self.host_bps).min()
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its rate, b/s, where the kernel knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Its MTU, bytes.
    pub mtu: u32,
}

/// A grant of the host's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Granted {
    /// For whose transfers; `*` for all.
    pub collaboration: String,
    /// Beneath which directory.
    pub root: Name,
    /// May be read.
    pub read: bool,
    /// May be written.
    pub write: bool,
    /// Greatest rate of a session under it, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Bytes free beneath it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}
