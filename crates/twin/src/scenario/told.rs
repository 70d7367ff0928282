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
    /// It could not go on.
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
