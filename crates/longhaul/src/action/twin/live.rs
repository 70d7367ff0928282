//! The network of a controller as it is now, for a twin of it.
//!
//! What links carry is taken off their rates: the twin sends nothing by itself. That leaves what a newcomer could have, with the delays and the
//! queues of the network; it is not what traffic that gives way would do.

use std::fs;

use anyhow::{Context, Result};
use api::rest::{Link, LinkState};
use model::bookings::{self, Bookings};
use model::network::{Network, Ratio, limits};
use model::scenario::Way;
use serde::Serialize;
use twin::links::Links;
use twin::place::Place;
use units::Rate;

use crate::action::controller::{Known, known};
use crate::args::twin::{Loads, UpArgs};
use crate::environment::Environment;
use crate::exit::usage;

/// Counters that are older say nothing of now, s.
const COUNTED_MAX_S: u64 = 600;
/// In the twin's directory: the network at the twin's scale, without loads.
const NETWORK_FILE: &str = "live.toml";
/// In the twin's directory: what is booked, at the twin's scale.
const BOOKINGS_FILE: &str = "bookings.toml";

/// What a controller knows of its network.
pub(super) struct Live {
    network: Network,
    bookings: String,
    links: Vec<Link>,
    loads: Loads,
}

/// What a twin has of a live network, as it is told.
#[derive(Debug, Default, Serialize)]
pub(super) struct Settled {
    /// What was taken off.
    loads: Vec<Taken>,
    /// Links that are cut, as the controller holds them for down.
    cut: Vec<String>,
    /// How many bookings there are.
    bookings: usize,
    /// Where they are.
    bookings_file: String,
    /// Where the network is to which they belong.
    network_file: String,
    /// What the twin has not.
    notes: Vec<String>,
}

/// A load that was taken off a direction of a link.
#[derive(Debug, Serialize)]
struct Taken {
    link: String,
    /// At the twin's scale.
    load_bps: u64,
    /// What is left.
    rate_bps: u64,
}

impl Live {
    /// Asks the controller that `--from` names.
    ///
    /// # Errors
    /// When it cannot be reached, says no, or has no network.
    pub(super) fn ask(args: &UpArgs, url: &str) -> Result<Live> {
        let reach = args.reach.reach(url, args.json);
        let Known { network, bookings, links } = known(&reach, &Environment::of_process()?)?;
        let network = Network::from_toml(&network, "the controller's network")?;
        // Read once, so that what is written beside the twin can be.
        Bookings::from_toml(&bookings, "the controller's bookings", &network)?;
        Ok(Live { network, bookings, links, loads: args.loads })
    }

    /// The network, without loads.
    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// Takes loads off a network that was scaled.
    pub(super) fn load(&self, network: &mut Network, ratio: Ratio) -> Settled {
        let mut settled = Settled::default();
        for link in &self.links {
            let load_bps = ratio.of(load(link, self.loads, &mut settled.notes));
            let Some((name, way)) = link.id.rsplit_once(':').filter(|_| load_bps > 0) else { continue };
            let Ok(index) = network.link(name) else { continue };
            let of = &mut network.links[index];
            let direction = if way == Way::Forward.name() { &mut of.forward } else { &mut of.backward };
            let Some(rate) = &mut direction.rate else {
                settled.notes.push(format!("{}: it has no rate to take its load off", link.id));
                continue;
            };
            let left = rate.bps().saturating_sub(load_bps).max(limits::RATE.start().bps());
            *rate = Rate::from_bps(left);
            settled.loads.push(Taken { link: link.id.clone(), load_bps, rate_bps: left });
        }
        settled
    }

    /// Cuts what is down in a twin that is up, and writes the network and what is booked of it beside the twin.
    ///
    /// # Errors
    /// When the twin does not do it, or its directory cannot be written.
    pub(super) fn settle(&self, place: &Place, ratio: Ratio, settled: &mut Settled) -> Result<()> {
        let links = Links::of(place)?;
        let is_down = |link: &&Link| matches!(link.state, LinkState::Down | LinkState::HoldDown);
        for link in self.links.iter().filter(is_down) {
            let name = link.id.rsplit_once(':').map_or(link.id.as_str(), |(name, _)| name);
            if settled.cut.iter().any(|cut| cut == name) {
                continue;
            }
            if let Ok(index) = links.network().link(name) {
                links.set_up(index, false)?;
                settled.cut.push(name.to_owned());
            }
        }
        let network = self.network.scaled(ratio);
        let text = bookings::scaled(&self.bookings, ratio).context("the controller's bookings")?;
        settled.bookings = Bookings::from_toml(&text, BOOKINGS_FILE, &network)?.bookings.len();
        for (file, text, told) in [
            (NETWORK_FILE, network.to_toml(), &mut settled.network_file),
            (BOOKINGS_FILE, text, &mut settled.bookings_file),
        ] {
            let path = place.file(file);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            *told = path.display().to_string();
        }
        Ok(())
    }
}

impl Settled {
    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Taken { link, load_bps, rate_bps } in &self.loads {
            let [load, left] = [*load_bps, *rate_bps].map(Rate::from_bps);
            text += &format!("  load {link}  {load}, {left} left\n");
        }
        self.cut.iter().for_each(|link| text += &format!("  cut  {link}\n"));
        self.notes.iter().for_each(|note| text += &format!("  note {note}\n"));
        text + &format!("  bookings  {} in {}, of {}\n", self.bookings, self.bookings_file, self.network_file)
    }
}

/// What a direction of a link carries now, b/s of IP packets.
fn load(link: &Link, loads: Loads, notes: &mut Vec<String>) -> u64 {
    let counted = link.total_bps.filter(|_| link.total_age_seconds.is_some_and(|age| age <= COUNTED_MAX_S));
    if counted.is_none() && link.total_bps.is_some() && loads != Loads::None {
        notes.push(format!("{}: its counters are older than {COUNTED_MAX_S} s and are left aside", link.id));
    }
    match loads {
        Loads::None => 0,
        Loads::All => counted.unwrap_or(0).max(link.measured_bps),
        Loads::Others => counted.unwrap_or(0).saturating_sub(link.measured_bps),
    }
}

/// The scale as written.
pub(super) fn ratio(text: &str) -> Result<Ratio> {
    text.parse().map_err(|error| usage(format!("--scale: {error}")))
}
