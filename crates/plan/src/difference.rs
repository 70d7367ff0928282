//! From the allocation in force to a new one: what changes, in which order, and what may stay as it is.
//!
//! Decreases come first. An increase waits for those decreases whose room it takes, and for no others: the room that is free, and
//! what each decrease frees, is given to increases in turn, on every resource that they draw on. So any order in which an increase
//! comes after what it waits for fills no resource beyond its capacity, or, where one carries more at the begin, never beyond that.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::share::{Allocation, Problem, RATE_MAX, ResourceId};

/// Which changes are small enough to be left out: those below the greater of both. To begin and to end is never small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// In millionths of the rate in force.
    pub relative_ppm: u32,
    /// In b/s.
    pub absolute_bps: u64,
}

impl Default for Hysteresis {
    /// 1 % and 100 Mb/s.
    fn default() -> Hysteresis {
        Hysteresis { relative_ppm: 10_000, absolute_bps: 100_000_000 }
    }
}

impl Hysteresis {
    /// Every change is made.
    pub const NONE: Hysteresis = Hysteresis { relative_ppm: 0, absolute_bps: 0 };

    /// Whether a change is small.
    fn leaves_out(self, from: u64, to: u64) -> bool {
        let relative = u128::from(from) * u128::from(self.relative_ppm) / 1_000_000;
        from > 0 && to > 0 && u128::from(from.abs_diff(to)) < relative.max(u128::from(self.absolute_bps))
    }
}

/// A tunnel of a flow, in force or new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel<K> {
    /// The caller's name for flow and tunnel. Another path is another tunnel.
    pub key: K,
    /// What it draws on, each once.
    pub uses: Vec<ResourceId>,
    /// What it carries now, in b/s.
    pub from: u64,
    /// What it shall carry, in b/s.
    pub to: u64,
}

/// What is in force of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// In b/s.
    pub rate: u64,
    /// What it draws on, by the resources of the new problem, each once.
    pub uses: Vec<ResourceId>,
}

/// A new rate of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<K> {
    /// Of which tunnel.
    pub key: K,
    /// In b/s.
    pub from: u64,
    /// In b/s.
    pub to: u64,
    /// The decreases that must have been made, as indices; none for a decrease.
    pub after: Vec<usize>,
}

/// The way from one allocation to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference<K> {
    /// What becomes less, by keys.
    pub decreases: Vec<Step<K>>,
    /// What becomes more: first what waits for nothing, then by keys.
    pub increases: Vec<Step<K>>,
    /// What keeps the rate in force although another was found, by keys.
    pub left_out: Vec<K>,
}

/// The way from what is in force to an allocation of a problem. Caps of flows hold on the way, too, for all tunnels of a flow
/// together. What is in force and not in the problem ends.
#[must_use]
pub fn between<K: Ord + Clone>(
    problem: &Problem,
    allocation: &Allocation,
    key: impl Fn(usize) -> K,
    in_force: &BTreeMap<K, InForce>,
    hysteresis: Hysteresis,
) -> Difference<K> {
    let mut capacities: Vec<u64> = problem.limits().iter().map(|limit| limit.capacity).collect();
    let mut tunnels: BTreeMap<K, Tunnel<K>> = BTreeMap::new();
    for (key, InForce { rate, uses }) in in_force {
        tunnels.insert(key.clone(), Tunnel { key: key.clone(), uses: uses.clone(), from: *rate, to: 0 });
    }
    for (flow, demand) in problem.demands().iter().enumerate() {
        let cap = (demand.curve.most() < RATE_MAX).then_some(capacities.len() as ResourceId);
        capacities.extend(cap.map(|_| demand.curve.most()));
        for tunnel in problem.tunnels_of(flow) {
            let key = key(tunnel);
            let new = || Tunnel { key: key.clone(), uses: problem.uses(tunnel).to_vec(), from: 0, to: 0 };
            let of = tunnels.entry(key.clone()).or_insert_with(new);
            of.to = allocation.rates[tunnel];
            of.uses.extend(cap);
        }
    }
    Difference::of(&capacities, &tunnels.into_values().collect::<Vec<_>>(), hysteresis)
}

impl<K: Ord + Clone> Difference<K> {
    /// The way of these tunnels to their new rates, which fit; what small changes leave as it was fits with them.
    ///
    /// O(Σ uses · log tunnels + Σ waits).
    ///
    /// # Panics
    /// If a tunnel draws on a resource that has no capacity here.
    #[must_use]
    pub fn of(capacities: &[u64], tunnels: &[Tunnel<K>], hysteresis: Hysteresis) -> Difference<K> {
        let mut order: Vec<&Tunnel<K>> = tunnels.iter().collect();
        order.sort_by(|one, other| one.key.cmp(&other.key));
        let kept = kept(capacities, &order, hysteresis);
        let changes = || order.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(tunnel, _)| *tunnel);
        let step =
            |tunnel: &Tunnel<K>| Step { key: tunnel.key.clone(), from: tunnel.from, to: tunnel.to, after: vec![] };
        let falling: Vec<&Tunnel<K>> = changes().filter(|tunnel| tunnel.to < tunnel.from).collect();
        let mut rising: Vec<&Tunnel<K>> = changes().filter(|tunnel| tunnel.to > tunnel.from).collect();
        // Small ones first: more of them fit into what is free.
        rising.sort_by_key(|tunnel| tunnel.to - tunnel.from);
        let mut room = Room::of(capacities, tunnels, &falling);
        let waits = |tunnel: &&Tunnel<K>| Step { after: room.take(tunnel), ..step(tunnel) };
        let mut increases: Vec<Step<K>> = rising.iter().map(waits).collect();
        increases.sort_by(|one, other| (!one.after.is_empty(), &one.key).cmp(&(!other.after.is_empty(), &other.key)));
        let left_out = order.iter().zip(&kept).filter(|(tunnel, kept)| **kept && tunnel.from != tunnel.to);
        Difference {
            decreases: falling.into_iter().map(step).collect(),
            increases,
            left_out: left_out.map(|(tunnel, _)| tunnel.key.clone()).collect(),
        }
    }
}

/// Which tunnels keep the rate in force: whose change is small, but for decreases without which a resource would be overfull; of
/// those the largest.
fn kept<K>(capacities: &[u64], tunnels: &[&Tunnel<K>], hysteresis: Hysteresis) -> Vec<bool> {
    let mut kept: Vec<bool> = tunnels.iter().map(|tunnel| hysteresis.leaves_out(tunnel.from, tunnel.to)).collect();
    let mut carries = vec![0_u128; capacities.len()];
    for (tunnel, kept) in tunnels.iter().zip(&kept) {
        let rate = if *kept { tunnel.from } else { tunnel.to };
        tunnel.uses.iter().for_each(|of| carries[*of as usize] += u128::from(rate));
    }
    let mut small: Vec<usize> =
        (0..tunnels.len()).filter(|at| kept[*at] && tunnels[*at].to < tunnels[*at].from).collect();
    small.sort_by_key(|at| Reverse(tunnels[*at].from - tunnels[*at].to));
    for at in small {
        let tunnel = tunnels[at];
        let is_overfull = |of: &ResourceId| carries[*of as usize] > u128::from(capacities[*of as usize]);
        if tunnel.uses.iter().any(is_overfull) {
            kept[at] = false;
            tunnel.uses.iter().for_each(|of| carries[*of as usize] -= u128::from(tunnel.from - tunnel.to));
        }
    }
    kept
}

/// What is free of each resource, and what decreases free.
struct Room {
    free: Vec<u64>,
    /// By resource, the decreases with what of each is not taken yet, the largest last.
    freed: Vec<Vec<(usize, u64)>>,
}

impl Room {
    fn of<K>(capacities: &[u64], tunnels: &[Tunnel<K>], falling: &[&Tunnel<K>]) -> Room {
        let mut carries = vec![0_u128; capacities.len()];
        for tunnel in tunnels {
            tunnel.uses.iter().for_each(|of| carries[*of as usize] += u128::from(tunnel.from));
        }
        let mut order: Vec<usize> = (0..falling.len()).collect();
        order.sort_by_key(|at| (falling[*at].from - falling[*at].to, Reverse(*at)));
        let mut freed = vec![Vec::new(); capacities.len()];
        for at in order {
            let by = falling[at].from - falling[at].to;
            falling[at].uses.iter().for_each(|of| freed[*of as usize].push((at, by)));
        }
        let mut room = Room { free: Vec::with_capacity(capacities.len()), freed };
        for (of, (capacity, carries)) in capacities.iter().zip(carries).enumerate() {
            let free = u128::from(*capacity).saturating_sub(carries);
            room.free.push(u64::try_from(free).expect("it is at most the capacity"));
            // Where more is carried than there is, the first that is freed is nobody's.
            let beyond = carries.saturating_sub(u128::from(*capacity));
            room.take_of(of, u64::try_from(beyond).unwrap_or(u64::MAX), &mut Vec::new());
        }
        room
    }

    /// Takes room for an increase on all that it draws on: the decreases that free it.
    fn take<K>(&mut self, tunnel: &Tunnel<K>) -> Vec<usize> {
        let mut after = Vec::new();
        tunnel.uses.iter().for_each(|of| self.take_of(*of as usize, tunnel.to - tunnel.from, &mut after));
        after.sort_unstable();
        after
    }

    /// Takes so much of a resource: what is free, then what decreases free that are waited for anyway, then the largest others.
    fn take_of(&mut self, of: usize, mut amount: u64, after: &mut Vec<usize>) {
        let mut take = |left: &mut u64| {
            let taken = amount.min(*left);
            *left -= taken;
            amount -= taken;
            taken > 0
        };
        take(&mut self.free[of]);
        if !after.is_empty() {
            let waited_for = self.freed[of].iter_mut().filter(|(at, _)| after.contains(at));
            waited_for.for_each(|(_, left)| _ = take(left));
        }
        while let Some((at, left)) = self.freed[of].last_mut() {
            if take(left) && !after.contains(at) {
                after.push(*at);
            }
            if *left > 0 {
                break;
            }
            self.freed[of].pop();
        }
    }
}
