//! The addresses of this host at which probes arrive and from which they go: sockets of this process, or those of its door.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use proto::door::Datagram;
use proto::limits::PROBE_ADDRESSES_MAX;
use proto::probe::BYTES;
use tokio::sync::mpsc;
use units::Marks;

use crate::behind::DoorProbes;
use crate::probe_port::ProbePort;

/// The addresses that are in use.
pub(super) enum Ports {
    /// Each has a socket, at the number of the data port.
    Own {
        /// The number.
        port: u16,
        /// By address.
        open: BTreeMap<IpAddr, ProbePort>,
        /// Where what arrives goes.
        arrive: mpsc::Sender<Datagram>,
    },
    /// The door has the port.
    Door(Arc<DoorProbes>),
}

impl Ports {
    /// Of an agent with this data port; what arrives goes to `arrive`.
    pub(super) fn new(port: u16, door: Option<Arc<DoorProbes>>, arrive: mpsc::Sender<Datagram>) -> Ports {
        match door {
            None => Ports::Own { port, open: BTreeMap::new(), arrive },
            Some(door) => {
                door.hand_to(arrive);
                Ports::Door(door)
            }
        }
    }

    /// These are the addresses from now on.
    pub(super) async fn keep_to(&mut self, addresses: &BTreeSet<IpAddr>) {
        if addresses.len() > PROBE_ADDRESSES_MAX {
            tracing::warn!(
                "paths begin at more than {PROBE_ADDRESSES_MAX} addresses of this host: nobody asks or answers at further ones"
            );
        }
        let addresses = addresses.iter().copied().take(PROBE_ADDRESSES_MAX);
        match self {
            Ports::Door(door) => door.want(addresses.collect()),
            Ports::Own { port, open, arrive } => {
                let addresses: Vec<IpAddr> = addresses.collect();
                open.retain(|ip, _| addresses.contains(ip));
                for ip in addresses {
                    if open.contains_key(&ip) {
                        continue;
                    }
                    let arrive = arrive.clone();
                    // When more comes than is looked at, some of it is lost as on any path.
                    match ProbePort::open(ip, *port, move |arrived| _ = arrive.try_send(arrived)).await {
                        Ok(opened) => drop(open.insert(ip, opened)),
                        Err(error) => {
                            tracing::warn!(%ip, port = *port, %error, "cannot ask or answer over paths at this address: give it to this host, or take the paths from it out of the network");
                        }
                    }
                }
            }
        }
    }

    /// Sends a probe; what cannot be sent is a question without an answer.
    pub(super) fn send(&mut self, here: IpAddr, bytes: &[u8; BYTES], there: SocketAddr, marks: Marks) {
        match self {
            Ports::Door(door) => door.send(Datagram { here, there, bytes: *bytes }, marks),
            Ports::Own { open, .. } => {
                let sent = open.get_mut(&here).map(|port| port.send(bytes, there, marks));
                if let Some(Err(error)) = sent {
                    tracing::debug!(%here, %there, %marks, %error, "a probe could not be sent");
                }
            }
        }
    }
}
