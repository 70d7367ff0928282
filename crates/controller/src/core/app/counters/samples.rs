//! What was counted of late: of each direction of a link the newest sample of each source, in memory.
//!
//! All traffic less what Longhaul's own sessions did meanwhile is the estimate of traffic at large. What these did is known a little later
//! ([`KNOWN_AFTER`]), so each rate waits for that: else a session that begins would be traffic at large at first, and have its own mark fall.
//! When exactly they did it is not known ([`TOLD_WITHIN`]): the least and the most that they did about then make the ends of the estimate.
//! Where several sources count the same direction, the one by which most is at large counts. After [`GOOD`] a sample counts no more: a
//! flexible mark that nobody counts for any more falls to its least, after a restart too.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::shares::Flexible;
use plan::{estimate::Estimate, mark};
use tokio::time::Instant;

/// Directions of links of which samples are kept.
pub(crate) const COUNTED_MAX: usize = 65_536;
/// Sources of which samples are kept, for each direction of a link.
pub(super) const SOURCES_MAX: usize = 4;
/// How long a sample is good: three rounds of the usual once a minute.
pub(crate) const GOOD: Duration = Duration::from_secs(180);

/// Sessions tell once a second what their movers measured in the last one: what they did until a moment is known some 1 s to 2 s later.
const KNOWN_AFTER: Duration = Duration::from_millis(2_500);
/// So much earlier than it is taken to be may be what sessions told.
const TOLD_WITHIN: Duration = Duration::from_secs(2);
/// Rates of a source that wait for that, and means of sessions that it is compared with; of one that counts more often the oldest are left out.
const WAITING_MAX: usize = 4;

/// How long it holds that somebody enforces a rate: a driver says it every few seconds, once a minute at least.
const ENFORCED: Duration = Duration::from_secs(90);

/// The newest samples.
#[derive(Debug, Default)]
pub(crate) struct CounterSamples {
    /// Of each source one, in the order in which they came.
    by_way: BTreeMap<String, Vec<Sample>>,
    /// Where flexible marks were, and when, by what the mark is on.
    marks: BTreeMap<(String, Vec<String>), (u64, Instant)>,
}

/// What a source says of a direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// All traffic, b/s.
    pub(super) rate_bps: Option<u64>,
    /// All traffic since the counter began, bytes.
    pub(super) total_bytes: Option<u64>,
    /// How long ago it was read.
    pub(super) age: Duration,
    /// When it was read by the source's own clock, where it tells that: however long messages take, the time between two of them is right.
    pub(super) clock: Option<Duration>,
    /// To what our part of it is held by the source, b/s.
    pub(super) enforced_bps: Option<u64>,
}

#[derive(Clone, Debug)]
struct Sample {
    source: String,
    /// When it was read.
    at: Instant,
    clock: Option<Duration>,
    total_bytes: Option<u64>,
    /// All traffic, b/s; `None` until there are two counts of the same counter.
    rate_bps: Option<u64>,
    /// Rates that wait until what our sessions did meanwhile is known: from when on it is.
    waiting: VecDeque<(Instant, u64)>,
    /// When the last of them waited no more, and what our sessions had done then.
    own: Option<(Instant, Done)>,
    /// What they did in the mean until then, b/s, and until moments shortly before.
    means: VecDeque<(Instant, u64)>,
    /// Of all traffic what is not ours, b/s: value, low and high; `None` until it is known.
    at_large: Option<[u64; 3]>,
    /// To what our part of it is held by whoever counts, b/s.
    enforced_bps: Option<u64>,
}

/// What all traffic on a direction of a link is, by the source that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest<'a> {
    /// b/s of IP packets.
    pub(crate) rate_bps: u64,
    /// Of a little before what was not ours, b/s; `None` until it is known.
    pub(crate) at_large: Option<Estimate>,
    /// How old it is.
    pub(crate) age: Duration,
    /// Who counted.
    pub(crate) source: &'a str,
}

/// What our sessions do on a direction of a link, and have done since the controller began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// b/s now.
    pub(super) bps: u64,
    /// So far, millionths of bits.
    pub(super) all: u128,
}

/// What there is no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// A further direction of a link.
    Directions,
    /// A further source of a direction.
    Sources,
}

impl CounterSamples {
    /// Keeps what a source says, if it is newer than what it said before.
    pub(super) fn take(&mut self, way: &str, source: &str, reading: Reading, now: Instant) -> Result<(), Full> {
        let Reading { rate_bps, total_bytes, age, clock, enforced_bps } = reading;
        let at = now.checked_sub(age).unwrap_or(now);
        let of = self.place(way, source, now)?;
        let before = of.iter().position(|sample| sample.source == source);
        if before.is_some_and(|before| of[before].at > at) {
            return Ok(());
        }
        let last = before.map(|before| of.remove(before));
        let counted = || rate_of(last.as_ref()?, total_bytes?, at, clock);
        let rate_bps = rate_bps.or_else(counted);
        let recent = last.filter(|last| at.saturating_duration_since(last.at) <= GOOD);
        let (mut waiting, own, means, at_large) =
            recent.map(|last| (last.waiting, last.own, last.means, last.at_large)).unwrap_or_default();
        waiting.extend(rate_bps.map(|rate| (at + KNOWN_AFTER, rate)));
        while waiting.len() > WAITING_MAX {
            waiting.pop_front();
        }
        let source = source.to_owned();
        of.push(Sample { source, at, clock, total_bytes, rate_bps, waiting, own, means, at_large, enforced_bps });
        Ok(())
    }

    /// Says of rates that have waited long enough how much is at large, by what our sessions have done; whether there were any.
    pub(super) fn settle(&mut self, own: impl Fn(&str) -> Done, now: Instant) -> bool {
        let mut any = false;
        for (way, of) in &mut self.by_way {
            for sample in of {
                any |= sample.settle(own(way), now);
            }
        }
        any
    }

    /// Whether nothing was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.by_way.is_empty()
    }

    /// The samples of a direction, with room for one of this source.
    fn place(&mut self, way: &str, source: &str, now: Instant) -> Result<&mut Vec<Sample>, Full> {
        if !self.by_way.contains_key(way) && self.by_way.len() >= COUNTED_MAX {
            self.by_way.retain(|_, of| of.iter().any(|sample| sample.is_good(now)));
            if self.by_way.len() >= COUNTED_MAX {
                return Err(Full::Directions);
            }
        }
        let of = self.by_way.entry(way.to_owned()).or_default();
        if of.len() >= SOURCES_MAX && of.iter().all(|sample| sample.source != source) {
            of.retain(|sample| sample.is_good(now));
            if of.len() >= SOURCES_MAX {
                return Err(Full::Sources);
            }
        }
        Ok(of)
    }

    /// Those of a direction that are good now.
    fn good(&self, way: &str, now: Instant) -> impl Iterator<Item = &Sample> {
        self.by_way.get(way).into_iter().flatten().filter(move |sample| sample.is_good(now))
    }

    /// The one of a direction that counts, and its rate: that by which most is at large.
    fn that_counts(&self, way: &str, now: Instant) -> Option<(&Sample, u64)> {
        let rated = self.good(way, now).filter_map(|sample| Some((sample, sample.rate_bps?)));
        rated.max_by_key(|(sample, rate)| (sample.at_large.map(|[_, low, _]| low), *rate))
    }

    /// All traffic on a direction of a link; `None` if nobody counted it of late.
    pub(crate) fn newest(&self, way: &str) -> Option<Newest<'_>> {
        let now = Instant::now();
        let (sample, rate_bps) = self.that_counts(way, now)?;
        let (age, source) = (now.saturating_duration_since(sample.at), sample.source.as_str());
        Some(Newest { rate_bps, at_large: sample.estimate(now), age, source })
    }

    /// Directions of links that somebody counted on, of late or before.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &str> {
        self.by_way.keys().map(String::as_str)
    }

    /// To what our part of a direction of a link is held there, whatever senders do, b/s; `None` if nobody said so of late.
    pub(crate) fn enforced(&self, way: &str) -> Option<u64> {
        let recent = self.by_way.get(way)?.iter().filter(|sample| sample.at.elapsed() <= ENFORCED);
        recent.filter_map(|sample| sample.enforced_bps).min()
    }

    /// The directions of which somebody said so of late, each with that rate.
    pub(crate) fn all_enforced(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_way.keys().filter_map(|way| Some((way.as_str(), self.enforced(way)?)))
    }

    /// Whether somebody counts on a direction of a link, and has made a rate of it.
    pub(crate) fn is_counted(&self, way: &str) -> bool {
        self.newest(way).is_some()
    }

    /// Traffic at large on all of these together, b/s; `None` if one of them is not counted.
    fn at_large(&self, ways: &[String], now: Instant) -> Option<Estimate> {
        let of = |way: &String| {
            let known = self.good(way, now).filter_map(|sample| sample.estimate(now));
            known.max_by_key(|at_large| at_large.low)
        };
        ways.iter().try_fold(Estimate::exact(0), |sum, way| Some(sum.and(of(way)?)))
    }

    /// Where a flexible mark on these directions is now, b/s. It falls at once and rises slowly, from where it was once somebody had counted.
    pub(super) fn mark(&mut self, name: &str, of: &Flexible, rate_bps: u64, ways: Vec<String>, now: Instant) -> u64 {
        let at_large = self.at_large(&ways, now);
        let key = (name.to_owned(), ways);
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
        let is = mark::Mark::Flexible(flexible).now(rate_bps, Some(at_large.unwrap_or(Estimate::expired())), last);
        if at_large.is_some() || last.is_some() {
            self.marks.insert(key, (is, now));
        }
        is
    }

    /// Of marks that are none of these nothing is kept.
    pub(super) fn keep_marks(&mut self, names: &[String]) {
        self.marks.retain(|(name, _), _| names.contains(name));
    }
}

impl Sample {
    fn is_good(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= GOOD
    }

    /// What is at large, b/s, if it is known.
    fn estimate(&self, now: Instant) -> Option<Estimate> {
        let [value, low, high] = self.at_large?;
        Some(Estimate { value, low, high, expires: Some((self.at + GOOD).saturating_duration_since(now)) })
    }

    fn settle(&mut self, done: Done, now: Instant) -> bool {
        let due = self.waiting.iter().take_while(|(at, _)| *at <= now).count();
        if due == 0 {
            return false;
        }
        let sum: u128 = self.waiting.drain(..due).map(|(_, rate)| u128::from(rate)).sum();
        let rate = u64::try_from(sum / due as u128).unwrap_or(u64::MAX);
        let mean = self.own.replace((now, done)).and_then(|(at, before)| {
            let micros = now.saturating_duration_since(at).as_micros();
            done.all.checked_sub(before.all)?.checked_div(micros)
        });
        // The seconds of sessions are not those of the source: where they slow down, part of it was done in the time before.
        let is_over = |means: &VecDeque<(Instant, u64)>| {
            let is_old = means.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > TOLD_WITHIN);
            means.len() >= WAITING_MAX || (is_old && means.len() > 1)
        };
        while is_over(&self.means) {
            self.means.pop_front();
        }
        let mean = mean.map_or(done.bps, |mean| u64::try_from(mean).unwrap_or(u64::MAX));
        self.means.push_back((now, mean));
        let (least, most) =
            self.means.iter().fold((mean, mean), |(least, most), (_, mean)| (least.min(*mean), most.max(*mean)));
        self.at_large = Some([mean, most, least].map(|own| rate.saturating_sub(own)));
        true
    }
}

/// The rate between two counts, b/s; `None` if the counter or its clock began anew, or no time has passed.
fn rate_of(before: &Sample, bytes: u64, at: Instant, clock: Option<Duration>) -> Option<u64> {
    let more = bytes.checked_sub(before.total_bytes?)?;
    let elapsed = match before.clock.zip(clock) {
        Some((before, now)) => now.checked_sub(before)?,
        None => at.saturating_duration_since(before.at),
    };
    let bits = u128::from(more).checked_mul(8_000_000)?;
    u64::try_from(bits.checked_div(elapsed.as_micros())?).ok()
}

#[cfg(test)]
mod tests;
