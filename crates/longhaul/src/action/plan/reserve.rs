//! `plan reserve`.

use anyhow::Result;
use plan::reserve::{Binding, Finish, Over, Refusal, Request};
use plan::slots::Slots;
use serde::Serialize;
use units::{Rate, Utc, Window};

use super::booked::{Along, SEARCH, ShownPart, Site, above_0, json, lasting};
use crate::args::plan::ReserveArgs;
use crate::exit::{DONE, REFUSED};
use crate::output::print;

/// The answer as `--json` prints it.
#[derive(Debug, Serialize)]
struct Answer {
    granted: bool,
    start: String,
    end: String,
    rate_bps: u64,
    path: Option<Along>,
    refusal: Option<Refused>,
}

#[derive(Debug, Serialize)]
struct Refused {
    binding: Vec<Bound>,
    highest: Instead<Highest>,
    first: Instead<First>,
    finish: Instead<Finished>,
}

/// An alternative, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Instead<T> {
    Offer(T),
    None(String),
}

#[derive(Debug, Serialize)]
struct Highest {
    rate_bps: u64,
    #[serde(flatten)]
    along: Along,
}

#[derive(Debug, Serialize)]
struct First {
    start: String,
    end: String,
    #[serde(flatten)]
    along: Along,
}

#[derive(Debug, Serialize)]
struct Finished {
    at: String,
    over: String,
    parts: Vec<ShownPart>,
}

#[derive(Debug, Serialize)]
struct Bound {
    resource: String,
    at: String,
    free_bps: u64,
    capacity_bps: u64,
    holders: Vec<Holds>,
}

#[derive(Debug, Serialize)]
struct Holds {
    class: String,
    rate_bps: u64,
    /// `null` if never.
    until: Option<String>,
}

pub(super) fn run(args: &ReserveArgs) -> Result<u8> {
    let site = Site::read(&args.bookings)?;
    let slot = lasting(args.start.0, args.length)?;
    let horizon = site.searched(args.until, SEARCH)?.end();
    let (ends, rate) = (site.ends(&args.way)?, above_0(args.rate)?);
    let request = Request { ends, rate, slot, horizon, balance: args.balance };
    let reserved = Slots::of(site.book.view()).reserve(&request);
    let (path, refusal) = match reserved {
        Ok(granted) => (Some(site.along(&granted.path.edges)), None),
        Err(refusal) => (None, Some(refused(&site, *refusal))),
    };
    let (start, end) = (Utc(slot.start()).to_string(), Utc(slot.end()).to_string());
    let answer = Answer { granted: path.is_some(), start, end, rate_bps: args.rate.bps(), path, refusal };
    print(if args.bookings.json { json(&answer)? } else { text(&answer) })?;
    Ok(if answer.granted { DONE } else { REFUSED })
}

fn refused(site: &Site, refusal: Refusal) -> Refused {
    let bound = |binding: &Binding| Bound {
        resource: site.book.view().resources()[binding.resource].name().to_owned(),
        at: Utc(binding.at).to_string(),
        free_bps: binding.free,
        capacity_bps: binding.capacity,
        holders: binding
            .holders
            .iter()
            .map(|holds| Holds {
                class: holds.class.clone(),
                rate_bps: holds.rate,
                until: (holds.until < Window::LATEST).then(|| Utc(holds.until).to_string()),
            })
            .collect(),
    };
    let finished = |finish: Finish| Finished {
        at: Utc(finish.at).to_string(),
        over: match finish.over {
            Over::AllPaths => "all paths".to_owned(),
            Over::OneOf(count) => format!("the best of the {count} cheapest paths"),
        },
        parts: finish.parts.iter().map(|part| site.part(part)).collect(),
    };
    Refused {
        binding: refusal.binding.iter().map(bound).collect(),
        highest: instead(refusal.highest, |highest| Highest {
            rate_bps: highest.rate.get(),
            along: site.along(&highest.path.edges),
        }),
        first: instead(refusal.first, |slot| First {
            start: Utc(slot.window.start()).to_string(),
            end: Utc(slot.window.end()).to_string(),
            along: site.along(&slot.path.edges),
        }),
        finish: instead(refusal.finish, finished),
    }
}

fn instead<T, U>(found: Result<T, plan::reserve::Absent>, shown: impl FnOnce(T) -> U) -> Instead<U> {
    found.map_or_else(|absent| Instead::None(absent.to_string()), |found| Instead::Offer(shown(found)))
}

/// For people.
fn text(answer: &Answer) -> String {
    let asked = format!("{} from {} to {}", Rate::from_bps(answer.rate_bps), answer.start, answer.end);
    if let Some(path) = &answer.path {
        return format!("{asked} is free over\n{}", path.text("  "));
    }
    let refused = answer.refusal.as_ref().map(refusal).unwrap_or_default();
    format!("{asked} is refused\n{refused}")
}

/// What binds, and what there is instead.
fn refusal(refused: &Refused) -> String {
    let mut text = String::new();
    for bound in &refused.binding {
        let (free, capacity) = (Rate::from_bps(bound.free_bps), Rate::from_bps(bound.capacity_bps));
        text += &format!("  {}: {free} of {capacity} free at {}\n", bound.resource, bound.at);
        for Holds { class, rate_bps, until } in &bound.holders {
            let until = until.as_ref().map_or_else(|| "always".to_owned(), |until| format!("until {until}"));
            text += &format!("    {} held by {class} {until}\n", Rate::from_bps(*rate_bps));
        }
    }
    let none = |why: &str| format!("none: {why}\n");
    let highest = match &refused.highest {
        Instead::Offer(highest) => format!("{}\n{}", Rate::from_bps(highest.rate_bps), highest.along.text("    ")),
        Instead::None(why) => none(why),
    };
    let first = match &refused.first {
        Instead::Offer(first) => format!("{} to {}\n{}", first.start, first.end, first.along.text("    ")),
        Instead::None(why) => none(why),
    };
    let finish = match &refused.finish {
        Instead::Offer(finish) => format!("by {}, over {}\n", finish.at, finish.over),
        Instead::None(why) => none(why),
    };
    text + &format!("highest rate  {highest}first slot    {first}same volume   {finish}")
}
