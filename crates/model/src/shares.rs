//! Who shares a network: classes of work, marks up to which they may fill links, and flows with their paths.
//!
//! ```toml
//! at_large = "5 %"
//! now = 2026-03-01T00:00:00Z
//!
//! [[class]]
//! name = "lhc"
//! weight = 2
//!
//! [[class]]
//! name = "cms"
//! parent = "lhc"
//! used = "120 TB"
//!
//! [[class]]
//! name = "spare"
//! scavenger = true
//!
//! [[mark]]
//! name = "ocean"
//! class = "cms"
//! links = ["ana", "dunant"]
//! together = true
//! rate = "40 Gb/s"
//!
//! [[flow]]
//! name = "run7"
//! class = "cms"
//! from = "caltech"
//! to = "cern"
//! paths = 3
//! ```
//!
//! [`Shares`] are checked: names are unique and known, classes are a tree, paths lead where they should, floors are below caps.

mod class;
mod flow;
mod mark;
mod read;

use std::num::NonZeroU32;
use std::time::Duration;

use units::{Bytes, Moment, Rate};

use crate::bookings::Resource;
use crate::network::{LinkIndex, NetworkError, NodeIndex, Unknown};
use crate::scenario::Way;

/// Why a file does not say who shares a network, with line and thing: of one form with what is said of networks.
pub type SharesError = NetworkError;

/// Bytes of a file's text.
pub const TEXT_MAX: usize = 64 << 20;
/// Classes.
pub const CLASSES_MAX: usize = 4096;
/// Classes from the top of the tree to its deepest leaf.
pub const DEPTH_MAX: usize = 8;
/// Marks, and resources beside links.
pub const MARKS_MAX: usize = 4096;
/// Ways of links that marks name, all marks together.
pub const MARKED_MAX: usize = 1 << 20;
/// Flows.
pub const FLOWS_MAX: usize = 100_000;
/// Paths of a flow.
pub const PATHS_MAX: usize = 16;
/// The last tier that a class may name.
pub const TIER_MAX: u8 = 8;
/// The tier of scavengers, below all that may be named.
pub const TIER_SCAVENGER: u8 = TIER_MAX + 1;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// In which what a class used counts half, when nobody says.
pub const HALF_LIFE: Duration = Duration::from_secs(7 * 86_400);
/// The shortest and the longest half-life.
pub const HALF_LIVES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(10 * 365 * 86_400);
/// A share of all, in parts per million.
pub const ALL_PPM: u32 = 1_000_000;

/// Who shares a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    /// What is kept of each way of a link for traffic that is not Longhaul's.
    pub at_large: Option<Amount>,
    /// What is kept of each way of a link for the lowest tier, as long as that uses it.
    pub lowest: Option<Amount>,
    /// After which time what a class used counts half.
    pub half_life: Duration,
    /// Whether the file says so: a controller lets what it counted itself change weights only then.
    pub half_life_said: bool,
    /// The time of the snapshot, in nanoseconds of Unix time. Wherever a time is given, this is.
    pub now: Option<Moment>,
    /// In the order of the file.
    pub classes: Vec<Class>,
    /// In the order of the file.
    pub marks: Vec<Mark>,
    /// In the order of the file.
    pub flows: Vec<Flow>,
    /// What is limited beside links: ports, NICs, storages.
    pub resources: Vec<Resource>,
}

/// A part of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// In parts per million, at most [`ALL_PPM`].
    Share(u32),
    /// As it is.
    Rate(Rate),
}

/// A class of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// The class that it is a part of: index in [`Shares::classes`].
    pub parent: Option<usize>,
    /// 0 is served first. That of the class at the top, for all below it.
    pub tier: u8,
    /// Its part, beside the classes and flows of the same parent.
    pub weight: NonZeroU32,
    /// What all its flows together get whatever the others have.
    pub floor: Rate,
    /// What all its flows together may have.
    pub cap: Option<Rate>,
    /// What it has used of late.
    pub used: Option<Used>,
    /// What urgent flows may have.
    pub urgent: Option<Urgent>,
}

/// What a class has used, as of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Bytes of IP packets, older ones counted less by the half-life. What the classes in it used counts for it too.
    pub bytes: Bytes,
    /// When; `None` for the time of the snapshot.
    pub as_of: Option<Moment>,
}

/// A budget for urgent flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Bytes of IP packets in 30 days.
    pub budget: Bytes,
    /// How many of them are used.
    pub used: Bytes,
    /// When; `None` for the time of the snapshot.
    pub as_of: Option<Moment>,
}

/// How far some work may fill some links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What it is called.
    pub name: String,
    /// Whose flows it is for, with the classes below; `None` for all flows.
    pub class: Option<usize>,
    /// Which ways of which links, sorted.
    pub ways: Vec<(LinkIndex, Way)>,
    /// Whether it is one mark for all of them; else each has one of its own.
    pub together: bool,
    /// How far.
    pub most: Most,
}

/// How far a mark goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    /// To a rate.
    Rate(Rate),
    /// To a share of the rate of what it is on, in parts per million.
    Share(u32),
    /// To what traffic at large leaves.
    Flexible(Flexible),
}

/// A mark that goes down at once when traffic at large grows, and up slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flexible {
    /// The share of the rate that all traffic may fill, in parts per million.
    pub share_ppm: u32,
    /// What is left free beside that.
    pub margin: Rate,
    /// It is never lower.
    pub least: Rate,
    /// It is never higher.
    pub most: Option<Rate>,
    /// Where it stands; `None` if it begins.
    pub now: Option<Rate>,
    /// Since when it stands there; `None` for the time of the snapshot.
    pub as_of: Option<Moment>,
    /// The estimate of traffic at large.
    pub at_large: Option<Rate>,
    /// Until when the estimate is good; `None` for ever.
    pub expires: Option<Moment>,
}

/// A flow: what goes from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// What it is called.
    pub name: String,
    /// Its class; one without is beside the classes at the top, in tier 0.
    pub class: Option<usize>,
    /// Where it begins.
    pub from: NodeIndex,
    /// Where it ends: another node.
    pub to: NodeIndex,
    /// Its part, beside the classes and flows of the same class.
    pub weight: NonZeroU32,
    /// What it gets whatever the others have.
    pub floor: Rate,
    /// The most that it may have.
    pub cap: Option<Rate>,
    /// Bytes of IP packets that are left to send.
    pub bytes: Option<Bytes>,
    /// Whether it draws on the budget of its class for urgent work.
    pub urgent: bool,
    /// Over which paths.
    pub paths: Paths,
    /// How it is split over them.
    pub split: Split,
}

/// The paths of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// So many of the cheapest without loops, in their order.
    Cheapest(u32),
    /// These, in this order: the ways of links in turn.
    Given(Vec<Vec<(LinkIndex, Way)>>),
}

impl Paths {
    /// How many at most.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Paths::Cheapest(count) => *count as usize,
            Paths::Given(paths) => paths.len(),
        }
    }
}

/// How a flow is split over its paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// The first is filled before the next.
    #[default]
    Ordered,
    /// By what each has room for.
    Adaptive,
}

impl Amount {
    /// How much that is of a rate, rounded down, at most all of it. In b/s.
    #[must_use]
    pub fn of(self, bps: u64) -> u64 {
        match self {
            Amount::Share(ppm) => share_of(bps, ppm),
            Amount::Rate(rate) => rate.bps().min(bps),
        }
    }
}

/// A share of a rate in parts per million, rounded down, at most all of it. In b/s.
#[must_use]
pub fn share_of(bps: u64, ppm: u32) -> u64 {
    let part = u128::from(bps) * u128::from(ppm.min(ALL_PPM)) / u128::from(ALL_PPM);
    u64::try_from(part).expect("it is at most the rate")
}

impl Shares {
    /// The flow of that name.
    ///
    /// # Errors
    /// If there is none: what was meant, or what there is.
    pub fn flow(&self, name: &str) -> Result<usize, Unknown> {
        let known = || self.flows.iter().map(|flow| flow.name.as_str());
        known().position(|known| known == name).ok_or_else(|| Unknown::new("flow", name, known()))
    }

    /// A class and those that it is in, from itself to the top.
    pub fn up(&self, class: Option<usize>) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(class, |class| self.classes[*class].parent)
    }

    /// The tier of a flow: that of its class; 0 without one.
    #[must_use]
    pub fn tier(&self, flow: &Flow) -> u8 {
        flow.class.map_or(0, |class| self.classes[class].tier)
    }
}
