//! `longhaul twin`: an emulated network on this machine.

mod convert;
mod link;
mod list;
mod live;
mod run;
mod send;
mod stats;
mod up;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sys::netns::Namespace;
use twin::place::Place;
use twin::plan::Plan;

use crate::args::twin::{TwinWhat, Which};
use crate::exit::{self, usage};
use crate::output::print;

/// Does it.
///
/// # Errors
/// When it could not be done.
pub(crate) fn run(what: TwinWhat) -> Result<u8> {
    if sys::process::euid() != 0 && !matches!(what, TwinWhat::Convert { .. }) {
        bail!("twins are root's, as network namespaces and devices are: run this as root");
    }
    match what {
        TwinWhat::Up(args) => up::run(&args)?,
        TwinWhat::Down { names, all, begin } => down(&names, all.then_some(begin.as_str()))?,
        TwinWhat::Ls { json } => list::run(json)?,
        TwinWhat::Exec { which, host, command } => return exec(&which, &host, &command),
        TwinWhat::Shell { which, host } => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
            return exec(&which, &host, &[shell]);
        }
        TwinWhat::Link(args) => link::run(&args)?,
        TwinWhat::Stats(args) => {
            let place = place(&args.which)?;
            match &args.to {
                Some(url) => return send::run(&place, &args.reach.reach(url, false)),
                None => stats::run(&place, args.link.as_deref(), args.json, args.watch)?,
            }
        }
        TwinWhat::Topology { which } => print(twin::plan::addressed(&place(&which)?.read()?.0).to_toml())?,
        TwinWhat::Run(args) => return run::run(&args),
        TwinWhat::Convert { from, to } => convert::run(&from, &to)?,
        TwinWhat::Emulate { name } => {
            tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
            twin::daemon::run(&Place::of(&name)?)?;
        }
    }
    Ok(exit::DONE)
}

/// The twin that is meant: the one that is named, or the only one.
fn place(which: &Which) -> Result<Place> {
    if let Some(name) = &which.twin {
        return Place::of(name).map_err(exit::as_usage);
    }
    let mut all = Place::all()?;
    match all.len() {
        0 => Err(usage("there is no twin: `longhaul twin up pair` makes one")),
        1 => Ok(all.remove(0)),
        _ => {
            let names: Vec<&str> = all.iter().map(Place::name).collect();
            Err(usage(format!("which twin? say --twin with one of: {}", names.join(", "))))
        }
    }
}

fn down(names: &[String], all: Option<&str>) -> Result<()> {
    for name in names {
        let place = Place::of(name).map_err(exit::as_usage)?;
        if !place.exists() {
            return Err(place.absent());
        }
        twin::down::down(&place)?;
        print(format!("{name} is down\n"))?;
    }
    if let Some(begin) = all {
        let removed = twin::down::down_all(begin)?;
        if removed.is_empty() {
            print("there was no twin\n")?;
        }
        for name in removed {
            print(format!("{name} is down\n"))?;
        }
    }
    Ok(())
}

/// Becomes the program, on the host.
fn exec(which: &Which, host: &str, command: &[OsString]) -> Result<u8> {
    let place = place(which)?;
    let (network, _) = place.read()?;
    let node = network.node(host).map_err(|unknown| usage(format!("twin `{}`: {unknown}", place.name())))?;
    let plan = Plan::new(&network, place.name())?;
    let namespace = Namespace::named(&plan.nodes[node].namespace)?;
    let (program, arguments) = command.split_first().expect("clap asks for one");
    let mut command = Command::new(program);
    command.args(arguments);
    namespace
        .start_in(&mut command, Some(&place.file("hosts")))
        .with_context(|| format!("the twin `{}` is not whole: take it down and bring it up again", place.name()))?;
    // Comes back only if it could not be done.
    let error = command.exec();
    Err(error).with_context(|| format!("cannot run `{}` on {host}", program.display()))
}
