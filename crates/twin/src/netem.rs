//! The kernel's netem in the place of the emulator, where the kernel has it.

use std::process::Command;

use anyhow::{Context, Result, bail};
use model::network::{Direction, Loss, Network, QueueLimit};

use crate::plan::Plan;

/// Bytes of a packet, to make packets of a queue in bytes: netem counts packets.
const PACKET_BYTES: u64 = 1500;
/// netem's own default is 1000, which is a small part of a long link.
const LIMIT_MIN: u64 = 1000;

/// Sets what the links of a twin do to packets at their ends' devices.
///
/// # Errors
/// When the kernel has no netem, or a link asks for what netem does not do.
pub fn apply(network: &Network, plan: &Plan) -> Result<()> {
    for (link, planned) in network.links.iter().zip(&plan.links).filter(|(_, planned)| planned.emulated) {
        for (end, direction) in planned.ends.iter().zip([&link.forward, &link.backward]) {
            let namespace = &plan.nodes[end.node].namespace;
            let words = words(direction).with_context(|| format!("link `{}`", link.name))?;
            let output = Command::new("tc")
                .args(["-n", namespace, "qdisc", "add", "dev", &end.device, "root", "netem"])
                .args(&words)
                .output()
                .context("cannot run `tc`: install iproute2")?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                bail!(
                    "the kernel refuses netem on link `{}` ({}): leave out `--driver netem`, Longhaul's own emulator needs no module",
                    link.name,
                    said.trim().replace('\n', "; ")
                );
            }
        }
    }
    Ok(())
}

/// The direction in the words of tc-netem(8).
fn words(direction: &Direction) -> Result<Vec<String>> {
    let mut words = vec!["limit".to_owned(), limit(direction).to_string()];
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
        Loss::None => {}
        Loss::Random(p) => push(&["loss".to_owned(), percent(p)]),
        Loss::Bursts { to_bad, to_good, in_good, in_bad } => {
            // gemodel p r 1-h 1-k: 1-h is the loss in the bad state, 1-k in the good one.
            let state = ["loss", "gemodel"].map(str::to_owned);
            push(&state);
            push(&[percent(to_bad), percent(to_good), percent(in_bad), percent(in_good)]);
        }
    }
    if !direction.duplicate.is_zero() {
        push(&["duplicate".to_owned(), percent(direction.duplicate)]);
    }
    if !direction.corrupt.is_zero() {
        push(&["corrupt".to_owned(), percent(direction.corrupt)]);
    }
    if let Some(rate) = direction.rate {
        push(&["rate".to_owned(), format!("{}bit", rate.bps())]);
    }
    Ok(words)
}

/// Packets that netem holds: the queue and what is on the way.
fn limit(direction: &Direction) -> u64 {
    let rate = direction.rate.map_or(u64::MAX, units::Rate::bps);
    let packets = |time: std::time::Duration| {
        let bits = u128::from(rate) * time.as_nanos() / 1_000_000_000;
        u64::try_from(bits / u128::from(8 * PACKET_BYTES)).unwrap_or(u64::MAX)
    };
    let queue = match direction.queue {
        Some(QueueLimit::Packets(n)) => u64::from(n),
        Some(QueueLimit::Bytes(bytes)) => bytes.get() / PACKET_BYTES,
        Some(QueueLimit::Time(time)) => packets(time),
        None => packets(std::time::Duration::from_millis(100)),
    };
    queue.saturating_add(packets(direction.delay)).clamp(LIMIT_MIN, u64::from(u32::MAX))
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
        assert_eq!(words(&direction).unwrap().join(" "), "limit 2050 delay 50000us loss 25.0000000% rate 12000000bit");
    }

    #[test]
    fn jitter_is_centred_and_must_reorder() {
        let jitter = |reorder| Direction {
            delay: Duration::from_millis(10),
            jitter: Jitter { amount: Duration::from_millis(4), reorder },
            ..Direction::default()
        };
        assert!(words(&jitter(true)).unwrap().join(" ").ends_with("delay 12000us 2000us"));
        assert!(words(&jitter(false)).is_err());
    }
}
