//! The scale of a class: its own level of fair share at each level of the whole.

use std::num::NonZeroU32;

use super::class::level_of_fine;
use super::curve::Piece;
use super::{Fine, LEVEL_BITS, Level};

/// A level inside a class: what a child of weight 1 gets there, in 2⁻⁴⁸ b/s. It may be far above what a rate can be, where a class
/// of many has a small weight.
pub(super) type Inner = u128;
/// Bits of an [`Inner`] behind the point.
pub(super) const INNER_BITS: u32 = 48;
/// From here on scales do not rise: 2⁸⁸ b/s for a weight of 1.
const LEVEL_END: Level = 1 << 120;
/// Bits of the mantissa of a slope.
const MANTISSA_BITS: u32 = 63;
/// The smallest slope has a mantissa behind so many bits.
const SHIFT_MAX: u32 = 111;

/// What an inner level rises by with the level: `mantissa` / 2^`shift`, in [`Inner`] for each step of a [`Level`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slope {
    /// Below 2⁶³.
    pub(super) mantissa: u64,
    pub(super) shift: u32,
}

/// A straight part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    from: Level,
    base: Inner,
    slope: Slope,
}

/// Where a scale bends: what it is just before a level, and from it on. They differ where no child of the class rises between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bend {
    pub(super) level: Level,
    pub(super) before: Inner,
    pub(super) after: Inner,
}

/// An inner level at each level: never less at a higher one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale(Box<[Part]>);

impl Scale {
    /// The scale of the whole: inner levels are levels.
    pub(super) fn whole() -> Scale {
        let slope = Slope { mantissa: 1 << (MANTISSA_BITS - 1), shift: MANTISSA_BITS - 1 - (INNER_BITS - LEVEL_BITS) };
        Scale(Box::new([Part { from: 0, base: 0, slope }]))
    }

    /// By its bends in order, the first at level 0, and a point after the last.
    pub(super) fn through(bends: &[Bend], then: (Level, Inner)) -> Scale {
        let nexts = bends.iter().skip(1).map(|bend| (bend.level, bend.before)).chain([then]);
        let part = |(bend, (level, before)): (&Bend, (Level, Inner))| {
            let slope = Slope::between(level - bend.level, before.saturating_sub(bend.after));
            Part { from: bend.level, base: bend.after, slope }
        };
        Scale(bends.iter().zip(nexts).map(part).collect())
    }

    /// How many straight parts it has.
    pub(super) fn parts(&self) -> usize {
        self.0.len()
    }

    /// Where a part begins.
    pub(super) fn begin(&self, part: usize) -> Level {
        self.0[part].from
    }

    pub(super) fn slope(&self, part: usize) -> Slope {
        self.0[part].slope
    }

    /// The inner level at a level at or after the begin of a part, as if it went on.
    pub(super) fn along(&self, part: usize, level: Level) -> Inner {
        let Part { from, base, slope } = self.0[part];
        base.saturating_add(slope.times(level.min(LEVEL_END).saturating_sub(from)))
    }

    /// The inner level at a level.
    pub(super) fn at(&self, level: Level) -> Inner {
        self.along(self.0.partition_point(|part| part.from <= level) - 1, level)
    }

    /// The inner level just before a level above 0.
    pub(super) fn before(&self, level: Level) -> Inner {
        self.along(self.0.partition_point(|part| part.from < level).saturating_sub(1), level)
    }

    /// The first level at which the inner level is so high; `None` if it never is.
    pub(super) fn reaches(&self, inner: Inner) -> Option<Level> {
        let after = self.0.partition_point(|part| part.base < inner);
        let next = self.0.get(after).map(|part| part.from);
        let Some(part) = after.checked_sub(1).map(|index| self.0[index]) else { return Some(0) };
        let along = part.slope.under(inner - part.base).and_then(|along| part.from.checked_add(along));
        match (along.filter(|level| *level < LEVEL_END), next) {
            (Some(level), Some(next)) => Some(level.min(next)),
            (level, next) => level.or(next),
        }
    }
}

impl Scale {
    /// How a flow of a weight rises from what it has at level 0 up to an end, and the level inside from which on it does.
    pub(super) fn pieces(&self, weight: NonZeroU32, has: Fine, end: Fine) -> (Vec<Piece>, Inner) {
        let mut pieces = vec![Piece { from: 0, base: has, slope: 0 }];
        if end <= has {
            return (pieces, 0);
        }
        let begin = level_of_fine(has, weight).max(self.at(0));
        let Some(from) = self.reaches(begin) else { return (pieces, 0) };
        if from == 0 {
            pieces.clear();
        }
        pieces.push(Piece { from, base: has, slope: u128::from(weight.get()) });
        let ends = self.reaches(begin.saturating_add(level_of_fine(end - has, weight)));
        pieces.extend(ends.map(|from| Piece { from, base: end, slope: 0 }));
        (pieces, begin)
    }
}

impl Slope {
    fn between(along: Level, rise: Inner) -> Slope {
        if rise == 0 || along == 0 {
            return Slope::default();
        }
        // rise · 2^shift / along, for the shift that gives most bits.
        let (whole, left) = (rise / along, rise % along);
        if whole >> MANTISSA_BITS > 0 {
            return Slope { mantissa: (1 << MANTISSA_BITS) - 1, shift: 0 };
        }
        let (mut mantissa, mut left, mut shift) = (whole, left, 0);
        while mantissa >> (MANTISSA_BITS - 1) == 0 && shift < SHIFT_MAX {
            // The rest is below `along`, which is at most LEVEL_END.
            left <<= 1;
            mantissa = mantissa << 1 | u128::from(left >= along);
            left -= if left >= along { along } else { 0 };
            shift += 1;
        }
        Slope { mantissa: mantissa as u64, shift }
    }

    /// The rise over so many levels, rounded down.
    pub(super) fn times(self, along: Level) -> Inner {
        times(self.mantissa, along, self.shift)
    }

    /// Over how many levels it rises so much, rounded up.
    fn under(self, rise: Inner) -> Option<Level> {
        let mantissa = u128::from(self.mantissa);
        let whole = rise.checked_div(mantissa)?;
        let (rest, is_exact) = divided(rise % mantissa, mantissa, self.shift);
        whole.checked_mul(1 << self.shift)?.checked_add(rest + u128::from(!is_exact))
    }
}

/// `number` · 2^`shift` / `divisor`, rounded down, and whether it is exact, for a number below a divisor below 2⁹⁶.
pub(super) fn divided(number: u128, divisor: u128, shift: u32) -> (u128, bool) {
    let (mut quotient, mut rest, mut left) = (0_u128, number, shift);
    while left > 0 {
        let bits = left.min(32);
        rest <<= bits;
        quotient = (quotient << bits) + rest / divisor;
        rest %= divisor;
        left -= bits;
    }
    (quotient, rest == 0)
}

/// `factor` · `number` / 2^`shift`, rounded down; at most all bits, where there are not enough.
pub(super) fn times(factor: u64, number: u128, shift: u32) -> u128 {
    let (high, low) = (u128::from(factor) * (number >> 64), u128::from(factor) * u128::from(number as u64));
    if shift >= 64 {
        let high_and_carry = high.saturating_add(low >> 64);
        return high_and_carry >> (shift - 64);
    }
    if high.leading_zeros() < 64 - shift && high > 0 {
        return u128::MAX;
    }
    (high << (64 - shift)).saturating_add(low >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_itself_in_other_units() {
        let whole = Scale::whole();
        for level in [0, 1, 12_345, 1 << 78, 1 << 104] {
            assert_eq!(whole.at(level), level << (INNER_BITS - super::super::LEVEL_BITS));
            assert_eq!(whole.reaches(whole.at(level)), Some(level));
        }
        let level = Scale::through(&[Bend { level: 0, before: 5, after: 5 }], (9, 5));
        assert_eq!((level.reaches(5), level.reaches(6)), (Some(0), None));
    }

    #[test]
    fn a_scale_bends_and_jumps() {
        let bend = |level, before, after| Bend { level, before, after };
        let scale = Scale::through(&[bend(0, 0, 10), bend(100, 310, 310), bend(200, 310, 1_000)], (300, 2_000));
        assert_eq!([scale.at(0), scale.at(50), scale.at(100), scale.at(199)], [10, 160, 310, 310]);
        assert_eq!([scale.before(200), scale.at(200), scale.at(301)], [310, 1_000, 2_010]);
        let first = |inner| scale.reaches(inner).expect("it rises for ever");
        assert_eq!(
            [first(0), first(10), first(11), first(310), first(311), first(1_000), first(1_010)],
            [0, 0, 1, 100, 200, 200, 201]
        );
    }

    #[test]
    fn slopes_keep_their_bits() {
        for (along, rise) in [(3, 1), (1 << 90, 1 << 20), (7 << 40, 3 << 60), (1, 1 << 40)] {
            let slope = Slope::between(along, rise);
            let gives = slope.times(along);
            assert!(gives <= rise && rise - gives <= (rise >> 61) + 1, "{along} {rise} {gives}");
            assert!(slope.under(gives).expect("it rises") <= along);
        }
        assert_eq!(times(u64::MAX, u128::MAX, 0), u128::MAX);
        assert_eq!(times(3, 1 << 100, 96), 48);
    }
}
