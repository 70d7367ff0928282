//! What derivatives are reckoned in: exact fractions, or floating point where fractions would be too long.

use std::ops::{Add, Div, Mul, Sub};

use num_rational::BigRational;

/// Numbers of derivatives: [`BigRational`] is exact, and grows with each bottleneck on the way; [`f64`] is for large problems.
pub trait Number:
    Clone + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// A fraction.
    fn ratio(over: u64, under: u64) -> Self;

    /// A whole number.
    #[must_use]
    fn whole(number: u64) -> Self {
        Self::ratio(number, 1)
    }

    /// Nothing.
    #[must_use]
    fn zero() -> Self {
        Self::whole(0)
    }
}

impl Number for BigRational {
    fn ratio(over: u64, under: u64) -> Self {
        BigRational::new(over.into(), under.into())
    }
}

impl Number for f64 {
    fn ratio(over: u64, under: u64) -> Self {
        over as f64 / under as f64
    }
}
