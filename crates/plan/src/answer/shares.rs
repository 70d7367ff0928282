//! Questions about shares: cases with `links` and `flows`, or with `groups`.

use serde_json::{Map, Value};

use super::decimal::Scale;
use super::{AnswerError, refused};
use crate::share::{Allocation, Curve, Demand, FINE_BITS, LEVEL_BITS, Limit, Problem, RATE_MAX, ResourceId, solve};

/// Flows and links of a case.
const PARTS_MAX: usize = 1 << 20;
/// Decimals of answers.
const DECIMALS: f64 = 1e9;

pub(super) fn is_kind(file: &Value) -> bool {
    let asks =
        |case: &Value| case.get("links").is_some() && (case.get("flows").is_some() || case.get("groups").is_some());
    file.get("cases").and_then(Value::as_array).is_some_and(|cases| cases.iter().any(asks))
}

pub(super) fn fill(file: &mut Value) -> Result<(), AnswerError> {
    let cases = file.get_mut("cases").and_then(Value::as_array_mut).into_iter().flatten();
    for (index, case) in cases.enumerate() {
        let name = case
            .get("name")
            .and_then(Value::as_str)
            .map_or_else(|| format!("case {index}"), |name| format!("`{name}`"));
        let fields = case.as_object_mut().ok_or_else(|| refused(format!("{name} is no object")))?;
        answer(fields).map_err(|problem| refused(format!("{name}: {problem}")))?;
    }
    Ok(())
}

fn answer(case: &mut Map<String, Value>) -> Result<(), String> {
    let links = case.get("links").and_then(Value::as_object).ok_or("`links` is no object of capacities")?;
    let named = |kind: &str| -> Result<Vec<(String, Value)>, String> {
        let Some(value) = case.get(kind) else { return Ok(Vec::new()) };
        let fields = value.as_object().ok_or_else(|| format!("`{kind}` is no object"))?;
        Ok(fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    let (flows, groups) = (named("flows")?, named("groups")?);
    if [links.len(), flows.len(), groups.len()].iter().any(|count| *count > PARTS_MAX) {
        return Err(format!("more than {PARTS_MAX} links, flows or groups"));
    }
    let numbers = Numbers::of(case)?;
    let mut limits = Vec::with_capacity(links.len());
    for (name, capacity) in links {
        let capacity = numbers.rate(capacity).ok_or_else(|| format!("link `{name}`: write its capacity, 0 or more"))?;
        limits.push(Limit { capacity, floor: 0 });
    }
    let names: Vec<&String> = links.keys().collect();
    let tunnel = |of: &str, value: &Value| -> Result<Vec<ResourceId>, String> {
        let along = value.as_array().filter(|along| !along.is_empty());
        let along = along.ok_or_else(|| format!("`{of}`: write its links, such as [\"a\", \"b\"]"))?;
        let link = |link: &Value| {
            let found = link.as_str().and_then(|link| names.binary_search_by(|name| name.as_str().cmp(link)).ok());
            found.map(|index| index as ResourceId).ok_or_else(|| format!("`{of}`: no link {link}"))
        };
        along.iter().map(link).collect()
    };
    let mut problem = Problem::new(limits);
    for (name, flow) in &flows {
        let [weight, most, along] = flow.as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err(format!("`{name}` is no [weight, cap, links]"));
        };
        let curve = numbers.weighted(weight, most).map_err(|problem| format!("`{name}`: {problem}"))?;
        problem.add(Demand { tier: 0, floor: 0, curve }, [tunnel(name, along)?.as_slice()]);
    }
    for (name, group) in &groups {
        let curve =
            group.get("curve").and_then(Value::as_str).ok_or_else(|| format!("`{name}`: `curve` is no text"))?;
        let curve = numbers.curve(curve).map_err(|problem| format!("`{name}`: {problem}"))?;
        let tunnels = group.get("tunnels").and_then(Value::as_array).filter(|tunnels| !tunnels.is_empty());
        let tunnels = tunnels.ok_or_else(|| format!("`{name}`: `tunnels` is no list of lists of links"))?;
        let tunnels = tunnels.iter().map(|along| tunnel(name, along)).collect::<Result<Vec<_>, _>>()?;
        problem.add(Demand { tier: 0, floor: 0, curve }, tunnels.iter().map(Vec::as_slice));
    }
    let allocation = solve(&problem);
    let rates = |from: usize, of: &[(String, Value)]| -> Vec<Vec<Value>> {
        let of_flow = |flow: usize| problem.tunnels_of(flow).map(|tunnel| numbers.exact(&allocation, tunnel)).collect();
        (from..from + of.len()).map(of_flow).collect()
    };
    let levels = allocation.bottlenecks.iter().map(|full| {
        let level = full.level as f64 / (1_u64 << LEVEL_BITS) as f64;
        Value::from(vec![Value::from(names[full.resource as usize].as_str()), numbers.number(level)])
    });
    let levels: Value = levels.collect::<Vec<Value>>().into();
    let (of_flows, of_groups) = (rates(0, &flows), rates(flows.len(), &groups));
    if !flows.is_empty() {
        let rates = flows.into_iter().zip(of_flows).map(|((name, _), rates)| (name, rates.into_iter().next().into()));
        case.insert("rates".to_owned(), Value::Object(rates.collect()));
    }
    if !groups.is_empty() {
        let rates = groups.into_iter().zip(of_groups).map(|((name, _), rates)| (name, Value::from(rates)));
        case.insert("alloc".to_owned(), Value::Object(rates.collect()));
        case.insert("bottlenecks".to_owned(), levels);
    }
    Ok(())
}

/// The numbers of a case as integers: each times one power of ten, and rates and levels times one more, so that corners of curves
/// are where they are.
struct Numbers {
    scale: Scale,
    more: u64,
}

impl Numbers {
    fn of(case: &Map<String, Value>) -> Result<Numbers, String> {
        // What is no question is not looked at.
        let mut asked: Vec<Value> = ["links", "flows"].iter().filter_map(|key| case.get(*key).cloned()).collect();
        let curves = case.get("groups").and_then(Value::as_object).into_iter().flatten();
        let texts = curves.filter_map(|(_, group)| group.get("curve").and_then(Value::as_str));
        for text in texts {
            let written = text.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|number| !number.is_empty());
            asked.extend(written.filter_map(|number| serde_json::from_str::<Value>(number).ok()));
        }
        let asked = Value::from(asked);
        let scale = Scale::of(&asked).map_err(|error| error.to_string())?;
        let largest = largest(scale, &asked);
        let more = (0..=9)
            .rev()
            .map(|digits| 10_u64.pow(digits))
            .find(|more| largest.checked_mul(*more).is_some_and(|largest| largest <= RATE_MAX / 1024));
        Ok(Numbers { scale, more: more.unwrap_or(1) })
    }

    fn rate(&self, value: &Value) -> Option<u64> {
        self.scale.read(value, RATE_MAX / self.more).map(|rate| rate * self.more)
    }

    fn weighted(&self, weight: &Value, most: &Value) -> Result<Curve, String> {
        let weight = self.scale.read(weight, u64::from(u32::MAX));
        let weight = weight.and_then(|weight| u32::try_from(weight).ok()).ok_or("write a weight, 0 or more")?;
        let most = if most.is_null() { RATE_MAX } else { self.rate(most).ok_or("write a cap, 0 or more, or null")? };
        // Who weighs nothing gets nothing.
        let (weight, most) =
            std::num::NonZeroU32::new(weight).map_or((std::num::NonZeroU32::MIN, 0), |weight| (weight, most));
        Ok(Curve::Weighted { weight, most })
    }

    /// A sum of terms such as `min(10s,15)`, `2s` and `s`.
    fn curve(&self, text: &str) -> Result<Curve, String> {
        let wrong = || format!("`curve` is no sum of terms such as min(10s,15) or 2s: `{text}`");
        let number = |text: &str| {
            let value: Value = serde_json::from_str(text.trim()).ok()?;
            self.scale.read(&value, RATE_MAX / self.more)
        };
        let slope = |text: &str| match text.trim().strip_suffix('s').map(str::trim_end)? {
            "" => number("1"),
            factor => number(factor),
        };
        let mut terms: Vec<(u64, u64)> = Vec::new();
        for term in text.split('+').map(str::trim) {
            let inner = term.strip_prefix("min(").and_then(|rest| rest.strip_suffix(')'));
            let found = match inner.and_then(|inner| inner.split_once(',')) {
                Some((rising, most)) => slope(rising).zip(number(most).map(|most| most * self.more)),
                None => slope(term).map(|slope| (slope, RATE_MAX)),
            };
            terms.push(found.filter(|(slope, _)| *slope > 0).ok_or_else(wrong)?);
        }
        // A slope times a level is a rate: both are scaled, so one scale too many is taken off.
        let unit = u128::from(number("1").ok_or_else(wrong)?);
        let corner = |(slope, most): &(u64, u64)| {
            u64::try_from(u128::from(*most) * unit / u128::from(*slope)).unwrap_or(u64::MAX)
        };
        let mut corners: Vec<u64> = terms.iter().map(corner).map(|level| level.clamp(1, RATE_MAX)).collect();
        corners.sort_unstable();
        corners.dedup();
        let due = |level: u64| {
            let term =
                |(slope, most): &(u64, u64)| (u128::from(level) * u128::from(*slope) / unit).min(u128::from(*most));
            let at_corner = |of: &(u64, u64)| if corner(of) <= level { u128::from(of.1) } else { term(of) };
            u64::try_from(terms.iter().map(at_corner).sum::<u128>()).unwrap_or(u64::MAX)
        };
        let points: Vec<(u64, u64)> = corners.iter().map(|level| (*level, due(*level))).collect();
        Curve::points(&points).map_err(|_| wrong())
    }

    fn exact(&self, allocation: &Allocation, tunnel: usize) -> Value {
        self.number(allocation.exact[tunnel] as f64 / 2_f64.powi(FINE_BITS as i32))
    }

    /// A scaled number as the file writes it, to nine decimals.
    fn number(&self, scaled: f64) -> Value {
        let number = scaled / self.more as f64 / self.scale.power() as f64;
        let rounded = (number * DECIMALS).round() / DECIMALS;
        if rounded.fract() == 0.0 && rounded.abs() < DECIMALS * 1e6 {
            Value::from(rounded as i64)
        } else {
            Value::from(rounded)
        }
    }
}

/// The largest number within a value, scaled.
fn largest(scale: Scale, value: &Value) -> u64 {
    match value {
        Value::Number(_) => scale.read(value, u64::MAX).unwrap_or(0),
        Value::Array(items) => items.iter().map(|item| largest(scale, item)).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(|field| largest(scale, field)).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::String(_) => 0,
    }
}
