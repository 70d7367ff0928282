//! `twin up`.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use twin::place::{Place, Record};

use super::list;
use super::live::{Live, ratio};
use crate::action::network;
use crate::args::twin::UpArgs;
use crate::exit::as_usage;
use crate::output::print;

pub(super) fn run(args: &UpArgs) -> Result<()> {
    let scale = ratio(&args.scale)?;
    let live = args.from.as_ref().map(|url| Live::ask(args, url)).transpose()?;
    let network = match (&live, &args.network) {
        (Some(live), _) => live.network().clone(),
        (None, Some(path)) => network::read(path, Path::new(""))?,
        (None, None) => unreachable!("clap asks for one"),
    };
    let mut network = network.scaled(scale);
    let mut settled = live.as_ref().map(|live| live.load(&mut network, scale));
    let place = Place::of(args.name.as_ref().unwrap_or(&network.name)).map_err(as_usage)?;
    let record = Record { driver: args.driver.driver(), seed: args.seed, scale: args.scale.clone() };
    let program = std::env::current_exe().context("cannot find this program")?;
    twin::up::up(&place, &network, &record, &program)?;
    if let (Some(live), Some(settled)) = (&live, &mut settled)
        && let Err(error) = live.settle(&place, scale, settled)
    {
        twin::down::down(&place).context("what was begun could not be removed")?;
        return Err(error);
    }
    let twin = list::describe(&place)?;
    if args.json {
        let mut told = serde_json::to_value(&twin)?;
        if let Some(settled) = settled {
            told["live"] = json!(settled);
        }
        return print(format!("{told}\n"));
    }
    print(list::text(&twin) + &settled.map(|settled| settled.text()).unwrap_or_default())
}
