//! Questions with ranked answers: what an upgrade or a shaper wins, what a new flow gets on each path, what a change does.
//!
//! Small changes are answered by the structure, with the range in which the answer holds; stated ones by solving again.

mod range;
mod stated;

pub use stated::{Effects, FlowEffect, LinkEffect, PATHS_MAX, Placement, WhatIf, placements, what_if};

use crate::share::{RATE_MAX, ResourceId};

use super::{Change, Structure, spread};
use range::range;

/// What more of a resource wins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upgrade {
    /// Which.
    pub resource: ResourceId,
    /// What all flows together win by each b/s, in b/s: below 0 if others lose more.
    pub gain: f64,
    /// So many b/s more are each worth that, at least: then something is full, has its cap, or is held back by another resource.
    pub range: u64,
    /// What all flows together win by the whole range, in b/s.
    pub won: f64,
}

/// What shaping a flow wins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shaping {
    /// Which flow.
    pub flow: usize,
    /// What others together win by each b/s that it gets less, in b/s.
    pub gain: f64,
    /// So many b/s less are each worth that, at least.
    pub range: u64,
    /// What others together win by the whole range, in b/s.
    pub won: f64,
}

/// The `most` upgrades that win most by each b/s, of resources that hold flows back, best first.
///
/// All gradients in one pass, and a pass more for each that is listed or meets a tie.
#[must_use]
pub fn upgrades(structure: &Structure, most: usize) -> Vec<Upgrade> {
    let gradients = structure.gradients::<f64>().links;
    let holding = (0..gradients.len()).filter(|link| structure.links[*link].group.is_some());
    let gain = |link: usize| {
        gradients[link].unwrap_or_else(|| structure.gradient_in(Change::Capacity(link as ResourceId), true))
    };
    let mut ranked: Vec<(usize, f64)> = holding.map(|link| (link, gain(link))).collect();
    rank(&mut ranked, most);
    let answer = |(link, gain): (usize, f64)| {
        let resource = link as ResourceId;
        let room = RATE_MAX - structure.problem.limits()[link].capacity;
        let range = reach(structure, Change::Capacity(resource), true, room);
        Upgrade { resource, gain, range, won: gain * range as f64 }
    };
    ranked.into_iter().map(answer).collect()
}

/// The `most` flows whose shaping wins most for others by each b/s, best first.
///
/// Cost as of [`upgrades`].
#[must_use]
pub fn shapings(structure: &Structure, most: usize) -> Vec<Shaping> {
    let gradients = structure.gradients::<f64>().flows;
    let shaped = (0..gradients.len()).filter(|flow| !structure.standings[*flow].at_floor);
    // What the flow loses is not counted.
    let gain = |flow: usize| gradients[flow].unwrap_or_else(|| structure.gradient_in(Change::Most(flow), false)) + 1.0;
    let mut ranked: Vec<(usize, f64)> = shaped.map(|flow| (flow, gain(flow))).collect();
    rank(&mut ranked, most);
    let answer = |(flow, gain): (usize, f64)| {
        let floor = structure.problem.demands()[flow].floor;
        let range = reach(structure, Change::Most(flow), false, structure.allocation.rates[flow].saturating_sub(floor));
        Shaping { flow, gain, range, won: gain * range as f64 }
    };
    ranked.into_iter().map(answer).collect()
}

/// The highest gains first.
fn rank(ranked: &mut Vec<(usize, f64)>, most: usize) {
    ranked.sort_by(|(a, gain_a), (b, gain_b)| gain_b.total_cmp(gain_a).then(a.cmp(b)));
    ranked.truncate(most);
}

/// Smaller derivatives are what floating point leaves of nothing.
const TINY: f64 = 1e-12;

/// How far a derivative holds, in b/s.
fn reach(structure: &Structure, change: Change, more: bool, most: u64) -> u64 {
    let mut changes: Vec<(usize, f64)> = Vec::new();
    spread::spread(structure, change, more, |flow, by: &f64| {
        if by.abs() > TINY {
            changes.push((flow, *by));
        }
    });
    let shaped = match change {
        Change::Most(flow) => Some(flow),
        Change::Capacity(_) => None,
    };
    range(structure, &changes, shaped).map_or(most, |range| (range as u64).min(most))
}
