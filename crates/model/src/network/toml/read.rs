//! From TOML to a checked network.

use core::net::IpAddr;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::{Marks, dscp};

use super::keys::{Keys, Source, text, written};
use crate::network::build::{Builder, REORDER_WITHOUT_JITTER};
use crate::network::error::{Fault, NetworkError, thing};
use crate::network::names;
use crate::network::{Direction, Jitter, Link, Loss, Network, NodeIndex, NodeKind, Path, fibre, forms, limits};

const NETWORK_KEYS: &[&str] = &["name", "about", "hosts", "routers", "site", "host", "router", "link", "path"];
const SITE_KEYS: &[&str] = &["name", "latitude", "longitude"];
const NODE_KEYS: &[&str] = &["name", "site"];
const PATH_KEYS: &[&str] = &["name", "from", "to", "links", "addresses", "dscp", "flow_label"];
const BURST_KEYS: &[&str] = &["to_bad", "to_good", "in_good", "in_bad"];
const LOSS_KEYS: &[&str] = &["bursts", "mean", "burst"];

/// What a link may say of each direction.
const DIRECTION_KEYS: &[&str] =
    &["rate", "delay", "distance", "jitter", "reorder", "loss", "queue", "ecn", "duplicate", "corrupt"];

/// What a link may say.
const LINK_KEYS: &[&str] = &[
    "name",
    "ends",
    "rate",
    "delay",
    "distance",
    "jitter",
    "reorder",
    "loss",
    "queue",
    "ecn",
    "duplicate",
    "corrupt",
    "mtu",
    "risks",
    "cost",
    "high_water",
    "members",
    "bundle",
    "back",
];

/// What a link may say where its name and ends are told otherwise.
pub(crate) const LABEL_KEYS: &[&str] = LINK_KEYS.split_at(2).1;

/// The value of `distance` that stands for the way between the sites.
const GREAT_CIRCLE: &str = "great-circle";

impl Network {
    /// Reads a description; `file_name` is what messages call it. [`Network::to_toml`] writes what this reads.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Network, NetworkError> {
        let source = Source::Text(file_name, text);
        if text.len() > limits::TEXT_MAX {
            let problem = format!("longer than {} MiB: make the network smaller", limits::TEXT_MAX >> 20);
            return Err(NetworkError::new(file_name, None, Fault::from(problem)));
        }
        let table = document(source, text)?;
        let keys = Keys::new(source, None, table.span(), table.get_ref(), NETWORK_KEYS)?;
        network(source, &keys)
    }
}

/// The table that `text`, which `source` names, is.
pub(crate) fn document<'a>(source: Source<'_>, text: &'a str) -> Result<Spanned<DeTable<'a>>, NetworkError> {
    DeTable::parse(text).map_err(|error| {
        let problem = error.message().lines().collect::<Vec<_>>().join(", ");
        source.error(&error.span().unwrap_or(0..0), None, problem)
    })
}

fn network(source: Source<'_>, keys: &Keys<'_>) -> Result<Network, NetworkError> {
    let about = keys.text("about")?.map(str::to_owned);
    let name = keys.needed("name", "\"pair\"")?;
    let span = keys.value("name").map_or(0..0, Spanned::span);
    let mut builder = Builder::new(name, about).map_err(|problem| keys.error(&span, problem))?;
    for (table, span) in keys.tables("site")? {
        site(&mut builder, &named(source, "site", table, span, SITE_KEYS)?)?;
    }
    nodes(&mut builder, source, keys)?;
    for (table, span) in keys.tables("link")? {
        let keys = named(source, "link", table, span, LINK_KEYS)?;
        let ends = ends(&builder, &keys)?;
        read_link(&mut builder, &keys, keys.needed("name", "\"ab\"")?, ends)?;
    }
    for (table, span) in keys.tables("path")? {
        path(&mut builder, &named(source, "path", table, span, PATH_KEYS)?)?;
    }
    builder.finish().map_err(|problem| keys.fault(problem))
}

/// The keys of `[[kind]]`, which messages call by the name in it.
fn named<'a>(
    source: Source<'a>,
    kind: &str,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    known: &[&'static str],
) -> Result<Keys<'a>, NetworkError> {
    let name = table.get("name").and_then(|name| name.get_ref().as_str());
    let called = name.map_or_else(|| format!("[[{kind}]]"), |name| thing(kind, name));
    Keys::new(source, Some(called), span, table, known)
}

fn site(builder: &mut Builder, keys: &Keys<'_>) -> Result<(), NetworkError> {
    let name = keys.needed("name", "\"cern\"")?;
    let position = match (keys.number("latitude")?, keys.number("longitude")?) {
        (Some(latitude), Some(longitude)) => Some((latitude, longitude)),
        (None, None) => None,
        (Some(_), None) => return Err(keys.missing("longitude", "6.05")),
        (None, Some(_)) => return Err(keys.missing("latitude", "46.23")),
    };
    builder.add_site(name, position).map(drop).map_err(|problem| keys.fault(problem))
}

/// Hosts and routers of both forms, in the order of the file.
fn nodes(builder: &mut Builder, source: Source<'_>, keys: &Keys<'_>) -> Result<(), NetworkError> {
    let mut found = Vec::new();
    for (list, tables, kind) in [("hosts", "host", NodeKind::Host), ("routers", "router", NodeKind::Router)] {
        for (name, span) in keys.list(list)? {
            found.push((span.start, name, kind, None));
        }
        for (table, span) in keys.tables(tables)? {
            let start = span.start;
            let node = named(source, tables, table, span, NODE_KEYS)?;
            let name = node.needed("name", "\"a\"")?;
            found.push((start, name, kind, Some(node)));
        }
    }
    found.sort_by_key(|(start, ..)| *start);
    for (start, name, kind, node) in found {
        let site = match &node {
            Some(node) => refer(node, "site", |site| builder.find_site(site).map_err(|unknown| unknown.to_string()))?,
            None => None,
        };
        builder.add_node(name, kind, site).map_err(|problem| match &node {
            Some(node) => node.fault(problem),
            None => source.error(&(start..start), Some(&thing("node", name)), problem),
        })?;
    }
    Ok(())
}

/// What the name under `key` stands for.
fn refer<'a, T>(
    keys: &Keys<'a>,
    key: &str,
    find: impl FnOnce(&'a str) -> Result<T, String>,
) -> Result<Option<T>, NetworkError> {
    let Some(value) = keys.value(key) else { return Ok(None) };
    let name = text(value.get_ref()).map_err(|problem| keys.error(&value.span(), format!("{key}: {problem}")))?;
    find(name).map(Some).map_err(|problem| keys.error(&value.span(), problem))
}

/// The nodes that a link joins.
pub(crate) type LinkEnds = [NodeIndex; 2];

fn ends(builder: &Builder, keys: &Keys<'_>) -> Result<LinkEnds, NetworkError> {
    let Some(value) = keys.value("ends") else { return Err(keys.missing("ends", "[\"a\", \"b\"]")) };
    let ends = keys.list("ends")?;
    let [from, to] = ends.as_slice() else {
        return Err(keys.error(&value.span(), format!("ends: a link joins two nodes, not {}", ends.len())));
    };
    let find = |(name, span): &(&str, Range<usize>)| {
        builder.find_node(name).map_err(|unknown| keys.error(span, unknown.to_string()))
    };
    Ok([find(from)?, find(to)?])
}

/// Reads what `keys` say of a link, and adds it or its members.
pub(crate) fn read_link(
    builder: &mut Builder,
    keys: &Keys<'_>,
    name: &str,
    [from, to]: LinkEnds,
) -> Result<(), NetworkError> {
    names::check(name).map_err(|problem| keys.fault(problem))?;
    let forward = direction(builder, keys, [from, to], &Direction::default())?;
    let backward = match keys.table("back", DIRECTION_KEYS)? {
        Some(back) => direction(builder, &back, [from, to], &forward)?,
        None => forward.clone(),
    };
    let named = |key: &str, name: &str, span: &Range<usize>| {
        names::check(name).map_err(|problem| keys.error(span, format!("{key}: {problem}")))
    };
    let risks = keys.list("risks")?;
    risks.iter().try_for_each(|(risk, span)| named("risks", risk, span))?;
    let bundle = keys.text("bundle")?.zip(keys.value("bundle").map(Spanned::span));
    bundle.iter().try_for_each(|(bundle, span)| named("bundle", bundle, span))?;
    let link = Link {
        name: name.to_owned(),
        from,
        to,
        forward,
        backward,
        mtu: keys.whole("mtu", limits::MTU)?.unwrap_or(limits::MTU_DEFAULT),
        risks: risks.into_iter().map(|(risk, _)| risk.to_owned()).collect(),
        cost: keys.whole("cost", limits::COST)?.unwrap_or(limits::COST_DEFAULT),
        high_water_ppm: keys.quantity("high_water", forms::high_water_ppm)?,
        bundle: bundle.map(|(bundle, _)| bundle.to_owned()),
    };
    let Some(members) = keys.whole("members", 1..=limits::MEMBERS_MAX as u32)? else {
        return builder.add_link(link).map_err(|problem| keys.fault(problem));
    };
    if link.bundle.is_some() {
        return Err(keys.fault("`members` and `bundle`: the members' bundle has the link's name, leave `bundle` out"));
    }
    for member in 1..=members {
        let link = Link { name: format!("{name}-{member}"), bundle: Some(name.to_owned()), ..link.clone() };
        builder.add_link(link).map_err(|problem| keys.fault(problem))?;
    }
    Ok(())
}

/// One direction; what `keys` do not say is as in `base`.
fn direction(builder: &Builder, keys: &Keys<'_>, ends: LinkEnds, base: &Direction) -> Result<Direction, NetworkError> {
    if keys.has("delay") && keys.has("distance") {
        return Err(keys.fault("`delay` and `distance`: write one of them"));
    }
    let distance = keys.quantity("distance", |text| match text.trim() {
        GREAT_CIRCLE => great_circle(builder, ends),
        length => forms::distance(length),
    })?;
    let delay = keys.quantity("delay", forms::delay)?.or(distance);
    let amount = keys.quantity("jitter", forms::delay)?.unwrap_or(base.jitter.amount);
    let reorder = keys.flag("reorder")?;
    if reorder == Some(true) && amount.is_zero() {
        return Err(keys.fault(REORDER_WITHOUT_JITTER));
    }
    let reorder = reorder.unwrap_or(base.jitter.reorder) && !amount.is_zero();
    Ok(Direction {
        rate: keys.quantity("rate", forms::rate)?.unwrap_or(base.rate),
        delay: delay.unwrap_or(base.delay),
        jitter: Jitter { amount, reorder },
        loss: loss(keys)?.unwrap_or(base.loss),
        queue: keys.quantity("queue", forms::queue)?.unwrap_or(base.queue),
        ecn: keys.quantity("ecn", forms::queue)?.unwrap_or(base.ecn),
        duplicate: keys.quantity("duplicate", forms::probability)?.unwrap_or(base.duplicate),
        corrupt: keys.quantity("corrupt", forms::probability)?.unwrap_or(base.corrupt),
    })
}

fn great_circle(builder: &Builder, [from, to]: LinkEnds) -> Result<std::time::Duration, String> {
    let air_km = fibre::great_circle_km(builder.position(from)?, builder.position(to)?);
    forms::distance_km(fibre::route_km(air_km))
}

/// A chance for each packet alone, or bursts by their chances or by mean and length.
fn loss(keys: &Keys<'_>) -> Result<Option<Loss>, NetworkError> {
    let table = |value: &DeValue<'_>| value.is_table();
    if !keys.value("loss").is_some_and(|value| table(value.get_ref())) {
        return keys.get("loss", |value| forms::random_loss(written(value)?));
    }
    let Some(loss) = keys.table("loss", LOSS_KEYS)? else { return Ok(None) };
    let share = |keys: &Keys<'_>, key| keys.quantity(key, forms::share);
    let read = match loss.table("bursts", BURST_KEYS)? {
        Some(_) if loss.has("mean") || loss.has("burst") => {
            return Err(loss.fault("`bursts` and `mean`: write one of them"));
        }
        Some(bursts) => {
            let needed = |key| share(&bursts, key)?.ok_or_else(|| bursts.missing(key, "0.1"));
            let (to_bad, to_good) = (needed("to_bad")?, needed("to_good")?);
            let (in_good, in_bad) = (share(&bursts, "in_good")?, share(&bursts, "in_bad")?);
            forms::bursts(to_bad, to_good, in_good.unwrap_or(0.0), in_bad.unwrap_or(1.0))
        }
        None => {
            let mean = share(&loss, "mean")?.ok_or_else(|| loss.missing("mean", "1e-4"))?;
            let burst = loss.number("burst")?.ok_or_else(|| loss.missing("burst", "10"))?;
            forms::mean_bursts(mean, burst)
        }
    };
    read.map(Some).map_err(|problem| loss.fault(problem))
}

fn path(builder: &mut Builder, keys: &Keys<'_>) -> Result<(), NetworkError> {
    let name = keys.needed("name", "\"north\"")?;
    builder.check_path_name(name).map_err(|problem| keys.fault(problem))?;
    let from = refer(keys, "from", |node| builder.find_host(node))?.ok_or_else(|| keys.missing("from", "\"a\""))?;
    let to = refer(keys, "to", |node| builder.find_host(node))?.ok_or_else(|| keys.missing("to", "\"b\""))?;
    let mut seen = vec![from];
    let mut links = Vec::new();
    for (link, span) in keys.list("links")? {
        let step = builder.find_link(link).and_then(|link| Ok((link, builder.step(&seen, link, to)?)));
        let (link, node) = step.map_err(|problem| keys.error(&span, problem))?;
        links.push(link);
        seen.push(node);
    }
    let last = *seen.last().expect("a path begins at a node");
    if links.is_empty() || last != to {
        let span = keys.value("links").map(Spanned::span);
        let problem = match span {
            None => return Err(keys.missing("links", "[\"ab\"]")),
            Some(_) if links.is_empty() => "links: none: name the links from end to end in turn".to_owned(),
            Some(_) => {
                let (at, to) = (builder.node_name(last), builder.node_name(to));
                format!("links: end at `{at}`, not at `{to}`: name the links from end to end in turn")
            }
        };
        return Err(keys.error(&span.unwrap_or(0..0), problem));
    }
    let addresses = addresses(keys)?;
    let path = Path { name: name.to_owned(), from, to, links, addresses, marks: marks(keys)? };
    builder.add_path(path).map_err(|problem| keys.fault(problem))
}

/// What packets of a path carry.
fn marks(keys: &Keys<'_>) -> Result<Marks, NetworkError> {
    let point = keys.get("dscp", |value| dscp::parse(written(value)?))?;
    let label = keys.whole("flow_label", 0..=u32::MAX)?;
    let each =
        [("dscp", Marks { dscp: point, ..Marks::NONE }), ("flow_label", Marks { flow_label: label, ..Marks::NONE })];
    for (key, mark) in each {
        let span = keys.value(key).map_or(0..0, Spanned::span);
        mark.check().map_err(|problem| keys.error(&span, problem))?;
    }
    Ok(Marks { dscp: point, flow_label: label })
}

/// The addresses at both ends of a path.
fn addresses(keys: &Keys<'_>) -> Result<Option<[IpAddr; 2]>, NetworkError> {
    let Some(value) = keys.value("addresses") else { return Ok(None) };
    let written = keys.list("addresses")?;
    let [from, to] = written.as_slice() else {
        let problem = format!("addresses: a path has two, at its `from` and at its `to`, not {}", written.len());
        return Err(keys.error(&value.span(), problem));
    };
    let read = |(text, span): &(&str, Range<usize>)| {
        let no =
            || keys.error(span, "addresses: write IPv4 or IPv6 addresses such as `[\"192.0.2.1\", \"192.0.2.9\"]`");
        text.parse::<IpAddr>().map_err(|_| no())
    };
    Ok(Some([read(from)?, read(to)?]))
}
