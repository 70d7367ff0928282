//! Taking a twin down, whatever state it is in.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sys::netns::{self, Namespace};
use sys::process::Process;

use crate::control;
use crate::place::Place;
use crate::plan;

/// How long the emulator may take to end when it is asked to, before it is killed.
const END_MAX: Duration = Duration::from_secs(5);
/// How long programs on hosts may take to end when they are asked to, before they are killed.
const PROGRAMS_MAX: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);

/// Ends the programs on its hosts and its emulator, and removes its namespaces and its directory.
///
/// # Errors
/// What could not be removed.
pub fn down(place: &Place) -> Result<()> {
    let namespaces = netns::names(&plan::namespace_prefix(place.name()))?;
    end_programs(&namespaces)?;
    if place.is_alive() {
        // One that does not answer is killed below.
        let asked = control::ask(place, &control::Ask::Stop);
        if let Err(error) = asked {
            tracing::debug!(%error, "the emulator does not answer");
        }
        let until = Instant::now() + END_MAX;
        while place.is_alive() && Instant::now() < until {
            sleep(STEP);
        }
        if place.is_alive() {
            kill_emulator(place)?;
        }
    }
    for name in namespaces {
        delete(&name)?;
    }
    place.remove()
}

/// Takes down all twins whose names begin with `begin` (nothing: all), and what was left of others.
///
/// # Errors
/// What could not be removed.
pub fn down_all(begin: &str) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for place in Place::all()?.into_iter().filter(|place| place.name().starts_with(begin)) {
        down(&place)?;
        removed.push(place.name().to_owned());
    }
    let left = netns::names(&format!("{}{begin}", plan::NAMESPACES))?;
    end_programs(&left)?;
    for name in left {
        delete(&name)?;
        removed.push(name);
    }
    Ok(removed)
}

/// Another `down` may have been faster: a namespace that is gone is what was wanted.
fn delete(name: &str) -> Result<()> {
    match Namespace::named(name)?.delete() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        deleted => deleted.with_context(|| format!("cannot remove the network namespace {name}")),
    }
}

fn end_programs(namespaces: &[String]) -> Result<()> {
    let programs = || -> Result<Vec<Process>> {
        let mut all = Vec::new();
        for name in namespaces {
            let inside = Namespace::named(name)?.processes().unwrap_or_default();
            all.extend(inside.into_iter().filter(|&(pid, _)| pid != std::process::id()).map(|(_, process)| process));
        }
        Ok(all)
    };
    for program in programs()? {
        // It may have ended since.
        let _ = program.terminate();
    }
    let until = Instant::now() + PROGRAMS_MAX;
    while !programs()?.is_empty() && Instant::now() < until {
        sleep(STEP);
    }
    for program in programs()? {
        let _ = program.kill();
    }
    Ok(())
}

fn kill_emulator(place: &Place) -> Result<()> {
    let Some(emulator) = place.emulator()? else { return Ok(()) };
    // It may have ended since.
    let _ = emulator.kill();
    let until = Instant::now() + END_MAX;
    while place.is_alive() && Instant::now() < until {
        sleep(STEP);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_another_removed_is_no_error() {
        delete(&format!("lh-none-{}", std::process::id())).unwrap();
    }
}
