//! A network with its bookings, and answers in the names of its files.

use std::num::NonZeroU64;
use std::path::Path as FilePath;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use model::bookings::Bookings as Booked;
use model::network::Network;
use plan::book::{Book, Part};
use plan::graph::{EdgeId, Graph};
use plan::slots::Ends;
use serde::Serialize;
use units::{Moment, Rate, Span, Utc, Window};

use super::table::wrapped;
use crate::action::network;
use crate::args::plan::{Bookings, Way};
use crate::exit::usage;
use crate::output::COLUMNS_MAX;

/// How far a search looks when nobody says.
pub(super) const SEARCH: Duration = Duration::from_secs(30 * 86_400);

/// What is asked.
pub(super) struct Site {
    pub(super) network: Network,
    pub(super) book: Book,
    pub(super) now: Moment,
}

/// A path in names.
#[derive(Debug, Serialize)]
pub(super) struct Along {
    pub(super) nodes: Vec<String>,
    pub(super) links: Vec<String>,
}

/// A rate over a path for a window, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct ShownPart {
    pub(super) start: String,
    pub(super) end: String,
    pub(super) rate_bps: u64,
    #[serde(flatten)]
    pub(super) along: Along,
}

impl Site {
    pub(super) fn read(args: &Bookings) -> Result<Site> {
        let network = network::read(&args.topology, FilePath::new(""))?;
        let booked = match &args.bookings {
            None => Booked::default(),
            Some(file) => {
                let text = super::read(file)?;
                Booked::from_toml(&text, &file.to_string_lossy(), &network).map_err(|error| usage(error.to_string()))?
            }
        };
        let now = match args.now {
            Some(Utc(now)) => now,
            None => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
                i64::try_from(since.as_nanos()).context("the clock is after 2262")?
            }
        };
        let book = Book::of(&network, &booked, now)?;
        Ok(Site { network, book, now })
    }

    pub(super) fn ends(&self, way: &Way) -> Result<Ends> {
        let node = |name: &str| self.network.node(name).map_err(|unknown| usage(unknown.to_string()));
        let ends = Ends::new(node(&way.from)?, node(&way.to)?);
        ends.ok_or_else(|| usage(format!("`{}` is both ends: name another one", way.from)))
    }

    /// From now until then, or for as long as nobody says otherwise.
    pub(super) fn searched(&self, until: Option<Utc>, otherwise: Duration) -> Result<Window> {
        match until {
            Some(until) => {
                let window = Window::new(self.now, until.0);
                window
                    .ok_or_else(|| usage(format!("--until {until} is not after {}: write a later one", Utc(self.now))))
            }
            None => lasting(self.now, Span::new(otherwise)),
        }
    }

    pub(super) fn along(&self, path: &[EdgeId]) -> Along {
        Along::of(&self.network, self.book.view().graph(), path)
    }

    pub(super) fn part(&self, part: &Part) -> ShownPart {
        let Part { path, window, rate } = part;
        let (start, end) = (Utc(window.start()).to_string(), Utc(window.end()).to_string());
        ShownPart { start, end, rate_bps: *rate, along: self.along(path) }
    }
}

impl Along {
    pub(super) fn of(network: &Network, graph: &Graph, path: &[EdgeId]) -> Along {
        let nodes = path.first().map(|edge| graph.edge(*edge).from).into_iter();
        let nodes = nodes.chain(path.iter().map(|edge| graph.edge(*edge).to)).map(|node| graph.names()[node].clone());
        // Edges 2 n and 2 n + 1 are those of link n.
        let links = path.iter().map(|edge| network.links[edge / 2].name.clone());
        Along { nodes: nodes.collect(), links: links.collect() }
    }

    /// Lines for people, each begun with `indent`.
    pub(super) fn text(&self, indent: &str) -> String {
        let nodes = self.nodes.iter().flat_map(|node| ["→", node.as_str()]).skip(1);
        let links = std::iter::once("by").chain(self.links.iter().map(String::as_str));
        format!("{}\n{}\n", wrapped(nodes, indent, COLUMNS_MAX), wrapped(links, indent, COLUMNS_MAX))
    }
}

/// A window of some length, which is above nothing.
pub(super) fn lasting(start: Moment, length: Span) -> Result<Window> {
    let window = u64::try_from(length.get().as_nanos()).ok().and_then(|nanos| Window::lasting(start, nanos));
    window.ok_or_else(|| usage(format!("{length:#} from {}: write more than nothing, within 1897 to 2043", Utc(start))))
}

pub(super) fn nanos(length: Span) -> Result<NonZeroU64> {
    let nanos = u64::try_from(length.get().as_nanos()).ok().and_then(NonZeroU64::new);
    nanos.ok_or_else(|| usage(format!("--for {length:#}: write more than nothing, and less than 500 years")))
}

pub(super) fn above_0(rate: Rate) -> Result<NonZeroU64> {
    NonZeroU64::new(rate.bps()).ok_or_else(|| usage("--rate of nothing: write more"))
}

pub(super) fn json(answer: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(answer).map_err(|error| anyhow!(error))?;
    Ok(json + "\n")
}
