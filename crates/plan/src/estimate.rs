//! What was measured, as the planner takes it: never the samples themselves.

use std::time::Duration;

/// Something that is known as well as it was measured, in the unit of what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The best guess.
    pub value: u64,
    /// It is hardly lower.
    pub low: u64,
    /// It is hardly higher.
    pub high: u64,
    /// For how long it is still good; none left is too old, `None` is for as long as what it is of.
    pub expires: Option<Duration>,
}

impl Estimate {
    /// One that is known exactly.
    #[must_use]
    pub fn exact(value: u64) -> Estimate {
        Estimate { value, low: value, high: value, expires: None }
    }

    /// One that is too old: it says nothing.
    #[must_use]
    pub fn expired() -> Estimate {
        Estimate { value: 0, low: 0, high: u64::MAX, expires: Some(Duration::ZERO) }
    }

    /// Whether it still says something.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.expires.is_none_or(|left| !left.is_zero())
    }

    /// Of two things together, for as long as both are known.
    #[must_use]
    pub fn and(self, other: Estimate) -> Estimate {
        let sum = u64::saturating_add;
        Estimate {
            value: sum(self.value, other.value),
            low: sum(self.low, other.low),
            high: sum(self.high, other.high),
            expires: [self.expires, other.expires].into_iter().flatten().min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_together_are_known_for_as_long_as_both_and_no_better_than_they() {
        let one = Estimate { value: 3, low: 2, high: 5, expires: Some(Duration::from_secs(7)) };
        let other = Estimate { value: 10, low: 10, high: u64::MAX, expires: Some(Duration::from_secs(9)) };
        let both = Estimate { value: 13, low: 12, high: u64::MAX, expires: Some(Duration::from_secs(7)) };
        assert_eq!((one.and(other), other.and(one)), (both, both));
        assert_eq!(one.and(Estimate::exact(1)).expires, one.expires);
        assert!(one.is_valid() && Estimate::exact(0).is_valid());
        assert!(!one.and(Estimate::expired()).is_valid());
    }
}
