//! From what experiments take to what links must carry.

use model::requirements::{Growth, Requirements};
use units::Goodput;

/// What requirements come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Of all experiments together.
    pub sum: Goodput,
    /// After each factor in turn.
    pub products: Vec<Goodput>,
    /// Of each target.
    pub targets: Vec<Goodput>,
}

/// What requirements come to is beyond what can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the factors make more of it than can be counted, {:#}: check them", Goodput::MAX)]
pub struct TooMuch;

impl Needs {
    /// Of these requirements; fractions of a bit per second are cut off.
    ///
    /// # Errors
    /// When a product is too large.
    pub fn of(requirements: &Requirements) -> Result<Needs, TooMuch> {
        // The reader bounds experiments and their number.
        let sum: Goodput = requirements.experiments.iter().map(|experiment| experiment.sum()).sum();
        let mut products: Vec<Goodput> = Vec::new();
        for factor in &requirements.factors {
            let before = products.last().copied().unwrap_or(sum);
            let product = factor.times.of(before.bps());
            if product == u64::MAX {
                return Err(TooMuch);
            }
            products.push(Goodput::from_bps(product));
        }
        let targets = requirements.targets.iter().map(|target| {
            let whole = if target.after == 0 { sum } else { products[target.after - 1] };
            // A share is at most the whole.
            Goodput::from_bps((u128::from(whole.bps()) * u128::from(target.share_ppm) / 1_000_000) as u64)
        });
        let targets = targets.collect();
        Ok(Needs { sum, products, targets })
    }
}

/// What a growth is each year: 0.36 for 36 % a year.
#[must_use]
pub fn yearly(growth: Growth) -> f64 {
    growth.times.as_f64().powf(1.0 / f64::from(growth.years)) - 1.0
}

#[cfg(test)]
mod tests {
    use model::network::Ratio;

    use super::*;

    fn read(rest: &str) -> Requirements {
        let head = "name = \"x\"\n[[experiment]]\nname = \"a\"\nrate = \"10 Gb/s\"\n";
        Requirements::from_toml(&format!("{head}{rest}"), "x.toml").unwrap()
    }

    #[test]
    fn the_published_table() {
        let needs = Needs::of(&Requirements::hl_lhc()).unwrap();
        assert_eq!(needs.sum, Goodput::gbps(1_200));
        assert_eq!(needs.products, [2_400, 4_800, 9_600].map(Goodput::gbps));
        // 300 GB/s.
        assert_eq!(needs.targets, [Goodput::gbps(300 * 8)]);
    }

    #[test]
    fn growth_by_the_year() {
        let growth = Requirements::hl_lhc().growth.unwrap();
        assert_eq!(growth, Growth { times: Ratio::new(12, 1).unwrap(), years: 8 });
        assert_eq!((yearly(growth) * 100.0).round(), 36.0);
        let shrinks = Growth { times: Ratio::new(1, 4).unwrap(), years: 2 };
        assert_eq!(yearly(shrinks), -0.5);
    }

    #[test]
    fn targets_of_the_sum_and_of_a_product() {
        let targets = "[[target]]\nname = \"t\"\nshare = \"50 %\"\n";
        assert_eq!(Needs::of(&read(targets)).unwrap().targets, [Goodput::gbps(5)]);
        let factor = "[[factor]]\nname = \"f\"\ntimes = 0.5\n";
        assert_eq!(Needs::of(&read(&format!("{factor}{targets}"))).unwrap().targets, [Goodput::mbps(2500)]);
    }

    #[test]
    fn what_cannot_be_counted_is_told() {
        let factor = |n: u32| format!("[[factor]]\nname = \"f{n}\"\ntimes = 1000000\n");
        let rest: String = (0..2).map(factor).collect();
        assert_eq!(Needs::of(&read(&rest)), Err(TooMuch));
        assert!(TooMuch.to_string().ends_with("check them"));
    }
}
