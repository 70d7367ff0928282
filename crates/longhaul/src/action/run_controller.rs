//! `longhaul controller`: checks what was written and hands over to the controller.

use std::path::PathBuf;

use agent::Log;
use anyhow::{Context, Result};
use controller::store::{self, Copied, Place};
use controller::{Config, Overrides, Replayed};
use serde_json::json;

use super::block_on;
use super::controller::ApiTokens;
use super::serve::{log, signals};
use crate::args::run_controller::{ControllerWhat, PlaceArgs, RunControllerArgs};
use crate::args::value::LogFormat;
use crate::environment::Environment;
use crate::exit;
use crate::output::print;

/// A controller that can be started, or what is done with one or its store.
pub(crate) enum RunController {
    /// Its configuration is right; that was all that was asked.
    Checked(Box<Config>),
    /// It runs until it is stopped.
    Run(Box<Config>, Log),
    /// Tokens of its API are made, listed or revoked.
    Tokens(Box<ApiTokens>),
    /// The store is copied to a directory.
    Backup(Place, PathBuf),
    /// A directory is copied to the store.
    Restore(Place, PathBuf),
    /// The log is replayed.
    Replay {
        /// The store.
        place: Place,
        /// All rows are checked, too.
        verify: bool,
        /// One JSON object.
        json: bool,
    },
}

impl RunController {
    /// Checks what was written.
    ///
    /// # Errors
    /// When the configuration cannot be.
    pub(crate) fn of(args: RunControllerArgs, environment: &Environment) -> Result<RunController> {
        if let Some(what) = args.what {
            return other(what, environment);
        }
        let overrides = Overrides {
            listen: args.listen,
            store: args.place.store,
            state_dir: args.place.state_dir,
            network: args.network,
            shares: args.shares,
            bookings: args.bookings,
            ready_file: args.ready_file,
        };
        let config = Config::load(args.place.config.as_deref(), overrides, &agent::Environment::of_process())?;
        let log = match args.log {
            LogFormat::Human => Log::Human,
            LogFormat::Json => Log::Json,
        };
        Ok(if args.check {
            RunController::Checked(Box::new(config))
        } else {
            RunController::Run(Box::new(config), log)
        })
    }

    /// Does it.
    ///
    /// # Errors
    /// When it cannot start, or ended other than by a signal.
    pub(crate) fn run(self) -> Result<u8> {
        match self {
            RunController::Checked(config) => {
                let (listen, state) = (config.listen().address, config.state_dir().display());
                print(format!(
                    "the configuration is right\nlisten     {listen}\nstore      {}\nstate      {state}\n",
                    config.store()
                ))?;
            }
            RunController::Run(config, format) => {
                log(format);
                block_on(async { Ok(controller::run(*config, signals()?).await?) })?;
            }
            RunController::Tokens(tokens) => return tokens.run(),
            RunController::Backup(place, to) => {
                let copied = store::backup(&place, &to).with_context(|| format!("copying to {}", to.display()))?;
                print(told(&copied, &to.display().to_string()))?;
            }
            RunController::Restore(place, from) => {
                let copied =
                    controller::restore(&from, &place).with_context(|| format!("restoring {}", from.display()))?;
                print(told(&copied, &place.to_string()))?;
            }
            RunController::Replay { place, verify, json } => return replay(&place, verify, json),
        }
        Ok(exit::DONE)
    }
}

fn other(what: ControllerWhat, environment: &Environment) -> Result<RunController> {
    let place_of = |place: PlaceArgs| -> Result<Place> {
        let overrides = Overrides { store: place.store, state_dir: place.state_dir, ..Overrides::default() };
        let config = Config::load(place.config.as_deref(), overrides, &agent::Environment::of_process())?;
        Ok(config.store().clone())
    };
    Ok(match what {
        ControllerWhat::Token(args) => RunController::Tokens(Box::new(ApiTokens::of(args.what, environment)?)),
        ControllerWhat::Backup { place, to } => RunController::Backup(place_of(place)?, to),
        ControllerWhat::Restore { place, from } => RunController::Restore(place_of(place)?, from),
        ControllerWhat::Replay { place, verify, json } => {
            RunController::Replay { place: place_of(place)?, verify, json }
        }
    })
}

fn told(copied: &Copied, to: &str) -> String {
    let Copied { events, snapshots, pages, .. } = copied;
    format!("{events} events, {snapshots} snapshots and {pages} pages of files are in {to}\n")
}

fn replay(place: &Place, verify: bool, json: bool) -> Result<u8> {
    let replayed = controller::replay(place, verify)?;
    let Replayed { events, snapshots, differ, transfers, sessions, digest, plannings, plannings_differ, report } =
        replayed;
    let damaged: Vec<String> = report.iter().flat_map(|report| &report.damaged).map(ToString::to_string).collect();
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_right = differ.is_empty() && damaged.is_empty() && plannings_differ.is_empty();
    if json {
        let told = json!({
            "ok": is_right, "events": events, "snapshots": snapshots, "snapshots_differ": differ, "transfers": transfers,
            "sessions": sessions, "state": digest, "plannings": plannings, "plannings_differ": plannings_differ, "damaged": damaged,
        });
        print(format!("{told}\n"))?;
    } else {
        let mut text = format!(
            "{events} events give a state of {transfers} transfers and {sessions} sessions\nstate      blake3:{digest}\nsnapshots  {snapshots} are what the events before them give\n"
        );
        differ
            .iter()
            .for_each(|number| text.push_str(&format!("the snapshot after event {number} is not: restore a backup\n")));
        if verify {
            text.push_str(&format!("plannings  {plannings} give the same rates again, certified\n"));
        }
        plannings_differ.iter().for_each(|what| text.push_str(&format!("{what}\n")));
        damaged.iter().for_each(|what| text.push_str(&format!("{what}\n")));
        print(text)?;
    }
    Ok(if is_right { exit::DONE } else { exit::CORRUPT })
}
