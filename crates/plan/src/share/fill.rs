//! Water-filling: a level rises, flows rise with it, and what is full stops those that draw on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::curve::Piece;
use super::round::{STEPS, rounded};
use super::{Allocation, Bottleneck, FINE_BITS, Fine, Level, Problem, ResourceId};

/// Turns in which what is kept for the lowest tier, and not used by it, is given to the others. Each may make it use less
/// elsewhere, so there may be some left after the last.
const ROUNDS_MAX: usize = 64;

/// The weighted max-min allocation of a problem, tier by tier.
///
/// O((Σ uses + flows log flows + full log resources) × tiers), some turns of it where the lowest tier has floors.
#[must_use]
pub fn solve(problem: &Problem) -> Allocation {
    let mut tiers: Vec<u8> = problem.demands.iter().map(|demand| demand.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let crossing = Crossing::of(problem);
    let guaranteed = guaranteed(problem, &crossing, &tiers);
    let lowest = tiers.last().copied();
    let mut floors: Vec<u64> = problem.limits.iter().map(|limit| limit.floor).collect();
    if tiers.len() < 2 {
        // Nobody to keep it from.
        floors.fill(0);
    }
    for round in 1.. {
        let mut fill = Fill::new(problem, &crossing);
        for (flow, floor) in guaranteed.iter().enumerate() {
            fill.use_more(problem.tunnels_of(flow).start, fine(*floor));
        }
        // What is guaranteed to flows of the lowest tier is a part of what is kept for it.
        let guaranteed_of = fill.used_by(lowest);
        let kept: Vec<Fine> =
            floors.iter().zip(guaranteed_of).map(|(floor, of)| fine(*floor).saturating_sub(of)).collect();
        for tier in &tiers {
            fill.tier(*tier, &guaranteed, if Some(*tier) == lowest { &[] } else { &kept });
        }
        let mut given_back = false;
        if round < ROUNDS_MAX && floors.iter().any(|floor| *floor > 0) {
            for (floor, used) in floors.iter_mut().zip(fill.used_by(lowest)) {
                let used = u64::try_from((used + (1 << (FINE_BITS - 1))) >> FINE_BITS).unwrap_or(u64::MAX);
                given_back |= used < *floor;
                *floor = (*floor).min(used);
            }
        }
        if !given_back {
            let Fill { exact, bottlenecks, .. } = fill;
            return Allocation { rates: rounded(problem, &exact), exact, floors, bottlenecks };
        }
    }
    unreachable!("the last round gives nothing back")
}

fn fine(rate: u64) -> Fine {
    Fine::from(rate) << FINE_BITS
}

/// Which floors there is room for: all, or as much of each as its share of what there is, tier by tier.
fn guaranteed(problem: &Problem, crossing: &Crossing, tiers: &[u8]) -> Vec<u64> {
    let asked: Vec<u64> = problem.demands.iter().map(|demand| demand.floor).collect();
    let mut sums = vec![0_u128; problem.limits.len()];
    for (flow, floor) in asked.iter().enumerate().filter(|(_, floor)| **floor > 0) {
        let first = problem.tunnels_of(flow).start;
        problem.uses(first).iter().for_each(|of| sums[*of as usize] += u128::from(*floor));
    }
    let fits = problem.limits.iter().zip(&sums).all(|(limit, sum)| u128::from(limit.capacity) >= *sum);
    if fits {
        return asked;
    }
    let mut fill = Fill::new(problem, crossing);
    tiers.iter().for_each(|tier| fill.floors(*tier));
    let first = |flow: usize| fill.exact[problem.tunnels_of(flow).start] >> FINE_BITS;
    (0..asked.len()).map(|flow| u64::try_from(first(flow)).expect("it is at most the floor")).collect()
}

/// The tunnels that draw on each resource.
struct Crossing {
    begins: Vec<u32>,
    tunnels: Vec<u32>,
}

impl Crossing {
    fn of(problem: &Problem) -> Crossing {
        let mut begins = vec![0_u32; problem.limits.len() + 1];
        problem.uses.iter().for_each(|of| begins[*of as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut tunnels = vec![0; problem.uses.len()];
        for tunnel in 0..problem.tunnels() {
            for of in problem.uses(tunnel) {
                tunnels[next[*of as usize] as usize] = tunnel as u32;
                next[*of as usize] += 1;
            }
        }
        Crossing { begins, tunnels }
    }

    fn over(&self, resource: ResourceId) -> &[u32] {
        &self.tunnels[self.begins[resource as usize] as usize..self.begins[resource as usize + 1] as usize]
    }
}

/// What is used of a resource, and how that grows with the level.
#[derive(Clone, Copy)]
struct Use {
    limit: Fine,
    /// At the level `at`.
    used: Fine,
    at: Level,
    /// What a level more brings: the sum of the slopes of the flows that rise.
    slope: u128,
    is_full: bool,
}

/// A flow that rises.
struct Rising {
    flow: usize,
    pieces: Vec<Piece>,
    piece: usize,
    tunnel: usize,
    /// What its earlier tunnels carry.
    before: Fine,
}

struct Fill<'a> {
    problem: &'a Problem,
    crossing: &'a Crossing,
    uses: Vec<Use>,
    exact: Vec<Fine>,
    bottlenecks: Vec<Bottleneck>,
    rising: Vec<Rising>,
    /// Index in `rising` of the flow of each tunnel that rises over it, and one more; 0 for none.
    on: Vec<u32>,
    /// When a resource may be full: never later than it is, and looked at again when it is due.
    full: BinaryHeap<Reverse<(Level, ResourceId)>>,
    /// When the next piece of a flow begins.
    bends: BinaryHeap<Reverse<(Level, u32)>>,
}

impl<'a> Fill<'a> {
    fn new(problem: &'a Problem, crossing: &'a Crossing) -> Fill<'a> {
        let free = |limit: &super::Limit| Use { limit: fine(limit.capacity), used: 0, at: 0, slope: 0, is_full: false };
        Fill {
            problem,
            crossing,
            uses: problem.limits.iter().map(free).collect(),
            exact: vec![0; problem.tunnels()],
            bottlenecks: Vec::new(),
            rising: Vec::new(),
            on: vec![0; problem.tunnels()],
            full: BinaryHeap::new(),
            bends: BinaryHeap::new(),
        }
    }

    fn use_more(&mut self, tunnel: usize, more: Fine) {
        self.exact[tunnel] += more;
        self.problem.uses(tunnel).iter().for_each(|of| self.uses[*of as usize].used += more);
    }

    /// What the flows of a tier use of each resource.
    fn used_by(&self, tier: Option<u8>) -> Vec<Fine> {
        let mut used = vec![0; self.uses.len()];
        for (tunnel, rate) in self.exact.iter().enumerate().filter(|(_, rate)| **rate > 0) {
            if Some(self.problem.demands[self.problem.flow_of(tunnel)].tier) == tier {
                self.problem.uses(tunnel).iter().for_each(|of| used[*of as usize] += rate);
            }
        }
        used
    }

    /// Fills a tier, whose floors are used already, up to what is left when so much of each resource is kept for others.
    fn tier(&mut self, tier: u8, guaranteed: &[u64], kept: &[Fine]) {
        let problem = self.problem;
        let of_tier = |flow: &usize| problem.demands[*flow].tier == tier;
        let pieces = |flow: usize| (flow, problem.demands[flow].curve.pieces(guaranteed[flow]));
        let flows = (0..problem.demands.len()).filter(of_tier).map(pieces).collect();
        self.rise(tier, flows, kept);
    }

    /// Fills the floors of a tier only.
    fn floors(&mut self, tier: u8) {
        let problem = self.problem;
        let floor = |flow: usize| {
            let floor = fine(problem.demands[flow].floor);
            // All floors reach their end at one level, so what is there is shared in proportion.
            let end = Level::from(super::RATE_MAX) << super::LEVEL_BITS;
            (flow, vec![Piece { from: 0, base: 0, slope: floor / end }, Piece { from: end, base: floor, slope: 0 }])
        };
        let has_one = |flow: &usize| problem.demands[*flow].tier == tier && problem.demands[*flow].floor > 0;
        let flows = (0..problem.demands.len()).filter(has_one).map(floor).collect();
        self.rise(tier, flows, &[]);
    }

    fn rise(&mut self, tier: u8, flows: Vec<(usize, Vec<Piece>)>, kept: &[Fine]) {
        let problem = self.problem;
        for (index, of) in self.uses.iter_mut().enumerate() {
            let kept = kept.get(index).copied().unwrap_or(0);
            let limit = fine(problem.limits[index].capacity).saturating_sub(kept);
            (of.limit, of.at, of.slope, of.is_full) = (limit, 0, 0, false);
        }
        self.full.clear();
        self.bends.clear();
        self.rising.clear();
        let mut active = 0;
        let mut bends = Vec::new();
        for (flow, pieces) in flows {
            let index = self.rising.len();
            if let Some(next) = pieces.get(1) {
                bends.push(Reverse((next.from, index as u32)));
            } else if pieces[0].slope == 0 {
                continue;
            }
            let tunnel = problem.tunnels_of(flow).start;
            self.on[tunnel] = index as u32 + 1;
            problem.uses(tunnel).iter().for_each(|of| self.uses[*of as usize].slope += pieces[0].slope);
            self.rising.push(Rising { flow, pieces, piece: 0, tunnel, before: 0 });
            active += 1;
        }
        self.bends = BinaryHeap::from(bends);
        let due = self.uses.iter().enumerate().filter_map(|(index, of)| Some(Reverse((of.full_at()?, index as u32))));
        self.full = BinaryHeap::from(due.collect::<Vec<_>>());
        let mut level = 0;
        // Each turn bends a flow, fills a resource, or moves a resource to the level at which it is full.
        while active > 0 {
            let full = self.full.peek().map(|Reverse(due)| *due);
            let bend = self.bends.peek().map(|Reverse(due)| *due);
            match (full, bend) {
                (Some((due, resource)), bend) if bend.is_none_or(|bend| due < bend.0) => {
                    self.full.pop();
                    let of = self.uses[resource as usize];
                    let Some(is_due) = of.full_at().filter(|_| !of.is_full) else { continue };
                    if is_due > due.max(level) {
                        self.full.push(Reverse((is_due, resource)));
                        continue;
                    }
                    level = level.max(due);
                    active -= self.stop_over(tier, resource, level);
                }
                (_, Some((due, index))) => {
                    self.bends.pop();
                    level = level.max(due);
                    active -= usize::from(self.bend(index as usize, level));
                }
                // What rises draws on something, and so fills it.
                (_, None) => unreachable!("a flow rises, and nothing will stop it"),
            }
        }
    }

    /// A resource is full: what rises over it goes on over another tunnel, or stops. How many stop.
    fn stop_over(&mut self, tier: u8, resource: ResourceId, level: Level) -> usize {
        self.uses[resource as usize].is_full = true;
        let (mut stopped, mut holds_back) = (0, false);
        for tunnel in self.crossing.over(resource) {
            let tunnel = *tunnel as usize;
            let Some(index) = self.on[tunnel].checked_sub(1) else { continue };
            let rising = &self.rising[index as usize];
            // Who has all that it asks for but for a step is not held back.
            holds_back |= rising.linear(level) + STEPS < rising.pieces.last().map_or(0, |last| last.base);
            stopped += usize::from(!self.go_on(index as usize, level));
        }
        if holds_back {
            self.bottlenecks.push(Bottleneck { resource, tier, level });
        }
        stopped
    }

    /// Takes a flow off the tunnel that it rises over, to the next that has room. Whether there is one.
    fn go_on(&mut self, index: usize, level: Level) -> bool {
        let problem = self.problem;
        let Rising { flow, tunnel, before, .. } = self.rising[index];
        self.leave(index, level);
        let has_room = |tunnel: &usize| problem.uses(*tunnel).iter().all(|of| !self.uses[*of as usize].is_full);
        let Some(next) = (tunnel + 1..problem.tunnels_of(flow).end).find(has_room) else { return false };
        let carried = self.exact[tunnel];
        let rising = &mut self.rising[index];
        (rising.tunnel, rising.before) = (next, before + carried);
        self.on[next] = index as u32 + 1;
        // What it is due beyond the end of its piece, until that bends.
        let more = rising.linear(level).saturating_sub(rising.before);
        let slope = rising.pieces[rising.piece].slope;
        self.steepen(next, slope, level);
        problem.uses(next).iter().for_each(|of| self.uses[*of as usize].used += more);
        true
    }

    /// Ends the rise of a flow over its tunnel, which carries what it has.
    fn leave(&mut self, index: usize, level: Level) {
        let rising = &self.rising[index];
        let (tunnel, piece) = (rising.tunnel, rising.pieces[rising.piece]);
        let linear = rising.linear(level);
        // A piece ends where the next begins, also if the level is a bit later.
        let most = rising.pieces.get(rising.piece + 1).map_or(linear, |next| next.base);
        let due = linear.min(most);
        self.on[tunnel] = 0;
        let had = linear - rising.before.min(linear);
        let carries = due.saturating_sub(rising.before);
        self.exact[tunnel] = carries;
        for of in self.problem.uses(tunnel) {
            let of = &mut self.uses[*of as usize];
            of.advance(level);
            of.slope -= piece.slope;
            of.used = of.used + carries - had;
        }
    }

    /// The next piece of a flow. Whether it stops there.
    fn bend(&mut self, index: usize, level: Level) -> bool {
        let rising = &mut self.rising[index];
        let tunnel = rising.tunnel;
        if self.on[tunnel] != index as u32 + 1 {
            return false;
        }
        let linear = rising.linear(level);
        let slope = rising.pieces[rising.piece].slope;
        rising.piece += 1;
        let piece = rising.pieces[rising.piece];
        // The level may be a bit later than the begin of the piece, where something was full between.
        let begins = piece.base + piece.slope * (level - piece.from.min(level));
        let next = rising.pieces.get(rising.piece + 1).map(|next| next.from);
        for of in self.problem.uses(tunnel) {
            let of = &mut self.uses[*of as usize];
            of.advance(level);
            of.used = of.used + begins - linear;
            of.slope -= slope;
        }
        if let Some(next) = next {
            self.bends.push(Reverse((next, index as u32)));
            self.steepen(tunnel, piece.slope, level);
        } else {
            // The last piece is level.
            self.on[tunnel] = 0;
            self.exact[tunnel] = piece.base.saturating_sub(self.rising[index].before);
        }
        next.is_none()
    }

    /// Lets a flow rise over a tunnel.
    fn steepen(&mut self, tunnel: usize, more: u128, level: Level) {
        for index in self.problem.uses(tunnel) {
            let of = &mut self.uses[*index as usize];
            of.advance(level);
            of.slope += more;
            if let Some(due) = of.full_at().filter(|_| more > 0) {
                self.full.push(Reverse((due, *index)));
            }
        }
    }
}

impl Rising {
    /// What the flow is due at a level, as long as the piece goes on.
    fn linear(&self, level: Level) -> Fine {
        let piece = self.pieces[self.piece];
        piece.base + piece.slope * (level - piece.from)
    }
}

impl Use {
    fn advance(&mut self, level: Level) {
        self.used += self.slope * (level - self.at);
        self.at = level;
    }

    /// At which level it is full; `None` if it never is.
    fn full_at(&self) -> Option<Level> {
        Some(self.at + self.limit.saturating_sub(self.used).checked_div(self.slope)?)
    }
}
