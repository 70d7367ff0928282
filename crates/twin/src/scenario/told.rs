//! What a run tells.

use std::time::Duration;

use model::network::Network;
use serde::Serialize;

use crate::control::LinkState;
use crate::stats::Stats;

/// Something that happened. Seconds are since the begin.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Told {
    /// The twin is up; this is the begin.
    Up {
        /// Always 0.
        seconds: f64,
        /// Its name.
        twin: String,
        /// That of its network.
        network: String,
    },
    /// A link was changed.
    Link {
        /// When.
        seconds: f64,
        /// Its name.
        link: String,
        /// Only this way.
        way: Option<&'static str>,
        /// `cut`, `healed`, or what was set: `rate 500 Mb/s`.
        change: Vec<String>,
    },
    /// A program is about to start.
    Started {
        /// When.
        seconds: f64,
        /// What the scenario calls it.
        program: String,
        /// Where.
        host: String,
        /// With its arguments.
        command: Vec<String>,
    },
    /// A program has ended, or could not start.
    Ended {
        /// When.
        seconds: f64,
        /// What the scenario calls it.
        program: String,
        /// Where.
        host: String,
        /// As shells count: 128 and the signal that killed it. None if it did not start.
        exit_code: Option<u8>,
        /// It did what is asked of it.
        ok: bool,
        /// It was ended because the scenario was over.
        stopped: bool,
        /// What it did not do.
        why: Option<String>,
        /// The last of what it wrote.
        stdout: String,
        /// The last of what it wrote there.
        stderr: String,
    },
    /// A counter was judged.
    Assertion {
        /// When.
        seconds: f64,
        /// Of this link.
        link: String,
        /// This way.
        way: &'static str,
        /// Which.
        counter: &'static str,
        /// Packets, bytes, nanoseconds, bits per second or parts per million.
        value: u64,
        /// The least it may be.
        min: Option<u64>,
        /// The most.
        max: Option<u64>,
        /// It is so.
        ok: bool,
        /// For people.
        text: String,
    },
    /// Whether what was sent = what was delivered + dropped + queued, on every link.
    Conservation {
        /// When.
        seconds: f64,
        /// It is so.
        ok: bool,
        /// Where not.
        broken: Vec<String>,
    },
    /// Numbers are not to be trusted.
    Warning {
        /// When.
        seconds: f64,
        /// Which and why.
        text: String,
    },
    /// It could not go on, or what it measured is wrong.
    Failure {
        /// When.
        seconds: f64,
        /// Why.
        text: String,
    },
    /// The end: always the last.
    Summary(Summary),
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Everything held.
    pub ok: bool,
    /// How long it took, without bringing the twin up and taking it down.
    pub seconds: f64,
    /// How much was judged.
    pub checks: u32,
    /// What did not hold, a line each.
    pub failures: Vec<String>,
    /// Packets left too late for numbers to be trusted.
    pub emulator_late: bool,
    /// Each way of each emulated link at the end.
    pub links: Vec<LinkStats>,
}

/// One way of a link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkStats {
    /// Its name.
    pub link: String,
    /// From this node
    pub from: String,
    /// to this one.
    pub to: String,
    /// What happened.
    pub stats: Stats,
}

impl LinkStats {
    /// For people.
    pub(super) fn called(&self) -> String {
        format!("link {} {}→{}", self.link, self.from, self.to)
    }
}

/// What the emulator lost that no link was to lose, if anything: programs saw a worse network than the one described.
pub(super) fn unplanned(links: &[LinkStats]) -> Option<String> {
    let lossy = links.iter().filter(|link| link.stats.unplanned.total() > 0);
    let lost: Vec<String> = lossy
        .map(|link| {
            let of = &link.stats.unplanned;
            let causes = [
                (of.no_memory, "for want of memory"),
                (of.malformed, "not IP"),
                (of.refused, "not taken by the other end"),
                (of.tx_dropped, "dropped by the kernel before they could be read"),
            ];
            let causes = causes.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
            format!("{}: {}", link.called(), causes.collect::<Vec<_>>().join(", "))
        })
        .collect();
    (!lost.is_empty()).then(|| format!("the emulator lost packets that no link drops: {}", lost.join("; ")))
}

pub(super) fn links(network: &Network, states: &[Option<LinkState>]) -> Vec<LinkStats> {
    let node = |node: usize| network.nodes[node].name.clone();
    let emulated = network.links.iter().zip(states).filter_map(|(link, state)| Some((link, state.as_ref()?)));
    let ways = emulated.flat_map(|(link, state)| {
        let ends = [(link.from, link.to), (link.to, link.from)];
        ends.into_iter().zip(&state.stats).map(move |(ends, stats)| (link, ends, stats))
    });
    ways.map(|(link, (from, to), stats)| LinkStats {
        link: link.name.clone(),
        from: node(from),
        to: node(to),
        stats: stats.clone(),
    })
    .collect()
}

/// To the millisecond.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::UnplannedCounts;

    #[test]
    fn what_the_emulator_lost_is_told_with_its_link() {
        let way = |from: &str, to: &str, unplanned| LinkStats {
            link: "ab".to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            stats: Stats { unplanned, conserved: true, ..Stats::default() },
        };
        let clean = way("a", "b", UnplannedCounts::default());
        assert_eq!(unplanned(std::slice::from_ref(&clean)), None);
        let lossy = way("b", "a", UnplannedCounts { no_memory: 3, malformed: 0, refused: 1, tx_dropped: 2 });
        let text = "the emulator lost packets that no link drops: \
                    link ab b→a: 3 for want of memory, 1 not taken by the other end, 2 dropped by the kernel before they could be read";
        assert_eq!(unplanned(&[clean, lossy]).as_deref(), Some(text));
    }
}
