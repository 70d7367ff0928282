//! Keeping to what a controller says.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::Stop;
use anyhow::{Result, anyhow};
use api::rest::{CounterSample, Counters};
use driver::{Found, Kernel, Wish};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{Asked, apply, filled, open};
use crate::action::block_on;
use crate::action::controller::client::{Content, Controller};
use crate::action::standing::Standing;
use crate::args::driver::FollowArgs;
use crate::environment::Environment;
use crate::exit::{self, usage};

/// More often than this nothing is gained: the controller plans some times a second.
const EVERY_LEAST: Duration = Duration::from_millis(200);
/// Less often than this what is told to the controller would be stale in between.
const EVERY_MOST: Duration = Duration::from_secs(60);
/// Who counts, for the controller.
const SOURCE: &str = "driver";

/// A driver that goes on until it is stopped.
pub(crate) struct Follow {
    asked: Asked,
    every: Duration,
}

impl Follow {
    /// Checks what was written.
    ///
    /// # Errors
    /// When the file cannot be used, or names no link and no path.
    pub(super) fn of(args: &FollowArgs, environment: &Environment) -> Result<Follow> {
        let every = args.every.get();
        if !(EVERY_LEAST..=EVERY_MOST).contains(&every) {
            return Err(usage("--every is from 200ms to 60s"));
        }
        let asked = Asked::of(&args.wish, environment)?;
        if asked.controller.is_none() {
            let text = format!(
                "{} names no link and no path, so nothing in it changes: use `longhaul driver apply`",
                args.wish.file.display()
            );
            return Err(usage(text));
        }
        Ok(Follow { asked, every })
    }

    /// Goes on until it is stopped.
    ///
    /// # Errors
    /// When it never could apply what is wished: a wish that cannot be had, no privilege. Later troubles are logged, and tried again.
    pub(super) fn run(self) -> Result<u8> {
        crate::action::serve::log(agent::Log::Human);
        block_on(async {
            let mut stop = crate::action::serve::signals()?;
            let controller = self.asked.controller.as_ref().ok_or_else(|| anyhow!("no controller is named"))?;
            self.go_on(controller, &mut stop).await
        })
    }

    async fn go_on(&self, controller: &Controller, stop: &mut watch::Receiver<Stop>) -> Result<u8> {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut standing = Standing::new("what is there stays, the next round tries again");
        let mut is_applied = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop != Stop::No) => return Ok(exit::DONE),
            }
            let wish = tokio::select! {
                wish = filled(&self.asked.wish, Some(controller)) => wish,
                _ = stop.wait_for(|stop| *stop != Stop::No) => return Ok(exit::DONE),
            };
            // What is applied is short, and not left half done for a signal.
            let done = wish.and_then(|wish| Ok((apply(&wish.items()?)?, wish)));
            let told = match done {
                Ok((done, wish)) => {
                    done.steps.iter().for_each(|step| tracing::info!("{step}"));
                    is_applied = true;
                    tell(controller, &self.asked.wish, &wish).await
                }
                Err(error) if exit::code_of(&error) == exit::USAGE && !is_applied => return Err(error),
                Err(error) => Err(error),
            };
            standing.note(told);
        }
    }
}

/// Tells what the links carried, and to what Longhaul's part of them is held.
async fn tell(controller: &Controller, asked: &Wish, wish: &Wish) -> Result<()> {
    let found = open()?.read().map_err(driver::DriverError::Read)?;
    let samples = samples(&found, &asked.devices_of_links(), wish);
    if samples.is_empty() {
        return Ok(());
    }
    let counters = Counters { source: SOURCE.to_owned(), samples };
    controller.bytes("POST", "/api/v1/counters", Content::json(&counters)?, None).await.map(drop)
}

fn samples(found: &Found, links: &BTreeMap<String, String>, wish: &Wish) -> Vec<CounterSample> {
    let of = |(link, device): (&String, &String)| {
        let total = found.devices.get(device)?.sent.ip_bytes();
        let enforced_bps = wish.held_to(device).map(|rate| rate.bps());
        Some(CounterSample { link: link.clone(), rate_bps: None, total_bytes: Some(total), age_ms: 0, enforced_bps })
    };
    links.iter().filter_map(of).collect()
}
