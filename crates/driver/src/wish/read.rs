//! The file of a wish.
//!
//! ```toml
//! [[interface]]
//! name = "eth1"
//! rate = "10 Gb/s"
//! at_large = "2 Gb/s"            # what others keep in any case
//!
//! [[interface.class]]
//! name = "longhaul"
//! match = [{ dscp = "le" }, { from = "2001:db8:1::/64", to = "2001:db8:7::/64" }]
//! floor = "8 Gb/s"
//! ceiling = "10 Gb/s"
//!
//! [[interface]]
//! name = "eth2"
//! link = "ana:forward"           # the controller knows its rate and its mark
//!
//! [[interface.class]]
//! name = "longhaul"
//! match = [{ dscp = "le" }]
//!
//! [[route]]
//! number = 1
//! from = "2001:db8:1::12"
//! via = "2001:db8:f::1"
//! interface = "eth2"
//!
//! [[route]]
//! number = 2
//! path = "north:forward"         # the controller knows its addresses and its marks
//! via = "2001:db8:f::1"
//! interface = "eth2"
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use service::ConfigError;
use service::config::Source;
use toml::Spanned;
use units::{Rate, dscp};

use super::{INTERFACES_MAX, Packets, PolicyRoute, RATE_LEAST, Rates, Shape, TEXT_MAX, Wanted, Wish};
use crate::item::{CLASSES_MAX, FILTERS_MAX, Match, ROUTES_MAX};
use crate::prefix::Prefix;

/// Bytes of the name of an interface, as in the kernel (`IFNAMSIZ` with a zero byte).
const DEVICE_MAX: usize = 15;
/// Largest flow label: 20 bits (RFC 8200, section 3).
const LABEL_MAX: u32 = 0xf_ffff;
/// Characters of the name of a class.
const NAME_MAX: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    interface: Vec<RawInterface>,
    #[serde(default)]
    route: Vec<RawRoute>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInterface {
    name: Spanned<String>,
    link: Option<Spanned<String>>,
    rate: Option<Spanned<Rate>>,
    at_large: Option<Spanned<Rate>>,
    #[serde(default)]
    class: Vec<RawClass>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    name: Spanned<String>,
    #[serde(rename = "match")]
    matches: Spanned<Vec<RawMatch>>,
    floor: Option<Spanned<Rate>>,
    ceiling: Option<Spanned<Rate>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    dscp: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoute {
    number: Spanned<u32>,
    path: Option<Spanned<String>>,
    dscp: Option<Spanned<String>>,
    flow_label: Option<Spanned<u32>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    via: Spanned<String>,
    interface: Spanned<String>,
}

impl Wish {
    /// Reads a file, and checks all of it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn load(path: &Path) -> Result<Wish, ConfigError> {
        let unreadable = |error| ConfigError::unreadable(path, error);
        let length = std::fs::metadata(path).map_err(unreadable)?.len();
        if length > TEXT_MAX {
            let text = format!("this file has {length} bytes, {TEXT_MAX} are the most");
            return Err(ConfigError::new(Source::of(path, "").place(None), "", text));
        }
        Wish::parse(&std::fs::read_to_string(path).map_err(unreadable)?, path)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Wish::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Wish, ConfigError> {
        let source = Source::of(path, text);
        let raw: Raw = toml::from_str(text).map_err(|error| source.syntax(error))?;
        check(raw, &source)
    }
}

fn check(raw: Raw, source: &Source<'_>) -> Result<Wish, ConfigError> {
    if let Some(one) = raw.interface.get(INTERFACES_MAX) {
        let text = format!("more than {INTERFACES_MAX} interfaces");
        return Err(source.error("interface", one.name.span(), text));
    }
    let mut wish = Wish::default();
    let mut links = BTreeSet::new();
    for one in raw.interface {
        let name = device(&one.name, "interface.name", source)?;
        if wish.interfaces.contains_key(&name) {
            let text = format!("`{name}` is there twice: write all its classes below one");
            return Err(source.error("interface.name", one.name.span(), text));
        }
        if let Some(link) = one.link.as_ref().filter(|link| !links.insert(link.get_ref().clone())) {
            let text = format!("`{}` is the link of another interface", link.get_ref());
            return Err(source.error("interface.link", link.span(), text));
        }
        wish.interfaces.insert(name, shape(one, source)?);
    }
    for one in raw.route {
        let number = *one.number.get_ref();
        if !(1..=ROUTES_MAX).contains(&number) || wish.routes.contains_key(&number) {
            let text = format!("a route has a number of its own from 1 to {ROUTES_MAX}: lower ones are asked first");
            return Err(source.error("route.number", one.number.span(), text));
        }
        wish.routes.insert(number, route(&one, source)?);
    }
    Ok(wish)
}

fn device(name: &Spanned<String>, key: &str, source: &Source<'_>) -> Result<String, ConfigError> {
    let text = name.get_ref();
    let is_good = !text.is_empty()
        && text.len() <= DEVICE_MAX
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
        && text != "."
        && text != "..";
    if !is_good {
        let shown = text.escape_debug();
        return Err(source.error(key, name.span(), format!("`{shown}` is no name of an interface: see `ip link`")));
    }
    Ok(text.clone())
}

fn shape(raw: RawInterface, source: &Source<'_>) -> Result<Shape, ConfigError> {
    let at = raw.name.span();
    let name = raw.name.get_ref().clone();
    if raw.class.is_empty() || raw.class.len() > usize::from(CLASSES_MAX) {
        let text = format!("`{name}` needs one to {CLASSES_MAX} [[interface.class]]");
        return Err(source.error("interface.class", at, text));
    }
    let rates = match (raw.link, raw.rate, raw.at_large) {
        (Some(link), None, None) => Rates::Link(link_name(&link, source)?),
        (None, Some(rate), Some(at_large)) => {
            enough(&at_large, "interface.at_large", source)?;
            Rates::Given { rate: *rate.get_ref(), at_large: *at_large.get_ref() }
        }
        _ => {
            let text = "give `rate` and `at_large`, or `link` alone for what the controller says of it";
            return Err(source.error("interface", at, text));
        }
    };
    if let (Rates::Link(_), Some(second)) = (&rates, raw.class.get(1)) {
        let text = "an interface with a `link` has one class: what the controller gives out";
        return Err(source.error("interface.class", second.name.span(), text));
    }
    let classes = raw.class.iter().map(|class| wanted(class, &rates, source)).collect::<Result<Vec<_>, _>>()?;
    let mut names = BTreeSet::new();
    if let Some(twice) = raw.class.iter().find(|class| !names.insert(class.name.get_ref())) {
        let text = format!("`{}` is there twice", twice.name.get_ref());
        return Err(source.error("interface.class.name", twice.name.span(), text));
    }
    let filters: usize = classes.iter().flat_map(|class| &class.matches).map(|what| what.families().count()).sum();
    if filters > usize::from(FILTERS_MAX) {
        let text =
            format!("its matches need {filters} filters, {FILTERS_MAX} are the most (one for each family of IP)");
        return Err(source.error("interface.class", at, text));
    }
    if let Rates::Given { rate, at_large } = &rates {
        let floors = classes.iter().fold(at_large.bps(), |sum, class| sum.saturating_add(class.floor.bps()));
        if floors > rate.bps() {
            let sum = Rate::from_bps(floors);
            let text = format!("`at_large` and the floors are {sum} together, `{name}` has {rate}: lower some");
            return Err(source.error("interface", at, text));
        }
    }
    Ok(Shape { rates, classes })
}

fn link_name(link: &Spanned<String>, source: &Source<'_>) -> Result<String, ConfigError> {
    directed(link, ("interface.link", "link"), "as `longhaul topology links` shows them", source)
}

/// A direction of a link or a path.
fn directed(
    name: &Spanned<String>,
    (key, what): (&str, &str),
    found: &str,
    source: &Source<'_>,
) -> Result<String, ConfigError> {
    let text = name.get_ref();
    if !(text.ends_with(":forward") || text.ends_with(":backward")) || text.chars().any(char::is_control) {
        let shown = text.escape_debug();
        let text = format!("`{shown}` is no direction of a {what}: write NAME:forward or NAME:backward, {found}");
        return Err(source.error(key, name.span(), text));
    }
    Ok(text.clone())
}

fn wanted(raw: &RawClass, rates: &Rates, source: &Source<'_>) -> Result<Wanted, ConfigError> {
    let name = raw.name.get_ref();
    if name.is_empty() || name.chars().count() > NAME_MAX || name.chars().any(char::is_control) {
        let text = format!("a class has a name of 1 to {NAME_MAX} characters");
        return Err(source.error("interface.class.name", raw.name.span(), text));
    }
    let (floor, ceiling) = match (rates, &raw.floor, &raw.ceiling) {
        (Rates::Link(_), None, None) => (Rate::ZERO, Rate::ZERO),
        (Rates::Link(_), Some(given), _) | (Rates::Link(_), _, Some(given)) => {
            let text = "with a `link` the controller says it: leave it out";
            return Err(source.error("interface.class", given.span(), text));
        }
        (Rates::Given { .. }, None, _) => {
            let text = format!("`{name}` has no `floor`: write what it has in any case");
            return Err(source.error("interface.class.floor", raw.name.span(), text));
        }
        (Rates::Given { rate, .. }, Some(floor), ceiling) => {
            enough(floor, "interface.class.floor", source)?;
            let ceiling_rate = ceiling.as_ref().map_or(*rate, |ceiling| *ceiling.get_ref());
            if ceiling_rate > *rate || ceiling_rate < *floor.get_ref() {
                let at = ceiling.as_ref().map_or(floor.span(), Spanned::span);
                let text = format!(
                    "a ceiling lies between the floor ({}) and the rate of the interface ({rate})",
                    floor.get_ref()
                );
                return Err(source.error("interface.class.ceiling", at, text));
            }
            (*floor.get_ref(), ceiling_rate)
        }
    };
    if raw.matches.get_ref().is_empty() {
        let text = format!("nothing would go into `{name}`: write what does, such as [{{ dscp = \"le\" }}]");
        return Err(source.error("interface.class.match", raw.matches.span(), text));
    }
    let one = |one: &RawMatch| {
        let given = (one.dscp.as_ref(), one.from.as_ref(), one.to.as_ref());
        matched(given, raw.matches.span(), "interface.class.match", source)
    };
    let matches = raw.matches.get_ref().iter().map(one).collect::<Result<_, _>>()?;
    Ok(Wanted { name: name.clone(), matches, floor, ceiling })
}

fn enough(rate: &Spanned<Rate>, key: &str, source: &Source<'_>) -> Result<(), ConfigError> {
    if *rate.get_ref() >= RATE_LEAST {
        return Ok(());
    }
    Err(source.error(key, rate.span(), format!("{RATE_LEAST} are the least")))
}

type Text = Spanned<String>;

fn matched(
    (point, from, to): (Option<&Text>, Option<&Text>, Option<&Text>),
    span: Range<usize>,
    key: &str,
    source: &Source<'_>,
) -> Result<Match, ConfigError> {
    let prefix = |text: Option<&Text>, end: &str| {
        let parse = |text: &Text| {
            let wrong = |why| source.error(&format!("{key}.{end}"), text.span(), why);
            text.get_ref().parse::<Prefix>().map_err(wrong)
        };
        text.map(parse).transpose()
    };
    let parse_point =
        |text: &Text| dscp::parse(text.get_ref()).map_err(|why| source.error(&format!("{key}.dscp"), text.span(), why));
    let what = Match { dscp: point.map(parse_point).transpose()?, from: prefix(from, "from")?, to: prefix(to, "to")? };
    match what {
        Match { dscp: None, from: None, to: None } => {
            Err(source.error(key, span, "it says nothing: give `dscp`, `from`, `to` or several of them"))
        }
        Match { from: Some(from), to: Some(to), .. } if from.is_v6() != to.is_v6() => {
            Err(source.error(key, span, format!("no packet is from {from} to {to}: they are of two families")))
        }
        what => Ok(what),
    }
}

fn route(raw: &RawRoute, source: &Source<'_>) -> Result<PolicyRoute, ConfigError> {
    let wrong = |text: String| source.error("route.via", raw.via.span(), text);
    let via: IpAddr = raw
        .via
        .get_ref()
        .parse()
        .map_err(|_| wrong(format!("`{}` is no address of a next hop", raw.via.get_ref().escape_debug())))?;
    let what = packets(raw, source)?;
    if let Packets::Given { what: Match { from, to, .. }, flow_label } = what {
        let is_v6 = from.or(to).map(Prefix::is_v6).or(flow_label.map(|_| true));
        if is_v6.is_some_and(|is_v6| is_v6 != via.is_ipv6()) {
            return Err(wrong(format!("{via} is of another family than the packets")));
        }
    }
    let device = device(&raw.interface, "route.interface", source)?;
    Ok(PolicyRoute { what, via, device })
}

fn packets(raw: &RawRoute, source: &Source<'_>) -> Result<Packets, ConfigError> {
    let given = (raw.dscp.as_ref(), raw.from.as_ref(), raw.to.as_ref());
    if let Some(path) = &raw.path {
        if given != (None, None, None) || raw.flow_label.is_some() {
            let text = "with a `path` the controller says which packets: leave the rest out";
            return Err(source.error("route.path", path.span(), text));
        }
        return directed(path, ("route.path", "path"), "as `longhaul topology paths` shows them", source)
            .map(Packets::Path);
    }
    let flow_label = raw.flow_label.as_ref().map(|label| *label.get_ref());
    if let Some(label) = raw.flow_label.as_ref().filter(|label| !(1..=LABEL_MAX).contains(label.get_ref())) {
        let text = format!("a flow label is 0x1 to {LABEL_MAX:#x}");
        return Err(source.error("route.flow_label", label.span(), text));
    }
    if given == (None, None, None) && flow_label.is_some() {
        let what = Match { dscp: None, from: None, to: None };
        return Ok(Packets::Given { what, flow_label });
    }
    let what = matched(given, raw.number.span(), "route", source)?;
    if what.from.or(what.to).is_some_and(|given| !given.is_v6()) && flow_label.is_some() {
        return Err(source.error("route.flow_label", raw.number.span(), "packets of IPv4 have no flow label"));
    }
    Ok(Packets::Given { what, flow_label })
}
