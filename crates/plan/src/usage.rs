//! What classes used of late, and what that does to their weights.
//!
//! Bytes count half after each half-life. Who used as much of what its siblings used together as its weight is of theirs keeps its weight; who
//! used nothing weighs twice as much, who used three times its part a quarter: 2^(1 − used / part), in these bounds, as in the
//! fair-tree and multifactor priorities of Slurm. Urgent flows weigh more in their class as long as its budget lasts, which comes
//! back at an even pace, all of it in 30 days.
//!
//! All of it in integers, so that the same snapshot gives the same weights everywhere.

use std::num::NonZeroU32;
use std::time::Duration;

/// Weights are multiplied by a factor in this unit: a factor of 1.
pub const FACTOR_ONE: u32 = 256;
/// Of one that used three times its part or more.
pub const FACTOR_LEAST: u32 = FACTOR_ONE / 4;
/// Of one that used nothing.
pub const FACTOR_MOST: u32 = FACTOR_ONE * 2;
/// How much more urgent flows weigh in their class.
pub const URGENT: u32 = 8;
/// The time in which the whole of a budget for urgent flows comes back.
pub const BUDGET_PERIOD: Duration = Duration::from_secs(30 * 86_400);

/// Bits behind the point of an exponent, and of a power.
const EXPONENT_BITS: u32 = 32;
const POWER_BITS: u32 = 62;
/// 2 to the power of −2⁻¹, −2⁻², …, for each bit of an exponent: each is the root of the one before.
const ROOTS: [u64; EXPONENT_BITS as usize] = {
    let mut roots = [0; EXPONENT_BITS as usize];
    let (mut at, mut last) = (0, 1_u128 << (POWER_BITS - 1));
    while at < roots.len() {
        last = (last << POWER_BITS).isqrt();
        roots[at] = last as u64;
        at += 1;
    }
    roots
};

/// What is left of bytes after a time, when they count half after each half-life; none after 64 of them.
#[must_use]
pub fn decayed(bytes: u64, elapsed: Duration, half_life: Duration) -> u64 {
    let (elapsed, half_life) = (elapsed.as_nanos(), half_life.as_nanos().max(1));
    let halvings = elapsed / half_life;
    if halvings >= 64 {
        return 0;
    }
    // Durations are below 2⁹⁴ ns, and so are rests.
    let rest = ((elapsed % half_life) << EXPONENT_BITS) / half_life;
    let left = (u128::from(bytes) * u128::from(power_of_half(rest as u32))) >> POWER_BITS;
    (left >> halvings) as u64
}

/// The factor of each of the children of a class, in [`FACTOR_ONE`]: by weights, and the bytes that each used of late. All 1 if none used
/// anything.
#[must_use]
pub fn factors(siblings: &[(NonZeroU32, u64)]) -> Vec<u32> {
    let weights: u128 = siblings.iter().map(|(weight, _)| u128::from(weight.get())).sum();
    let used: u128 = siblings.iter().map(|(_, used)| u128::from(*used)).sum();
    let factor = |(weight, has): &(NonZeroU32, u64)| {
        // Below 2¹¹², as there are fewer than 2¹⁶ siblings.
        let part = (used * u128::from(weight.get())).max(1);
        let times = u128::from(*has) * weights;
        let (whole, rest) = (times / part, ((times % part) << 16) / part);
        // 2 · 2^−times, rounded to the unit.
        let power = u128::from(power_of_half((rest as u32) << 16)) * u128::from(FACTOR_MOST);
        let power = power >> whole.min(64);
        (((power + (1 << (POWER_BITS - 1))) >> POWER_BITS) as u32).clamp(FACTOR_LEAST, FACTOR_MOST)
    };
    if used == 0 { vec![FACTOR_ONE; siblings.len()] } else { siblings.iter().map(factor).collect() }
}

/// A weight times a factor in [`FACTOR_ONE`], in the unit of weights that all have after it.
#[must_use]
pub fn weighed(weight: NonZeroU32, factor: u32) -> NonZeroU32 {
    weight.saturating_mul(NonZeroU32::new(factor).unwrap_or(NonZeroU32::MIN))
}

/// What is left of a budget for urgent flows, when so much of it was used up to so long ago.
#[must_use]
pub fn budget_left(budget: u64, used: u64, elapsed: Duration) -> u64 {
    let back = u128::from(budget).saturating_mul(elapsed.as_nanos()) / BUDGET_PERIOD.as_nanos();
    let used = u128::from(used).saturating_sub(back);
    budget - u64::try_from(used).unwrap_or(u64::MAX).min(budget)
}

/// 2 to the power of −`exponent` · 2⁻³², in 2⁻⁶².
fn power_of_half(exponent: u32) -> u64 {
    let bits = ROOTS.iter().enumerate().filter(|(bit, _)| exponent >> (EXPONENT_BITS - 1 - *bit as u32) & 1 == 1);
    bits.fold(1 << POWER_BITS, |power, (_, root)| ((u128::from(power) * u128::from(*root)) >> POWER_BITS) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn bytes_count_half_after_each_half_life() {
        let week = 7 * DAY;
        let after = |elapsed| decayed(1 << 40, elapsed, week);
        assert_eq!([after(Duration::ZERO), after(week), after(3 * week)], [1 << 40, 1 << 39, 1 << 37]);
        for days in 0..70 {
            let right = 2_f64.powi(40) * (-f64::from(days) / 7.0).exp2();
            let has = after(days * DAY) as f64;
            assert!((has - right).abs() <= 1.0 + right * 1e-9, "{days} days: {has} is not {right}");
        }
        assert_eq!(decayed(u64::MAX, 64 * week, week), 0);
        assert_eq!(decayed(u64::MAX, Duration::MAX, Duration::from_nanos(1)), 0);
    }

    #[test]
    fn who_used_more_than_its_part_weighs_less() {
        let weight = |weight| NonZeroU32::new(weight).expect("above 0");
        let of = |siblings: &[(u32, u64)]| {
            factors(&siblings.iter().map(|(of, used)| (weight(*of), *used)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(2, 0), (1, 0)]), [256, 256]);
        assert_eq!(of(&[(2, 200), (1, 100)]), [256, 256]);
        assert_eq!(of(&[(1, 300), (1, 100)]), [181, 362]);
        assert_eq!(of(&[(1, 100), (1, 0), (1, 0)]), [64, 512, 512]);
        assert_eq!(of(&[(1, u64::MAX), (1_000_000, 0)]), [64, 512]);
        assert_eq!(of(&[(7, 5)]), [256]);
        assert_eq!(weighed(weight(3), 64).get(), 192);
        assert_eq!(weighed(NonZeroU32::MAX, 512), NonZeroU32::MAX);
    }

    #[test]
    fn a_budget_comes_back_in_30_days() {
        assert_eq!(budget_left(500, 0, Duration::ZERO), 500);
        assert_eq!(budget_left(500, 600, Duration::ZERO), 0);
        assert_eq!(budget_left(500, 500, 3 * DAY), 50);
        assert_eq!(budget_left(500, 500, 31 * DAY), 500);
        assert_eq!(budget_left(u64::MAX, u64::MAX, Duration::MAX), u64::MAX);
    }
}
