//! From TOML to a checked scenario.

use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};
use units::Span;

use super::{
    Assertion, Counter, DURATION_MAX, Driver, ENTRIES_MAX, Event, Over, PROGRAMS_MAX, Program, Scenario, ScenarioError,
    TEXT_MAX, Way,
};
use crate::network::error::{Fault, quoted, thing};
use crate::network::toml::{Keys, Source, document, text, written};
use crate::network::{self, Direction, LinkIndex, Network, NodeKind, Ratio, names};

const SCENARIO_KEYS: &[&str] = &["about", "network", "scale", "seed", "driver", "duration", "event", "run", "assert"];
const RUN_KEYS: &[&str] = &["name", "at", "host", "command", "background", "timeout", "exit_code", "stdout_contains"];
const ASSERT_KEYS: &[&str] = &["at", "since", "link", "way", "counter", "min", "max"];
/// What an event says beside what it changes.
const EVENT_KEYS: &[&str] = &["at", "link", "way", "cut", "heal"];

/// Seed of a scenario that names none.
const SEED_DEFAULT: u64 = 1;
/// Stands for the end of the scenario.
const END: &str = "end";
/// Stands for any exit code.
const ANY: &str = "any";

pub(super) fn scenario(
    text: &str,
    file: &str,
    load: impl FnOnce(&str) -> Result<Network, String>,
) -> Result<Scenario, ScenarioError> {
    if text.len() > TEXT_MAX {
        let problem = format!("longer than {} MiB: make the scenario smaller", TEXT_MAX >> 20);
        return Err(ScenarioError::new(file, None, Fault::from(problem)));
    }
    let source = Source::Text(file, text);
    let table = document(source, text)?;
    let keys = Keys::new(source, None, table.span(), table.get_ref(), SCENARIO_KEYS)?;
    let name = keys.needed("network", "\"pair\"")?;
    let network = load(name).map_err(|problem| {
        let span = keys.value("network").map_or(0..0, toml::Spanned::span);
        keys.error(&span, format!("network: {problem}"))
    })?;
    let ratio = |text: &str| text.parse().map_err(|error: network::RatioError| error.to_string());
    let scale = keys.quantity("scale", ratio)?.unwrap_or(Ratio::ONE);
    let seed = keys.get("seed", seed)?.unwrap_or(SEED_DEFAULT);
    let driver = keys.get("driver", driver)?.unwrap_or_default();
    let duration = keys
        .quantity("duration", |text| span(text, DURATION_MAX))?
        .ok_or_else(|| keys.missing("duration", "\"30 s\""))?;
    let reader = Reader { source, network: &network, duration };
    // The lists were read: what is looked for is there.
    let of_entry = |kind: &str, (n, problem): (usize, String)| {
        let span = keys.tables(kind).ok().and_then(|tables| tables.get(n).map(|(_, span)| span.clone()));
        source.error(&span.unwrap_or(0..0), Some(&format!("[[{kind}]]")), problem)
    };
    let events = reader.entries(&keys, "event", ENTRIES_MAX, Reader::event)?;
    check_changes(&events, network.scaled(scale)).map_err(|fault| of_entry("event", fault))?;
    let mut programs = reader.entries(&keys, "run", PROGRAMS_MAX, Reader::program)?;
    name_apart(&mut programs, &network).map_err(|fault| of_entry("run", fault))?;
    let assertions = reader.entries(&keys, "assert", ENTRIES_MAX, Reader::assertion)?;
    let about = keys.text("about")?.map(str::to_owned);
    let programs = programs.into_iter().map(|named| named.program).collect();
    let scenario = Scenario { about, network, scale, seed, driver, duration, events, programs, assertions };
    scenario.check_driver(driver).map_err(|problem| {
        let span = keys.value("driver").map_or(0..0, toml::Spanned::span);
        keys.error(&span, format!("driver: {problem}"))
    })?;
    Ok(scenario)
}

struct Reader<'a> {
    source: Source<'a>,
    network: &'a Network,
    duration: Duration,
}

/// A program whose name may still be made.
struct Named {
    program: Program,
    given: bool,
}

impl<'a> Reader<'a> {
    /// What `read` makes of each table of `[[kind]]`.
    fn entries<T>(
        &self,
        keys: &Keys<'a>,
        kind: &str,
        most: usize,
        read: impl Fn(&Self, &'a DeTable<'a>, Range<usize>) -> Result<T, ScenarioError>,
    ) -> Result<Vec<T>, ScenarioError> {
        let tables = keys.tables(kind)?;
        if let Some((_, span)) = tables.get(most) {
            return Err(keys.error(span, format!("more than {most} `[[{kind}]]`: make several scenarios of this one")));
        }
        tables.into_iter().map(|(table, span)| read(self, table, span)).collect()
    }

    fn event(&self, table: &'a DeTable<'a>, span: Range<usize>) -> Result<Event, ScenarioError> {
        let known: Vec<&'static str> = EVENT_KEYS.iter().chain(network::KEYS).copied().collect();
        let keys = Keys::new(self.source, Some("[[event]]".to_owned()), span, table, &known)?;
        let at = self.at(&keys, "at")?.ok_or_else(|| keys.missing("at", "\"2 s\""))?;
        let (link, links) = self.links(&keys)?;
        let way = way(&keys)?;
        let up = match (set(&keys, "cut")?, set(&keys, "heal")?) {
            (true, true) => return Err(keys.fault("`cut` and `heal`: write one of them")),
            (cut, heal) => (cut || heal).then_some(heal),
        };
        if up.is_some() && way.is_some() {
            return Err(keys.fault("`way` with `cut` or `heal`: a link is cut and healed both ways, leave `way` out"));
        }
        let mut changes = Vec::new();
        for key in network::KEYS {
            // Tried on any direction: whether a text is good does not depend on what was before.
            let change = |value: &'a DeValue<'a>| {
                let text =
                    value.as_bool().map_or_else(|| written(value).map(str::to_owned), |yes| Ok(yes.to_string()))?;
                Direction::default().change(key, &text).map(|()| text)
            };
            changes.extend(keys.get(key, change)?.map(|text| ((*key).to_owned(), text)));
        }
        if up.is_none() && changes.is_empty() {
            let keys_of = network::KEYS.join(", ");
            return Err(keys.fault(format!("nothing happens: write `cut = true`, `heal = true`, or one of {keys_of}")));
        }
        if !changes.is_empty() {
            self.none_plain(&keys, &links)?;
        }
        Ok(Event { at, link, links, way, up, changes })
    }

    fn program(&self, table: &'a DeTable<'a>, span: Range<usize>) -> Result<Named, ScenarioError> {
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let called = name.map_or_else(|| "[[run]]".to_owned(), |name| thing("run", name));
        let keys = Keys::new(self.source, Some(called), span, table, RUN_KEYS)?;
        let name = keys.get("name", |value| {
            let name = text(value)?;
            names::check(name).map(|()| name.to_owned())
        })?;
        let host = keys.get("host", |value| self.network.node(text(value)?).map_err(|unknown| unknown.to_string()))?;
        let host = host.ok_or_else(|| keys.missing("host", &self.example_host()))?;
        let command: Vec<String> = keys.list("command")?.into_iter().map(|(word, _)| word.to_owned()).collect();
        let empty = command.first().is_none_or(String::is_empty) || command.iter().any(|word| word.contains('\0'));
        if empty {
            return Err(keys.missing("command", "[\"ping\", \"-c\", \"3\", \"b\"]"));
        }
        let background = keys.flag("background")?.unwrap_or(false);
        let timeout = keys.quantity("timeout", |text| span_above_zero(text, DURATION_MAX))?;
        if background && timeout.is_some() {
            return Err(keys.fault("`background` and `timeout`: nobody waits for it, leave one of them out"));
        }
        Ok(Named {
            given: name.is_some(),
            program: Program {
                name: name.unwrap_or_default(),
                at: self.at(&keys, "at")?.unwrap_or_default(),
                host,
                command,
                background,
                timeout,
                exit_code: keys.get("exit_code", exit_code)?.unwrap_or(Some(0)),
                stdout_contains: keys.text("stdout_contains")?.map(str::to_owned),
            },
        })
    }

    fn assertion(&self, table: &'a DeTable<'a>, span: Range<usize>) -> Result<Assertion, ScenarioError> {
        let keys = Keys::new(self.source, Some("[[assert]]".to_owned()), span, table, ASSERT_KEYS)?;
        let (link, links) = self.links(&keys)?;
        self.none_plain(&keys, &links)?;
        let counter = keys.get("counter", counter)?.ok_or_else(|| keys.missing("counter", "\"dropped.queue\""))?;
        let is_end = keys.value("at").is_some_and(|value| value.get_ref().as_str() == Some(END));
        let at = if is_end { None } else { self.at(&keys, "at")? };
        let since = match (self.at(&keys, "since")?, counter.over()) {
            (Some(_), Over::Always) => {
                let problem = format!("`since` with `{}`, which is about all packets: leave it out", counter.name());
                return Err(keys.fault(problem));
            }
            (None, Over::Mean) => Some(Duration::ZERO),
            (since, _) => since,
        };
        if let (Some(since), Some(at)) = (since, at)
            && since >= at
        {
            return Err(keys.fault("`since` is not before `at`: there is no time between them"));
        }
        let bound = |key| keys.quantity(key, |text| counter.unit().parse(text));
        let (min, max) = (bound("min")?, bound("max")?);
        match (min, max) {
            (None, None) => return Err(keys.fault("it asserts nothing: write `min`, `max` or both")),
            (Some(min), Some(max)) if min > max => return Err(keys.fault("`min` is above `max`: nothing is both")),
            _ => {}
        }
        Ok(Assertion { at, since, link, links, way: way(&keys)?, counter, min, max })
    }

    /// A time within the scenario.
    fn at(&self, keys: &Keys<'_>, key: &str) -> Result<Option<Duration>, ScenarioError> {
        keys.quantity(key, |text| {
            let at = span(text, DURATION_MAX)?;
            if at > self.duration {
                let duration = Span::new(self.duration);
                return Err(format!("`{}` is after the end, which is at {duration:#}: raise `duration`", quoted(text)));
            }
            Ok(at)
        })
    }

    /// A link or bundle.
    fn links(&self, keys: &Keys<'_>) -> Result<(String, Vec<LinkIndex>), ScenarioError> {
        let found = keys.get("link", |value| {
            let name = text(value)?;
            let links = self.network.links_named(name).map_err(|unknown| unknown.to_string())?;
            Ok((name.to_owned(), links))
        })?;
        let example = self.network.links.first().map_or("ab", |link| &link.name);
        found.ok_or_else(|| keys.missing("link", &format!("\"{example}\"")))
    }

    /// Refuses links that only can be cut and healed.
    fn none_plain(&self, keys: &Keys<'_>, links: &[LinkIndex]) -> Result<(), ScenarioError> {
        let Some(plain) = links.iter().map(|&link| &self.network.links[link]).find(|link| link.is_plain()) else {
            return Ok(());
        };
        let name = &plain.name;
        let problem = format!(
            "link: `{name}` is plain, it can only be cut and healed, and nothing is counted there: give it a rate or a delay"
        );
        let span = keys.value("link").map_or(0..0, toml::Spanned::span);
        Err(keys.error(&span, problem))
    }

    fn example_host(&self) -> String {
        let host = self.network.nodes.iter().find(|node| node.kind == NodeKind::Host);
        format!("\"{}\"", host.map_or("a", |host| &host.name))
    }
}

/// Makes the changes in the order of their times, so that what each of them leaves of a link is looked at.
fn check_changes(events: &[Event], mut network: Network) -> Result<(), (usize, String)> {
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|&n| events[n].at);
    for n in order {
        let event = &events[n];
        for &link in &event.links {
            let link = &mut network.links[link];
            for way in Way::of(event.way) {
                let direction = match way {
                    Way::Forward => &mut link.forward,
                    Way::Backward => &mut link.backward,
                };
                let changed = direction.changed(&event.changes, link.mtu);
                *direction = changed.map_err(|why| (n, format!("link `{}`: {why}", link.name)))?;
            }
        }
    }
    Ok(())
}

/// Gives each program without a name that of its command and host. Of two that are given the same, the second is refused.
fn name_apart(programs: &mut [Named], network: &Network) -> Result<(), (usize, String)> {
    let mut taken = std::collections::BTreeSet::new();
    for (n, named) in programs.iter().enumerate().filter(|(_, named)| named.given) {
        if !taken.insert(named.program.name.clone()) {
            return Err((n, format!("another run has the name `{}` too: rename one", named.program.name)));
        }
    }
    for named in programs.iter_mut().filter(|named| !named.given) {
        let program = &mut named.program;
        let word = program.command[0].rsplit('/').next().unwrap_or_default();
        let plain = format!("{}@{}", quoted(word), network.nodes[program.host].name);
        // At most as many are taken as there are programs.
        let numbered = (2..=PROGRAMS_MAX + 1).map(|number| format!("{plain}-{number}"));
        let mut free = std::iter::once(plain.clone()).chain(numbered).filter(|name| !taken.contains(name));
        program.name = free.next().expect("one of so many is free");
        taken.insert(program.name.clone());
    }
    Ok(())
}

fn span(text: &str, most: Duration) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if span.get() > most {
        return Err(format!("`{}` is too long: write at most {:#}", quoted(text), Span::new(most)));
    }
    Ok(span.get())
}

fn span_above_zero(text: &str, most: Duration) -> Result<Duration, String> {
    let span = span(text, most)?;
    if span.is_zero() { Err("write more than 0 s".to_owned()) } else { Ok(span) }
}

fn seed(value: &DeValue<'_>) -> Result<u64, String> {
    let number = value.as_integer().and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
    number.ok_or_else(|| "write a whole number, 0 or more".to_owned())
}

fn driver(value: &DeValue<'_>) -> Result<Driver, String> {
    let written = text(value)?;
    let found = [Driver::Own, Driver::Netem].into_iter().find(|driver| driver.name() == written);
    found.ok_or_else(|| format!("`{}` is no driver: write `own` or `netem`", quoted(written)))
}

/// What must be true where it is written: `cut = false` would say nothing.
fn set(keys: &Keys<'_>, key: &str) -> Result<bool, ScenarioError> {
    let is_set = keys.get(key, |value| match value.as_bool() {
        Some(true) => Ok(()),
        _ => Err(format!("write `{key} = true`, or leave it out")),
    });
    Ok(is_set?.is_some())
}

fn way(keys: &Keys<'_>) -> Result<Option<Way>, ScenarioError> {
    keys.get("way", |value| {
        let written = text(value)?;
        let found = [Way::Forward, Way::Backward].into_iter().find(|way| way.name() == written);
        found.ok_or_else(|| format!("`{}` is no way: write `forward` or `backward`", quoted(written)))
    })
}

fn counter(value: &DeValue<'_>) -> Result<Counter, String> {
    let name = text(value)?;
    Counter::named(name).ok_or_else(|| {
        let hint = match names::meant(name, Counter::names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", Counter::names().collect::<Vec<_>>().join(", ")),
        };
        format!("unknown counter `{}`; {hint}", quoted(name))
    })
}

/// `None` for any.
fn exit_code(value: &DeValue<'_>) -> Result<Option<u8>, String> {
    if value.as_str() == Some(ANY) {
        return Ok(None);
    }
    let code = value.as_integer().and_then(|n| u8::from_str_radix(n.as_str(), n.radix()).ok());
    code.map(Some).ok_or_else(|| format!("write a number from 0 to 255, or \"{ANY}\""))
}
