//! A network: sites, hosts and routers, the links between them, and named paths.
//!
//! A [`Network`] is checked: names are unique, ends exist, and every number is in its bounds.

mod build;
mod change;
mod containerlab;
pub(crate) mod error;
mod exchange;
pub mod fibre;
pub(crate) mod forms;
mod graphml;
mod labels;
pub mod limits;
pub(crate) mod names;
mod route;
mod scale;
mod shipped;
pub(crate) mod toml;
mod topohub;

use core::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{Bytes, Marks, Rate};

pub use change::KEYS;
pub use error::NetworkError;
pub use exchange::{Exported, Format, Imported};
pub use names::Unknown;
pub use route::Thing;
pub use scale::{Ratio, RatioError};
pub use shipped::shipped;

/// A network description.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// What it is called.
    pub name: String,
    /// What it is, in a sentence.
    pub about: Option<String>,
    /// Places, in the order of the file.
    pub sites: Vec<Site>,
    /// Hosts and routers, in the order of the file.
    pub nodes: Vec<Node>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Paths with a name of their own.
    pub paths: Vec<Path>,
}

/// Index of a node in [`Network::nodes`].
pub type NodeIndex = usize;
/// Index of a link in [`Network::links`].
pub type LinkIndex = usize;

/// A place.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Degrees north and degrees east.
    pub position: Option<(f64, f64)>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Sends and receives; does not forward.
    Host,
    /// Forwards.
    Router,
}

/// A host or a router.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Host or router.
    pub kind: NodeKind,
    /// Where it is: index in [`Network::sites`].
    pub site: Option<usize>,
}

/// A link between two nodes, with a direction each way.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The one end.
    pub from: NodeIndex,
    /// The other end.
    pub to: NodeIndex,
    /// From the one end to the other.
    pub forward: Direction,
    /// Back.
    pub backward: Direction,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Shared-risk link groups (SRLG) that it belongs to: what fails together.
    pub risks: Vec<String>,
    /// Cost of using it; the cheapest path is taken.
    pub cost: u32,
    /// Share of the rate, in parts per million, that plans fill at most (high-water mark).
    pub high_water_ppm: Option<u32>,
    /// Name of the bundle that it is a parallel member of.
    pub bundle: Option<String>,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    /// Rate in bits of IP packets with their headers; without one the link is as fast as the machine.
    pub rate: Option<Rate>,
    /// One-way delay.
    pub delay: Duration,
    /// Variation of the delay.
    pub jitter: Jitter,
    /// What is lost on the way.
    pub loss: Loss,
    /// What may wait to be sent. Without one: the larger of 100 ms at the rate and 256 KiB; what is not limited in rate
    /// has no queue.
    pub queue: Option<QueueLimit>,
    /// Packets that may be marked (ECT) are marked (CE) when more than this waits before them.
    pub ecn: Option<QueueLimit>,
    /// Chance of a packet to arrive twice.
    pub duplicate: Probability,
    /// Chance of a packet to arrive with a bit of its payload changed.
    pub corrupt: Probability,
}

/// Variation of a delay: added to it, uniform from 0 to `amount`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jitter {
    /// The most that is added.
    pub amount: Duration,
    /// Packets may overtake each other; else a packet waits for the one before.
    pub reorder: bool,
}

/// What is lost on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// Nothing.
    #[default]
    None,
    /// Each packet alone.
    Random(Probability),
    /// In bursts: a chain of two states, with a step before each packet (Gilbert 1960, Elliott 1963).
    Bursts {
        /// From good to bad.
        to_bad: Probability,
        /// From bad to good; a bad spell is 1 / `to_good` packets long in the mean.
        to_good: Probability,
        /// Loss in the good state.
        in_good: Probability,
        /// Loss in the bad state.
        in_bad: Probability,
    },
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueLimit {
    /// Bytes of IP packets.
    Bytes(Bytes),
    /// Packets (segments).
    Packets(u32),
    /// What the rate carries in this time.
    Time(Duration),
}

/// A probability, in steps of 2^-32: exact to compare and to store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Probability = Probability(0);
    /// Always.
    pub const ONE: Probability = Probability(1 << 32);

    /// The nearest to `p`; `None` if `p` is not within 0 and 1.
    #[must_use]
    pub fn new(p: f64) -> Option<Probability> {
        (0.0..=1.0).contains(&p).then(|| Probability((p * (1u64 << 32) as f64).round() as u64))
    }

    /// As a fraction.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (1u64 << 32) as f64
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whether it comes true for a random number that is uniform over 32 bits.
    #[must_use]
    pub const fn hits(self, random: u32) -> bool {
        (random as u64) < self.0
    }
}

impl Link {
    /// Whether it does nothing to packets: no rate, no delay, nothing lost or changed, either way.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.forward.is_plain() && self.backward.is_plain()
    }
}

impl Direction {
    fn is_plain(&self) -> bool {
        let Direction { rate, delay, jitter: Jitter { amount, reorder: _ }, loss, queue, ecn, duplicate, corrupt } =
            self;
        rate.is_none()
            && delay.is_zero()
            && amount.is_zero()
            && *loss == Loss::None
            && queue.is_none()
            && ecn.is_none()
            && duplicate.is_zero()
            && corrupt.is_zero()
    }
}

/// A path with a name: routed along the links it names. Addresses, marks or both bind it: packets that have them take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its name.
    pub name: String,
    /// The one end, a host.
    pub from: NodeIndex,
    /// The other end, a host.
    pub to: NodeIndex,
    /// Its links in turn, all of them, from the one end to the other.
    pub links: Vec<LinkIndex>,
    /// The addresses at its one and its other end between which packets take it: the network routes them so. `None` for those
    /// of the hosts themselves.
    pub addresses: Option<[IpAddr; 2]>,
    /// What packets carry that take it, both ways.
    pub marks: Marks,
}

impl Path {
    /// Whether hosts can choose it.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.addresses.is_some() || !self.marks.is_none()
    }

    /// Its addresses at `node` and at the other end.
    #[must_use]
    pub fn addresses_from(&self, node: NodeIndex) -> Option<[IpAddr; 2]> {
        self.addresses.map(|[from, to]| if self.from == node { [from, to] } else { [to, from] })
    }
}
