//! What is used of a resource while the level rises.

use super::scale::{Slope, divided, times};
use super::{Fine, INNER_SHIFT, Level};

/// Bits of the part of a growth.
const PART_BITS: u32 = 64;

/// What is used of a resource, and how that grows with the level.
#[derive(Clone, Copy)]
pub(super) struct Used {
    pub(super) limit: Fine,
    /// At the level `at`.
    pub(super) used: Fine,
    pub(super) at: Level,
    pub(super) growth: Growth,
    pub(super) is_full: bool,
    /// When it is looked at next; the highest level if never.
    pub(super) due: Level,
}

/// What a level more brings: the sum of the slopes of the flows that rise, in 2⁻⁴⁸, and 2⁻⁶⁴ of that. Slopes of classes are no whole
/// numbers, and levels may be large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Growth {
    whole: u128,
    part: u64,
}

impl Used {
    pub(super) fn new(capacity: Fine) -> Used {
        Used { limit: capacity, used: 0, at: 0, growth: Growth::default(), is_full: false, due: Level::MAX }
    }

    /// Lets the level rise.
    pub(super) fn advance(&mut self, level: Level) {
        let along = level.saturating_sub(self.at);
        if along == 0 {
            return;
        }
        let Growth { whole, part } = self.growth;
        if part == 0 {
            // No more than the limit, at which all that rises stops.
            self.used += whole * along;
        } else {
            self.used = self.used.saturating_add(whole.saturating_mul(along));
            self.used = self.used.saturating_add(times(part, along, PART_BITS));
        }
        self.at = level;
    }

    /// What is not used at the level `at`.
    pub(super) fn left(&self) -> Fine {
        self.limit.saturating_sub(self.used)
    }

    /// When it is to be looked at because more rises on it, if that is earlier than it is anyway.
    pub(super) fn earlier(&mut self) -> Option<Level> {
        let due = self.full_at().filter(|due| *due < self.due)?;
        self.due = due;
        Some(due)
    }

    /// At which level it is full, or a little before; `None` if it never is.
    pub(super) fn full_at(&self) -> Option<Level> {
        let left = self.left();
        let Growth { whole, part } = self.growth;
        let along = if part == 0 {
            left.checked_div(whole)?
        } else if whole >> 32 > 0 {
            left / (whole + 1)
        } else {
            // All bits, for a slow growth has long to go.
            let growth = (whole << PART_BITS) + u128::from(part);
            let more = divided(left % growth, growth, PART_BITS).0;
            (left / growth).saturating_mul(1 << PART_BITS).saturating_add(more)
        };
        Some(self.at.saturating_add(along))
    }
}

impl Growth {
    /// Of flows that rise with the level itself.
    pub(super) fn by(slope: u128) -> Growth {
        Growth { whole: slope, part: 0 }
    }

    /// Of flows of a weight together, on a scale.
    pub(super) fn on(slope: Slope, weight: u128) -> Growth {
        // In 2⁻⁴⁸ · 2^(32 − shift): below 2^(40 + 63).
        let product = weight * u128::from(slope.mantissa);
        let Some(below) = slope.shift.checked_sub(INNER_SHIFT) else {
            return Growth { whole: product << (INNER_SHIFT - slope.shift).min(product.leading_zeros()), part: 0 };
        };
        let rest = product & ((1 << below) - 1);
        let part = if below > PART_BITS { rest >> (below - PART_BITS) } else { rest << (PART_BITS - below) };
        Growth { whole: product >> below, part: part as u64 }
    }

    pub(super) fn add(&mut self, more: Growth) {
        let (part, carries) = self.part.overflowing_add(more.part);
        self.whole = self.whole.saturating_add(more.whole).saturating_add(u128::from(carries));
        self.part = part;
    }

    pub(super) fn take(&mut self, less: Growth) {
        let (part, borrows) = self.part.overflowing_sub(less.part);
        self.whole = self.whole.saturating_sub(less.whole).saturating_sub(u128::from(borrows));
        self.part = part;
    }
}
