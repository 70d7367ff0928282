//! `twin up`.

use std::path::Path;

use anyhow::{Context, Result};
use twin::place::{Place, Record};

use super::list;
use crate::action::network;
use crate::args::twin::UpArgs;
use crate::exit::{as_usage, usage};
use crate::output::print;

pub(super) fn run(args: &UpArgs) -> Result<()> {
    let network = network::read(&args.network, Path::new(""))?;
    let scale = args.scale.parse().map_err(|error| usage(format!("--scale: {error}")))?;
    let network = network.scaled(scale);
    let place = Place::of(args.name.as_ref().unwrap_or(&network.name)).map_err(as_usage)?;
    let record = Record { driver: args.driver.driver(), seed: args.seed, scale: args.scale.clone() };
    let program = std::env::current_exe().context("cannot find this program")?;
    twin::up::up(&place, &network, &record, &program)?;
    let twin = list::describe(&place)?;
    if args.json {
        return print(format!("{}\n", serde_json::to_string(&twin)?));
    }
    print(list::text(&twin))
}
