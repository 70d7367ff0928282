//! What all traffic on links is, as somebody counted it, and what flexible marks make of it.
//!
//! Who counts sends `POST /counters`, or is an agent that reads an interface. What an agent says counts for links that end at its host, and for
//! those for which the controller's operator trusts it ([`Trusted`]).

mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::agent::{COUNTS_MAX, Counted, ToAgent, Uncounted};
use api::rest::{CounterSample, Counters, Kind, Problem};
use ledger::Resource;
use model::network::{LinkIndex, Network};
use model::scenario::Way;
use model::shares::{Mark, Most, Shares};
use tokio::time::Instant;
use units::Rate;

use crate::app::Answer;
use crate::core::live::Step;
use crate::core::{Core, World};
use crate::views::{self, Load};

pub(crate) use samples::CounterSamples;
use samples::{COUNTED_MAX, Done, Full, GOOD, Reading, SOURCES_MAX};

/// Between two looks at what our sessions do on each direction: they tell it once a second.
const OWN_EACH: Duration = Duration::from_millis(250);

/// For which links an agent's counts are taken though they do not end at its host: links by host.
pub(crate) type Trusted = BTreeMap<String, BTreeSet<String>>;

/// What is counted, and by whom it may be.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// What was counted.
    pub(crate) samples: CounterSamples,
    /// Whose word is taken for further links.
    pub(crate) trusted: Trusted,
    /// What our sessions do on each direction of a link, at most [`COUNTED_MAX`].
    own: BTreeMap<String, Done>,
    /// When that was looked at last.
    looked: Option<Instant>,
}

impl Counting {
    /// What our sessions do now, by direction; until now they did what they did before.
    fn look(&mut self, now_bps: BTreeMap<String, u64>, now: Instant) {
        let micros = self.looked.replace(now).map_or(0, |last| now.saturating_duration_since(last).as_micros());
        for done in self.own.values_mut() {
            done.all += u128::from(done.bps) * micros;
            done.bps = 0;
        }
        for (way, bps) in now_bps {
            if self.own.len() >= COUNTED_MAX && !self.own.contains_key(&way) {
                // Of links that are no more: what is at large is told a little later.
                self.own.clear();
            }
            self.own.entry(way).or_default().bps = bps;
        }
    }
}

/// Takes samples; none of a message with a direction that is not there.
pub(super) fn count(core: &mut Core, counters: &Counters) -> Answer<()> {
    let (_, directions) = views::directions(core);
    let known: BTreeSet<&str> = directions.iter().map(|of| of.id.as_str()).collect();
    if let Some(sample) = counters.samples.iter().find(|sample| !known.contains(sample.link.as_str())) {
        return Err(views::unknown(&directions, &sample.link));
    }
    let now = Instant::now();
    for sample in &counters.samples {
        let taken = core.desk.counting.samples.take(&sample.link, &counters.source, reading(sample), now);
        taken.map_err(|full| no_room(full, &sample.link))?;
    }
    Ok(())
}

fn reading(sample: &CounterSample) -> Reading {
    let CounterSample { rate_bps, total_bytes, enforced_bps, age_ms, .. } = *sample;
    Reading { rate_bps, total_bytes, age: Duration::from_millis(age_ms), clock: None, enforced_bps }
}

fn no_room(full: Full, link: &str) -> Problem {
    let (detail, fix) = match full {
        Full::Directions => (
            format!("samples of {COUNTED_MAX} directions of links are kept, there is no room for `{link}`"),
            "count fewer links",
        ),
        Full::Sources => (format!("{SOURCES_MAX} others count `{link}` already"), "have fewer count it"),
    };
    Problem::new(Kind::TooMany, detail).fix(fix).again(GOOD.as_secs())
}

impl Core {
    /// What an agent counted by its interfaces.
    pub(in crate::core) fn counted(&mut self, host: &str, counts: &[Counted]) {
        for counted in counts.iter().take(COUNTS_MAX).filter(|counted| counted.has_names()) {
            let refused = self.count_of(host, counted).err();
            let Some(connected) = self.connected.get_mut(host) else { return };
            let before = connected.uncounted.get(&counted.link);
            if refused.as_ref() == before {
                continue;
            }
            match refused {
                None => drop(connected.uncounted.remove(&counted.link)),
                Some(reason) if before.is_some() || connected.uncounted.len() < COUNTS_MAX => {
                    let link = counted.link.clone();
                    tracing::warn!(host, link, reason, "what an agent counts is left aside");
                    connected.uncounted.insert(link.clone(), reason.clone());
                    self.tell(host, ToAgent::Uncounted(Uncounted { link, reason }));
                }
                // More links than an agent counts: it is told of so many.
                Some(_) => {}
            }
        }
    }

    /// Takes what an interface carried both ways, or says why not and what to do, for the operator of the host.
    fn count_of(&mut self, host: &str, counted: &Counted) -> Result<(), String> {
        let Some(network) = views::network(self) else { return Err("the controller has no network yet".to_owned()) };
        let link = network
            .link(&counted.link)
            .map_err(|unknown| format!("{unknown}: `longhaul topology links` lists them"))?;
        let sends = match counted.sends {
            api::agent::Way::Forward => Way::Forward,
            api::agent::Way::Backward => Way::Backward,
        };
        let name = &network.links[link].name;
        let ends = [network.links[link].from, network.links[link].to].map(|end| network.nodes[end].name.as_str());
        match ends.iter().position(|end| *end == host) {
            Some(0) if sends == Way::Backward => {
                return Err(format!("`{name}` begins at `{host}`: write `sends = \"forward\"`"));
            }
            Some(1) if sends == Way::Forward => {
                return Err(format!("`{name}` ends at `{host}`: write `sends = \"backward\"`"));
            }
            Some(_) => {}
            None if self.desk.counting.trusted.get(host).is_some_and(|links| links.contains(name)) => {}
            None => {
                let [from, to] = ends;
                return Err(format!(
                    "`{name}` goes from `{from}` to `{to}`, not to `{host}`: the operator of the controller may take `{host}`'s word for it \
                     (`[[counter]]` with `agent = \"{host}\"` and `links = [\"{name}\"]` in the controller's configuration)"
                ));
            }
        }
        let source = format!("agent {host} interface {}", counted.interface);
        let other = if sends == Way::Forward { Way::Backward } else { Way::Forward };
        let now = Instant::now();
        for (way, bytes) in [(sends, counted.sent_bytes), (other, counted.received_bytes)] {
            let clock = Some(Duration::from_millis(counted.read_ms));
            let reading = Reading { total_bytes: Some(bytes), clock, ..Reading::default() };
            let way = views::way_id(name, way);
            self.desk
                .counting
                .samples
                .take(&way, &source, reading, now)
                .map_err(|full| no_room(full, &way).to_string())?;
        }
        Ok(())
    }

    /// Says how much of what was counted is at large, as far as it is known what our sessions did meanwhile; flexible marks follow that.
    pub(in crate::core) fn settle_counts(&mut self) {
        let counting = &self.desk.counting;
        if counting.samples.is_empty() || counting.looked.is_some_and(|last| last.elapsed() < OWN_EACH) {
            return;
        }
        let now = Instant::now();
        let own = self.own_by_way();
        let counting = &mut self.desk.counting;
        counting.look(own, now);
        let own = &counting.own;
        if !counting.samples.settle(|way| own.get(way).copied().unwrap_or_default(), now) {
            return;
        }
        let is_flexible = |mark: &Mark| matches!(mark.most, Most::Flexible(_));
        if self.world.as_ref().is_some_and(|world| world.shares.marks.iter().any(is_flexible)) {
            self.planned.dirty();
        }
    }

    /// What our sessions do, by direction, b/s. Of one that has not told it yet, or whose agent is away, it is what it may do.
    fn own_by_way(&self) -> BTreeMap<String, u64> {
        let mut own: BTreeMap<String, u64> = BTreeMap::new();
        for (id, live) in self.live.iter().filter(|(_, live)| live.step == Step::Running) {
            let bps = live.measured_bps().unwrap_or_else(|| Load::of(self, *id).allocated_bps);
            for way in views::ways(self, *id) {
                let sum = own.entry(way).or_default();
                *sum = sum.saturating_add(bps);
            }
        }
        own
    }

    /// The first flexible mark on a direction that nobody counts, and that direction.
    pub(super) fn uncounted<'a>(&self, shares: &'a Shares, network: &Network) -> Option<(&'a Mark, String)> {
        let flexible = shares.marks.iter().filter(|mark| matches!(mark.most, Most::Flexible(_)));
        let mut ways = flexible.flat_map(|mark| mark.ways.iter().map(move |way| (mark, *way)));
        ways.find_map(|(mark, (link, way))| {
            let id = views::way_id(&network.links[link].name, way);
            (!self.desk.counting.samples.is_counted(&id)).then_some((mark, id))
        })
    }

    /// Why new classes and marks cannot be in force from the start on, if they cannot: nobody can have counted yet. And the way out.
    pub(crate) fn uncounted_at_start(&self) -> Option<String> {
        let network = views::network(self)?;
        let shares = Shares::from_toml(&self.state.shares.as_ref()?.text, "the shares", &network).ok()?;
        let (mark, way) = self.uncounted(&shares, &network)?;
        Some(format!(
            "{}. As the controller only begins, start it without these marks, and give it this file by `longhaul class set` once somebody counts",
            why_not(mark, &way)
        ))
    }

    /// Puts flexible marks where they are now: each becomes a rate, for each direction its own unless it is one for all together.
    pub(in crate::core) fn fix_flexible(&mut self, world: &World, shares: &mut Shares) {
        let now = Instant::now();
        let mut more = Vec::new();
        let mut names = Vec::new();
        for mark in &mut shares.marks {
            let Most::Flexible(flexible) = mark.most else { continue };
            names.push(mark.name.clone());
            let on = Resource::Mark(mark.name.clone());
            let limit = self.state.limits.get(&on).map_or(u64::MAX, |limit| limit.rate_bps);
            let parts: Vec<Vec<(LinkIndex, Way)>> =
                if mark.together { vec![mark.ways.clone()] } else { mark.ways.iter().map(|way| vec![*way]).collect() };
            let mut fixed = parts.into_iter().map(|ways| {
                let rate = rate(&world.network, &ways);
                let ids =
                    ways.iter().map(|(link, way)| views::way_id(&world.network.links[*link].name, *way)).collect();
                let is = self.desk.counting.samples.mark(&mark.name, &flexible, rate, ids, now);
                Mark { ways, most: Most::Rate(Rate::from_bps(is.min(limit))), ..mark.clone() }
            });
            let first = fixed.next();
            more.extend(fixed);
            first.into_iter().for_each(|first| *mark = first);
        }
        shares.marks.extend(more);
        self.desk.counting.samples.keep_marks(&names);
    }
}

/// Why a flexible mark is not taken, and the ways out.
pub(super) fn why_not(mark: &Mark, way: &str) -> String {
    let link = way.rsplit_once(':').map_or(way, |(link, _)| link);
    format!(
        "mark `{}` is flexible, it follows all traffic on `{way}`, and nobody counts that: have an agent count an interface for it \
         (`[[counter]]` with `link = \"{link}\"` in its serve.toml), send what a twin counts (`longhaul twin stats --to URL`), or send \
         POST /api/v1/counters; or write a fixed `rate` or `share`",
        mark.name
    )
}

/// The rates of directions together, b/s.
fn rate(network: &Network, ways: &[(LinkIndex, Way)]) -> u64 {
    let of = |(link, way): &(LinkIndex, Way)| {
        let link = &network.links[*link];
        let direction = if *way == Way::Forward { &link.forward } else { &link.backward };
        direction.rate.map_or(u64::MAX, |rate| rate.bps())
    };
    ways.iter().map(of).fold(0, u64::saturating_add)
}
