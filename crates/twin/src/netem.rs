//! The kernel's netem in the place of the emulator, where the kernel has it.

use anyhow::{Context, Result, bail};
use model::network::{Direction, LinkIndex, Loss, Network, QueueLimit};

use crate::plan::Plan;
use crate::tc::tc;

/// netem serialises frames, and rates are of IP packets: this is added to the length of each (tc-netem(8), PACKETOVERHEAD).
const OVERHEAD_BYTES: i32 = -14;
/// netem's own default: what it holds at least where nobody said how much may wait.
const LIMIT_MIN: u64 = 1000;

/// Sets what the links of a twin do to packets at their ends' devices.
///
/// # Errors
/// When the kernel has no netem, or a link asks for what netem does not do.
pub fn apply(network: &Network, plan: &Plan) -> Result<()> {
    let mut links = network.links.iter().enumerate().filter(|&(n, _)| plan.links[n].emulated);
    links.try_for_each(|(n, link)| set(plan, n, "add", [&link.forward, &link.backward], link.mtu))
}

/// Changes what a link does to packets from now on; those that it holds stay.
///
/// # Errors
/// When it asks for what netem does not do, or the kernel refuses.
pub fn change(plan: &Plan, link: LinkIndex, directions: &[Direction; 2], mtu: u32) -> Result<()> {
    set(plan, link, "change", directions.each_ref(), mtu)
}

fn set(plan: &Plan, link: LinkIndex, how: &str, directions: [&Direction; 2], mtu: u32) -> Result<()> {
    let planned = &plan.links[link];
    let both: Result<Vec<_>> = directions.into_iter().map(|direction| words(direction, mtu)).collect();
    let both = both.with_context(|| format!("link `{}`", planned.name))?;
    for (end, words) in planned.ends.iter().zip(both) {
        let device = ["qdisc", how, "dev", &end.device, "root", "netem"].map(str::to_owned);
        tc(&plan.nodes[end.node].namespace, &[&device[..], &words].concat()).with_context(|| {
            format!(
                "the kernel refuses netem on link `{}`: leave out netem, Longhaul's own emulator needs no module",
                planned.name
            )
        })?;
    }
    Ok(())
}

/// The direction in the words of tc-netem(8). Nothing is left out that a change would else leave as it was.
fn words(direction: &Direction, mtu: u32) -> Result<Vec<String>> {
    let mut words = vec!["limit".to_owned(), limit(direction, mtu).to_string()];
    let mut push = |more: &[String]| words.extend_from_slice(more);
    let us = |time: std::time::Duration| format!("{}us", time.as_micros());
    let percent = |p: model::network::Probability| format!("{:.7}%", p.as_f64() * 100.0);
    if direction.ecn.is_some() {
        bail!("netem does not mark packets by its queue: leave out `ecn`");
    }
    let (delay, jitter) = (direction.delay, direction.jitter);
    if jitter.amount.is_zero() {
        push(&["delay".to_owned(), us(delay)]);
    } else {
        if !jitter.reorder {
            bail!("netem lets packets overtake each other when there is jitter: say `reorder = true`");
        }
        // netem's jitter goes both ways from the middle.
        let half = jitter.amount / 2;
        push(&["delay".to_owned(), us(delay + half), us(half)]);
    }
    match direction.loss {
        Loss::None => push(&["loss".to_owned(), percent(model::network::Probability::ZERO)]),
        Loss::Random(p) => push(&["loss".to_owned(), percent(p)]),
        Loss::Bursts { to_bad, to_good, in_good, in_bad } => {
            // gemodel p r 1-h 1-k: 1-h is the loss in the bad state, 1-k in the good one.
            let state = ["loss", "gemodel"].map(str::to_owned);
            push(&state);
            push(&[percent(to_bad), percent(to_good), percent(in_bad), percent(in_good)]);
        }
    }
    push(&["duplicate".to_owned(), percent(direction.duplicate)]);
    push(&["corrupt".to_owned(), percent(direction.corrupt)]);
    // 0 is no limit.
    let rate = format!("{}bit", direction.rate.map_or(0, units::Rate::bps));
    push(&["rate".to_owned(), rate, OVERHEAD_BYTES.to_string()]);
    Ok(words)
}

/// Packets that netem holds, which counts nothing else: the queue and what is on the way, in packets of the link's MTU.
fn limit(direction: &Direction, mtu: u32) -> u64 {
    let packet_bytes = u64::from(mtu);
    let rate = direction.rate.map_or(u64::MAX, units::Rate::bps);
    let packets = |time: std::time::Duration| {
        let bits = u128::from(rate) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits / u128::from(8 * packet_bytes)).unwrap_or(u64::MAX)
    };
    let (queue, least) = match direction.queue {
        Some(QueueLimit::Packets(n)) => (u64::from(n), 1),
        Some(QueueLimit::Bytes(bytes)) => (bytes.get() / packet_bytes, 1),
        Some(QueueLimit::Time(time)) => (packets(time), 1),
        None => (packets(std::time::Duration::from_millis(100)), LIMIT_MIN),
    };
    let on_the_way = packets(direction.delay + direction.jitter.amount);
    queue.saturating_add(on_the_way).clamp(least, u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::network::{Jitter, Probability};
    use units::Rate;

    use super::*;

    #[test]
    fn a_long_lossy_link_in_words() {
        let direction = Direction {
            rate: Some(Rate::from_bps(12_000_000)),
            delay: Duration::from_millis(50),
            loss: Loss::Random(Probability::new(0.25).unwrap()),
            queue: Some(QueueLimit::Packets(2000)),
            ..Direction::default()
        };
        let written =
            "limit 2050 delay 50000us loss 25.0000000% duplicate 0.0000000% corrupt 0.0000000% rate 12000000bit -14";
        assert_eq!(words(&direction, 1500).unwrap().join(" "), written);
    }

    #[test]
    fn packets_of_the_mtu_are_held_and_no_more_than_asked_for() {
        let direction = |queue| Direction {
            rate: Some(Rate::from_bps(72_000_000)),
            delay: Duration::from_millis(10),
            queue,
            ..Direction::default()
        };
        // In 10 ms are 10 packets of 9000 bytes on the way, or 60 of 1500.
        for (queue, mtu, held) in [
            (Some(QueueLimit::Packets(10)), 9000, 20),
            (Some(QueueLimit::Packets(10)), 1500, 70),
            (Some(QueueLimit::Bytes(units::Bytes::new(90_000))), 9000, 20),
            (Some(QueueLimit::Time(Duration::from_millis(20))), 9000, 30),
            (None, 9000, LIMIT_MIN),
        ] {
            assert_eq!(limit(&direction(queue), mtu), held, "{queue:?}, {mtu}");
        }
        assert_eq!(limit(&Direction::default(), 1500), u64::from(u32::MAX), "nothing is told of a rate");
    }

    #[test]
    fn jitter_is_centred_and_must_reorder() {
        let jitter = |reorder| Direction {
            delay: Duration::from_millis(10),
            jitter: Jitter { amount: Duration::from_millis(4), reorder },
            ..Direction::default()
        };
        assert!(words(&jitter(true), 1500).unwrap().join(" ").contains("delay 12000us 2000us loss"));
        assert!(words(&jitter(false), 1500).is_err());
    }
}
