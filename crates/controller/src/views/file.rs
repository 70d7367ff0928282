//! Files of a transfer, leg by leg, page by page.

use std::fmt;
use std::str::FromStr;

use api::agent::Cause;
use api::rest::{self, File, FileState, FilesQuery, Kind, PAGE_DEFAULT, Page, Problem};
use ledger::{PageLeft, Transfer, TransferId};

use super::transfer::wrong_cursor;
use crate::app::Answer;
use crate::cause::shown;
use crate::core::Core;
use crate::store::{FileRow, PageId, State, StoreError};

/// Pages of the file ledger that are read for one answer; it goes on with the next answer, be this one full or not.
const PAGES_READ_MAX: usize = 16;

/// Where a list goes on: the first file that was not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    leg: u32,
    page: u32,
    number: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.leg, self.page, self.number)
    }
}

impl FromStr for Cursor {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Cursor, Problem> {
        let mut parts = text.split('.').map(|part| part.parse().map_err(|_| wrong_cursor()));
        let mut part = || parts.next().unwrap_or_else(|| Err(wrong_cursor()));
        let cursor = Cursor { leg: part()?, page: part()?, number: part()? };
        if parts.next().is_some() { Err(wrong_cursor()) } else { Ok(cursor) }
    }
}

/// Files of a transfer, in the order of legs and pages; of each leg those that stand where they are asked for.
pub(crate) fn files(core: &mut Core, id: rest::TransferId, query: &FilesQuery) -> Answer<Page<File>> {
    let from = query.cursor.as_deref().map_or(Ok(Cursor::default()), str::parse)?;
    let limit = query.limit.unwrap_or(PAGE_DEFAULT);
    let transfer = core.state.transfers.get(&TransferId(id.0));
    let transfer = transfer.ok_or_else(|| Problem::not_found(format!("transfer {id}")))?;
    let mut next = skip(transfer, from, query.state);
    let mut items = Vec::new();
    for _ in 0..PAGES_READ_MAX {
        let Some(at) = next.filter(|_| items.len() < limit) else { break };
        let page = PageId { transfer: id.0, leg: at.leg, page: at.page };
        let found = of_page(core, page, at.number, limit - items.len(), query.state);
        let (files, rest) = found.map_err(|error| unreadable(&error))?;
        items.extend(files);
        next = match (rest, core.state.transfers.get(&TransferId(id.0))) {
            (Some(number), _) => Some(Cursor { number, ..at }),
            (None, Some(transfer)) => {
                skip(transfer, Cursor { page: at.page.saturating_add(1), number: 0, ..at }, query.state)
            }
            (None, None) => None,
        };
    }
    Ok(Page { items, next: next.map(|next| next.to_string()) })
}

fn unreadable(error: &StoreError) -> Problem {
    Problem::new(Kind::Internal, format!("the file ledger cannot be read: {}", mover::session::chain(error)))
}

/// The first page from there on that has a file that is asked for, by the counts of the state: others are not read.
fn skip(transfer: &Transfer, from: Cursor, state: Option<FileState>) -> Option<Cursor> {
    let mut at = from;
    while let Some(leg) = transfer.legs.get(at.leg as usize) {
        for (page, listed) in (0_u32..).zip(&transfer.listing.pages).skip(at.page as usize) {
            let left = leg.pages.get(page as usize).copied().unwrap_or_default();
            if has(listed.files, &left, state) {
                return Some(Cursor { page, number: if page == at.page { at.number } else { 0 }, ..at });
            }
        }
        at = Cursor { leg: at.leg + 1, page: 0, number: 0 };
    }
    None
}

fn has(files: u32, left: &PageLeft, state: Option<FileState>) -> bool {
    match state {
        None => files > 0,
        Some(FileState::Open) => files > left.given.saturating_add(left.done).saturating_add(left.failed),
        Some(FileState::Given) => left.given > 0,
        Some(FileState::Done) => left.done > 0,
        Some(FileState::Failed) => left.failed > 0,
    }
}

/// Files of a page from a number on, and the number of the first that was not told, if there is one.
fn of_page(
    core: &mut Core,
    page: PageId,
    from: u32,
    most: usize,
    state: Option<FileState>,
) -> Result<(Vec<File>, Option<u32>), StoreError> {
    let reader = core.stores.files.reader();
    // A cursor may name a number past the end of the page.
    let from = from.min(u32::try_from(crate::store::PAGE_FILES_MAX).unwrap_or(u32::MAX));
    let rows = reader.files(page, 0, u32::MAX)?;
    let is_asked = |row: &FileRow| row.number >= from && state.is_none_or(|state| shown_state(row.state) == state);
    let mut wanted = rows.into_iter().filter(is_asked);
    let told: Vec<FileRow> = wanted.by_ref().take(most).collect();
    let rest = wanted.next().map(|row| row.number);
    let has = |state: State| told.iter().any(|row| row.state == state);
    let digests = if has(State::Done) { reader.digests(page)? } else { Vec::new() };
    let failed = match told.first().filter(|_| has(State::Failed)) {
        Some(first) => {
            let after = first.number.checked_sub(1).map(|before| (page.page, before));
            let after = after.or_else(|| page.page.checked_sub(1).map(|before| (before, u32::MAX)));
            let most = u32::try_from(told.len()).unwrap_or(u32::MAX);
            reader.failed(page.transfer, page.leg, after, most)?
        }
        None => Vec::new(),
    };
    let shown = |row: FileRow| {
        let digest = digests.binary_search_by_key(&row.number, |(number, _)| *number).ok();
        let digest = digest.filter(|_| row.state == State::Done).map(|at| hex(&digests[at].1));
        let failed = failed.iter().find(|file| file.page == page.page && file.number == row.number);
        let (cause, text) = failed.map_or((None, String::new()), |file| why(&file.text));
        File {
            name: api::Name(row.name),
            size_bytes: row.size_bytes,
            leg: page.leg.saturating_add(1),
            state: shown_state(row.state),
            cause,
            text,
            digest,
        }
    };
    Ok((told.into_iter().map(shown).collect(), rest))
}

fn shown_state(state: State) -> FileState {
    match state {
        State::Open => FileState::Open,
        State::Given => FileState::Given,
        State::Done => FileState::Done,
        State::Failed => FileState::Failed,
    }
}

/// The cause with whose words a text begins, and what follows it.
fn why(text: &str) -> (Option<Cause>, String) {
    let after = |cause: &ledger::Cause| {
        let rest = text.strip_prefix(cause.words())?;
        if rest.is_empty() { Some(cause.words()) } else { rest.strip_prefix(": ") }
    };
    let found = ledger::Cause::ALL.iter().find_map(|cause| Some((*cause, after(cause)?)));
    found.map_or((None, text.to_owned()), |(cause, rest)| (Some(shown(cause)), rest.to_owned()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back() {
        let cursor = Cursor { leg: 1, page: 20, number: 9_999 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "1", "1.2", "1.2.3.4", "a.b.c", "1.2.-3", "t17"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn causes_are_known_again() {
        for cause in ledger::Cause::ALL {
            let (found, text) = why(&format!("{}: the words", cause.words()));
            assert_eq!((found, text.as_str()), (Some(shown(cause)), "the words"));
        }
        assert_eq!(why("something else"), (None, "something else".to_owned()));
        assert_eq!(why("it failed"), (Some(Cause::Other), "it failed".to_owned()));
    }
}
