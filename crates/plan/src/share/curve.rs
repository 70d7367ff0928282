//! Bandwidth functions: the rate that a flow is due at each level of fair share (Kumar et al., "BwE", SIGCOMM 2015).

use std::num::NonZeroU32;

use super::{FINE_BITS, Fine, RATE_MAX};

/// A level of fair share: what a flow of weight 1 gets, in 2⁻³² b/s.
pub type Level = u128;
/// Bits of a [`Level`] behind the point.
pub const LEVEL_BITS: u32 = 32;
/// Bits of a slope behind the point, so that a slope times a level is [`Fine`].
const SLOPE_BITS: u32 = FINE_BITS - LEVEL_BITS;

/// Bits of a part of a curve behind the point.
pub(super) const PART_BITS: u32 = 24;
/// No corner of a part is later.
const LATEST: u64 = 1 << 63;

/// What a flow gets at each level: never less at a higher one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Curve {
    /// In proportion to the level, up to a cap.
    Weighted {
        /// The rate at level 1.
        weight: NonZeroU32,
        /// The cap, in b/s.
        most: u64,
    },
    /// Straight from 0 at level 0 to each point in turn, and level after the last.
    Points(Points),
}

/// Corners of a curve: levels in b/s of a flow of weight 1, and rates in b/s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points(Box<[(u64, u64)]>);

/// Why points are no curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// There is none.
    #[error("a curve has a point")]
    Empty,
    /// A level is not above the one before, or a rate below the one before.
    #[error("levels grow from point to point, and rates do not fall")]
    Order,
}

/// A straight part of a curve: from a level on, up to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: Level,
    /// The rate at its begin.
    pub(super) base: Fine,
    /// What a level more brings, in 2⁻⁴⁸.
    pub(super) slope: u128,
}

impl Curve {
    /// A curve by its corners.
    ///
    /// # Errors
    /// If there are none, or they are not in order.
    pub fn points(points: &[(u64, u64)]) -> Result<Curve, CurveError> {
        if points.is_empty() {
            return Err(CurveError::Empty);
        }
        let clipped = |(level, rate): &(u64, u64)| ((*level).min(RATE_MAX), (*rate).min(RATE_MAX));
        let points: Box<[(u64, u64)]> = points.iter().map(clipped).collect();
        let grows = points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        if !grows || points[0].0 == 0 {
            return Err(CurveError::Order);
        }
        Ok(Curve::Points(Points(points)))
    }

    /// The most that it gives, in b/s.
    #[must_use]
    pub fn most(&self) -> u64 {
        match self {
            Curve::Weighted { most, .. } => (*most).min(RATE_MAX),
            Curve::Points(points) => points.0.last().map_or(0, |last| last.1),
        }
    }

    /// The corners after level 0, of a curve by points.
    #[must_use]
    pub fn corners(&self) -> Option<&[(u64, u64)]> {
        match self {
            Curve::Weighted { .. } => None,
            Curve::Points(points) => Some(&points.0),
        }
    }

    /// A part of the curve, in 2⁻²⁴, that rises on where the curve is level at last, up to [`RATE_MAX`].
    pub(super) fn part(&self, part: u32) -> Curve {
        let of = |rate: u64| (u128::from(rate) * u128::from(part)).div_ceil(1 << PART_BITS) as u64;
        let level = |rate: u64, level: u64, of: u64| {
            let level =
                ((u128::from(rate) * u128::from(level)) << PART_BITS) / (u128::from(of) * u128::from(part)).max(1);
            u64::try_from(level).unwrap_or(LATEST).min(LATEST)
        };
        let points = match self {
            Curve::Weighted { weight, .. } => {
                Box::from([(level(RATE_MAX, 1, u64::from(weight.get())).max(1), RATE_MAX)])
            }
            Curve::Points(points) => {
                let mut corners: Vec<(u64, u64)> = points.0.iter().map(|(level, rate)| (*level, of(*rate))).collect();
                let (end, most) = points.0.last().copied().unwrap_or_default();
                if most > 0 {
                    corners.push((level(RATE_MAX, end, most).max(end + 1), RATE_MAX));
                }
                corners.into()
            }
        };
        Curve::Points(Points(points))
    }

    /// The level at which it gives a rate in b/s, as near as floating point is.
    pub(super) fn level(&self, rate: f64) -> f64 {
        match self {
            Curve::Weighted { weight, .. } => rate / f64::from(weight.get()),
            Curve::Points(points) => {
                let mut before = (0.0, 0.0);
                for (level, end) in points.0.iter().map(|(level, end)| (*level as f64, *end as f64)) {
                    if rate < end {
                        return before.0 + (rate - before.1) / (end - before.1) * (level - before.0);
                    }
                    before = (level, end);
                }
                before.0
            }
        }
    }

    /// The straight parts of the greater of a floor and the curve, with at least one.
    pub(super) fn pieces(&self, floor: Fine) -> Vec<Piece> {
        let fine = |rate: u64| Fine::from(rate) << FINE_BITS;
        let mut pieces = Vec::with_capacity(3);
        match self {
            Curve::Weighted { weight, .. } => {
                let slope = u128::from(weight.get()) << SLOPE_BITS;
                let most = fine(self.most());
                if most > floor {
                    pieces.push(Piece { from: floor.div_ceil(slope), base: floor, slope });
                    pieces.push(Piece { from: most.div_ceil(slope), base: most, slope: 0 });
                }
            }
            Curve::Points(points) => {
                // Whole b/s: only floors of classes are not, and none of their flows has such a curve.
                let floor = u64::try_from(floor >> FINE_BITS).unwrap_or(RATE_MAX);
                let mut before = (0, 0);
                for (to, end) in points.0.iter().copied() {
                    let (from, base) = std::mem::replace(&mut before, (to, end));
                    if end <= floor {
                        continue;
                    }
                    // Above 0: the end is above the floor, and so above the base or the floor.
                    let rise = u128::from(end - base);
                    let width = u128::from(to - from);
                    let slope = (rise << SLOPE_BITS) / width;
                    let above = floor.max(base);
                    let begin = ((u128::from(above - base) * width) << LEVEL_BITS).checked_div(rise).unwrap_or(0);
                    pieces.push(Piece { from: (Level::from(from) << LEVEL_BITS) + begin, base: fine(above), slope });
                }
                if before.1 > floor {
                    pieces.push(Piece { from: Level::from(before.0) << LEVEL_BITS, base: fine(before.1), slope: 0 });
                }
            }
        }
        if pieces.first().is_none_or(|first| first.from > 0) {
            pieces.insert(0, Piece { from: 0, base: floor, slope: 0 });
        }
        pieces
    }
}
