//! `longhaul driver`: a wish from a file and a controller, and what the driver says.

mod follow;
mod show;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use api::rest::{Link, Path};
use driver::difference::Items;
use driver::{Done, DriverError, Kernel, LinkRates, Linux, Lock, PathPackets, Wish, without};
use units::{Marks, Rate};

use super::block_on;
use super::controller::client::{Controller, part};
use crate::args::controller::ReachArgs;
use crate::args::driver::{DriverWhat, WishArgs};
use crate::environment::Environment;
use crate::exit::{self, coded};
use crate::output::print;

/// What is done here.
pub(crate) enum Driver {
    /// Steps are shown.
    Plan(Asked),
    /// Steps are done.
    Apply(Asked),
    /// Steps are done again and again.
    Follow(follow::Follow),
    /// What is there is shown, as JSON or not.
    Show(bool),
    /// What is there is removed: of these interfaces, or all; told as JSON or not.
    Undo(Vec<String>, bool),
}

/// A wish, and whom to ask about its links and paths.
pub(crate) struct Asked {
    wish: Wish,
    controller: Option<Controller>,
    json: bool,
}

impl Asked {
    fn of(args: &WishArgs, environment: &Environment) -> Result<Asked> {
        let wish = Wish::load(&args.file)?;
        let controller = match wish.follows() {
            true => Some(asked_of(&args.reach, environment)?),
            false => None,
        };
        Ok(Asked { wish, controller, json: args.reach.json })
    }
}

fn asked_of(reach: &ReachArgs, environment: &Environment) -> Result<Controller> {
    Controller::of(reach, environment).context("the file names links or paths")
}

impl Driver {
    /// Checks what was written.
    ///
    /// # Errors
    /// When the file cannot be used, or names links or paths and no controller is named.
    pub(crate) fn of(what: DriverWhat, environment: &Environment) -> Result<Driver> {
        Ok(match what {
            DriverWhat::Plan(args) => Driver::Plan(Asked::of(&args, environment)?),
            DriverWhat::Apply(args) => Driver::Apply(Asked::of(&args, environment)?),
            DriverWhat::Follow(args) => Driver::Follow(follow::Follow::of(&args, environment)?),
            DriverWhat::Show { json } => Driver::Show(json),
            DriverWhat::Undo { interface, json } => Driver::Undo(interface, json),
        })
    }

    /// Does it.
    ///
    /// # Errors
    /// When something stands in the way, or fails. Then all is as it was, unless the error says otherwise.
    pub(crate) fn run(self) -> Result<u8> {
        match self {
            Driver::Plan(asked) => {
                let wish = block_on(filled(&asked.wish, asked.controller.as_ref()))?.items()?;
                let done = driver::plan(&mut open()?, &wish).map_err(told)?;
                print(show::steps(&done, false, asked.json))?;
            }
            Driver::Apply(asked) => {
                let wish = block_on(filled(&asked.wish, asked.controller.as_ref()))?.items()?;
                print(show::steps(&apply(&wish)?, true, asked.json))?;
            }
            Driver::Follow(follow) => return follow.run(),
            Driver::Show(json) => {
                let found = open()?.read().map_err(DriverError::Read)?;
                print(show::found(&found, json))?;
            }
            Driver::Undo(devices, json) => {
                let lock = locked()?;
                let mut kernel = open()?;
                let found = kernel.read().map_err(DriverError::Read)?;
                let done = driver::apply(&mut kernel, &without(&found, &devices)).map_err(told)?;
                drop(lock);
                print(show::steps(&done, true, json))?;
            }
        }
        Ok(exit::DONE)
    }
}

/// What is wished, with what the controller says in place of links and paths.
async fn filled(wish: &Wish, controller: Option<&Controller>) -> Result<Wish> {
    let mut links = BTreeMap::new();
    for name in wish.links() {
        let Some(controller) = controller else { break };
        let link: Link = controller.get(&format!("/api/v1/links/{}", part(&name))).await?;
        links.insert(name, rates(&link));
    }
    let mut paths = BTreeMap::new();
    for name in wish.paths() {
        let Some(controller) = controller else { break };
        let path: Path = controller.get(&format!("/api/v1/paths/{}", part(&name))).await?;
        paths.insert(name, packets(&path)?);
    }
    Ok(wish.clone().filled(&links, &paths)?)
}

/// What packets of a path have; none can be told while the controller does not know their addresses.
fn packets(path: &Path) -> Result<PathPackets> {
    let Path { id, from, to, dscp, flow_label, .. } = path;
    let (Some(from), Some(to)) = (path.from_address, path.to_address) else {
        bail!(
            "path {id} has no addresses now: it has neither `addresses` nor marks in the file of the network, or no agent of \
             {from} or {to} is connected"
        );
    };
    let marks = Marks { dscp: *dscp, flow_label: *flow_label };
    marks.check().map_err(|why| anyhow!("path {id}: {why}"))?;
    Ok(PathPackets { from, to, marks })
}

/// A link without a rate is as good as one that nobody knows: its rates are 0, which is refused with words.
fn rates(link: &Link) -> LinkRates {
    let rate = link.capacity_bps.unwrap_or(0);
    LinkRates { rate: Rate::from_bps(rate), mark: Rate::from_bps(link.mark_bps.unwrap_or(rate)) }
}

fn apply(wish: &Items) -> Result<Done> {
    let _lock = locked()?;
    driver::apply(&mut open()?, wish).map_err(told)
}

fn open() -> Result<Linux> {
    Linux::open().context("cannot speak to the kernel (netlink)")
}

/// Only one driver at a time; under systemd the directory is that of the service.
fn locked() -> Result<Lock> {
    let directory = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from).filter(|path| path.is_absolute());
    Ok(Lock::take(&directory.unwrap_or_else(|| driver::LOCKS.into()))?)
}

/// With the way out where it is always the same.
fn told(error: DriverError) -> anyhow::Error {
    match &error {
        DriverError::Refused(_) => coded(exit::USAGE, error.to_string()),
        _ if error.is_forbidden() => {
            anyhow::Error::new(error).context("this needs CAP_NET_ADMIN: run it as root, or as longhaul-driver.service")
        }
        _ => error.into(),
    }
}
