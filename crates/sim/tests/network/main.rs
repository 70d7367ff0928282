//! The link machine in the simulator, against what theory says of networks.

mod constant;
mod determinism;
mod link_truth;
mod reno;
mod reno_truth;

use std::time::Duration;

use model::network::{Direction, Probability};
use units::Rate;

/// More than any of these simulations needs.
const MOST_EVENTS: u64 = 10_000_000;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn p(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

fn line(rate: Option<Rate>, delay: Duration) -> Direction {
    Direction { rate, delay, ..Direction::default() }
}

/// Whether `value` is within `percent` of `expected`.
#[track_caller]
fn assert_close(value: f64, expected: f64, percent: f64) {
    let off = (value / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{value} is {off:+.2} % off {expected}");
}
