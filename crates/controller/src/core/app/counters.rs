//! What all traffic on links is, as somebody counted it, and what flexible marks make of it.
//!
//! Of each direction of a link the newest sample is kept, in memory. All traffic less what Longhaul's own sessions did when the sample came is
//! the estimate of traffic at large. After [`GOOD`] it counts as the worst: a flexible mark that nobody counts for any more falls to its
//! least, after a restart too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::rest::{CounterSample, Counters, Kind, Problem};
use ledger::Resource;
use model::network::{LinkIndex, Network};
use model::scenario::Way;
use model::shares::{Flexible, Mark, Most, Shares};
use plan::mark;
use tokio::time::Instant;
use units::Rate;

use crate::app::Answer;
use crate::core::{Core, World};
use crate::views;

/// Directions of links of which a sample is kept.
pub(super) const COUNTED_MAX: usize = 65_536;
/// How long a sample is good: three rounds of the usual once a minute.
pub(super) const GOOD: Duration = Duration::from_secs(180);

/// How long it holds that somebody enforces a rate: a driver says it every few seconds, once a minute at least.
const ENFORCED: Duration = Duration::from_secs(90);

/// The newest samples.
#[derive(Debug, Default)]
pub(crate) struct CounterSamples {
    by_way: BTreeMap<String, Sample>,
    /// Where flexible marks were, and when, by what the mark is on.
    marks: BTreeMap<(String, Vec<String>), (u64, Instant)>,
}

#[derive(Clone, Debug)]
struct Sample {
    source: String,
    /// When it was read.
    at: Instant,
    total_bytes: Option<u64>,
    /// All traffic, b/s; `None` until there are two counts of the same counter.
    rate_bps: Option<u64>,
    /// Of that what is not ours, b/s.
    at_large_bps: u64,
    /// To what our part of it is held by whoever counts, b/s.
    enforced_bps: Option<u64>,
}

/// Takes samples: all of a message or none.
pub(super) fn count(core: &mut Core, counters: &Counters) -> Answer<()> {
    let (_, directions) = views::directions(core);
    let known: BTreeSet<&str> = directions.iter().map(|of| of.id.as_str()).collect();
    if let Some(sample) = counters.samples.iter().find(|sample| !known.contains(sample.link.as_str())) {
        return Err(views::unknown(&directions, &sample.link));
    }
    let own = views::by_way(core);
    let now = Instant::now();
    for sample in &counters.samples {
        let own = own.get(&sample.link).map_or(0, |load| load.measured_bps);
        if !core.desk.counters.take(&counters.source, sample, own, now) {
            let detail = format!(
                "samples of {COUNTED_MAX} directions of links are kept, there is no room for `{}`",
                sample.link
            );
            return Err(Problem::new(Kind::TooMany, detail).fix("count fewer links").again(GOOD.as_secs()));
        }
    }
    let is_flexible = |mark: &Mark| matches!(mark.most, Most::Flexible(_));
    if core.world.as_ref().is_some_and(|world| world.shares.marks.iter().any(is_flexible)) {
        core.planned.dirty();
    }
    Ok(())
}

impl CounterSamples {
    /// Keeps a sample, if it is newer than that which is kept; false if there is no room.
    fn take(&mut self, source: &str, sample: &CounterSample, own_bps: u64, now: Instant) -> bool {
        let at = now.checked_sub(Duration::from_millis(sample.age_ms)).unwrap_or(now);
        let before = self.by_way.get(&sample.link);
        if before.is_some_and(|before| before.at > at) {
            return true;
        }
        if before.is_none() && self.by_way.len() >= COUNTED_MAX {
            self.by_way.retain(|_, sample| now.saturating_duration_since(sample.at) <= GOOD);
            if self.by_way.len() >= COUNTED_MAX {
                return false;
            }
        }
        let before = self.by_way.get(&sample.link).filter(|before| before.source == source);
        let counted = || rate_of(before?, sample.total_bytes?, at);
        let rate_bps = sample.rate_bps.or_else(counted);
        let at_large_bps = rate_bps.unwrap_or(0).saturating_sub(own_bps);
        let (source, total_bytes) = (source.to_owned(), sample.total_bytes);
        let enforced_bps = sample.enforced_bps;
        self.by_way
            .insert(sample.link.clone(), Sample { source, at, total_bytes, rate_bps, at_large_bps, enforced_bps });
        true
    }

    /// All traffic on a direction of a link, b/s, and how old that is; `None` if nobody counted it of late.
    pub(crate) fn newest(&self, id: &str) -> Option<(u64, Duration)> {
        let sample = self.by_way.get(id)?;
        let age = sample.at.elapsed();
        Some((sample.rate_bps?, age)).filter(|_| age <= GOOD)
    }

    /// To what our part of a direction of a link is held there, whatever senders do, b/s; `None` if nobody said so of late.
    pub(crate) fn enforced(&self, id: &str) -> Option<u64> {
        let sample = self.by_way.get(id)?;
        sample.enforced_bps.filter(|_| sample.at.elapsed() <= ENFORCED)
    }

    /// Whether somebody counts on a direction of a link.
    pub(super) fn is_counted(&self, id: &str) -> bool {
        self.by_way.get(id).is_some_and(|sample| sample.at.elapsed() <= GOOD)
    }

    /// Traffic at large on all of these together, b/s; `None` if one of them is not counted.
    fn at_large(&self, ids: &[String], now: Instant) -> Option<u64> {
        let of = |id: &String| {
            let sample = self.by_way.get(id)?;
            let good = sample.rate_bps.is_some() && now.saturating_duration_since(sample.at) <= GOOD;
            good.then_some(sample.at_large_bps)
        };
        ids.iter().try_fold(0_u64, |sum, id| Some(sum.saturating_add(of(id)?)))
    }

    /// Where a flexible mark on these directions is now, b/s. It falls at once and rises slowly.
    fn mark(&mut self, name: &str, of: &Flexible, rate_bps: u64, ids: Vec<String>, now: Instant) -> u64 {
        let at_large = self.at_large(&ids, now);
        let estimate = mark::Estimate { at_large: at_large.unwrap_or(0), is_valid: at_large.is_some() };
        let key = (name.to_owned(), ids);
        let last = self
            .marks
            .get(&key)
            .map(|(mark, at)| mark::State { mark: *mark, elapsed: now.saturating_duration_since(*at) });
        let flexible = mark::Flexible {
            share_ppm: of.share_ppm,
            margin: of.margin.bps(),
            least: of.least.bps(),
            most: of.most.map_or(u64::MAX, |most| most.bps()),
        };
        let is = mark::Mark::Flexible(flexible).now(rate_bps, Some(estimate), last);
        self.marks.insert(key, (is, now));
        is
    }
}

/// The rate between two counts, b/s; `None` if the counter began anew or no time has passed.
fn rate_of(before: &Sample, bytes: u64, at: Instant) -> Option<u64> {
    let more = bytes.checked_sub(before.total_bytes?)?;
    let micros = at.saturating_duration_since(before.at).as_micros();
    let bits = u128::from(more).checked_mul(8_000_000)?;
    u64::try_from(bits.checked_div(micros)?).ok()
}

impl Core {
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
                let is = self.desk.counters.mark(&mark.name, &flexible, rate, ids, now);
                Mark { ways, most: Most::Rate(Rate::from_bps(is.min(limit))), ..mark.clone() }
            });
            let first = fixed.next();
            more.extend(fixed);
            first.into_iter().for_each(|first| *mark = first);
        }
        shares.marks.extend(more);
        // Of marks that are no more nothing is kept.
        self.desk.counters.marks.retain(|(name, _), _| names.contains(name));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate_bps: Option<u64>, total_bytes: Option<u64>, age_ms: u64) -> CounterSample {
        CounterSample { link: "ana:forward".to_owned(), rate_bps, total_bytes, age_ms, enforced_bps: None }
    }

    #[tokio::test(start_paused = true)]
    async fn rates_are_taken_and_counters_make_rates() {
        let mut samples = CounterSamples::default();
        let now = Instant::now();
        assert!(samples.take("snmp", &sample(None, Some(1_000_000), 0), 0, now));
        assert!(samples.is_counted("ana:forward"));
        assert_eq!(samples.newest("ana:forward"), None, "one count is no rate");
        tokio::time::advance(Duration::from_secs(10)).await;
        let now = Instant::now();
        samples.take("snmp", &sample(None, Some(11_000_000), 0), 3_000_000, now);
        assert_eq!(samples.newest("ana:forward"), Some((8_000_000, Duration::ZERO)));
        assert_eq!(samples.at_large(&["ana:forward".to_owned()], now), Some(5_000_000), "less our own");
        samples.take("snmp", &sample(Some(1), None, 5_000), 0, now);
        assert_eq!(
            samples.newest("ana:forward").map(|(rate, _)| rate),
            Some(8_000_000),
            "an older one changes nothing"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        samples.take("snmp", &sample(None, Some(5), 0), 0, Instant::now());
        assert_eq!(samples.newest("ana:forward"), None, "the counter began anew");
        samples.take("other", &sample(Some(7), None, 0), 0, Instant::now());
        tokio::time::advance(GOOD + Duration::from_secs(1)).await;
        assert_eq!(samples.newest("ana:forward"), None, "it is too old");
        assert!(!samples.is_counted("ana:forward"));
    }

    #[tokio::test(start_paused = true)]
    async fn samples_are_bounded_and_old_ones_make_room() {
        let mut samples = CounterSamples::default();
        let way = |n: usize| CounterSample { link: format!("l{n}:forward"), ..sample(Some(1), None, 0) };
        for n in 0..COUNTED_MAX {
            assert!(samples.take("s", &way(n), 0, Instant::now()));
        }
        assert!(!samples.take("s", &way(COUNTED_MAX), 0, Instant::now()));
        assert!(samples.take("s", &way(3), 0, Instant::now()), "a known one");
        tokio::time::advance(GOOD + Duration::from_secs(1)).await;
        assert!(samples.take("s", &way(COUNTED_MAX), 0, Instant::now()));
        assert_eq!(samples.by_way.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flexible_mark_needs_a_count_falls_at_once_and_rises_slowly() {
        const G: u64 = 1_000_000_000;
        let flexible = Flexible {
            share_ppm: 900_000,
            margin: Rate::ZERO,
            least: Rate::from_bps(G),
            most: None,
            now: None,
            as_of: None,
            at_large: None,
            expires: None,
        };
        let mut samples = CounterSamples::default();
        let ids = || vec!["ana:forward".to_owned()];
        let mark = |samples: &mut CounterSamples| samples.mark("m", &flexible, 100 * G, ids(), Instant::now());
        assert_eq!(mark(&mut samples), G, "nobody counts: its least");
        samples.marks.clear();
        samples.take("s", &sample(Some(40 * G), None, 0), 0, Instant::now());
        assert_eq!(mark(&mut samples), 50 * G);
        samples.take("s", &sample(Some(80 * G), None, 0), 0, Instant::now());
        assert_eq!(mark(&mut samples), 10 * G);
        samples.take("s", &sample(Some(0), None, 0), 0, Instant::now());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(mark(&mut samples), 12 * G, "2 % of the rate in 10 s");
    }
}
