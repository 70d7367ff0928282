//! `longhaul transfer`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::Name;
use api::rest::{
    Check, File, Location, ModeRequest, Overwrite, PAGE_MAX, Page, PatchRequest, Protect, Submitted, Transfer,
    TransferId, TransferRequest, TransferState,
};
use clap::ValueEnum;
use serde::de::DeserializeOwned;

use super::client::{Content, Controller, is_lost, part};
use super::show;
use crate::action::copy::names;
use crate::args::controller::transfer::{
    FilesArgs, ListArgs, Replacing, SetArgs, SteerArgs, SubmitArgs, TransferWhat, WaitArgs,
};
use crate::args::value;
use crate::exit::{self, usage};
use crate::output::{note, print};

/// How often a submission is sent; it has a key, so it is not done twice.
const SUBMIT_TRIES: u32 = 5;
/// Before a submission is sent again, and between two looks at what is waited for.
const PAUSE: Duration = Duration::from_secs(1);
/// For how long a controller that does not answer is waited for.
const ABSENCE_MAX: Duration = Duration::from_secs(600);
/// Pages of a list that are asked for: a million files.
const PAGES_MAX: usize = 1000;

/// Does what was asked.
///
/// # Errors
/// When the controller cannot be reached, or says no.
pub(super) async fn run(what: TransferWhat, controller: &Controller) -> Result<u8> {
    match what {
        TransferWhat::Submit(args) => submit(*args, controller).await,
        TransferWhat::Ls(args) => list(&args, controller).await,
        TransferWhat::Show(args) => {
            let transfer: Transfer = controller.get(&path(args.id)).await?;
            tell(controller, &transfer, || show::transfer(&transfer))
        }
        TransferWhat::Wait(args) => wait_for(&args, controller).await,
        TransferWhat::Pause(args) => steer("pause", &args, controller).await,
        TransferWhat::Resume(args) => steer("resume", &args, controller).await,
        TransferWhat::Cancel(args) => steer("cancel", &args, controller).await,
        TransferWhat::Set(args) => set(args, controller).await,
        TransferWhat::Files(args) => files(&args, controller).await,
    }
}

/// One JSON line, or what is for people.
pub(super) fn tell(
    controller: &Controller,
    thing: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<u8> {
    let text = if controller.json { serde_json::to_string(thing)? + "\n" } else { text() };
    print(text)?;
    Ok(exit::DONE)
}

fn path(id: TransferId) -> String {
    format!("/api/v1/transfers/{id}")
}

async fn submit(args: SubmitArgs, controller: &Controller) -> Result<u8> {
    let wait = args.wait;
    let request = request(args)?;
    request.check().map_err(|wrong| usage(wrong.to_string()))?;
    let body = serde_json::to_vec(&request).context("cannot write the request as JSON")?;
    let mut random = [0; 16];
    sys::random::fill(&mut random).context("cannot make a key for the submission")?;
    let key = format!("{:032x}", u128::from_ne_bytes(random));
    let mut tries = 1;
    let bytes = loop {
        match controller.bytes("POST", "/api/v1/transfers", Content::Json(body.clone()), Some(&key)).await {
            Err(error) if is_lost(&error) && tries < SUBMIT_TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            answer => break answer?,
        }
    };
    let submitted: Submitted = serde_json::from_slice(&bytes).context("the controller's answer cannot be read")?;
    tell(controller, &submitted, || format!("{}\n", submitted.id))?;
    if wait { wait_all(&[submitted.id], None, controller).await } else { Ok(exit::DONE) }
}

fn request(mut args: SubmitArgs) -> Result<TransferRequest> {
    let last = args.places.pop().ok_or_else(|| usage("a destination is missing"))?;
    let files = match &args.files_from {
        Some(from) => names::read(from, args.null)?.iter().map(|name| Name(name.as_bytes().to_vec())).collect(),
        None => Vec::new(),
    };
    let (destination, destinations) = match args.also_to.is_empty() {
        true => (Some(last), Vec::new()),
        false => (None, std::iter::once(last).chain(args.also_to).collect::<Vec<Location>>()),
    };
    let word = |value: value::Checksum| value.to_possible_value().map(|value| value.get_name().to_owned());
    Ok(TransferRequest {
        name: args.name,
        collaboration: args.collaboration,
        sources: args.places,
        destination,
        destinations,
        files,
        class: args.class,
        urgency: args.urgent,
        deadline: args.deadline,
        checksum: args.checksum.and_then(word),
        protect: args.protect.map(|how| match how {
            value::Protect::Clear => Protect::Clear,
            value::Protect::Integrity => Protect::Integrity,
            value::Protect::Private => Protect::Private,
        }),
        overwrite: args.overwrite.map(|when| match when {
            Replacing::Never => Overwrite::Never,
            Replacing::Changed => Overwrite::Changed,
            Replacing::Always => Overwrite::Always,
        }),
        congestion: args.congestion,
        streams: args.streams,
        after: args.after,
    })
}

async fn list(args: &ListArgs, controller: &Controller) -> Result<u8> {
    let filter = [("state", &args.state), ("class", &args.class)];
    let items: Vec<Transfer> = pages(controller, "/api/v1/transfers", &filter, args.limit as usize).await?;
    tell(controller, &serde_json::json!({ "transfers": items }), || show::transfers(&items))
}

async fn files(args: &FilesArgs, controller: &Controller) -> Result<u8> {
    let filter = [("state", &args.state)];
    let most = PAGES_MAX * PAGE_MAX;
    let items: Vec<File> = pages(controller, &format!("{}/files", path(args.id)), &filter, most).await?;
    tell(controller, &serde_json::json!({ "files": items }), || show::files(&items))
}

/// What is on all pages, up to so many.
async fn pages<T: DeserializeOwned>(
    controller: &Controller,
    path: &str,
    filter: &[(&str, &Option<String>)],
    most: usize,
) -> Result<Vec<T>> {
    let mut items = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let mut at = format!("{path}?limit={}", (most - items.len()).min(PAGE_MAX));
        for (name, value) in filter.iter().copied().chain([("cursor", &cursor)]) {
            value.iter().for_each(|value| at += &format!("&{name}={}", part(value)));
        }
        let page: Page<T> = controller.get(&at).await?;
        items.extend(page.items);
        cursor = page.next;
        if cursor.is_none() || items.len() >= most {
            break;
        }
    }
    Ok(items)
}

async fn steer(how: &str, args: &SteerArgs, controller: &Controller) -> Result<u8> {
    for id in &args.ids {
        let content = Content::json(&ModeRequest { reason: args.reason.clone() })?;
        let transfer: Transfer = controller.ask("POST", &format!("{}/{how}", path(*id)), content).await?;
        tell(controller, &transfer, || line(&transfer))?;
    }
    Ok(exit::DONE)
}

async fn set(args: SetArgs, controller: &Controller) -> Result<u8> {
    let content = Content::json(&PatchRequest { class: args.class, urgency: args.urgent })?;
    let transfer: Transfer = controller.ask("PATCH", &path(args.id), content).await?;
    tell(controller, &transfer, || line(&transfer))
}

fn line(transfer: &Transfer) -> String {
    show::plain(&format!("{} {}: {}", transfer.id, crate::output::name::words(&transfer.state), transfer.reason)) + "\n"
}

async fn wait_for(args: &WaitArgs, controller: &Controller) -> Result<u8> {
    wait_all(&args.ids, args.timeout.map(units::Span::get), controller).await
}

/// Waits for all, tells each as it ends, and gives the worst of their codes.
async fn wait_all(ids: &[TransferId], patience: Option<Duration>, controller: &Controller) -> Result<u8> {
    let until = patience.and_then(|patience| Instant::now().checked_add(patience));
    let mut code = exit::DONE;
    for id in ids {
        let transfer = wait_one(*id, until, controller).await?;
        tell(controller, &transfer, || line(&transfer))?;
        code = worse(code, code_of(transfer.state));
    }
    Ok(code)
}

async fn wait_one(id: TransferId, until: Option<Instant>, controller: &Controller) -> Result<Transfer> {
    let mut away: Option<Instant> = None;
    loop {
        match controller.get::<Transfer>(&path(id)).await {
            Ok(transfer) if transfer.state.is_end() => return Ok(transfer),
            Ok(_) => away = None,
            Err(error) if is_lost(&error) => {
                let since = *away.get_or_insert_with(|| {
                    note(&format!("{}; waiting for it", exit::one_line(&error)));
                    Instant::now()
                });
                if since.elapsed() > ABSENCE_MAX {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(exit::coded(exit::AGAIN, format!("{id} has not ended within the time given; it goes on")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn code_of(end: TransferState) -> u8 {
    match end {
        TransferState::Done => exit::DONE,
        TransferState::Partly => exit::PARTLY,
        _ => exit::FAILED,
    }
}

/// Failed is worse than partly, and that than done.
fn worse(a: u8, b: u8) -> u8 {
    let rank = |code| match code {
        exit::DONE => 0,
        exit::PARTLY => 1,
        _ => 2,
    };
    if rank(b) > rank(a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_end_counts() {
        let ends = |states: &[TransferState]| states.iter().map(|state| code_of(*state)).fold(exit::DONE, worse);
        use TransferState::{Cancelled, Done, Failed, Partly};
        assert_eq!(ends(&[Done, Done]), 0);
        assert_eq!(ends(&[Done, Partly, Done]), 6);
        assert_eq!((ends(&[Failed, Partly]), ends(&[Partly, Cancelled])), (1, 1));
    }
}
