//! Where a flow stands on its curve: between which levels it has the rate that it has, and how that changes with the level.

use crate::share::{Curve, Demand, FINE_BITS, Fine, LEVEL_BITS, Level};

use super::number::Number;

/// Levels so near to each other are one, 2⁻¹⁶ b/s: those of a tie are found in steps, which others feel by their weights.
const STEPS: Level = 1 << 16;
/// With curves by points as many parts of their length are one: the solver knows slopes to 2⁻⁴⁸, which all flows of a resource add to.
const PARTS_BITS: u32 = 42;
/// What steps of the level leave to the tiers below.
const TINY: Fine = 1 << (FINE_BITS - 16);

/// What a level of 1 b/s more brings, in b/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slope {
    over: u64,
    under: u64,
}

impl Slope {
    const LEVEL: Slope = Slope { over: 0, under: 1 };

    fn between((from, base): (u64, u64), (to, end): (u64, u64)) -> Slope {
        Slope { over: end - base, under: to - from }
    }

    pub(super) fn number<N: Number>(self) -> N {
        N::ratio(self.over, self.under)
    }

    pub(super) fn is_level(self) -> bool {
        self.over == 0
    }

    /// In 2⁻⁴⁸, as the solver has it.
    fn in_steps(self) -> u128 {
        let over = u128::from(self.over) << (FINE_BITS - LEVEL_BITS);
        // A weight needs no division.
        if self.under == 1 { over } else { over / u128::from(self.under) }
    }
}

/// Where a flow stands. Where its curve is level, that is at more than one level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stand {
    /// The lowest level at which it has its rate, and the highest.
    pub(super) lowest: Level,
    pub(super) highest: Level,
    /// The slope below `lowest`; level at a floor, which is not lost.
    pub(super) less: Slope,
    /// The slope above `highest`; level where it has all.
    pub(super) more: Slope,
    /// The slope with which it would go on if it asked for more.
    pub(super) beyond: Slope,
    /// Whether it has no more than its floor.
    pub(super) at_floor: bool,
    /// Whether it has the most that it asks for.
    pub(super) has_all: bool,
}

/// How near to each other levels of a problem are one.
pub(super) fn nearness(demands: &[Demand]) -> Level {
    let ends = demands.iter().filter_map(|demand| demand.curve.corners()?.last());
    let longest = ends.map(|end| end.0).max().unwrap_or(0);
    STEPS.max((Level::from(longest) << LEVEL_BITS) >> PARTS_BITS)
}

/// Where a flow stands that has a rate. The one place that knows what curves are made of.
pub(super) fn stand(demand: &Demand, rate: Fine, near: Level) -> Stand {
    if let Curve::Weighted { weight, .. } = &demand.curve {
        return weighted(demand, weight.get(), rate, near);
    }
    let corners = demand.curve.corners().unwrap_or_default();
    let corner = |index: usize| index.checked_sub(1).map_or((0, 0), |before| corners[before]);
    let slope = |piece: usize| Slope::between(corner(piece), corner(piece + 1));
    let at = |index: usize| Level::from(corner(index).0) << LEVEL_BITS;
    let last = corners.len();
    // The first piece that comes so far.
    let piece = (0..last).find(|piece| rate <= fine(corner(piece + 1).1)).unwrap_or(last - 1);
    let width = at(piece + 1) - at(piece);
    let above = rate.saturating_sub(fine(corner(piece).1));
    let along = above.checked_div(slope(piece).in_steps()).unwrap_or(0).min(width);
    // At a corner a level piece on either side belongs to where it stands.
    let is_at = match () {
        () if along <= near => Some(piece),
        () if width - along <= near => Some(piece + 1),
        () => None,
    };
    let mut stand = match is_at {
        Some(index) => {
            let first = (0..index).rev().take_while(|before| slope(*before).is_level()).last().unwrap_or(index);
            let end = (index..last).find(|after| !slope(*after).is_level()).unwrap_or(last);
            Stand {
                lowest: at(first),
                highest: at(end),
                less: first.checked_sub(1).map_or(Slope::LEVEL, slope),
                more: if end < last { slope(end) } else { Slope::LEVEL },
                beyond: Slope::LEVEL,
                at_floor: false,
                has_all: end == last,
            }
        }
        None => {
            let (level, slope) = (at(piece) + along, slope(piece));
            let (less, more) = (slope, slope);
            Stand { lowest: level, highest: level, less, more, beyond: slope, at_floor: false, has_all: false }
        }
    };
    let rising = (0..last).rev().map(slope).find(|slope| !slope.is_level());
    stand.beyond = rising.unwrap_or(Slope { over: 1, under: 1 });
    if stand.has_all {
        stand.highest = stand.lowest;
    }
    stand.at_floor = rate <= fine(demand.floor) + step(stand.less, near);
    if stand.at_floor {
        (stand.lowest, stand.less) = (0, Slope::LEVEL);
    }
    stand
}

/// In proportion to the level, above a floor and up to a cap.
fn weighted(demand: &Demand, weight: u32, rate: Fine, near: Level) -> Stand {
    let level = (rate >> (FINE_BITS - LEVEL_BITS)) / Level::from(weight);
    let slope = Slope { over: weight.into(), under: 1 };
    let at_floor = rate <= fine(demand.floor) + step(slope, near);
    let has_all = rate.abs_diff(fine(demand.curve.most())) <= step(slope, near);
    let unless = |stops: bool| if stops { Slope::LEVEL } else { slope };
    Stand {
        lowest: if at_floor { 0 } else { level },
        highest: level,
        less: unless(at_floor),
        more: unless(has_all),
        beyond: slope,
        at_floor,
        has_all,
    }
}

/// What is not known of the rate of a flow: steps of its level, and, of a curve by points, that its slopes are known to 2⁻⁴⁸.
pub(super) fn blur(demand: &Demand, near: Level) -> Fine {
    match &demand.curve {
        Curve::Weighted { weight, .. } => step(Slope { over: weight.get().into(), under: 1 }, near),
        Curve::Points(_) => {
            let corners = demand.curve.corners().unwrap_or_default();
            let begins = std::iter::once((0, 0)).chain(corners.iter().copied());
            let steepest =
                begins.zip(corners.iter().copied()).map(|(begin, end)| step(Slope::between(begin, end), near)).max();
            let along = corners.last().map_or(0, |last| last.0);
            steepest.unwrap_or(TINY) + (Fine::from(along) << LEVEL_BITS)
        }
    }
}

pub(super) fn fine(rate: u64) -> Fine {
    Fine::from(rate) << FINE_BITS
}

/// What steps of the level leave open in a rate that rises so.
fn step(slope: Slope, near: Level) -> Fine {
    (slope.in_steps() * near).max(TINY)
}

/// The rates at which the curve of a flow bends next, below its rate and above it, in b/s. Level parts end where the level says, not the
/// rate.
pub(super) fn bends(demand: &Demand, rate: Fine, near: Level) -> (f64, f64) {
    let blur = blur(demand, near);
    let corners = demand.curve.corners().unwrap_or_default().iter().map(|corner| corner.1);
    let bends = corners.chain([0, demand.floor, demand.curve.most()]).filter(|bend| *bend >= demand.floor);
    let below = bends.clone().filter(|bend| fine(*bend) + blur < rate).max().unwrap_or(demand.floor);
    let above = bends.filter(|bend| fine(*bend) > rate + blur).min().unwrap_or(demand.curve.most());
    (below as f64, above as f64)
}
