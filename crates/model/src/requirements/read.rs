//! From TOML to checked requirements.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use toml::de::DeTable;
use units::{Goodput, ParseError, Span};

use super::{
    ENTRIES_MAX, Experiment, FACTORS_MAX, Factor, GOODPUT_MAX, Growth, NAME_MAX, Requirements, RequirementsError,
    TEXT_MAX, Target, YEARS_MAX,
};
use crate::network::error::{Fault, quoted, thing};
use crate::network::forms::share;
use crate::network::limits::ABOUT_MAX;
use crate::network::names;
use crate::network::toml::{Keys, Source, document, text};
use crate::network::{Ratio, RatioError};

const KEYS: &[&str] = &["name", "about", "left_out", "experiment", "factor", "target", "growth"];
const EXPERIMENT_KEYS: &[&str] = &["name", "volume", "time", "rate", "prompt"];
const FACTOR_KEYS: &[&str] = &["name", "times", "gives"];
const TARGET_KEYS: &[&str] = &["name", "share", "of"];
const GROWTH_KEYS: &[&str] = &["times", "years"];

const SECONDS_IN_YEAR: u64 = 31_557_600;

pub(super) fn requirements(text: &str, file: &str) -> Result<Requirements, RequirementsError> {
    if text.len() > TEXT_MAX {
        let problem = format!("longer than {} MiB: make it shorter", TEXT_MAX >> 20);
        return Err(RequirementsError::new(file, None, Fault::from(problem)));
    }
    let source = Source::Text(file, text);
    let table = document(source, text)?;
    let keys = Keys::new(source, None, table.span(), table.get_ref(), KEYS)?;
    let (name, about) = (name(&keys)?, short(&keys, "about", ABOUT_MAX)?);
    let experiments = entries(source, &keys, "experiment", ENTRIES_MAX, EXPERIMENT_KEYS, experiment)?;
    if experiments.is_empty() {
        return Err(keys.fault("no experiment: write `[[experiment]]` with `name`, `volume` and `time`"));
    }
    let factors = entries(source, &keys, "factor", FACTORS_MAX, FACTOR_KEYS, factor)?;
    let target = |keys: &Keys<'_>| target(keys, &factors);
    let targets = entries(source, &keys, "target", ENTRIES_MAX, TARGET_KEYS, target)?;
    let growth = keys.table("growth", GROWTH_KEYS)?.map(|keys| growth(&keys)).transpose()?;
    let left_out = keys.list("left_out")?.into_iter().map(|(text, span)| {
        checked(text, NAME_MAX).map_err(|problem| keys.error(&span, format!("left_out: {problem}")))
    });
    let left_out: Vec<String> = left_out.collect::<Result<_, _>>()?;
    Ok(Requirements { name, about, experiments, factors, targets, growth, left_out })
}

/// What `read` makes of each table of `[[kind]]`; each has a name of its own.
fn entries<'a, T>(
    source: Source<'a>,
    keys: &Keys<'a>,
    kind: &str,
    most: usize,
    known: &[&'static str],
    read: impl Fn(&Keys<'a>) -> Result<T, RequirementsError>,
) -> Result<Vec<T>, RequirementsError> {
    let tables = keys.tables(kind)?;
    if let Some((_, span)) = tables.get(most) {
        return Err(keys.error(span, format!("more than {most} `[[{kind}]]`: put several into one")));
    }
    let mut names = std::collections::BTreeSet::new();
    let mut entry = |(table, span): (&'a DeTable<'a>, Range<usize>)| {
        let called = table.get("name").and_then(|name| name.get_ref().as_str());
        let called = called.map_or_else(|| format!("[[{kind}]]"), |name| thing(kind, name));
        let keys = Keys::new(source, Some(called), span, table, known)?;
        if !names.insert(name(&keys)?) {
            return Err(keys.fault(format!("another {kind} has that name: call one of them otherwise")));
        }
        read(&keys)
    };
    tables.into_iter().map(&mut entry).collect()
}

fn experiment(keys: &Keys<'_>) -> Result<Experiment, RequirementsError> {
    let taken = match (keys.quantity("volume", parsed)?, keys.quantity("time", time)?) {
        (Some(volume), Some(time)) => Some((volume, time)),
        (None, None) => None,
        (Some(_), None) => return Err(keys.missing("time", "\"7000000 s\"")),
        (None, Some(_)) => return Err(keys.missing("volume", "\"350 PB\"")),
    };
    let rate = keys.quantity("rate", parsed)?;
    let prompt = keys.quantity("prompt", parsed)?;
    if taken.is_some() && rate.is_some() {
        return Err(keys.fault("`volume` and `rate`: write what was taken or what it comes to, and more as `prompt`"));
    }
    let experiment = Experiment { name: name(keys)?, taken, rate, prompt };
    if experiment.sum() == Goodput::ZERO {
        return Err(keys.fault("it needs nothing: write `volume` and `time`, or `rate`"));
    }
    if experiment.sum() > GOODPUT_MAX {
        return Err(keys.fault(format!("it needs more than {GOODPUT_MAX:#}: check volume, time and rates")));
    }
    Ok(experiment)
}

fn factor(keys: &Keys<'_>) -> Result<Factor, RequirementsError> {
    let times = keys.quantity("times", ratio)?.ok_or_else(|| keys.missing("times", "2"))?;
    Ok(Factor { name: name(keys)?, times, gives: short(keys, "gives", NAME_MAX)? })
}

fn target(keys: &Keys<'_>, factors: &[Factor]) -> Result<Target, RequirementsError> {
    let share = keys.quantity("share", share)?.ok_or_else(|| keys.missing("share", "\"25 %\""))?;
    let after = keys.get("of", |value| {
        let wanted = text(value)?;
        let known = || factors.iter().flat_map(|factor| std::iter::once(&factor.name).chain(&factor.gives));
        let is_meant = |factor: &Factor| factor.name == wanted || factor.gives.as_deref() == Some(wanted);
        factors.iter().position(is_meant).map(|factor| factor + 1).ok_or_else(|| {
            let hint = match names::meant(wanted, known().map(String::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("there are: {}", known().cloned().collect::<Vec<_>>().join(", ")),
            };
            format!("unknown factor `{}`; {hint}", quoted(wanted))
        })
    })?;
    let share_ppm = (share * 1e6).round() as u32;
    Ok(Target { name: name(keys)?, share_ppm, after: after.unwrap_or(factors.len()) })
}

fn growth(keys: &Keys<'_>) -> Result<Growth, RequirementsError> {
    let times = keys.quantity("times", ratio)?.ok_or_else(|| keys.missing("times", "12"))?;
    let years = keys.whole("years", 1..=YEARS_MAX)?.ok_or_else(|| keys.missing("years", "8"))?;
    Ok(Growth { times, years })
}

fn name(keys: &Keys<'_>) -> Result<String, RequirementsError> {
    keys.needed("name", "\"ATLAS\"")?;
    Ok(short(keys, "name", NAME_MAX)?.unwrap_or_default())
}

/// A text of one line.
fn short(keys: &Keys<'_>, key: &str, most: usize) -> Result<Option<String>, RequirementsError> {
    keys.get(key, |value| checked(text(value)?, most))
}

fn checked(text: &str, most: usize) -> Result<String, String> {
    let fits = (1..=most).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!("`{}`: write 1 to {most} characters on one line", quoted(text)))
    }
}

fn parsed<T: FromStr<Err = ParseError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseError| error.to_string())
}

fn ratio(text: &str) -> Result<Ratio, String> {
    text.parse().map_err(|error: RatioError| error.to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    let time = parsed::<Span>(text)?.get();
    if time.is_zero() || time > Duration::from_secs(u64::from(YEARS_MAX) * SECONDS_IN_YEAR) {
        return Err(format!("`{}` is out of bounds: write more than 0 s, up to {YEARS_MAX} years", quoted(text)));
    }
    Ok(time)
}
