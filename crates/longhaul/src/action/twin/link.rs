//! `twin link`.

use anyhow::Result;
use twin::control::{self, Ask};

use crate::args::twin::{LinkArgs, Way};
use crate::exit::usage;
use crate::output::print;

pub(super) fn run(args: &LinkArgs) -> Result<()> {
    let place = super::place(&args.which)?;
    let (network, _) = place.read()?;
    let links = network.links_named(&args.link).map_err(|unknown| usage(unknown.to_string()))?;
    let changes: Vec<(&str, &str)> = args.changes().collect();
    if changes.is_empty() && !args.cut && !args.heal && args.drop.is_none() {
        return Err(usage("what is to change? For example --cut, --heal, --rate 500Mb/s, --loss 0.01% or --drop 1"));
    }
    if args.way.is_some() && (args.cut || args.heal) {
        return Err(usage("a link is cut and healed both ways: leave --way out, or say --loss 100% for one way"));
    }
    let states = control::links(&place)?;
    for link in links {
        let name = &network.links[link].name;
        let state = states.get(link).cloned().flatten();
        let state =
            state.ok_or_else(|| usage(format!("link `{name}` is plain: give it a rate or a delay in the network")))?;
        if !changes.is_empty() {
            let mut directions = state.directions;
            for (way, direction) in [Way::Forward, Way::Backward].into_iter().zip(&mut directions) {
                if concerns(args, way) {
                    for (key, text) in &changes {
                        direction.change(key, text).map_err(|why| usage(format!("--{key}: {why}")))?;
                    }
                }
            }
            control::ask(&place, &Ask::Set { link, directions: Box::new(directions) })?;
        }
        if let Some(count) = args.drop {
            let counts = [Way::Forward, Way::Backward].map(|way| if concerns(args, way) { count } else { 0 });
            control::ask(&place, &Ask::Drop { link, counts })?;
        }
        if args.cut || args.heal {
            control::ask(&place, &Ask::Up { link, up: args.heal })?;
        }
        let changes: Vec<String> = changes.iter().map(|(key, text)| format!("{key} {text}")).collect();
        let dropped = args.drop.map(|count| format!("drop {count}"));
        let done = [dropped, args.cut.then(|| "cut".to_owned()), args.heal.then(|| "healed".to_owned())];
        let done: Vec<String> = done.into_iter().flatten().chain(changes).collect();
        print(format!("link {name}: {}\n", done.join(", ")))?;
    }
    Ok(())
}

/// Whether a way of the link is meant.
fn concerns(args: &LinkArgs, way: Way) -> bool {
    args.way.is_none_or(|only| only == way)
}
