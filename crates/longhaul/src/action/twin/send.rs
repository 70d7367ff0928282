//! `twin stats --to`: what the links of a twin carry, for flexible marks of a controller.

use std::collections::BTreeSet;

use agent::Stop;
use anyhow::{Context, Result};
use api::rest::{self, CounterSample, Counters};
use model::network::{Link, Network};
use model::scenario::Way;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use twin::control;
use twin::place::Place;

use super::stats::{PERIOD, States, counted};
use crate::action::block_on;
use crate::action::controller::client::{Content, Controller};
use crate::action::standing::Standing;
use crate::args::controller::ReachArgs;
use crate::environment::Environment;
use crate::exit::{self, usage};

/// Samples of one message: with the longest names they are shorter than the longest body.
const SAMPLES_AT_ONCE: usize = 200;
const WAYS: [Way; 2] = [Way::Forward, Way::Backward];
/// What it is called is at most so long, bytes: as long as a name may be.
const SOURCE_MAX: usize = rest::NAME_MAX;

/// Tells a controller each second what the links carry, until it is stopped.
///
/// # Errors
/// When the twin is not counted, or the controller never could be told. Later troubles are logged, and it is tried again.
pub(super) fn run(place: &Place, reach: &ReachArgs) -> Result<u8> {
    let network = counted(place)?;
    let controller = Controller::of(reach, &Environment::of_process()?)?;
    crate::action::serve::log(agent::Log::Human);
    block_on(async {
        let mut stop = crate::action::serve::signals()?;
        let sender = Sender { place, network, controller };
        let going_on = sender.go_on();
        tokio::select! {
            never = going_on => never,
            stopped = stopped(&mut stop) => stopped,
        }
    })
}

async fn stopped(stop: &mut watch::Receiver<Stop>) -> Result<u8> {
    // An error: nobody can stop it any more.
    let _ = stop.wait_for(|stop| *stop != Stop::No).await;
    Ok(exit::DONE)
}

struct Sender<'a> {
    place: &'a Place,
    network: Network,
    controller: Controller,
}

impl Sender<'_> {
    async fn go_on(&self) -> Result<u8> {
        let mut known = self.known().await?;
        tracing::info!(twin = self.place.name(), directions = known.len(), "telling the controller what links carry");
        let mut standing = Standing::new("the next round tries again");
        let mut earlier: Option<States> = None;
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let told = async {
                let states = control::links(self.place)?;
                let samples = earlier.as_ref().map(|earlier| samples(&self.network, &known, earlier, &states));
                earlier = Some(states);
                self.tell(samples.unwrap_or_default()).await
            };
            let told = told.await;
            if told.is_err()
                && let Ok(now) = self.known().await
            {
                // The controller may have another network by now.
                known = now;
            }
            standing.note(told);
        }
    }

    /// The directions of links that the controller knows and the twin counts.
    async fn known(&self) -> Result<BTreeSet<String>> {
        let links: Vec<rest::Link> = self.controller.get("/api/v1/links").await?;
        let states = control::links(self.place)?;
        let counted = self.network.links.iter().zip(&states).filter(|(_, state)| state.is_some());
        let ways = |link: &Link| WAYS.map(|way| id(&link.name, way));
        let here: BTreeSet<String> = counted.flat_map(|(link, _)| ways(link)).collect();
        let known: BTreeSet<String> = links.into_iter().map(|link| link.id).filter(|id| here.contains(id)).collect();
        if known.is_empty() {
            let text = format!(
                "no link of the controller's network is counted in the twin `{}`: give the controller its network (`longhaul twin topology`)",
                self.place.name()
            );
            return Err(usage(text));
        }
        Ok(known)
    }

    async fn tell(&self, samples: Vec<CounterSample>) -> Result<()> {
        let mut source = format!("twin-{}", self.place.name());
        source.truncate(SOURCE_MAX);
        for some in samples.chunks(SAMPLES_AT_ONCE) {
            let counters = Counters { source: source.clone(), samples: some.to_vec() };
            let said = self.controller.bytes("POST", "/api/v1/counters", Content::json(&counters)?, None).await;
            said.context("the controller does not take what was counted")?;
        }
        Ok(())
    }
}

fn id(link: &str, way: Way) -> String {
    format!("{link}:{}", way.name())
}

/// What left each known direction since, b/s of IP packets.
fn samples(network: &Network, known: &BTreeSet<String>, earlier: &States, now: &States) -> Vec<CounterSample> {
    let mut all = Vec::new();
    for (link, (before, now)) in network.links.iter().zip(earlier.iter().zip(now)) {
        let Some((before, now)) = before.as_ref().zip(now.as_ref()) else { continue };
        for way in WAYS {
            let rate_bps = Some(now.stats[way.index()].rate_bps(&before.stats[way.index()]));
            let link = id(&link.name, way);
            if known.contains(&link) {
                all.push(CounterSample { link, rate_bps, total_bytes: None, age_ms: 0, enforced_bps: None });
            }
        }
    }
    all
}
