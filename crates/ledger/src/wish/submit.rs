//! Submitting a transfer.

use std::collections::BTreeSet;

use crate::limits::{
    AFTER_MAX, LEGS_MAX, PAGE_FILES_MAX, PAGES_MAX, PATH_MAX, SOURCES_MAX, TRANSFERS_MAX, URGENCY_MAX,
};
use crate::{Event, Files, Location, Moment, Page, Phase, State, Submission, TransferId};

use super::{Kind, Refusal, check_name, need, refuse};

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is a new transfer.
    New {
        /// Its number.
        transfer: TransferId,
        /// What to log.
        events: Vec<Event>,
    },
    /// The same request came before, with the same key: nothing is to be logged.
    Before {
        /// The transfer that it made.
        transfer: TransferId,
    },
}

/// A transfer, if all that it names exists. `pages` are those of a list, which are in the file ledger under the number
/// [`State::next_transfer`] by then; none for a path, which is listed later.
///
/// # Errors
/// What is wrong with it, and the way out.
pub fn submit(state: &State, now: Moment, made: Submission, pages: &[Page]) -> Result<Accepted, Refusal> {
    if let Some((key, request)) = &made.key {
        check_name("the idempotency key", key)?;
        if let Some(before) = state.keys.get(&(made.by.clone(), key.clone())) {
            let same = before.request == *request;
            need(same, Kind::Conflict, || {
                format!("the idempotency key `{key}` was used for another request: make a new one")
            })?;
            return Ok(Accepted::Before { transfer: before.transfer });
        }
    }
    let room = state.index.active < TRANSFERS_MAX;
    need(room, Kind::Full, || format!("{TRANSFERS_MAX} transfers have not ended: submit again when some have"))?;
    // Nobody needs to call it anything.
    let name = Some(("the name of the transfer", &made.name)).filter(|(_, name)| !name.is_empty());
    let needed = [("the collaboration", &made.collaboration), ("the submitter", &made.by)];
    name.into_iter().chain(needed).try_for_each(|(what, name)| check_name(what, name))?;
    check_class(state, &made.class)?;
    check_urgency(made.urgency)?;
    let past = made.deadline.is_some_and(|deadline| deadline <= now);
    need(!past, Kind::Bad, || "the deadline is over: leave it out, or name a later one".into())?;
    check_locations(state, &made)?;
    check_after(state, &made.after)?;
    check_pages(made.files, pages)?;
    let transfer = state.next_transfer;
    let listed = !matches!(made.files, Files::Path);
    let mut events = vec![Event::Submitted { transfer, submission: Box::new(made) }];
    let numbered = (0..).zip(pages);
    events.extend(numbered.map(|(number, page)| Event::PageListed { transfer, number, page: *page }));
    if listed {
        events.push(Event::ListingDone { transfer, directory: true });
    }
    Ok(Accepted::New { transfer, events })
}

pub(super) fn check_class(state: &State, class: &str) -> Result<(), Refusal> {
    let Some(shares) = &state.shares else {
        return refuse(Kind::Conflict, "there are no classes yet: set the shares first");
    };
    let known = shares.classes.contains_key(class);
    need(known, Kind::Unknown, || {
        let names: Vec<&str> = shares.classes.keys().map(String::as_str).take(8).collect();
        format!("there is no class `{}`; there are: {}", class.escape_debug(), names.join(", "))
    })
}

pub(super) fn check_urgency(urgency: u8) -> Result<(), Refusal> {
    need(urgency <= URGENCY_MAX, Kind::Bad, || format!("the urgency is {urgency}: write 0 to {URGENCY_MAX}"))
}

fn check_locations(state: &State, made: &Submission) -> Result<(), Refusal> {
    let counts = [("sources", made.sources.len(), SOURCES_MAX), ("destinations", made.destinations.len(), LEGS_MAX)];
    for (what, count, most) in counts {
        need((1..=most).contains(&count), Kind::Bad, || format!("there are {count} {what}: write 1 to {most}"))?;
    }
    for at in made.sources.iter().chain(&made.destinations) {
        let known = state.endpoints.contains_key(&at.endpoint);
        let shown = at.endpoint.escape_debug();
        need(known, Kind::Unknown, || format!("there is no endpoint `{shown}`: add it, or look at `endpoint ls`"))?;
        check_path(&at.path)?;
    }
    let unique: BTreeSet<&Location> = made.sources.iter().chain(&made.destinations).collect();
    let all = made.sources.len() + made.destinations.len();
    need(unique.len() == all, Kind::Bad, || "a source or destination is named twice: leave one out".into())
}

/// Whether a path stays beneath a root, and has one form.
fn check_path(path: &[u8]) -> Result<(), Refusal> {
    need(path.len() <= PATH_MAX, Kind::Bad, || format!("a path is longer than {PATH_MAX} bytes: use a shorter one"))?;
    let part = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
    let fits = path.is_empty() || path.split(|byte| *byte == b'/').all(part);
    need(fits, Kind::Bad, || {
        let shown = String::from_utf8_lossy(path);
        format!("the path `{}` is not plainly beneath its endpoint: leave out `//`, `.`, `..`", shown.escape_debug())
    })
}

fn check_after(state: &State, after: &BTreeSet<TransferId>) -> Result<(), Refusal> {
    need(after.len() <= AFTER_MAX, Kind::Bad, || {
        format!("it waits for {} transfers: at most {AFTER_MAX}", after.len())
    })?;
    for other in after {
        let Some(transfer) = state.transfers.get(other) else {
            return refuse(Kind::Unknown, format!("there is no transfer {other} to wait for: leave it out"));
        };
        let phase = transfer.phase();
        let good = !phase.is_end() || phase == Phase::Done;
        need(good, Kind::Conflict, || {
            format!("transfer {other}, to wait for, is {}: submit that one again first", phase.word())
        })?;
    }
    Ok(())
}

fn check_pages(files: Files, pages: &[Page]) -> Result<(), Refusal> {
    match files {
        Files::Path => need(pages.is_empty(), Kind::Bad, || "a path is listed by an agent: give no pages".into()),
        Files::List { .. } => {
            let few = pages.len() <= PAGES_MAX as usize;
            need(few && !pages.is_empty(), Kind::Bad, || format!("a list has 1 to {PAGES_MAX} pages: split it"))?;
            let fits = pages.iter().all(|page| (1..=PAGE_FILES_MAX).contains(&page.files));
            need(fits, Kind::Bad, || format!("a page has 1 to {PAGE_FILES_MAX} files: split it"))
        }
    }
}
