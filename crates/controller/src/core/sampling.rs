//! What the archive is given, once in each second: sums of what sessions have and do, never a transfer by itself.
//!
//! A series is begun when there is something to be said: of links, classes and paths that nothing ever used there is none. So many of each kind
//! are kept that a big network leaves room for the other kinds; later ones are left out. Names are `kind:thing/what`, with the unit at the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::network::Network;
use model::scenario::Way;
use tokio::time::Instant;

use super::Core;
use crate::store::SERIES_MAX;
use crate::views::{self, Load, way_id};

/// Directions of links, three series each.
const LINKS_MAX: usize = 800;
/// Classes, two series each.
const CLASSES_MAX: usize = 300;
/// Paths with a name, and as many others.
const PATHS_MAX: usize = 512;
/// Series of all work together.
const TOTALS: usize = 5;

const _: () = assert!(3 * LINKS_MAX + 2 * CLASSES_MAX + 2 * PATHS_MAX + TOTALS <= SERIES_MAX);

type Values = Vec<(String, f64)>;

/// What was sampled so far.
pub(crate) struct Sampling {
    /// The second of the last samples, since 1970.
    at_s: Option<u64>,
    at: Instant,
    /// Files that came into place since then.
    pub(super) files_done: u64,
    links: Things,
    classes: Things,
    named: Things,
    usual: Things,
    /// The network that `there` is of.
    network: Option<Arc<Network>>,
    /// Those of `links` that it has.
    there: BTreeSet<String>,
}

/// Things of a kind that have series.
struct Things {
    known: BTreeSet<String>,
    most: usize,
    is_full: bool,
}

impl Things {
    /// Those among names of series, by what their names begin with.
    fn of(names: &[&str], begin: &str, most: usize) -> Things {
        let thing = |name: &&str| Some(name.strip_prefix(begin)?.rsplit_once('/')?.0.to_owned());
        Things { known: names.iter().filter_map(thing).collect(), most, is_full: false }
    }

    /// Whether it has series: it had before, or there is room for more.
    fn take(&mut self, thing: &str) -> bool {
        if self.known.contains(thing) {
            return true;
        }
        if self.known.len() >= self.most {
            if !self.is_full {
                tracing::warn!(
                    thing,
                    most = self.most,
                    "there is no room in the archive for it, and for others like it"
                );
            }
            self.is_full = true;
            return false;
        }
        self.known.insert(thing.to_owned())
    }
}

impl Sampling {
    /// As it goes on after these series.
    pub(super) fn of(names: &[&str]) -> Sampling {
        let (usual, named): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.starts_with("path:usual:"));
        Sampling {
            at_s: None,
            at: Instant::now(),
            files_done: 0,
            links: Things::of(names, "link:", LINKS_MAX),
            classes: Things::of(names, "class:", CLASSES_MAX),
            named: Things::of(&named, "path:", PATHS_MAX),
            usual: Things::of(&usual, "path:", PATHS_MAX),
            network: None,
            there: BTreeSet::new(),
        }
    }

    fn totals(&mut self, core: &Core, values: &mut Values) {
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.at, now)).as_secs_f64();
        let files = std::mem::take(&mut self.files_done) as f64;
        let load = Load::of_all(core, core.live.keys());
        let goodput = core.live.values().map(super::live::Live::goodput_bps).fold(0, u64::saturating_add);
        loaded("all", load, values);
        values.push(("all/goodput_bps".to_owned(), goodput as f64));
        values.push(("all/files_per_s".to_owned(), if elapsed > 0.0 { files / elapsed } else { 0.0 }));
        values.push(("all/sessions".to_owned(), core.live.len() as f64));
    }

    fn links(&mut self, core: &Core, values: &mut Values) {
        let Some(world) = &core.world else { return };
        if self.network.as_ref().is_none_or(|network| !Arc::ptr_eq(network, &world.network)) {
            self.network = Some(world.network.clone());
            let both = |name: &str| [Way::Forward, Way::Backward].map(|way| way_id(name, way));
            let ids = world.network.links.iter().flat_map(|link| both(&link.name));
            self.there = ids.filter(|id| self.links.known.contains(id)).collect();
        }
        let loads = views::by_way(core);
        let counted = &core.desk.counting.samples;
        let of_loads = loads.iter().filter(|(_, load)| **load != Load::default()).map(|(id, _)| id.as_str());
        // Of what is counted no more than there is room for is looked at.
        let of_counted = counted.ways().take(LINKS_MAX).filter(|id| counted.is_counted(id));
        for id in of_loads.chain(of_counted) {
            if !self.there.contains(id) && self.links.take(id) {
                self.there.insert(id.to_owned());
            }
        }
        for id in &self.there {
            let thing = format!("link:{id}");
            loaded(&thing, loads.get(id).copied().unwrap_or_default(), values);
            let total = counted.newest(id).map(|newest| (format!("{thing}/total_bps"), newest.rate_bps as f64));
            values.extend(total);
        }
    }

    fn classes(&mut self, core: &Core, values: &mut Values) {
        let Some(world) = &core.world else { return };
        let loads = views::class_loads(core, &world.shares);
        for (class, load) in world.shares.classes.iter().zip(loads) {
            let is_known = self.classes.known.contains(&class.name);
            if is_known || (load != Load::default() && self.classes.take(&class.name)) {
                loaded(&format!("class:{}", class.name), load, values);
            }
        }
    }

    fn paths(&mut self, core: &Core, values: &mut Values) {
        for (is_named, path, rtt_us) in core.round_trips(PATHS_MAX) {
            let things = if is_named { &mut self.named } else { &mut self.usual };
            if things.take(&path) {
                values.push((format!("path:{path}/rtt_us"), rtt_us as f64));
            }
        }
    }
}

fn loaded(thing: &str, load: Load, values: &mut Values) {
    values.push((format!("{thing}/allocated_bps"), load.allocated_bps as f64));
    values.push((format!("{thing}/measured_bps"), load.measured_bps as f64));
}

impl Core {
    /// Gives the archive what there is in this second, if it has not been given yet.
    pub(super) fn sample(&mut self) {
        let at_ms = self.now().0;
        let at_s = at_ms / 1_000;
        if self.sampling.at_s.replace(at_s) == Some(at_s) {
            return;
        }
        let mut sampling = std::mem::replace(&mut self.sampling, Sampling::of(&[]));
        let mut values = Values::new();
        sampling.totals(self, &mut values);
        sampling.links(self, &mut values);
        sampling.classes(self, &mut values);
        sampling.paths(self, &mut values);
        self.sampling = sampling;
        self.stores.archive.samples(at_ms, values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_of_a_kind_and_what_was_there_stays() {
        let names = ["all/sessions", "class:cms/measured_bps", "link:ab:forward/measured_bps", "path:usual:a,b/rtt_us"];
        let names = [&names[..], &["link:ab:forward/total_bps", "path:north/rtt_us"]].concat();
        let mut sampling = Sampling::of(&names);
        let known = |things: &Things| things.known.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            [&sampling.links, &sampling.classes, &sampling.named, &sampling.usual].map(known),
            ["ab:forward", "cms", "north", "usual:a,b"]
        );
        for n in 1..LINKS_MAX {
            assert!(sampling.links.take(&format!("l{n}:forward")));
        }
        assert!(!sampling.links.take("other:forward") && sampling.links.is_full);
        assert!(sampling.links.take("ab:forward") && sampling.classes.take("atlas"));
    }
}
