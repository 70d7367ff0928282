//! A Reno flow over the link machine, against the formulas for it.

use std::time::Duration;

use model::network::{Direction, Loss, QueueLimit};
use units::Rate;

use crate::reno::{Flow, MSS};
use crate::{MS, SECOND, assert_close, line, p};

#[test]
fn throughput_follows_mathis() {
    // Rate = MSS / RTT × √(3/2) / √p (Mathis, Semke, Mahdavi, Ott 1997; every segment acknowledged), over a link that is not full.
    for (seed, rtt_ms) in [(1, 10), (2, 100)] {
        for (loss, losses) in [(0.001, 150.0), (0.004, 300.0)] {
            let segments_per_rtt = (1.5_f64 / loss).sqrt();
            let rtts = losses / loss / segments_per_rtt;
            let there = line(Some(Rate::gbps(1)), Duration::from_micros(rtt_ms * 500));
            let lossy = Direction { loss: Loss::Random(p(loss)), ..there.clone() };
            let mut flow = Flow::new(seed, &lossy, &there, u64::MAX);
            // The start is not part of it.
            flow.run_until(50 * rtt_ms * MS);
            let before = flow.delivered();
            let time = (rtts as u64) * rtt_ms * MS;
            flow.run_until(50 * rtt_ms * MS + time);
            let rate = (flow.delivered() - before) as f64 * f64::from(MSS) * 8.0 / time as f64 * 1e9;
            let mathis = f64::from(MSS) * 8.0 / (rtt_ms as f64 / 1e3) * segments_per_rtt;
            assert_close(rate, mathis, 20.0);
            assert_eq!(flow.simulator.counters(flow.link).dropped.queue.segments, 0, "the link was full");
        }
    }
}

#[test]
fn one_loss_takes_its_time_to_recover_from() {
    // ρ = C × RTT² / (2 × MSS): a segment more in each round trip, until the half that was given up is back.
    for (rate, rtt_ms) in [(Rate::mbps(20), 100_u64), (Rate::mbps(100), 40), (Rate::mbps(100), 20)] {
        let rtt = Duration::from_millis(rtt_ms);
        // As many full segments as the path holds, so that there is no queue before the loss and none after it.
        let window = rate.in_flight(rtt).get() / u64::from(MSS + 40);
        let there = line(Some(rate), rtt / 2);
        let mut flow = Flow::new(1, &there, &line(None, rtt / 2), window);
        flow.run_until(5 * SECOND);
        assert!(flow.sender().full_at.is_some(), "the window is open");
        // All is lost for as long as one segment takes.
        let serialised = 12_000_000_000_000 / rate.bps();
        flow.simulator.set(flow.link, &Direction { loss: Loss::Random(p(1.0)), ..there.clone() });
        let lost_at = 5 * SECOND + serialised;
        flow.run_until(lost_at);
        flow.simulator.set(flow.link, &there);
        flow.run_until(20 * SECOND);
        assert_eq!(flow.simulator.counters(flow.link).dropped.loss.segments, 1);
        assert_eq!((flow.sender().halvings, flow.sender().timeouts), (1, 0));
        // The sender hears of it a round trip later, and the formula begins there.
        let full_at = flow.sender().full_at.expect("it has recovered");
        let recovered = (full_at - lost_at) as f64 / 1e9 - rtt.as_secs_f64();
        let rho = rate.bps() as f64 * rtt.as_secs_f64().powi(2) / (2.0 * f64::from(MSS) * 8.0);
        assert_close(recovered, rho, 15.0);
    }
}

#[test]
fn an_open_window_fills_a_link() {
    // A queue of one bandwidth × delay is never empty with Reno: it halves to what the path holds.
    let rate = Rate::mbps(50);
    let back = line(Some(rate), Duration::from_millis(10));
    let there = Direction { queue: Some(QueueLimit::Time(Duration::from_millis(21))), ..back.clone() };
    let mut flow = Flow::new(1, &there, &back, u64::MAX);
    flow.run_until(5 * SECOND);
    let (before, delivered) = (flow.simulator.counters(flow.link), flow.delivered());
    flow.run_until(15 * SECOND);
    let after = flow.simulator.counters(flow.link);
    assert!(after.dropped.queue.segments > before.dropped.queue.segments, "it has been full");
    assert!(after.utilisation_ppm(&before) > 999_000, "{} ppm", after.utilisation_ppm(&before));
    let goodput = (flow.delivered() - delivered) as f64 * f64::from(MSS) * 8.0 / 10.0;
    assert_close(goodput, rate.bps() as f64 * f64::from(MSS) / 1500.0, 1.0);
}

#[test]
fn a_cut_is_survived_by_a_timeout() {
    let there = line(Some(Rate::mbps(10)), Duration::from_millis(10));
    let mut flow = Flow::new(1, &there, &there, 20);
    flow.run_until(SECOND);
    flow.simulator.cut(flow.link);
    flow.run_until(2 * SECOND);
    let at_the_cut = flow.delivered();
    flow.simulator.heal(flow.link);
    flow.run_until(5 * SECOND);
    assert!(flow.sender().timeouts >= 4, "{} in a second", flow.sender().timeouts);
    // Full again for most of three seconds, of 833 segments each.
    assert!(flow.delivered() - at_the_cut > 2000, "{}", flow.delivered() - at_the_cut);
}
