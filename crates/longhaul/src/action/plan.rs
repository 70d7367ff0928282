//! `longhaul plan`: the planner offline, on files.

mod booked;
mod calendar;
mod drawing;
mod path;
mod requirements;
mod reserve;
mod shares;
mod slots;
pub(super) mod table;
mod volume;

use std::path::Path;

use anyhow::Result;

use crate::args::plan::PlanWhat;
use crate::exit::{self, usage};
use crate::output::print;

/// Does it.
///
/// # Errors
/// When a file or what is asked cannot be used, or there is no answer.
pub(crate) fn run(what: PlanWhat) -> Result<u8> {
    match what {
        PlanWhat::Path(args) => path::run(&args)?,
        PlanWhat::Requirements(args) => requirements::run(&args)?,
        PlanWhat::Slots(args) => slots::all(&args)?,
        PlanWhat::Highest(args) => slots::highest(&args)?,
        PlanWhat::Volume(args) => volume::run(&args)?,
        PlanWhat::Reserve(args) => return reserve::run(&args),
        PlanWhat::Calendar(args) => calendar::run(&args)?,
        PlanWhat::Share(args) => shares::share(&args)?,
        PlanWhat::Bottlenecks(args) => shares::bottlenecks(&args)?,
        PlanWhat::Whatif(args) => shares::whatif(&args)?,
        PlanWhat::Explain(args) => shares::explain(&args)?,
        PlanWhat::Answer { file } => answer(&file)?,
    }
    Ok(exit::DONE)
}

fn answer(file: &Path) -> Result<()> {
    let text = read(file)?;
    let answered = plan::answer::answer(&text).map_err(|error| usage(format!("{}: {error}", file.display())))?;
    print(format!("{answered:#}\n"))
}

/// The text of a file that was named.
fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|error| usage(format!("cannot read {}: {error}", file.display())))
}
