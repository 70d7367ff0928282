//! `twin link`.

use anyhow::Result;
use model::network::Direction;
use twin::links::Links;

use crate::args::twin::{LinkArgs, Way};
use crate::exit::usage;
use crate::output::print;

pub(super) fn run(args: &LinkArgs) -> Result<()> {
    let place = super::place(&args.which)?;
    let mut links = Links::of(&place)?;
    let named = links.network().links_named(&args.link).map_err(|unknown| usage(unknown.to_string()))?;
    let changes: Vec<(&str, &str)> = args.changes().collect();
    if changes.is_empty() && !args.cut && !args.heal && args.drop.is_none() {
        return Err(usage("what is to change? For example --cut, --heal, --rate 500Mb/s, --loss 0.01% or --drop 1"));
    }
    if args.way.is_some() && (args.cut || args.heal) {
        return Err(usage("a link is cut and healed both ways: leave --way out, or say --loss 100% for one way"));
    }
    for (key, text) in &changes {
        // With the name of the option that must be written otherwise, whatever the link is.
        Direction::default().change(key, text).map_err(|why| usage(format!("--{key}: {why}")))?;
    }
    if let Some(&plain) = named.iter().find(|&&link| links.is_plain(link))
        && (!changes.is_empty() || args.drop.is_some())
    {
        return Err(usage(links.why_plain(plain)));
    }
    let only = args.way.map(Way::meant);
    if !changes.is_empty()
        && let Some(why) = links.why_not(&named, only, &changes)?
    {
        return Err(usage(why));
    }
    for link in named {
        if !changes.is_empty() {
            links.change(link, only, &changes)?;
        }
        if let Some(count) = args.drop {
            let counts = [Way::Forward, Way::Backward].map(|way| if concerns(args, way) { count } else { 0 });
            links.drop_next(link, counts)?;
        }
        if args.cut || args.heal {
            links.set_up(link, args.heal)?;
        }
        let name = &links.network().links[link].name;
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
