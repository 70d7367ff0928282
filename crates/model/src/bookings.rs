//! What is booked of a network: reservations, maintenance, the steps in which links are sold, and what is limited beside links.
//!
//! ```toml
//! [[booking]]
//! name = "reprocessing"
//! class = "production"
//! links = ["ana-1", "ams-gva"]
//! from = "newyork"
//! rate = "40 Gb/s"
//! start = "2026-03-01T00:00:00Z"
//! end = "2026-03-01T06:00:00Z"
//!
//! [[booking]]
//! name = "splice"
//! class = "maintenance"
//! links = ["amitie"]
//! start = 2026-03-02T22:00:00Z
//! end = 2026-03-03T04:00:00Z
//!
//! [[grain]]
//! link = "ana"
//! rate = "1 Gb/s"
//!
//! [[resource]]
//! name = "caltech-read"
//! node = "caltech"
//! way = "out"
//! rate = "200 Gb/s"
//! ```
//!
//! [`Bookings`] are checked: links are in the network, and connected where a booking says `from`; windows are not empty.

mod scale;

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use units::{Rate, Utc, Window};

use crate::network::error::{Fault, thing};
use crate::network::toml::{Keys, Source, document, written};
use crate::network::{LinkIndex, Network, NetworkError};
use crate::scenario::Way;

pub use scale::scaled;

/// Why a file is no list of bookings, with line and thing: of one form with what is said of networks.
pub type BookingsError = NetworkError;

/// Bytes of a list's text.
pub const TEXT_MAX: usize = 64 << 20;
/// Bookings, and grains, of one list.
pub const ENTRIES_MAX: usize = 100_000;

const KEYS: &[&str] = &["booking", "grain", "resource"];
const BOOKING_KEYS: &[&str] = &["name", "class", "links", "from", "resources", "rate", "start", "end"];
const GRAIN_KEYS: &[&str] = &["link", "rate"];
const RESOURCE_KEYS: &[&str] = &["name", "node", "way", "links", "rate", "grain"];
/// The class of a booking that says none.
const CLASS_DEFAULT: &str = "reservation";

/// What is booked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookings {
    /// In the order of the file.
    pub bookings: Vec<Booking>,
    /// What bookings of a link are multiples of, of links with steps of more than 1 b/s.
    pub grains: Vec<(LinkIndex, Rate)>,
    /// What is limited beside links.
    pub resources: Vec<Resource>,
}

/// What limits several links at a node together: a port, a NIC, the reading or writing of a storage, a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What it is called: unlike all links, bundles and other resources.
    pub name: String,
    /// The ways that draw on it: all leave one node, or all enter one.
    pub ways: Vec<(LinkIndex, Way)>,
    /// How much there is.
    pub rate: Rate,
    /// What bookings are multiples of.
    pub grain: Rate,
}

/// A booking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// What it is called.
    pub name: String,
    /// The class of work, such as `maintenance`.
    pub class: String,
    /// Which ways of which links.
    pub links: Vec<(LinkIndex, Way)>,
    /// Which of [`Bookings::resources`], beside the links: what a booking does not name it does not take.
    pub resources: Vec<usize>,
    /// How much; `None` for all that there is.
    pub rate: Option<Rate>,
    /// When, in nanoseconds of Unix time.
    pub window: Window,
}

impl Bookings {
    /// Reads a list; `file_name` is what messages call it.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_toml(text: &str, file_name: &str, network: &Network) -> Result<Bookings, BookingsError> {
        if text.len() > TEXT_MAX {
            let problem = format!("longer than {} MiB: leave out what is over", TEXT_MAX >> 20);
            return Err(BookingsError::new(file_name, None, Fault::from(problem)));
        }
        let source = Source::Text(file_name, text);
        let table = document(source, text)?;
        let keys = Keys::new(source, None, table.span(), table.get_ref(), KEYS)?;
        let reader = Reader { source, network };
        let mut resources: Vec<Resource> = Vec::new();
        reader.entries(&keys, "resource", |reader, table, span| {
            let resource = reader.resource(table, span, &resources)?;
            resources.push(resource);
            Ok(())
        })?;
        let bookings =
            reader.entries(&keys, "booking", |reader, table, span| reader.booking(table, span, &resources))?;
        let grains = reader.entries(&keys, "grain", Reader::grain)?.concat();
        Ok(Bookings { bookings, grains, resources })
    }
}

/// What a file is read with.
pub(crate) struct Reader<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) network: &'a Network,
}

impl<'a> Reader<'a> {
    /// What `read` makes of each table of `[[kind]]`.
    fn entries<T>(
        &self,
        keys: &Keys<'a>,
        kind: &str,
        mut read: impl FnMut(&Self, &'a DeTable<'a>, Range<usize>) -> Result<T, BookingsError>,
    ) -> Result<Vec<T>, BookingsError> {
        let tables = keys.tables(kind)?;
        if let Some((_, span)) = tables.get(ENTRIES_MAX) {
            return Err(keys.error(span, format!("more than {ENTRIES_MAX} `[[{kind}]]`: leave out what is over")));
        }
        tables.into_iter().map(|(table, span)| read(self, table, span)).collect()
    }

    fn booking(
        &self,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        known: &[Resource],
    ) -> Result<Booking, BookingsError> {
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let called = name.map_or_else(|| "[[booking]]".to_owned(), |name| thing("booking", name));
        let keys = Keys::new(self.source, Some(called), span, table, BOOKING_KEYS)?;
        let name = keys.needed("name", "\"reprocessing\"")?.to_owned();
        let class = keys.text("class")?.unwrap_or(CLASS_DEFAULT).to_owned();
        let links = self.links(&keys)?;
        let resource = |(name, span): &(&str, Range<usize>)| {
            let unknown = || keys.error(span, format!("resources: no `[[resource]]` is called `{name}`"));
            known.iter().position(|resource| resource.name == *name).ok_or_else(unknown)
        };
        let mut resources = keys.list("resources")?.iter().map(resource).collect::<Result<Vec<usize>, _>>()?;
        resources.sort_unstable();
        resources.dedup();
        if links.is_empty() && resources.is_empty() {
            return Err(keys.missing("links", "[\"ab\"]"));
        }
        let rate = keys.quantity("rate", rate)?;
        let moment = |key: &str, example: &str| {
            let moment = keys.get(key, moment)?;
            moment.ok_or_else(|| keys.missing(key, example))
        };
        let (start, end) = (moment("start", "2026-03-01T00:00:00Z")?, moment("end", "2026-03-01T06:00:00Z")?);
        let window = Window::new(start.0, end.0);
        let window = window
            .ok_or_else(|| keys.fault(format!("it ends at {end}, which is not after {start}: write a later `end`")))?;
        Ok(Booking { name, class, links, resources, rate, window })
    }

    /// Both ways of each link, or with `from` the ways that lead on from there.
    fn links(&self, keys: &Keys<'a>) -> Result<Vec<(LinkIndex, Way)>, BookingsError> {
        let names = keys.list("links")?;
        let from =
            keys.get("from", |value| self.network.node(written(value)?).map_err(|unknown| unknown.to_string()))?;
        let mut at = from;
        let mut links = Vec::new();
        for (name, span) in &names {
            let unknown = |error: crate::network::Unknown| keys.error(span, format!("links: {error}"));
            let Some(node) = at else {
                let found = self.network.links_named(name).map_err(unknown)?;
                links.extend(found.into_iter().flat_map(|link| [(link, Way::Forward), (link, Way::Backward)]));
                continue;
            };
            let index = self.network.link(name).map_err(unknown)?;
            let link = &self.network.links[index];
            let way = if link.from == node {
                Way::Forward
            } else if link.to == node {
                Way::Backward
            } else {
                let node = &self.network.nodes[node].name;
                return Err(
                    keys.error(span, format!("links: `{name}` is not at `{node}`: name links in turn from there"))
                );
            };
            links.push((index, way));
            at = Some(self.network.far_end(index, node));
        }
        links.sort_by_key(|(link, way)| (*link, way.index()));
        links.dedup();
        Ok(links)
    }

    /// One `[[resource]]`, called unlike those that are known.
    pub(crate) fn resource(
        &self,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        known: &[Resource],
    ) -> Result<Resource, BookingsError> {
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let called = name.map_or_else(|| "[[resource]]".to_owned(), |name| thing("resource", name));
        let keys = Keys::new(self.source, Some(called), span, table, RESOURCE_KEYS)?;
        let name = keys.needed("name", "\"caltech-read\"")?;
        let is_taken = self.network.links_named(name).is_ok() || known.iter().any(|resource| resource.name == name);
        if is_taken {
            return Err(keys.fault("a link, a bundle or another resource is called so: write another `name`"));
        }
        let node =
            keys.get("node", |value| self.network.node(written(value)?).map_err(|unknown| unknown.to_string()))?;
        let node = node.ok_or_else(|| keys.missing("node", "\"caltech\""))?;
        let leaves = keys.get("way", |value| match written(value)? {
            "out" => Ok(true),
            "in" => Ok(false),
            other => Err(format!("write `out` for what leaves the node or `in` for what enters it, not `{other}`")),
        })?;
        let leaves = leaves.ok_or_else(|| keys.missing("way", "\"out\""))?;
        let names = keys.list("links")?;
        let mut links: Vec<LinkIndex> = Vec::new();
        for (name, span) in &names {
            let found = self.network.links_named(name);
            links.extend(found.map_err(|unknown| keys.error(span, format!("links: {unknown}")))?);
        }
        let is_at = |link: LinkIndex| [self.network.links[link].from, self.network.links[link].to].contains(&node);
        if let Some(elsewhere) = links.iter().find(|link| !is_at(**link)) {
            let (link, node) = (&self.network.links[*elsewhere].name, &self.network.nodes[node].name);
            return Err(keys.fault(format!("links: `{link}` is not at `{node}`: name links that are, or none for all")));
        }
        if names.is_empty() {
            links = (0..self.network.links.len()).filter(|link| is_at(*link)).collect();
        }
        links.sort_unstable();
        links.dedup();
        let way = |link: LinkIndex| {
            let begins = self.network.links[link].from == node;
            (link, if begins == leaves { Way::Forward } else { Way::Backward })
        };
        let rate_of = keys.quantity("rate", rate)?.ok_or_else(|| keys.missing("rate", "\"200 Gb/s\""))?;
        let grain = keys.quantity("grain", rate)?.unwrap_or(Rate::from_bps(1));
        let ways = links.into_iter().map(way).collect();
        Ok(Resource { name: name.to_owned(), ways, rate: rate_of, grain })
    }

    fn grain(&self, table: &'a DeTable<'a>, span: Range<usize>) -> Result<Vec<(LinkIndex, Rate)>, BookingsError> {
        let keys = Keys::new(self.source, Some("[[grain]]".to_owned()), span, table, GRAIN_KEYS)?;
        let links =
            keys.get("link", |value| self.network.links_named(written(value)?).map_err(|unknown| unknown.to_string()))?;
        let links = links.ok_or_else(|| keys.missing("link", "\"ab\""))?;
        let grain = keys.quantity("rate", rate)?.ok_or_else(|| keys.missing("rate", "\"1 Gb/s\""))?;
        Ok(links.into_iter().map(|link| (link, grain)).collect())
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if rate.is_zero() { Err("write more than 0 b/s".to_owned()) } else { Ok(rate) }
}

/// A date of TOML, or the same in quotes.
pub(crate) fn moment(value: &DeValue<'_>) -> Result<Utc, String> {
    let written = match value {
        DeValue::Datetime(date) => date.to_string(),
        other => written(other)?.to_owned(),
    };
    written.parse().map_err(|error: units::UtcError| error.to_string())
}
