//! One tier: a level rises, flows rise with it, and what is full stops those that draw on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::axes::Axes;
use super::bends::{Bends, Kind};
use super::curve::Piece;
use super::fill::{Crossing, fine};
use super::round::STEPS;
use super::scale::Inner;
use super::used::{Growth, Used};
use super::{Bottleneck, Fine, INNER_SHIFT, Level, Problem, ResourceId};

/// How a flow is to rise.
pub(super) struct Climb {
    pub(super) flow: usize,
    /// At least one, the first from level 0 on. On a scale there is one that rises, with the weight of the flow for its slope.
    pub(super) pieces: Vec<Piece>,
    /// What it asks for.
    pub(super) most: Fine,
    /// The class along whose scale it rises, and from which level inside it.
    pub(super) class: Option<(u32, Inner)>,
}

/// A flow that rises.
struct Rising<'a> {
    climb: &'a Climb,
    piece: usize,
    tunnel: usize,
    /// What its earlier tunnels carry.
    before: Fine,
    /// One more than the index of its place on a scale; 0 for the level itself.
    place: u32,
}

/// Where a flow rises on the scale of a class.
struct Place {
    class: u32,
    /// The level inside from which on it rises.
    begin: Inner,
}

/// Tiers being filled.
pub(super) struct Fill<'a> {
    problem: &'a Problem,
    crossing: &'a Crossing,
    axes: Axes<'a>,
    uses: Vec<Used>,
    exact: Vec<Fine>,
    bottlenecks: Vec<Bottleneck>,
    rising: Vec<Rising<'a>>,
    places: Vec<Place>,
    /// Index in `rising` of the flow of each tunnel that rises over it, and one more; 0 for none.
    on: Vec<u32>,
    /// When a resource may be full: never later than it is, and looked at again when it is due. Only what it says itself counts.
    full: BinaryHeap<Reverse<(Level, ResourceId)>>,
    /// When the next piece of a flow begins, or that of a scale.
    bends: Bends,
}

impl<'a> Fill<'a> {
    /// Nothing is used.
    pub(super) fn new(problem: &'a Problem, crossing: &'a Crossing) -> Fill<'a> {
        Fill {
            problem,
            crossing,
            axes: Axes::of(problem),
            uses: problem.limits.iter().map(|limit| Used::new(fine(limit.capacity))).collect(),
            exact: vec![0; problem.tunnels()],
            bottlenecks: Vec::new(),
            rising: Vec::new(),
            places: Vec::new(),
            on: vec![0; problem.tunnels()],
            full: BinaryHeap::new(),
            bends: Bends::default(),
        }
    }

    /// Takes everything back.
    pub(super) fn empty(&mut self) {
        self.uses.iter_mut().for_each(|of| of.used = 0);
        self.exact.fill(0);
        self.bottlenecks.clear();
    }

    /// What each tunnel has, and what was full.
    pub(super) fn end(self) -> (Vec<Fine>, Vec<Bottleneck>) {
        (self.exact, self.bottlenecks)
    }

    /// Lets a tunnel have more.
    pub(super) fn use_more(&mut self, tunnel: usize, more: Fine) {
        self.exact[tunnel] += more;
        self.problem.uses(tunnel).iter().for_each(|of| self.uses[*of as usize].used += more);
    }

    /// What the flows of a tier use of each resource.
    pub(super) fn used_by(&self, tier: Option<u8>) -> Vec<Fine> {
        let mut used = vec![0; self.uses.len()];
        for (tunnel, rate) in self.exact.iter().enumerate().filter(|(_, rate)| **rate > 0) {
            if Some(self.problem.demands[self.problem.flow_of(tunnel)].tier) == tier {
                self.problem.uses(tunnel).iter().for_each(|of| used[*of as usize] += rate);
            }
        }
        used
    }

    /// Lets flows of a tier rise up to what is left when so much of each resource is kept for others.
    pub(super) fn rise(&mut self, tier: u8, flows: &'a [Climb], kept: &[Fine]) {
        for (index, of) in self.uses.iter_mut().enumerate() {
            let kept = kept.get(index).copied().unwrap_or(0);
            let limit = fine(self.problem.limits[index].capacity).saturating_sub(kept);
            *of = Used { used: of.used, ..Used::new(limit) };
        }
        let mut active = self.begin(flows);
        let due =
            self.uses.iter_mut().enumerate().filter_map(|(index, of)| Some(Reverse((of.earlier()?, index as u32))));
        self.full = BinaryHeap::from(due.collect::<Vec<_>>());
        let mut level = 0;
        // Each turn bends a flow or a scale, fills a resource, or moves a resource to the level at which it is full.
        while active > 0 {
            let full = self.full.peek().map(|Reverse(due)| *due);
            let bend = self.bends.peek();
            match (full, bend) {
                (Some((due, resource)), bend) if bend.is_none_or(|bend| due < bend.0) => {
                    self.full.pop();
                    let of = &mut self.uses[resource as usize];
                    if of.due != due {
                        continue;
                    }
                    of.due = Level::MAX;
                    let now = level.max(due);
                    of.advance(now);
                    let Some(at) = of.full_at().filter(|_| !of.is_full) else { continue };
                    if at > now {
                        of.due = at;
                        self.full.push(Reverse((at, resource)));
                        continue;
                    }
                    level = now;
                    active -= self.stop_over(tier, resource, level);
                }
                (_, Some((due, kind, index))) => {
                    self.bends.pop();
                    level = level.max(due);
                    active -= match kind {
                        Kind::Scale => self.bend_scale(index, level),
                        Kind::Flow | Kind::Start => self.bend(tier, index as usize, level),
                    };
                }
                // What rises draws on something and fills it, or rises so slowly that it never does.
                (_, None) => {
                    let rising: Vec<usize> = (0..self.rising.len()).filter(|index| self.is_on(*index)).collect();
                    rising.into_iter().for_each(|index| self.leave(index, level));
                    active = 0;
                }
            }
        }
    }

    /// Flows begin at level 0. How many of them rise, or will.
    fn begin(&mut self, flows: &'a [Climb]) -> usize {
        self.full.clear();
        self.rising.clear();
        self.places.clear();
        self.axes.reset();
        let mut bends = Vec::new();
        let mut has_rising = vec![false; self.problem.scales.len()];
        for climb in flows {
            let Climb { flow, pieces, class, .. } = climb;
            let index = self.rising.len();
            if let Some(next) = pieces.get(1) {
                bends.push((next.from, next.kind(class.is_some()), index as u32));
            } else if pieces[0].slope == 0 {
                continue;
            }
            if let Some((class, begin)) = *class {
                has_rising[class as usize] = true;
                self.places.push(Place { class, begin });
            }
            let place = if class.is_some() { self.places.len() as u32 } else { 0 };
            let tunnel = self.problem.tunnels_of(*flow).start;
            self.on[tunnel] = index as u32 + 1;
            self.rising.push(Rising { climb, piece: 0, tunnel, before: 0, place });
            self.turn(index, 0, pieces[0].slope, 0);
        }
        // Dues are reckoned when all have begun.
        for class in (0..has_rising.len()).filter(|class| has_rising[*class]).map(|class| class as u32) {
            bends.extend(self.axes.next(class).map(|level| (level, Kind::Scale, class)));
        }
        self.bends = Bends::new(bends);
        self.rising.len()
    }

    /// A resource is full: what rises over it goes on over another tunnel, or stops. How many stop.
    fn stop_over(&mut self, tier: u8, resource: ResourceId, level: Level) -> usize {
        self.uses[resource as usize].is_full = true;
        let (mut stopped, mut holds_back) = (0, false);
        for tunnel in self.crossing.over(resource) {
            let tunnel = *tunnel as usize;
            let Some(index) = self.on[tunnel].checked_sub(1) else { continue };
            // Who has all that it asks for but for a step is not held back.
            holds_back |= self.linear(index as usize, level) + STEPS < self.rising[index as usize].climb.most;
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
        let Rising { climb: Climb { flow, .. }, tunnel, before, .. } = self.rising[index];
        self.leave(index, level);
        let has_room = |tunnel: &usize| problem.uses(*tunnel).iter().all(|of| !self.uses[*of as usize].is_full);
        let Some(next) = (tunnel + 1..problem.tunnels_of(*flow).end).find(has_room) else { return false };
        let carried = self.exact[tunnel];
        let rising = &mut self.rising[index];
        (rising.tunnel, rising.before) = (next, before + carried);
        self.on[next] = index as u32 + 1;
        // What it is due beyond the end of its piece, until that bends.
        let more = self.linear(index, level).saturating_sub(before + carried);
        for of in problem.uses(next) {
            let of = &mut self.uses[*of as usize];
            of.advance(level);
            of.used += more;
        }
        let rising = &self.rising[index];
        self.turn(index, 0, rising.climb.pieces[rising.piece].slope, level);
        self.look_again(next);
        true
    }

    /// Ends the rise of a flow over its tunnel, which carries what it has.
    fn leave(&mut self, index: usize, level: Level) {
        let linear = self.linear(index, level);
        let rising = &self.rising[index];
        let (tunnel, slope, before) = (rising.tunnel, rising.climb.pieces[rising.piece].slope, rising.before);
        // A piece ends where the next begins, also if the level is a bit later.
        let most = rising.climb.pieces.get(rising.piece + 1).map_or(linear, |next| next.base);
        let had = linear - before.min(linear);
        let carries = linear.min(most).saturating_sub(before);
        self.on[tunnel] = 0;
        self.exact[tunnel] = carries;
        self.turn(index, slope, 0, level);
        for of in self.problem.uses(tunnel) {
            let used = &mut self.uses[*of as usize].used;
            *used = (*used + carries).saturating_sub(had);
        }
    }

    /// The next piece of a flow. How many flows stop there.
    fn bend(&mut self, tier: u8, index: usize, level: Level) -> usize {
        let rising = &self.rising[index];
        let tunnel = rising.tunnel;
        if !self.is_on(index) {
            return 0;
        }
        let next = rising.climb.pieces[rising.piece + 1];
        if next.slope == 0 && next.base < rising.climb.most && rising.climb.pieces.len() == rising.piece + 2 {
            return self.fill_up(tier, index, level);
        }
        let slope = rising.climb.pieces[rising.piece].slope;
        let linear = self.linear(index, level);
        self.rising[index].piece += 1;
        // The level may be a bit later than the begin of the piece, where something was full between.
        let begins = self.linear(index, level);
        self.turn(index, slope, next.slope, level);
        for of in self.problem.uses(tunnel) {
            let used = &mut self.uses[*of as usize].used;
            *used = (*used + begins).saturating_sub(linear);
        }
        if next.slope > slope {
            self.look_again(tunnel);
        }
        let rising = &self.rising[index];
        if let Some(after) = rising.climb.pieces.get(rising.piece + 1) {
            let kind = after.kind(rising.place > 0);
            self.bends.push((after.from, kind, index as u32));
            return 0;
        }
        if next.slope > 0 {
            return 0;
        }
        // The last piece is level.
        self.on[tunnel] = 0;
        self.exact[tunnel] = next.base.saturating_sub(rising.before);
        1
    }

    /// A flow has all that its tunnels can carry, although it asks for more: what is narrowest is full. How many flows stop.
    fn fill_up(&mut self, tier: u8, index: usize, level: Level) -> usize {
        let mut stopped = 0;
        // Each turn takes it off a tunnel.
        while self.is_on(index) {
            let uses = self.problem.uses(self.rising[index].tunnel);
            uses.iter().for_each(|of| self.uses[*of as usize].advance(level));
            let narrowest = uses.iter().min_by_key(|of| self.uses[**of as usize].left());
            stopped += self.stop_over(tier, *narrowest.expect("a tunnel draws on something"), level);
        }
        stopped
    }

    /// The next part of a scale; no flow stops.
    fn bend_scale(&mut self, class: u32, level: Level) -> usize {
        let full = &mut self.full;
        self.axes.bend(class, level, &mut self.uses, |resource, due| full.push(Reverse((due, resource))));
        if let Some(next) = self.axes.next(class) {
            self.bends.push((next, Kind::Scale, class));
        }
        0
    }

    /// Whether a flow rises, or waits for its piece to rise, over the tunnel that it is on.
    fn is_on(&self, index: usize) -> bool {
        self.on[self.rising[index].tunnel] == index as u32 + 1
    }

    /// What a flow is due at a level, as long as its piece goes on.
    fn linear(&self, index: usize, level: Level) -> Fine {
        let rising = &self.rising[index];
        let piece = rising.climb.pieces[rising.piece];
        match rising.place.checked_sub(1) {
            Some(place) if piece.slope > 0 => {
                let Place { class, begin } = self.places[place as usize];
                let inner = self.axes.inner(class, level).saturating_sub(begin);
                piece
                    .base
                    .saturating_add(piece.slope.saturating_mul(inner).min(Fine::MAX >> INNER_SHIFT) << INNER_SHIFT)
            }
            _ => piece.base + piece.slope * (level - piece.from),
        }
    }

    /// Lets a flow rise faster or more slowly over its tunnel from a level on.
    fn turn(&mut self, index: usize, from: u128, to: u128, level: Level) {
        let rising = &self.rising[index];
        let uses = self.problem.uses(rising.tunnel);
        uses.iter().for_each(|of| self.uses[*of as usize].advance(level));
        if let Some(place) = rising.place.checked_sub(1) {
            self.axes.change(self.places[place as usize].class, rising.tunnel, from, to, &mut self.uses);
        } else {
            for of in uses {
                let growth = &mut self.uses[*of as usize].growth;
                growth.take(Growth::by(from));
                growth.add(Growth::by(to));
            }
        }
    }

    /// More rises over a tunnel, so what it draws on may be full earlier.
    fn look_again(&mut self, tunnel: usize) {
        for of in self.problem.uses(tunnel) {
            self.full.extend(self.uses[*of as usize].earlier().map(|due| Reverse((due, *of))));
        }
    }
}

impl Piece {
    fn kind(&self, is_on_scale: bool) -> Kind {
        if is_on_scale && self.slope > 0 { Kind::Start } else { Kind::Flow }
    }
}
