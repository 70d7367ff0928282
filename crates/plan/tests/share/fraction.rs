//! Exact numbers.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

/// A fraction in lowest terms, above a positive number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fraction {
    pub(crate) over: i128,
    pub(crate) under: i128,
}

impl Fraction {
    pub(crate) fn new(over: i128, under: i128) -> Fraction {
        assert!(under != 0, "nothing is divided by nothing");
        let (mut a, mut b) = (over.unsigned_abs(), under.unsigned_abs());
        while b > 0 {
            (a, b) = (b, a % b);
        }
        let common = i128::try_from(a.max(1)).expect("it is small") * under.signum();
        Fraction { over: over / common, under: under / common }
    }

    pub(crate) fn whole(number: u64) -> Fraction {
        Fraction { over: i128::from(number), under: 1 }
    }
}

impl Add for Fraction {
    type Output = Fraction;

    fn add(self, other: Fraction) -> Fraction {
        Fraction::new(self.over * other.under + other.over * self.under, self.under * other.under)
    }
}

impl Sub for Fraction {
    type Output = Fraction;

    fn sub(self, other: Fraction) -> Fraction {
        self + Fraction { over: -other.over, ..other }
    }
}

impl Mul for Fraction {
    type Output = Fraction;

    fn mul(self, other: Fraction) -> Fraction {
        Fraction::new(self.over * other.over, self.under * other.under)
    }
}

impl Div for Fraction {
    type Output = Fraction;

    fn div(self, other: Fraction) -> Fraction {
        Fraction::new(self.over * other.under, self.under * other.over)
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Fraction) -> Ordering {
        (self.over * other.under).cmp(&(other.over * self.under))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
