//! What this host has, as the controller is told.

use std::net::{IpAddr, SocketAddr};

use api::agent::{Interface, Inventory};
use mover::request::Fingerprint;
use mover::server::ServeLimits;

use super::grants::Grants;
use crate::config::DataAddress;

/// Interfaces that are told; no host that moves data has more.
pub const INTERFACES_MAX: usize = 64;
/// Addresses that are told.
pub const ADDRESSES_MAX: usize = 64;

/// What does not change while the agent runs.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// Where the data port listens.
    pub bound: SocketAddr,
    /// Further addresses of the configuration.
    pub addresses: Vec<DataAddress>,
    /// Of the data port.
    pub fingerprint: Fingerprint,
    /// What the host has for all sessions of controllers together.
    pub budget: Budget,
    /// Bounds of the agent.
    pub bounds: ServeLimits,
    /// Sessions that it drives at once at most.
    pub sessions_max: usize,
}

/// What a host has for sessions of controllers, as its site says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Each way, b/s of IP packets; `None` for what its interfaces carry.
    pub host_bps: Option<u64>,
    /// Of one processor, both ways together, b/s of IP packets; `None` if processors bound nothing.
    pub core_bps: Option<u64>,
}

/// Looks at the host. Blocks on the file systems that are granted.
#[must_use]
pub fn look(fixed: &Fixed, grants: &Grants, controller: Option<Fingerprint>) -> Inventory {
    // A kernel that does not tell leaves the list empty.
    let found = sys::interface::interfaces().unwrap_or_default();
    // An address of the host as a whole, whichever way it is reached, is kept on its loopback interface: it goes first.
    let whole: Vec<IpAddr> = found
        .iter()
        .filter(|one| one.is_loopback)
        .flat_map(|one| &one.addresses)
        .filter(|ip| !ip.is_loopback())
        .copied()
        .collect();
    let mut interfaces: Vec<_> = found.into_iter().filter(|interface| !interface.is_loopback).collect();
    interfaces.truncate(INTERFACES_MAX);
    let cores = sys::cpu::allowed_cpus().map_or(1, |cpus| cpus.len());
    let hex = fixed.fingerprint.0.iter().map(|byte| format!("{byte:02x}")).collect();
    Inventory {
        hostname: sys::process::hostname(),
        addresses: addresses(fixed, whole.iter().chain(interfaces.iter().flat_map(|interface| &interface.addresses))),
        fingerprint: hex,
        interfaces: interfaces
            .iter()
            .map(|interface| Interface {
                name: interface.name.clone(),
                addresses: interface.addresses.clone(),
                rate_bps: interface.rate_bps,
                mtu: interface.mtu_bytes,
            })
            .collect(),
        grants: grants.granted(controller),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        sessions_max: u32::try_from(fixed.sessions_max).unwrap_or(u32::MAX),
        streams_max: u32::try_from(fixed.bounds.streams).unwrap_or(u32::MAX),
        rate_bps: fixed.bounds.rate_bps,
        host_bps: fixed.budget.host_bps,
        cores_bps: fixed.budget.core_bps.map(|each| each.saturating_mul(cores as u64)),
        probe_port: Some(fixed.bound.port()),
    }
}

/// Where others connect to: what the configuration names, else every address of the host at the port. An agent that listens at one
/// address is reached there.
fn addresses<'a>(fixed: &Fixed, own: impl Iterator<Item = &'a IpAddr>) -> Vec<SocketAddr> {
    let bound = fixed.bound;
    let named = fixed.addresses.iter().map(|to| SocketAddr::new(to.ip, to.port.unwrap_or(bound.port())));
    let mut all: Vec<SocketAddr> = Vec::new();
    if !bound.ip().is_unspecified() {
        all.push(bound);
    }
    all.extend(named);
    if all.is_empty() {
        let reached = own.filter(|ip| bound.is_ipv6() || ip.is_ipv4());
        all.extend(reached.map(|ip| SocketAddr::new(*ip, bound.port())));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|address| seen.insert(*address));
    all.truncate(ADDRESSES_MAX);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_goes_before_what_is_found() {
        let bounds = ServeLimits { sessions: 1, streams: 2, handshakes: 3, memory_bytes: 4, rate_bps: None };
        let fixed = |bound: &str, named: &[&str]| Fixed {
            bound: bound.parse().unwrap(),
            addresses: named.iter().map(|ip| DataAddress { ip: ip.parse().unwrap(), port: None }).collect(),
            fingerprint: Fingerprint([0; 32]),
            budget: Budget::default(),
            bounds,
            sessions_max: 1,
        };
        let own: Vec<IpAddr> = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap()).to_vec();
        let texts = |fixed: Fixed| addresses(&fixed, own.iter()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(fixed("[::]:4810", &[])), ["192.0.2.1:4810", "[2001:db8::1]:4810"]);
        assert_eq!(texts(fixed("0.0.0.0:4810", &[])), ["192.0.2.1:4810"]);
        assert_eq!(texts(fixed("[::]:4810", &["192.0.2.9"])), ["192.0.2.9:4810"]);
        assert_eq!(texts(fixed("127.0.0.1:4000", &["192.0.2.9", "127.0.0.1"])), ["127.0.0.1:4000", "192.0.2.9:4000"]);
    }
}
