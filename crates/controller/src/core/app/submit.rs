//! Submitting a transfer: places as agents see them become places beneath endpoints, a list of files goes into the file ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::rest::{self, Kind, Overwrite, Problem, Protect, Submitted, TransferRequest};
use ledger::wish::{self, Accepted};
use ledger::{Digest, Files, How, Location, Page, Refusal, State, Submission, TransferId};

use super::store_full;
use crate::app::{Answer, IdempotencyKey};
use crate::core::Core;
use crate::core::paths::{beneath, join};
use crate::http::token_digest;
use crate::store::{NewFile, NewPage, PAGE_FILES_MAX, StoreError};

/// A refused submission up to this size is kept to be asked again, bytes of its places.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// A request as the core takes it: what is long to reckon is done before it gets there.
pub(super) struct Prepared {
    request: TransferRequest,
    key: Option<(String, Digest)>,
    /// Files by page; none if all of a path is meant.
    pages: Vec<Vec<NewFile>>,
}

impl Prepared {
    /// Takes time by the names: some ms for 10,000.
    pub(super) fn of(mut request: TransferRequest, key: Option<IdempotencyKey>) -> Prepared {
        let key = key.map(|key| (key.0, digest(&request)));
        let is_list = !request.files.is_empty();
        let mut names = std::mem::take(&mut request.files).into_iter();
        let mut pages = Vec::new();
        while is_list && names.len() > 0 {
            let file = |name: api::Name| NewFile { name: name.0, size_bytes: 0 };
            pages.push(names.by_ref().take(PAGE_FILES_MAX).map(file).collect());
        }
        Prepared { request, key, pages }
    }
}

/// Takes a transfer.
pub(super) fn submit(core: &mut Core, by: &str, prepared: Prepared) -> Answer<Submitted> {
    let Prepared { request, key, pages } = prepared;
    if let Some((key, request)) = &key
        && let Some(before) = core.state.keys.get(&(by.to_owned(), key.clone()))
    {
        if before.request == *request {
            return Ok(Submitted { id: rest::TransferId(before.transfer.0) });
        }
        let detail = format!("the idempotency key was used for another request, transfer {}", before.transfer);
        return Err(Problem::new(Kind::KeyReused, detail).fix("make a new key for each request"));
    }
    let made = submission(&core.state, by, &request, !pages.is_empty(), key)?;
    let counts: Vec<Page> = pages.iter().map(|files| Page { files: count(files), bytes: 0 }).collect();
    match wish::submit(&core.state, core.now(), made.clone(), &counts) {
        Ok(Accepted::Before { transfer }) => Ok(Submitted { id: rest::TransferId(transfer.0) }),
        Ok(Accepted::New { transfer, events }) => {
            put(core, transfer, made.destinations.len(), pages)?;
            core.grant(events)?;
            Ok(Submitted { id: rest::TransferId(transfer.0) })
        }
        Err(refusal) => Err(turn_down(core, &refusal, made, counts)),
    }
}

/// The request, whatever the order of its fields was.
fn digest(request: &TransferRequest) -> Digest {
    let text = serde_json::to_string(request).expect("a request is plain data");
    Digest(token_digest(&text))
}

fn turn_down(core: &mut Core, refusal: &Refusal, made: Submission, pages: Vec<Page>) -> Problem {
    let places = made.sources.iter().chain(&made.destinations);
    let bytes: usize = places.map(|place| place.endpoint.len() + place.path.len()).sum();
    if bytes > KEPT_BYTES_MAX {
        return core.turn_down(refusal, None);
    }
    let made = Arc::new(made);
    let again = move |state: &State, now| wish::submit(state, now, Submission::clone(&made), &pages).map(drop);
    core.turn_down(refusal, Some(Box::new(again)))
}

fn count(files: &[NewFile]) -> u32 {
    u32::try_from(files.len()).expect("a page is bounded")
}

/// Puts pages into the file ledger. The event follows; without it they are nobody's.
fn put(core: &mut Core, transfer: TransferId, legs: usize, pages: Vec<Vec<NewFile>>) -> Answer<()> {
    if pages.is_empty() {
        return Ok(());
    }
    let legs: Vec<u32> = (0..u32::try_from(legs).expect("legs are bounded")).collect();
    let page = |(page, files)| NewPage { transfer: transfer.0, page, legs: legs.clone(), files };
    let pages: Vec<NewPage> = (0..).zip(pages).map(page).collect();
    let files = &mut core.stores.files;
    let put = files.put(&pages).or_else(|error| match error {
        // Left of a submission of that number which the log did not take.
        StoreError::PageExists { .. } => files.delete(transfer.0).and_then(|_| files.put(&pages)),
        error => Err(error),
    });
    put.map_err(|error| store_full(&mover::session::chain(&error)))
}

fn submission(
    state: &State,
    by: &str,
    request: &TransferRequest,
    is_list: bool,
    key: Option<(String, Digest)>,
) -> Answer<Submission> {
    let sources = request.sources.iter().map(|place| Place::of(state, "sources", place)).collect::<Answer<Vec<_>>>()?;
    let field = if request.destination.is_some() { "destination" } else { "destinations" };
    let to = request.all_destinations().map(|place| destination(state, field, place, &sources));
    let collaboration = request
        .collaboration
        .clone()
        .ok_or_else(|| Problem::from(rest::Wrong::new("collaboration", "say for whom the transfer is")))?;
    Ok(Submission {
        name: request.name.clone().unwrap_or_default(),
        collaboration,
        class: request.class.clone(),
        destinations: to.collect::<Answer<Vec<_>>>()?,
        sources: sources.into_iter().map(|place| place.at).collect(),
        files: if is_list { Files::List { sized: false } } else { Files::Path },
        urgency: request.urgency,
        deadline: request.deadline.map(|time| ledger::Moment(time.unix_ms())),
        how: how(request),
        after: request.after.iter().map(|id| TransferId(id.0)).collect::<BTreeSet<_>>(),
        by: by.to_owned(),
        key,
        promise: None,
    })
}

/// A source.
struct Place {
    at: Location,
    /// Its path at agents ends with a slash: what is in it is meant.
    contents: bool,
    /// The last name of its path at agents; `None` of the top of a file system.
    last: Option<Vec<u8>>,
}

impl Place {
    fn of(state: &State, field: &str, place: &rest::Location) -> Answer<Place> {
        let path = &place.path.0;
        let bare = trimmed(path);
        let last = bare.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty());
        let at = located(state, field, place, bare)?;
        Ok(Place { at, contents: path.ends_with(b"/"), last: last.map(<[u8]>::to_vec) })
    }
}

/// A destination, by rsync's slash: without one at its end it is the new name itself. With one it is a directory, in which the source gets its
/// own name, unless the source has a slash at its end too; then what is in the source goes into it.
fn destination(state: &State, field: &str, place: &rest::Location, sources: &[Place]) -> Answer<Location> {
    let path = &place.path.0;
    let bare = trimmed(path);
    if !path.ends_with(b"/") || sources.iter().all(|source| source.contents) {
        return located(state, field, place, bare);
    }
    let name = sources.first().and_then(|source| source.last.as_ref().filter(|_| !source.contents));
    let alike = sources.iter().all(|source| source.last.as_ref() == name && !source.contents);
    let Some(name) = name.filter(|_| alike) else {
        let why = format!(
            "`{place}` is a directory to put things in, but the sources, places of one and the same dataset, have no name in common"
        );
        let fix = "several files go as a list (`--files-from`, or `files`); else write the new name itself without a slash at its end, or a slash at the end of each source";
        return Err(Problem::from(rest::Wrong::new(field, why)).fix(fix));
    };
    located(state, field, place, &join(bare, name).0)
}

/// Where a path at agents is beneath its endpoint.
fn located(state: &State, field: &str, place: &rest::Location, path: &[u8]) -> Answer<Location> {
    let Some(endpoint) = state.endpoints.get(&place.endpoint) else {
        let problem = Problem::not_found(format!("endpoint `{}`", place.endpoint));
        return Err(Problem { field: Some(field.into()), ..problem.fix("add it, or look at GET /endpoints") });
    };
    let Some(path) = beneath(endpoint, path) else {
        let root = api::Name(endpoint.root.clone());
        let why = format!("`{place}` is not beneath the root of endpoint `{}`, which is `{root}`", place.endpoint);
        return Err(Problem::from(rest::Wrong::new(field, why)).fix(format!("write a path beneath `{root}`")));
    };
    Ok(Location { endpoint: place.endpoint.clone(), path })
}

/// Without slashes at its end.
fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

fn how(request: &TransferRequest) -> How {
    let protect = match request.protect {
        None => "",
        Some(Protect::Clear) => "clear",
        Some(Protect::Integrity) => "integrity",
        Some(Protect::Private) => "private",
    };
    let overwrite = match request.overwrite {
        None => "",
        Some(Overwrite::Never) => "never",
        Some(Overwrite::Changed) => "changed",
        Some(Overwrite::Always) => "always",
    };
    How {
        protect: protect.to_owned(),
        overwrite: overwrite.to_owned(),
        checksum: request.checksum.clone(),
        congestion: request.congestion.clone(),
        streams: request.streams.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Endpoint `a` at `/data`, `b` at the top.
    fn state() -> State {
        let mut state = State::default();
        for (name, root) in [("a", "/data"), ("b", "/")] {
            let endpoint = ledger::Endpoint { hosts: ["h".to_owned()].into(), root: root.as_bytes().to_vec() };
            let event = ledger::Event::EndpointSet { name: name.to_owned(), endpoint };
            state.apply(ledger::Moment(1), &event).unwrap();
        }
        state
    }

    fn ends(sources: &[&str], to: &str) -> Result<String, Kind> {
        let place = |text: &&str| text.parse::<rest::Location>().unwrap();
        let request = TransferRequest {
            sources: sources.iter().map(place).collect(),
            destination: Some(place(&to)),
            collaboration: Some("cms".to_owned()),
            ..TransferRequest::default()
        };
        let made = submission(&state(), "me", &request, false, None).map_err(|problem| problem.kind)?;
        Ok(String::from_utf8(made.destinations[0].path.clone()).unwrap())
    }

    #[test]
    fn slashes_mean_what_they_mean_to_rsync() {
        for (sources, to, end) in [
            (&["a:/data/run7"][..], "b:/in", "in"),
            (&["a:/data/run7"], "b:/in/", "in/run7"),
            (&["a:/data/run7/"], "b:/in/", "in"),
            (&["a:/data/run7/"], "b:/in", "in"),
            (&["a:/data/run7"], "b:/", "run7"),
            (&["a:/data"], "b:/in/", "in/data"),
            (&["a:/data/run7", "b:/copy/run7"], "b:/in/", "in/run7"),
        ] {
            assert_eq!(ends(sources, to).as_deref(), Ok(end), "{sources:?} to {to}");
        }
        for sources in
            [&["a:/data/run7", "b:/copy/run8"][..], &["a:/data/run7", "b:/copy/run7/"], &["b:/", "a:/data/x"]]
        {
            assert_eq!(ends(sources, "b:/in/"), Err(Kind::Invalid), "{sources:?}");
        }
    }

    #[test]
    fn places_are_beneath_their_endpoints() {
        assert_eq!(ends(&["a:/database/x"], "b:/in"), Err(Kind::Invalid));
        assert_eq!(ends(&["b:/x"], "a:/other/in"), Err(Kind::Invalid));
        assert_eq!(ends(&["c:/x"], "b:/in"), Err(Kind::NotFound));
    }

    #[test]
    fn the_same_request_has_the_same_digest() {
        let request = TransferRequest { class: "cms".to_owned(), ..TransferRequest::default() };
        assert_eq!(digest(&request), digest(&request.clone()));
        assert_ne!(digest(&request), digest(&TransferRequest { urgency: 1, ..request.clone() }));
    }
}
