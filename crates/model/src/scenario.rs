//! A scenario: what happens in a network and on its hosts, when, and what must hold.
//!
//! ```toml
//! network = "pair"
//! duration = "30 s"
//!
//! [[run]]
//! host = "a"
//! command = ["ping", "-c", "50", "-i", "0.1", "b"]
//!
//! [[event]]
//! at = "2 s"
//! link = "ab"
//! cut = true
//!
//! [[assert]]
//! link = "ab"
//! way = "forward"
//! counter = "dropped.cut"
//! min = 1
//! ```
//!
//! A [`Scenario`] is checked: its hosts and links are in its network, its times within its duration.

mod counter;
mod read;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::network::error::NetworkError;
use crate::network::{LinkIndex, Network, NodeIndex, Ratio};

pub use counter::{Counter, Over, Unit};

/// Why a file is no scenario, with line and thing: of one form with what is said of networks.
pub type ScenarioError = NetworkError;

/// Bytes of a scenario's text.
pub const TEXT_MAX: usize = 1 << 20;
/// The longest that a scenario may take.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Events, and assertions, of one scenario.
pub const ENTRIES_MAX: usize = 10_000;
/// Programs of one scenario: each has a process and two threads that read what it writes.
pub const PROGRAMS_MAX: usize = 256;

/// What happens, when, and what must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is, in a sentence.
    pub about: Option<String>,
    /// Where it happens, before [`Scenario::scale`].
    pub network: Network,
    /// What rates, and queues in bytes or packets, are multiplied by. Events and assertions are not.
    pub scale: Ratio,
    /// What is random follows from it.
    pub seed: u64,
    /// What carries the packets; [`Scenario::check_driver`] says whether it can be another.
    pub driver: Driver,
    /// It ends here at the latest; before, when all has happened that has a time and no program is waited for.
    pub duration: Duration,
    /// Changes of links.
    pub events: Vec<Event>,
    /// Programs on hosts.
    pub programs: Vec<Program>,
    /// What must hold of links.
    pub assertions: Vec<Assertion>,
}

/// What carries the packets of links that are not plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// Longhaul's own emulator.
    #[default]
    Own,
    /// The kernel's netem, where it has one. It does not count what assertions are about.
    Netem,
}

/// A change of a link, or of all members of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, from the begin.
    pub at: Duration,
    /// The link or bundle as it is named.
    pub link: String,
    /// The links.
    pub links: Vec<LinkIndex>,
    /// Only this way.
    pub way: Option<Way>,
    /// Healed or cut.
    pub up: Option<bool>,
    /// For [`crate::network::Direction::change`], which takes them all: key and text.
    pub changes: Vec<(String, String)>,
}

/// A way along a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From the first end in the description to the second.
    Forward,
    /// Back.
    Backward,
}

/// A program on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What messages call it; no two have the same.
    pub name: String,
    /// When it starts.
    pub at: Duration,
    /// Where.
    pub host: NodeIndex,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Nobody waits for it: what still runs at the end is ended then.
    pub background: bool,
    /// It is killed, and has failed, when it runs longer.
    pub timeout: Option<Duration>,
    /// What it must end with by itself, as shells count (128 and the signal that killed it); `None` for anything.
    pub exit_code: Option<u8>,
    /// What its standard output must have, in the part of it that is kept.
    pub stdout_contains: Option<String>,
}

/// What must hold of a counter of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// When it is looked at; `None` at the end.
    pub at: Option<Duration>,
    /// What is counted, from here on. Just before what happens at this time, as with `at`.
    pub since: Option<Duration>,
    /// The link or bundle as it is named.
    pub link: String,
    /// The links: it must hold of each.
    pub links: Vec<LinkIndex>,
    /// Only this way; else it must hold of both.
    pub way: Option<Way>,
    /// Of what.
    pub counter: Counter,
    /// The least, in the base of [`Counter::unit`].
    pub min: Option<u64>,
    /// The most.
    pub max: Option<u64>,
}

/// Something that has its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Look at the counters, and judge the assertions of this time.
    Look,
    /// Index in [`Scenario::events`].
    Event(usize),
    /// Index in [`Scenario::programs`].
    Start(usize),
}

impl Scenario {
    /// Reads a scenario; `file_name` is what messages call it. `load` gives the network that it names, or why not.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_toml(
        text: &str,
        file_name: &str,
        load: impl FnOnce(&str) -> Result<Network, String>,
    ) -> Result<Scenario, ScenarioError> {
        read::scenario(text, file_name, load)
    }

    /// Whether what the scenario asks for can be had from `driver`.
    ///
    /// # Errors
    /// In one line, what cannot.
    pub fn check_driver(&self, driver: Driver) -> Result<(), String> {
        if driver == Driver::Netem && !self.assertions.is_empty() {
            return Err("netem does not count what assertions are about: leave out `[[assert]]`, or netem".to_owned());
        }
        Ok(())
    }

    /// All that has a time, in order. Of one time looks come first, then events, then programs, each in the order of the file.
    #[must_use]
    pub fn steps(&self) -> Vec<(Duration, Step)> {
        let looks = self.assertions.iter().flat_map(|assertion| [assertion.since, assertion.at]).flatten();
        let looks: BTreeSet<Duration> = looks.collect();
        let looks = looks.into_iter().map(|at| (at, Step::Look));
        let events = self.events.iter().enumerate().map(|(n, event)| (event.at, Step::Event(n)));
        let programs = self.programs.iter().enumerate().map(|(n, program)| (program.at, Step::Start(n)));
        let mut steps: Vec<_> = looks.chain(events).chain(programs).collect();
        steps.sort();
        steps
    }
}

impl Driver {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Driver::Own => "own",
            Driver::Netem => "netem",
        }
    }
}

impl Way {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Forward => "forward",
            Way::Backward => "backward",
        }
    }

    /// The ways that are meant: this, or both.
    #[must_use]
    pub fn of(only: Option<Way>) -> Vec<Way> {
        only.map_or_else(|| vec![Way::Forward, Way::Backward], |way| vec![way])
    }

    /// 0 or 1: the place among the directions of a link.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Way::Forward => 0,
            Way::Backward => 1,
        }
    }
}

impl Assertion {
    /// Whether a value is within the bounds.
    #[must_use]
    pub fn holds(&self, value: u64) -> bool {
        self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
    }

    /// The bounds in words: `at least 900 Mb/s and at most 1 Gb/s`.
    #[must_use]
    pub fn bounds(&self) -> String {
        let unit = self.counter.unit();
        let bound = |bound: Option<u64>, word: &str| bound.map(|bound| format!("at {word} {}", unit.exact(bound)));
        [bound(self.min, "least"), bound(self.max, "most")].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}
