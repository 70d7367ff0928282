//! Levels after a change, from low ones to high ones.
//!
//! Each resource takes its turn in the order before the change. Its level follows from those of earlier ones, as long as who is held back
//! where stays true of it. If the level is above the cap of a flow that it holds back, that has its cap; if a flow over it with its cap, or
//! held back by an earlier one, would have more than the level, it is held back here: then the resource goes before what held that flow back,
//! and levels from there on are reckoned again. What goes wrong is set right from the highest level down, so the level only
//! rises while that is done, and never above what has been set right; the levels along the order become less from the first
//! that changes, so it ends. Ties that blur could turn round for ever end with the bound of moves and turns.

use super::{Capped, Edge, Incremental, MOVES_MAX, Sums, Update};
use crate::share::ResourceId;

/// Turns in one change, for each resource that holds flows back, and beside these.
const TURNS_PER_LINK: usize = 16;
const TURNS: usize = 256;
/// By what part of it a level rises for its flows to be looked at one by one.
const RISE_MAX: f64 = 1.0 / 256.0;

/// What comes after a turn.
enum After {
    /// The turn of the one at this place.
    At(usize),
    /// There is too much to change.
    TooMuch,
}

impl Incremental {
    /// Makes levels right again after a change that touches the resource at a place, and none before it.
    pub(super) fn settle(&mut self, first: Option<usize>) -> Update {
        let mut update = Update::default();
        let turns_max = TURNS + TURNS_PER_LINK * self.order.len();
        let mut at = first.unwrap_or(self.order.len());
        loop {
            let link = match self.order.get(at) {
                Some(link) => *link,
                None => match self.overloaded() {
                    Some(link) => link,
                    None => {
                        debug_assert!(self.is_in_order(), "a flow is held back by the first on its way");
                        return update;
                    }
                },
            };
            update.turns += 1;
            match self.turn(link, at, &mut update.moves) {
                After::At(next) if update.turns < turns_max => at = next,
                _ => {
                    self.anew();
                    update.is_anew = true;
                    return update;
                }
            }
        }
    }

    /// A resource that holds nothing back, and cannot carry what others leave to it.
    fn overloaded(&mut self) -> Option<ResourceId> {
        self.count_rises();
        for index in 0..self.sums.len() {
            let Sums { free, own, load: bound, growth, blur, .. } = self.sums[index];
            // Rises of parts that add up to d make it at most 1/(1 − d) times as much.
            let room = free as f64 * (1.0 - (self.growth - growth));
            if own > 0.0 || (bound <= room && free >= 0) {
                continue;
            }
            let load = load(&self.links[index].row, &self.levels).0;
            (self.sums[index].load, self.sums[index].growth) = (load, self.growth);
            if free as f64 - load < -blur {
                return Some(index as ResourceId);
            }
        }
        None
    }

    /// Brings what is known of the loads of resources that hold back none up to the levels of now: large rises one by one, and what is
    /// above all others. Nobody looks whether levels fall.
    fn count_rises(&mut self) {
        let mut largest: f64 = 0.0;
        for at in 0..self.order.len() {
            let link = self.order[at] as usize;
            let (level, before) = (self.levels[link], self.counted[link]);
            self.counted[link] = level;
            if level <= before {
                continue;
            }
            let part = level / before - 1.0;
            if part <= RISE_MAX {
                largest = largest.max(part);
                continue;
            }
            for held in &self.links[link].held {
                let flow = self.flows[held.flow as usize].as_ref().expect("what is held is there");
                let more = f64::from(flow.weight) * (level - before);
                flow.uses.iter().for_each(|of| self.sums[*of as usize].load += more);
            }
        }
        self.growth += largest;
    }

    /// The level of a resource, which is at a place of the order, or behind its end if it held nothing back.
    fn turn(&mut self, resource: ResourceId, at: usize, moves: &mut usize) -> After {
        let index = resource as usize;
        let blur = self.sums[index].blur;
        let mut taken: Vec<u32> = Vec::new();
        let (level, top) = loop {
            if *moves > MOVES_MAX {
                return After::TooMuch;
            }
            let (sums, link) = (self.sums[index], &self.links[index]);
            let (load, top) = load(&link.row, &self.levels);
            let left = sums.free as f64 - load;
            let level = match () {
                () if sums.own > 0.0 => left / sums.own,
                () if left < -blur => f64::NEG_INFINITY,
                () => {
                    self.levels[index] = f64::INFINITY;
                    self.counted[index] = f64::INFINITY;
                    self.sums[index].load = f64::INFINITY;
                    if at < self.order.len() {
                        self.order.remove(at);
                    }
                    return After::At(at);
                }
            };
            let counts = |gap: f64, weight: f64| gap * weight > blur;
            let has_more = |held: &&Capped| counts(level - held.level, f64::from(held.weight));
            if let Some(lowest) = link.held.iter().take_while(|held| held.level < level).find(has_more).copied() {
                self.hand(lowest.flow, None);
                *moves += 1;
                continue;
            }
            // Who would have most above the level: a flow with its cap, or one held back elsewhere.
            let would_have = |capped: &&Capped| counts(capped.level - level, f64::from(capped.weight));
            let capped = link.capped.iter().rev().take_while(|capped| capped.level > level).find(would_have).copied();
            let mut from = None;
            if top > level {
                let level_of = |edge: &&Edge| self.levels[edge.link as usize];
                let above = link.row.iter().filter(|edge| counts(level_of(edge) - level, edge.weight));
                from = above.max_by(|a, b| level_of(a).total_cmp(&level_of(b))).map(|edge| edge.link);
            }
            match (capped, from) {
                (Some(capped), from) if from.is_none_or(|from| capped.level >= self.levels[from as usize]) => {
                    self.hand(capped.flow, Some(resource));
                    taken.push(capped.flow);
                    *moves += 1;
                }
                (_, Some(from)) => *moves += self.take_over(resource, from, &mut taken),
                (_, None) => break (level, top),
            }
        };
        self.levels[index] = level;
        if taken.is_empty() {
            // Nothing that it depends on is above its level, so it may go before all that is.
            let mut place = at;
            while top <= level && place > 0 && self.levels[self.order[place - 1] as usize] > level {
                place -= 1;
            }
            if place < at {
                self.order[place..=at].rotate_right(1);
            }
            After::At(at + 1)
        } else {
            self.go_before(resource, at, taken, moves)
        }
    }

    /// A resource has taken flows over: it goes before all others on their ways, and those above its level, and has its turn there.
    fn go_before(&mut self, resource: ResourceId, at: usize, mut taken: Vec<u32>, moves: &mut usize) -> After {
        let level = self.levels[resource as usize];
        let on_ways = taken.iter().flat_map(|flow| self.uses(*flow)).filter(|of| **of != resource);
        let lowest = on_ways.map(|of| self.levels[*of as usize]).fold(f64::INFINITY, f64::min);
        let goes_behind = |link: &ResourceId| {
            let other = self.levels[*link as usize];
            // One at its own level may be on their ways.
            other > level || (other >= lowest && taken.iter().any(|flow| self.uses(*flow).contains(link)))
        };
        let place = self.order[..at].iter().position(goes_behind).unwrap_or(at);
        if at < self.order.len() {
            self.order[place..=at].rotate_right(1);
        } else {
            self.order.insert(place, resource);
        }
        // What depends on it comes behind it, also where levels differ by blur only.
        for behind in place + 1..=at.min(self.order.len() - 1) {
            let other = self.order[behind];
            if self.links[resource as usize].row.binary_search_by_key(&other, |edge| edge.link).is_ok() {
                *moves += self.take_over(resource, other, &mut taken);
            }
        }
        After::At(place)
    }

    /// A resource holds back the flows over it that another held back. How many these are.
    fn take_over(&mut self, resource: ResourceId, from: ResourceId, taken: &mut Vec<u32>) -> usize {
        let held = self.links[from as usize].held.iter().map(|held| held.flow);
        let begin = taken.len();
        taken.extend(held.filter(|flow| self.uses(*flow).contains(&resource)));
        taken[begin..].iter().for_each(|flow| self.hand(*flow, Some(resource)));
        taken.len() - begin
    }

    fn is_in_order(&self) -> bool {
        let mut flows = self.flows.iter().flatten().filter(|flow| flow.holder.is_some());
        flows.all(|flow| self.order.iter().find(|link| flow.uses.contains(link)).copied() == flow.holder)
    }

    fn uses(&self, flow: u32) -> &[ResourceId] {
        self.flows[flow as usize].as_ref().map_or(&[], |flow| &flow.uses)
    }
}

/// What flows that others hold back use together, and the highest level of these.
fn load(row: &[Edge], levels: &[f64]) -> (f64, f64) {
    /// Sums that a core reckons side by side.
    const LANES: usize = 4;
    let mut sums = [0.0; LANES];
    let mut tops = [f64::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    let mut add = |lane: usize, edge: &Edge| {
        let level = levels[edge.link as usize];
        sums[lane] += edge.weight * level;
        tops[lane] = if level > tops[lane] { level } else { tops[lane] };
    };
    for chunk in chunks {
        (0..LANES).for_each(|lane| add(lane, &chunk[lane]));
    }
    rest.iter().enumerate().for_each(|(lane, edge)| add(lane, edge));
    ((sums[0] + sums[1]) + (sums[2] + sums[3]), tops.into_iter().fold(f64::NEG_INFINITY, f64::max))
}
