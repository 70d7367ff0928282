//! Rate, queue delay, loss and bursts as a receiver sees them.

use std::time::Duration;

use model::network::{Direction, Loss, QueueLimit};
use sim::link::Shape;
use units::{Bytes, Rate};

use crate::constant::{Constant, Pair};
use crate::{MS, SECOND, assert_close, line, p};

const FULL: Shape = Shape::single(40, 1460);
const SUPER: Shape = Shape { header: 40, payload: 44 * 1460, segment: 1460, markable: false };

#[test]
fn the_rate_is_what_was_set() {
    for rate in [Rate::mbps(10), Rate::mbps(333), Rate::gbps(1)] {
        // Packets come twice as fast as the link is, 20,000 of them.
        let serialised = 12_000_000_000_000 / rate.bps();
        let direction = line(Some(rate), Duration::from_millis(20));
        let mut pair = Pair::new(1, &direction, Constant::sender(FULL, serialised / 2, 20_000));
        pair.run_until(20_000 * serialised / 2);
        let (first, last) = (pair.received()[0], pair.received()[pair.received().len() - 1]);
        let bits = (pair.received().len() - 1) as f64 * 12_000.0;
        assert_close(bits / (last.at - first.at) as f64 * 1e9, rate.bps() as f64, 0.001);
    }
}

#[test]
fn super_packets_arrive_at_the_rate_too() {
    let direction = line(Some(Rate::gbps(1)), Duration::from_millis(20));
    let mut pair = Pair::new(1, &direction, Constant::sender(SUPER, 44 * 6000, 400));
    pair.run_until(SECOND / 2);
    let received = pair.received();
    assert!(received.windows(2).all(|pair| pair[1].at - pair[0].at == 12_000), "a segment every 12 µs");
    assert_eq!(received[0].at, 20_012_000);
}

#[test]
fn a_full_queue_has_its_delay() {
    let limits = [
        (QueueLimit::Bytes(Bytes::new(1_250_000)), 100.0),
        (QueueLimit::Packets(1000), 120.0),
        (QueueLimit::Time(Duration::from_millis(50)), 50.0),
    ];
    for (limit, expected_ms) in limits {
        let direction = Direction { queue: Some(limit), ..line(Some(Rate::mbps(100)), Duration::from_millis(30)) };
        let mut pair = Pair::new(1, &direction, Constant::sender(FULL, 60_000, 20_000));
        pair.run_until(1200 * MS);
        let last = pair.received()[pair.received().len() - 1];
        let waited = (last.at - last.stamp.sent) as f64 / 1e6 - 30.0;
        assert_close(waited, expected_ms, 2.0);
        let depth = pair.simulator.counters(pair.link).queue_depth;
        assert_close(depth.max() as f64, expected_ms * 12_500.0, 2.0);
    }
}

#[test]
fn loss_is_within_its_binomial_interval() {
    for (seed, loss) in [(1, 0.1), (2, 0.01), (3, 0.001)] {
        let packets = 100_000_u64;
        let direction = Direction { loss: Loss::Random(p(loss)), ..line(Some(Rate::gbps(1)), Duration::ZERO) };
        let mut pair = Pair::new(seed, &direction, Constant::sender(FULL, 12_000, packets));
        pair.run_until(2 * SECOND);
        let lost = packets - pair.received().len() as u64;
        // 99.9 % of all seeds are within 3.3 standard deviations.
        let sigma = (packets as f64 * loss * (1.0 - loss)).sqrt();
        let off = (lost as f64 - packets as f64 * loss).abs();
        assert!(off <= 3.3 * sigma, "{lost} of {packets} lost at {loss}");
        assert_eq!(pair.simulator.counters(pair.link).dropped.loss.segments, lost);
    }
}

#[test]
fn bursts_have_their_lengths() {
    // A bad spell is 1 / 0.25 = 4 segments long in the mean, and 0.75^(n-1) of them are at least n long.
    let loss = Loss::Bursts { to_bad: p(0.01), to_good: p(0.25), in_good: p(0.0), in_bad: p(1.0) };
    let direction = Direction { loss, ..line(Some(Rate::gbps(1)), Duration::ZERO) };
    let mut pair = Pair::new(1, &direction, Constant::sender(SUPER, 44 * 12_000, 5000));
    pair.run_until(4 * SECOND);
    let position = |received: &crate::constant::Received| received.stamp.number * 44 + u64::from(received.index);
    let gaps = pair.received().windows(2).map(|pair| position(&pair[1]) - position(&pair[0]) - 1);
    let bursts: Vec<u64> = gaps.filter(|gap| *gap > 0).collect();
    let share_from = |least: u64| bursts.iter().filter(|burst| **burst >= least).count() as f64 / bursts.len() as f64;
    assert!(bursts.len() > 1900, "{} bursts", bursts.len());
    assert_close(bursts.iter().sum::<u64>() as f64 / bursts.len() as f64, 4.0, 7.0);
    assert_close(share_from(2), 0.75, 5.0);
    assert_close(share_from(4), 0.75_f64.powi(3), 10.0);
    assert_close(share_from(8), 0.75_f64.powi(7), 25.0);
}
