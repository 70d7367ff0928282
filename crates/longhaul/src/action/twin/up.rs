//! `twin up`.

use std::path::Path;

use anyhow::{Context, Result};
use model::network::{Network, shipped};
use twin::place::{Driver, Place, Record};

use super::list;
use crate::args::twin::{DriverName, UpArgs};
use crate::exit::{as_usage, usage};
use crate::output::print;

pub(super) fn run(args: &UpArgs) -> Result<()> {
    let network = read(&args.network)?;
    let scale = args.scale.parse().map_err(|error| usage(format!("--scale: {error}")))?;
    let network = network.scaled(scale);
    let place = Place::of(args.name.as_ref().unwrap_or(&network.name)).map_err(as_usage)?;
    let driver = match args.driver {
        DriverName::Own => Driver::Own,
        DriverName::Netem => Driver::Netem,
    };
    let record = Record { driver, seed: args.seed, scale: args.scale.clone() };
    let program = std::env::current_exe().context("cannot find this program")?;
    twin::up::up(&place, &network, &record, &program)?;
    let twin = list::describe(&place)?;
    if args.json {
        return print(format!("{}\n", serde_json::to_string(&twin)?));
    }
    print(list::text(&twin))
}

/// Reads a file, or a network that comes with the program.
pub(super) fn read(path: &Path) -> Result<Network> {
    let name = path.to_string_lossy();
    if let Some((name, text)) = shipped().iter().find(|(shipped, _)| *shipped == name) {
        return Ok(Network::from_toml(text, &format!("{name}.toml"))?);
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        let names: Vec<&str> = shipped().iter().map(|(name, _)| *name).collect();
        usage(format!("cannot read {name}: {error}; it is neither a file nor one of: {}", names.join(", ")))
    })?;
    Network::from_toml(&text, &name).map_err(|error| usage(error.to_string()))
}
