//! From TOML to checked shares.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use toml::de::DeTable;
use units::{Bytes, Moment, Rate, Span, Utc};

use super::{
    ALL_PPM, Amount, FLOWS_MAX, HALF_LIFE, HALF_LIVES, MARKS_MAX, Shares, SharesError, TEXT_MAX, WEIGHT_MAX, class,
};
use crate::bookings;
use crate::network::error::{Fault, quoted, thing};
use crate::network::toml::{Keys, Source, document};
use crate::network::{LinkIndex, Network, NodeIndex, forms, names};

const KEYS: &[&str] = &["at_large", "lowest", "half_life", "now", "class", "mark", "flow", "resource"];

/// What a file is read with.
pub(super) struct Reader<'a> {
    pub(super) source: Source<'a>,
    pub(super) network: &'a Network,
    /// By name, since a file may name each a hundred thousand times.
    nodes: BTreeMap<&'a str, NodeIndex>,
    links: BTreeMap<&'a str, LinkIndex>,
    /// The time of the snapshot.
    now: Option<Moment>,
}

impl Shares {
    /// Reads a file; `file_name` is what messages call it.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_toml(text: &str, file_name: &str, network: &Network) -> Result<Shares, SharesError> {
        if text.len() > TEXT_MAX {
            let problem = format!("longer than {} MiB: leave out what is over", TEXT_MAX >> 20);
            return Err(SharesError::new(file_name, None, Fault::from(problem)));
        }
        let source = Source::Text(file_name, text);
        let table = document(source, text)?;
        let keys = Keys::new(source, None, table.span(), table.get_ref(), KEYS)?;
        let reader = Reader {
            source,
            network,
            nodes: network.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect(),
            links: network.links.iter().enumerate().map(|(index, link)| (link.name.as_str(), index)).collect(),
            now: keys.get("now", bookings::moment)?.map(|Utc(now)| now),
        };
        let [at_large, lowest] =
            [keys.quantity("at_large", amount)?, keys.quantity("lowest", amount)?].map(|of| of.filter(|of| !of.is_0()));
        let half_life = keys.quantity("half_life", half_life)?;
        let classes = class::read(&reader, &keys)?;
        let names: BTreeMap<&str, usize> =
            classes.iter().enumerate().map(|(index, class)| (class.name.as_str(), index)).collect();
        let marks = reader.marks(&keys, &names)?;
        let flows = reader.flows(&keys, &names, &classes)?;
        let resources = reader.resources(&keys)?;
        drop(names);
        Ok(Shares {
            at_large,
            lowest,
            half_life: half_life.unwrap_or(HALF_LIFE),
            half_life_said: half_life.is_some(),
            now: reader.now,
            classes,
            marks,
            flows,
            resources,
        })
    }
}

impl<'a> Reader<'a> {
    /// The tables of `[[kind]]` with their keys, at most so many; what is in each is called by its name, which no other has.
    pub(super) fn named(
        &self,
        keys: &Keys<'a>,
        kind: &str,
        known: &[&'static str],
        most: usize,
    ) -> Result<Vec<(&'a str, Keys<'a>)>, SharesError> {
        let mut seen = BTreeMap::new();
        let mut found = Vec::new();
        for (table, span) in self.tables(keys, kind, most)? {
            let name = table.get("name").and_then(|name| name.get_ref().as_str());
            let called = name.map_or_else(|| format!("[[{kind}]]"), |name| thing(kind, name));
            let keys = Keys::new(self.source, Some(called), span, table, known)?;
            let name = keys.needed("name", "\"cms\"")?;
            names::check(name).map_err(|problem| keys.fault(problem))?;
            if seen.insert(name, ()).is_some() {
                return Err(keys.fault(format!("another {kind} has that name: call one of them otherwise")));
            }
            found.push((name, keys));
        }
        Ok(found)
    }

    fn tables(
        &self,
        keys: &Keys<'a>,
        kind: &str,
        most: usize,
    ) -> Result<Vec<(&'a DeTable<'a>, Range<usize>)>, SharesError> {
        let tables = keys.tables(kind)?;
        match tables.get(most) {
            Some((_, span)) => Err(keys.error(span, format!("more than {most} `[[{kind}]]`: leave out what is over"))),
            None => Ok(tables),
        }
    }

    fn resources(&self, keys: &Keys<'a>) -> Result<Vec<bookings::Resource>, SharesError> {
        let reader = bookings::Reader { source: self.source, network: self.network };
        let mut resources = Vec::new();
        for (table, span) in self.tables(keys, "resource", MARKS_MAX)? {
            if let Some(grain) = table.get("grain") {
                return Err(keys.error(&grain.span(), "resource: `grain` is for bookings: leave it out"));
            }
            let resource = reader.resource(table, span, &resources)?;
            resources.push(resource);
        }
        Ok(resources)
    }

    fn flows(
        &self,
        keys: &Keys<'a>,
        names: &BTreeMap<&str, usize>,
        classes: &[super::Class],
    ) -> Result<Vec<super::Flow>, SharesError> {
        let tables = self.named(keys, "flow", super::flow::KEYS, FLOWS_MAX)?;
        tables.iter().map(|(name, keys)| self.flow(name, keys, names, classes)).collect()
    }

    pub(super) fn node(&self, name: &str) -> Result<NodeIndex, String> {
        let known = self.nodes.get(name).copied();
        known.map_or_else(|| self.network.node(name).map_err(|unknown| unknown.to_string()), Ok)
    }

    /// One link, not a bundle.
    pub(super) fn link(&self, name: &str) -> Result<LinkIndex, String> {
        if let Some(link) = self.links.get(name) {
            return Ok(*link);
        }
        match self.network.links_named(name) {
            Ok(members) => {
                let first = &self.network.links[members[0]].name;
                Err(format!("`{name}` is a bundle: name one of its members, such as `{first}`"))
            }
            Err(unknown) => Err(unknown.to_string()),
        }
    }

    /// A link, or the members of a bundle.
    pub(super) fn links(&self, name: &str) -> Result<Vec<LinkIndex>, String> {
        match self.links.get(name) {
            Some(link) => Ok(vec![*link]),
            None => self.network.links_named(name).map_err(|unknown| unknown.to_string()),
        }
    }

    /// A class by its name.
    pub(super) fn class(
        keys: &Keys<'_>,
        key: &str,
        classes: &BTreeMap<&str, usize>,
    ) -> Result<Option<usize>, SharesError> {
        keys.quantity(key, |name| {
            let unknown = || match names::meant(name, classes.keys().copied()) {
                Some(meant) => format!("unknown class `{}`; did you mean `{meant}`?", quoted(name)),
                None => format!("no `[[class]]` is called `{}`", quoted(name)),
            };
            classes.get(name).copied().ok_or_else(unknown)
        })
    }

    /// A moment, which is told relative to the time of the snapshot.
    pub(super) fn moment(&self, keys: &Keys<'a>, key: &str) -> Result<Option<Moment>, SharesError> {
        let Some(moment) = keys.get(key, bookings::moment)? else { return Ok(None) };
        if self.now.is_none() {
            let span = keys.value(key).map_or(0..0, |value| value.span());
            return Err(keys.error(
                &span,
                format!("{key}: what the time is now is not said: write at the top for example `now = {moment}`"),
            ));
        }
        Ok(Some(moment.0))
    }

    /// Since when something is so: not later than the time of the snapshot.
    pub(super) fn as_of(&self, keys: &Keys<'a>) -> Result<Option<Moment>, SharesError> {
        let as_of = self.moment(keys, "as_of")?;
        match (as_of, self.now) {
            (Some(as_of), Some(now)) if as_of > now => {
                Err(keys.fault(format!("as_of: {} is after `now`, {}: write an earlier one", Utc(as_of), Utc(now))))
            }
            _ => Ok(as_of),
        }
    }
}

/// Weight, floor and cap, as classes and flows have them.
pub(super) fn part(keys: &Keys<'_>) -> Result<(NonZeroU32, Rate, Option<Rate>), SharesError> {
    let weight = keys.whole("weight", 1..=WEIGHT_MAX)?.and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
    let floor = keys.quantity("floor", any_rate)?.unwrap_or(Rate::ZERO);
    let cap = keys.quantity("cap", any_rate)?;
    match cap {
        Some(cap) if cap < floor => {
            Err(keys.fault(format!("`cap` {cap} is below `floor` {floor}: write one of them otherwise")))
        }
        _ => Ok((weight, floor, cap)),
    }
}

impl Amount {
    fn is_0(self) -> bool {
        matches!(self, Amount::Share(0) | Amount::Rate(Rate::ZERO))
    }
}

/// A share, or a rate.
fn amount(text: &str) -> Result<Amount, String> {
    match any_rate(text) {
        Ok(rate) => Ok(Amount::Rate(rate)),
        Err(_) => {
            let share = share(text).map_err(|error| format!("{error}, or a rate such as `5 Gb/s`"))?;
            Ok(Amount::Share(share))
        }
    }
}

/// In parts per million.
pub(super) fn share(text: &str) -> Result<u32, String> {
    Ok((forms::share(text)? * f64::from(ALL_PPM)).round() as u32)
}

pub(super) fn any_rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|error: units::ParseError| error.to_string())
}

pub(super) fn bytes(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: units::ParseError| error.to_string())
}

fn half_life(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    let (least, most) = (Span::new(*HALF_LIVES.start()), Span::new(*HALF_LIVES.end()));
    let within = HALF_LIVES.contains(&span.get());
    if within { Ok(span.get()) } else { Err(format!("{span} is out of bounds: write {least} to {most}")) }
}
