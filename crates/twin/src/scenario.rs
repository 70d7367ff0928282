//! Runs a scenario: brings its twin up, does everything on time, judges, and takes the twin down whatever happened.

mod counters;
mod program;
mod told;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use model::network::{LinkIndex, Network};
use model::scenario::{Assertion, Driver, Event, Scenario, Step, Way};
use units::Span;

use crate::control::LinkState;
use crate::down::down;
use crate::links::Links;
use crate::place::{Place, Record};
use crate::plan::Plan;
use crate::stats::Spread;
use crate::up::{Up, up};

use counters::value;
use program::{End, Running};
pub use told::{LinkStats, Summary, Told};

/// How often programs are looked at: who wrote its last is looked at at once.
const LOOK: Duration = Duration::from_millis(20);
/// How long programs may take to end when they are asked to at the end, before they are killed.
const END_MAX: Duration = Duration::from_secs(2);

/// What wakes a run.
pub struct Mailbox {
    wakes: Receiver<()>,
    stopper: Stopper,
}

/// Ends a run early.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    /// One that waits is enough.
    wake: SyncSender<()>,
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        let (wake, wakes) = sync_channel(1);
        Mailbox { wakes, stopper: Stopper { stop: Arc::new(AtomicBool::new(false)), wake } }
    }
}

impl Mailbox {
    /// What ends the run that has this mailbox.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

impl Stopper {
    /// The run ends as soon as it can, and has failed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // Full: it is about to wake.
        let _ = self.wake.try_send(());
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs a scenario in a twin at `place`, which is gone afterwards. `driver` carries its packets
/// ([`Scenario::check_driver`] has allowed it), `program` is this program. What happens is given to `tell` as it does, the
/// summary last.
///
/// # Errors
/// When the twin could not be brought up: nothing was told and nothing is left then. What fails later is in the summary.
pub fn run(
    scenario: &Scenario,
    driver: Driver,
    place: &Place,
    program: &Path,
    mailbox: &Mailbox,
    tell: &mut dyn FnMut(&Told),
) -> Result<Summary> {
    let network = scenario.network.scaled(scenario.scale);
    let record = Record { driver, seed: scenario.seed, scale: scenario.scale.to_string() };
    let Up { plan, emulator } = up(place, &network, &record, program)?;
    let life = Life { place, emulator };
    let links = Links::of(place)?;
    let mut run = Run {
        scenario,
        network: &network,
        plan: &plan,
        links,
        place,
        mailbox,
        tell,
        begin: Instant::now(),
        running: Vec::new(),
        looks: BTreeMap::new(),
        summary: Summary::default(),
    };
    run.tell(Told::Up { seconds: 0.0, twin: place.name().to_owned(), network: network.name.clone() });
    if let Err(error) = run.play().and_then(|()| run.judge()) {
        run.fail(format!("{error:#}"));
    }
    run.end_programs();
    run.summary.seconds = run.seconds();
    let Run { mut summary, tell, .. } = run;
    if let Err(error) = life.end() {
        summary.failures.push(format!("{error:#}"));
    }
    summary.ok = summary.failures.is_empty();
    tell(&Told::Summary(summary.clone()));
    Ok(summary)
}

/// A twin that goes when this does.
struct Life<'a> {
    place: &'a Place,
    emulator: Option<Child>,
}

impl Life<'_> {
    fn end(mut self) -> Result<()> {
        self.down()
    }

    /// The second time nothing is left to be done.
    fn down(&mut self) -> Result<()> {
        let name = self.place.name();
        if self.place.exists() {
            down(self.place).with_context(|| format!("the twin `{name}` is not gone: `longhaul twin down {name}`"))?;
        }
        if let Some(mut emulator) = self.emulator.take() {
            // Else it would be left to process 1, which not everywhere waits for what it did not start.
            emulator.wait()?;
        }
        Ok(())
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.down() {
            tracing::warn!("{error:#}");
        }
    }
}

type States = Vec<Option<LinkState>>;

struct Run<'a> {
    scenario: &'a Scenario,
    network: &'a Network,
    plan: &'a Plan,
    links: Links<'a>,
    place: &'a Place,
    mailbox: &'a Mailbox,
    tell: &'a mut dyn FnMut(&Told),
    begin: Instant,
    running: Vec<Running>,
    /// The counters at the times that assertions are about.
    looks: BTreeMap<Duration, States>,
    summary: Summary,
}

impl Run<'_> {
    fn tell(&mut self, told: Told) {
        (self.tell)(&told);
    }

    fn fail(&mut self, why: String) {
        self.tell(Told::Failure { seconds: self.seconds(), text: why.clone() });
        self.summary.failures.push(why);
    }

    fn seconds(&self) -> f64 {
        told::seconds(self.begin.elapsed())
    }

    /// Does everything on time, until all is done, the time is over, or it is stopped.
    fn play(&mut self) -> Result<()> {
        let mut steps = self.scenario.steps().into_iter().peekable();
        loop {
            let now = self.begin.elapsed();
            while let Some((at, step)) = steps.next_if(|(at, _)| *at <= now) {
                self.step(at, step)?;
            }
            self.reap();
            if self.mailbox.stopper.is_stopped() {
                return Err(anyhow!("interrupted"));
            }
            let awaited = self.running.iter().any(|running| !self.scenario.programs[running.index].background);
            let next = steps.peek().map(|(at, _)| *at);
            if next.is_none() && !awaited {
                return Ok(());
            }
            let now = self.begin.elapsed();
            if now >= self.scenario.duration && next.is_none() {
                return Ok(());
            }
            let until = next.unwrap_or(self.scenario.duration).saturating_sub(now);
            let wait = if self.running.is_empty() { until } else { until.min(LOOK) };
            // It matters only that it woke.
            let _ = self.mailbox.wakes.recv_timeout(wait);
        }
    }

    fn step(&mut self, at: Duration, step: Step) -> Result<()> {
        match step {
            Step::Look => self.look(at),
            Step::Event(n) => self.event(&self.scenario.events[n]),
            Step::Start(n) => {
                self.start(n);
                Ok(())
            }
        }
    }

    fn look(&mut self, at: Duration) -> Result<()> {
        let states = self.links.states()?;
        let due = self.scenario.assertions.iter().filter(|assertion| assertion.at == Some(at));
        due.for_each(|assertion| self.assert(assertion, &states));
        self.looks.insert(at, states);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        for &link in &event.links {
            let name = &self.network.links[link].name;
            self.change(link, event).with_context(|| format!("link `{name}`"))?;
            let state = event.up.map(|up| if up { "healed" } else { "cut" }.to_owned());
            let changes = event.changes.iter().map(|(key, text)| format!("{key} {text}"));
            let change = state.into_iter().chain(changes).collect();
            let (seconds, link, way) = (self.seconds(), name.clone(), event.way.map(Way::name));
            self.tell(Told::Link { seconds, link, way, change });
        }
        Ok(())
    }

    fn change(&mut self, link: LinkIndex, event: &Event) -> Result<()> {
        if !event.changes.is_empty() {
            self.links.change(link, event.way, &event.changes)?;
        }
        event.up.map_or(Ok(()), |up| self.links.set_up(link, up))
    }

    fn start(&mut self, index: usize) {
        let program = &self.scenario.programs[index];
        let node = &self.plan.nodes[program.host];
        let (name, host, command) = (program.name.clone(), node.name.clone(), program.command.clone());
        self.tell(Told::Started { seconds: self.seconds(), program: name, host, command });
        match Running::start(index, program, node, self.place, self.mailbox.stopper.clone()) {
            Ok(running) => self.running.push(running),
            Err(error) => {
                let why = format!("{error:#}");
                self.ended(index, &End { failure: Some(why), ..End::default() });
            }
        }
    }

    /// Judges the programs that have ended, and ends those that ran too long.
    fn reap(&mut self) {
        let mut ended = Vec::new();
        self.running.retain_mut(|running| match running.poll(&self.scenario.programs[running.index]) {
            Some(end) => {
                ended.push((running.index, end));
                false
            }
            None => true,
        });
        ended.iter().for_each(|(index, end)| self.ended(*index, end));
    }

    fn ended(&mut self, index: usize, end: &End) {
        let program = &self.scenario.programs[index];
        self.summary.checks += 1;
        let host = self.plan.nodes[program.host].name.clone();
        self.tell(Told::Ended {
            seconds: self.seconds(),
            program: program.name.clone(),
            host,
            exit_code: end.code,
            ok: end.failure.is_none(),
            stopped: end.stopped,
            why: end.failure.clone(),
            stdout: end.stdout.clone(),
            stderr: end.stderr.clone(),
        });
        if let Some(why) = &end.failure {
            self.summary.failures.push(format!("{}: {why}", program.name));
        }
    }

    /// What is judged at the end: assertions, and what always must hold.
    fn judge(&mut self) -> Result<()> {
        let states = self.links.states()?;
        let due = self.scenario.assertions.iter().filter(|assertion| assertion.at.is_none());
        due.for_each(|assertion| self.assert(assertion, &states));
        self.summary.links = told::links(self.network, &states);
        if self.links.record().driver == Driver::Netem {
            // It keeps no books.
            return Ok(());
        }
        let (mut broken, mut late) = (Vec::new(), Vec::new());
        for link in &self.summary.links {
            let called = link.called();
            let p99 = |spread: &Spread| Span::new(Duration::from_nanos(spread.p99));
            broken.extend((!link.stats.conserved).then(|| called.clone()));
            late.extend(link.stats.emulator_late.then(|| {
                let (late, wait) = (p99(&link.stats.lateness_ns), p99(&link.stats.ingress_wait_ns));
                format!("{called}, p99 {late}, and up to {wait} before packets were read")
            }));
        }
        self.summary.checks += 1;
        let (seconds, ok) = (self.seconds(), broken.is_empty());
        self.tell(Told::Conservation { seconds, ok, broken: broken.clone() });
        if !ok {
            self.summary.failures.push(format!("packets are missing from the books: {}", broken.join("; ")));
        }
        if let Some(lost) = told::unplanned(&self.summary.links) {
            self.fail(lost);
        }
        if !late.is_empty() {
            self.summary.emulator_late = true;
            let text = format!("emulator late: {}: no number of this run is to be trusted", late.join("; "));
            self.tell(Told::Warning { seconds, text });
        }
        Ok(())
    }

    fn assert(&mut self, assertion: &Assertion, states: &States) {
        for &link in &assertion.links {
            for way in Way::of(assertion.way) {
                let stats = |states: &States| Some(states.get(link)?.as_ref()?.stats[way.index()].clone());
                // A scenario is checked: its links are emulated.
                let Some(now) = stats(states) else { continue };
                let since = assertion.since.and_then(|since| stats(self.looks.get(&since)?));
                let value = value(assertion.counter, &now, since.as_ref());
                self.judged(assertion, link, way, value);
            }
        }
    }

    fn judged(&mut self, assertion: &Assertion, link: LinkIndex, way: Way, value: u64) {
        let (name, counter, ok) = (&self.network.links[link].name, assertion.counter, assertion.holds(value));
        let shown = counter.unit().text(value);
        let text = format!("link {name} {}: {} is {shown}, {}", way.name(), counter.name(), assertion.bounds());
        self.summary.checks += 1;
        self.tell(Told::Assertion {
            seconds: self.seconds(),
            link: name.clone(),
            way: way.name(),
            counter: counter.name(),
            value,
            min: assertion.min,
            max: assertion.max,
            ok,
            text: text.clone(),
        });
        if !ok {
            self.summary.failures.push(text);
        }
    }

    /// Ends what still runs: gently, then not.
    fn end_programs(&mut self) {
        self.running.iter_mut().for_each(Running::ask_to_end);
        let until = Instant::now() + END_MAX;
        self.reap();
        while !self.running.is_empty() && Instant::now() < until {
            // It matters only that it woke.
            let _ = self.mailbox.wakes.recv_timeout(LOOK);
            self.reap();
        }
        for mut running in std::mem::take(&mut self.running) {
            let end = running.kill(&self.scenario.programs[running.index]);
            self.ended(running.index, &end);
        }
    }
}
