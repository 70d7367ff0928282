//! NUMA placement: the threads of a session run, and its frames lie, on the node of the network card that its streams go over.
//!
//! What a card received is in the memory and the caches of its node; a core elsewhere fetches each byte over the link between the
//! sockets, and each byte passes through a core twice at either end. It is decided once for each session, from the addresses of ours
//! that it may use, and handed on with the pool of frames: who works on the frames starts threads by [`Placement::spawn`].

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use sys::cpu::{Near, SYS};

use crate::session::streams::Ways;
use crate::way::Way;

/// Addresses that are asked for; with more of them nothing is decided.
const ADDRESSES_MAX: usize = 64;

/// Where threads of a session run; by default anywhere.
#[derive(Debug, Clone, Default)]
pub struct Placement(Option<Arc<Near>>);

impl Placement {
    /// For a session that is driven over the control connection whose address at this end is `control`, and whose streams come in
    /// these ways; where the other end connects, it may do so to the `announced` addresses (`ip:port`) too.
    ///
    /// Costs nothing on a machine with one node; elsewhere a system call for each way and some files of sysfs.
    #[must_use]
    pub(crate) fn of_session(control: io::Result<SocketAddr>, ways: &Ways, announced: &[String]) -> Placement {
        if !has_nodes() {
            return Placement::default();
        }
        let decided = local(control, ways, announced).and_then(|addresses| {
            let allowed = sys::cpu::allowed_cpus()?;
            Ok(Placement::near(Path::new(SYS), &addresses, &sys::socket::interfaces()?, &allowed))
        });
        decided.unwrap_or_else(|error| {
            tracing::debug!(%error, "the session's place on this machine is not known: its threads run anywhere");
            Placement::default()
        })
    }

    /// Near the interfaces that have these addresses.
    fn near(sys: &Path, addresses: &[IpAddr], interfaces: &[(String, IpAddr)], allowed: &[usize]) -> Placement {
        let devices = devices(addresses, interfaces);
        let device = devices.join(",");
        match sys::cpu::near(sys, &devices, allowed) {
            Ok(near) => {
                let cpus = near.cpus.len();
                tracing::info!(device, node = near.node, cpus, "the session runs near its network card");
                Placement(Some(Arc::new(near)))
            }
            Err(why) => {
                tracing::debug!(device, %why, "the session's threads run anywhere");
                Placement::default()
            }
        }
    }

    /// On these processors of this node.
    #[cfg(test)]
    pub(crate) fn on(node: u32, cpus: &[usize]) -> Placement {
        Placement(Some(Arc::new(Near { node, cpus: cpus.to_vec() })))
    }

    /// The node whose memory is preferred, if any is.
    #[must_use]
    pub fn node(&self) -> Option<u32> {
        self.0.as_ref().map(|near| near.node)
    }

    /// Processors that threads of the session may run on; at least one. More threads than that would take turns.
    #[must_use]
    pub fn cores(&self) -> usize {
        match &self.0 {
            Some(near) => near.cpus.len().max(1),
            None => sys::cpu::allowed_cpus().map_or(1, |cpus| cpus.len()).max(1),
        }
    }

    /// Starts a thread here. Where the system does not let it be bound it runs anywhere.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(&self, name: String, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        let near = self.0.clone();
        Builder::new().name(name).spawn(move || {
            if let Some(near) = near
                && let Err(error) = sys::cpu::set_affinity(&near.cpus)
            {
                tracing::debug!(%error, node = near.node, "a thread is not bound to the node");
            }
            run();
        })
    }
}

/// Whether there is anything to choose: asked once, for no machine gets nodes while it runs.
fn has_nodes() -> bool {
    static HAS_NODES: OnceLock<bool> = OnceLock::new();
    *HAS_NODES.get_or_init(|| sys::cpu::nodes(Path::new(SYS)).len() > 1)
}

/// The addresses of ours that data streams may use. A way that leads nowhere now is left out.
fn local(control: io::Result<SocketAddr>, ways: &Ways, announced: &[String]) -> io::Result<Vec<IpAddr>> {
    let mut all: Vec<IpAddr> = match ways {
        Ways::Dial { to, .. } => {
            let from = |way: &Way| way.from.or_else(|| sys::socket::source_of(way.to).ok());
            to.iter().take(ADDRESSES_MAX + 1).filter_map(from).collect()
        }
        Ways::Wait(_) => {
            let announced = announced.iter().filter_map(|text| text.parse::<SocketAddr>().ok());
            std::iter::once(control?).chain(announced).take(ADDRESSES_MAX + 1).map(|address| address.ip()).collect()
        }
    };
    if all.len() > ADDRESSES_MAX {
        return Err(io::Error::other(format!("it has more than {ADDRESSES_MAX} addresses")));
    }
    all.iter_mut().for_each(|address| *address = address.to_canonical());
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The interfaces that have these addresses, each once. An address that none has, as behind a port forward, gives one without a name,
/// which is nowhere.
fn devices<'a>(addresses: &[IpAddr], interfaces: &'a [(String, IpAddr)]) -> Vec<&'a str> {
    let of = |address: &IpAddr| interfaces.iter().find(|(_, own)| own == address);
    let mut devices: Vec<&str> = addresses.iter().map(|address| of(address).map_or("", |(name, _)| name)).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

#[cfg(test)]
pub(crate) mod tests;
