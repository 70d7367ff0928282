//! Probes, between the port and the instances.
//!
//! What arrives at an address goes to every instance that named the address: whose it is only those can tell that have the path's key. An address is
//! bound while an instance names it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::door::Datagram;
use proto::limits::PROBE_ADDRESSES_MAX;

use units::Marks;

use super::backend::Backend;
use super::tally::Tally;
use crate::probe_port::ProbePort;

/// The addresses that are bound, and who wants what arrives at them.
pub(crate) struct Probes {
    port: u16,
    tally: Arc<Tally>,
    wanted: Arc<Mutex<Wanted>>,
    open: tokio::sync::Mutex<BTreeMap<IpAddr, ProbePort>>,
    backends: Arc<[Arc<Backend>]>,
}

/// By the number of the instance.
type Wanted = BTreeMap<usize, BTreeSet<IpAddr>>;

impl Probes {
    /// Of a door with this port and these instances; nobody wants anything yet.
    pub(crate) fn new(port: u16, backends: Arc<[Arc<Backend>]>, tally: Arc<Tally>) -> Probes {
        Probes { port, tally, wanted: Arc::default(), open: tokio::sync::Mutex::default(), backends }
    }

    /// An instance wants what arrives at these addresses from now on, and nothing else.
    pub(crate) async fn want(&self, instance: usize, addresses: Vec<IpAddr>) {
        let all: BTreeSet<IpAddr> = {
            let mut wanted = lock(&self.wanted);
            wanted.insert(instance, addresses.into_iter().collect());
            wanted.values().flatten().copied().collect()
        };
        let mut open = self.open.lock().await;
        open.retain(|ip, _| all.contains(ip));
        for here in all {
            if open.contains_key(&here) {
                continue;
            }
            if open.len() >= PROBE_ADDRESSES_MAX {
                tracing::warn!(%here, "instances name more than {PROBE_ADDRESSES_MAX} addresses: no probes go through this one");
                continue;
            }
            let (wanted, tally) = (self.wanted.clone(), self.tally.clone());
            let backends = self.backends.clone();
            let take = move |arrived: Datagram| {
                for (number, addresses) in lock(&wanted).iter() {
                    let Some(backend) = backends.get(*number).filter(|_| addresses.contains(&arrived.here)) else {
                        continue;
                    };
                    let counter = match backend.hand_probe(arrived) {
                        Ok(()) => &tally.probes_in,
                        Err(_) => &tally.probes_lost,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            };
            match ProbePort::open(here, self.port, take).await {
                Ok(port) => drop(open.insert(here, port)),
                Err(error) => {
                    tracing::warn!(%here, port = self.port, %error, "cannot ask or answer over paths at this address: give it to this host, or take the paths from it out of the network");
                }
            }
        }
    }

    /// Sends a probe for an instance that named the address.
    pub(crate) fn send(&self, instance: usize, datagram: &Datagram, marks: Marks) {
        let may = lock(&self.wanted).get(&instance).is_some_and(|wanted| wanted.contains(&datagram.here));
        // Who binds an address right now holds the lock; a probe that is lost meanwhile is lost as on any path.
        let is_sent = may
            && self.open.try_lock().is_ok_and(|mut open| {
                let port = open.get_mut(&datagram.here);
                port.is_some_and(|port| port.send(&datagram.bytes, datagram.there, marks).is_ok())
            });
        let counter = if is_sent { &self.tally.probes_out } else { &self.tally.probes_lost };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn lock(wanted: &Mutex<Wanted>) -> MutexGuard<'_, Wanted> {
    wanted.lock().unwrap_or_else(PoisonError::into_inner)
}
