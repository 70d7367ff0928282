//! Transfers, their legs, and the counts of their files.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::limits::{ATTEMPTS_ALL_MAX, PROGRESS_LEAST_BYTES};
use crate::reason::cut;
use crate::{Cause, Moment, Reason, Remedy, SessionId, TransferId};

/// A dataset on its way from one or several sources to one or several destinations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub collaboration: String,
    /// Its class of work.
    pub class: String,
    /// Any of them can serve each file.
    pub sources: Vec<Location>,
    /// What is moved.
    pub files: Files,
    /// A leg to each destination.
    pub legs: Vec<Leg>,
    /// 0 to [`crate::limits::URGENCY_MAX`], within its class.
    pub urgency: u8,
    /// When it should be done: it orders work, nothing is promised.
    pub deadline: Option<Moment>,
    /// How files are copied.
    pub how: How,
    /// What it waits for still.
    pub after: BTreeSet<TransferId>,
    /// Who submitted it: the name of a token.
    pub by: String,
    /// When it was submitted.
    pub at: Moment,
    /// What was promised.
    pub promise: Option<Promise>,
    /// What is known of its files.
    pub listing: Listing,
    /// Why it is paused, if it is.
    pub paused: Option<Reason>,
    /// How it ended, if it has.
    pub ended: Option<Ended>,
}

/// Somewhere beneath an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Location {
    /// Name of the endpoint.
    pub endpoint: String,
    /// Beneath its root; empty for the root itself. Any bytes but NUL; no `..` in it.
    pub path: Vec<u8>,
}

/// What a transfer moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Files {
    /// What is at the path: a file, or all beneath a directory. It is listed first.
    Path,
    /// A list that the submitter gave, of names beneath the path.
    List {
        /// Whether their sizes are known.
        sized: bool,
    },
}

/// How files are copied, in the words of `copy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// `clear`, `integrity` or `private`; empty for the agent's choice.
    pub protect: String,
    /// `never`, `changed` or `always`; empty for the agent's choice.
    pub overwrite: String,
    /// A digest of each file, as `copy --checksum` calls it.
    pub checksum: Option<String>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Data streams of a session at most; 0 for as many as help.
    pub streams: u16,
}

/// A hard promise: a place for it, nothing makes one yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// By when all is in place.
    pub finish: Moment,
    /// When it was made.
    pub made: Moment,
    /// How sure it is.
    pub assurance: Assurance,
    /// Number of the booking that holds it.
    pub booking: Option<u64>,
}

/// How sure a promise is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assurance {
    /// A circuit or policed class on every shared link.
    Enforced,
    /// Only Longhaul's own traffic is controlled.
    Edge,
    /// Measured only.
    Estimate,
}

/// What is known of the files of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Whether all are known.
    pub complete: bool,
    /// Whether the path is a directory; a list's is.
    pub directory: bool,
    /// In the order in which they were listed.
    pub pages: Vec<Page>,
    /// All files so far.
    pub files: u64,
    /// Their bytes, where known.
    pub bytes: u64,
    /// Failed attempts since the last good one.
    pub retry: Option<Retry>,
    /// A bit for each source at which the listing failed for good.
    pub spent: u16,
}

/// A page of files, alike for all legs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// How many, at most [`crate::limits::PAGE_FILES_MAX`].
    pub files: u32,
    /// Their bytes, where known.
    pub bytes: u64,
}

/// All files to one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    /// Where to.
    pub to: Location,
    /// What became of the files of each page.
    pub pages: Vec<PageLeft>,
    /// Files in place, of all pages.
    pub done: u64,
    /// Bytes in place, of files that are done.
    pub done_bytes: u64,
    /// Files that failed.
    pub failed: u64,
    /// Files given to sessions.
    pub given: u64,
    /// The sessions that run for it.
    pub sessions: BTreeSet<SessionId>,
    /// Attempts that failed since the last progress.
    pub retry: Option<Retry>,
    /// Pages with files that change or arrive corrupt.
    pub page_retries: BTreeMap<u32, Retry>,
    /// A bit for each source that cannot serve it.
    pub spent: u16,
    /// Why it was given up, if it was. Files that are open then are not tried.
    pub given_up: Option<Reason>,
}

/// What became of the files of a page on a leg. What is in none of these is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLeft {
    /// Given to a session.
    pub given: u32,
    /// In place.
    pub done: u32,
    /// Failed.
    pub failed: u32,
    /// Bytes of those in place.
    pub done_bytes: u64,
    /// A bit for each source at which a file of it was not found.
    pub missing: u16,
}

/// A row of attempts without progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Why the last failed.
    pub cause: Cause,
    /// In the words of the agent.
    pub text: String,
    /// Attempts for causes of this remedy.
    pub attempts: u32,
    /// Attempts for all causes in turn.
    pub all: u32,
    /// When the first of these attempts failed.
    pub since: Moment,
    /// When the last did.
    pub last: Moment,
    /// Not again before.
    pub until: Moment,
    /// Whether nothing is tried until [`crate::Event::Woken`]; else other hosts go on.
    pub asleep: bool,
    /// The most bytes that an attempt had in place of files that it did not finish.
    pub reached: u64,
}

/// Where a transfer is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// For another transfer.
    Waiting,
    /// What is beneath the source is being found out.
    Listing,
    /// Nothing of it runs, and something could.
    Queued,
    /// Sessions run.
    Moving,
    /// Someone paused it.
    Paused,
    /// It failed, and is tried again after a pause.
    Retrying,
    /// All files are in place at all destinations.
    Done,
    /// Some are.
    Partly,
    /// None is.
    Failed,
    /// Someone cancelled it.
    Cancelled,
}

/// How a transfer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// [`Phase::Done`], [`Phase::Partly`], [`Phase::Failed`] or [`Phase::Cancelled`].
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// When.
    pub at: Moment,
}

impl Phase {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Phase::Done | Phase::Partly | Phase::Failed | Phase::Cancelled)
    }

    /// In a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Listing => "listing",
            Phase::Queued => "queued",
            Phase::Moving => "moving",
            Phase::Paused => "paused",
            Phase::Retrying => "retrying",
            Phase::Done => "done",
            Phase::Partly => "partly",
            Phase::Failed => "failed",
            Phase::Cancelled => "cancelled",
        }
    }
}

impl Transfer {
    /// Where it is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if let Some(ended) = &self.ended {
            return ended.phase;
        }
        let asleep = |retry: &Option<Retry>| retry.as_ref().is_some_and(|retry| retry.asleep);
        let open = |leg: &&Leg| leg.given_up.is_none() && leg.open(&self.listing) > 0;
        if self.paused.is_some() {
            Phase::Paused
        } else if !self.after.is_empty() {
            Phase::Waiting
        } else if !self.listing.complete {
            if asleep(&self.listing.retry) { Phase::Retrying } else { Phase::Listing }
        } else if self.legs.iter().any(|leg| !leg.sessions.is_empty()) {
            Phase::Moving
        } else if self.legs.iter().any(|leg| open(&leg)) && self.legs.iter().filter(open).all(|leg| asleep(&leg.retry))
        {
            Phase::Retrying
        } else {
            Phase::Queued
        }
    }

    /// Whether nothing is left to do but to say so.
    pub(crate) fn is_settled(&self) -> bool {
        self.listing.complete && self.legs.iter().all(|leg| leg.is_settled(&self.listing))
    }

    /// A bit for each source.
    pub(crate) fn all_sources(&self) -> u16 {
        (1_u32 << self.sources.len().min(16)).wrapping_sub(1) as u16
    }
}

impl Leg {
    pub(crate) fn new(to: Location) -> Leg {
        Leg {
            to,
            pages: Vec::new(),
            done: 0,
            done_bytes: 0,
            failed: 0,
            given: 0,
            sessions: BTreeSet::new(),
            retry: None,
            page_retries: BTreeMap::new(),
            spent: 0,
            given_up: None,
        }
    }

    /// Files that no session has and that neither are in place nor failed.
    #[must_use]
    pub const fn open(&self, listing: &Listing) -> u64 {
        listing.files.saturating_sub(self.done).saturating_sub(self.failed).saturating_sub(self.given)
    }

    /// Of these, those of a page; none if there is no such page.
    #[must_use]
    pub fn open_of(&self, listing: &Listing, page: u32) -> u32 {
        let page = page as usize;
        let (Some(page), Some(left)) = (listing.pages.get(page), self.pages.get(page)) else { return 0 };
        page.files.saturating_sub(left.given).saturating_sub(left.done).saturating_sub(left.failed)
    }

    /// Whether nothing runs, and nothing is left or it was given up.
    #[must_use]
    pub fn is_settled(&self, listing: &Listing) -> bool {
        self.sessions.is_empty() && (self.given_up.is_some() || self.open(listing) == 0)
    }
}

impl Retry {
    /// The row with one more failure.
    ///
    /// `progressed` says that something got done meanwhile; `partial` is what came in place of files that did not get done, bytes.
    pub(crate) fn after(
        before: Option<&Retry>,
        cause: Cause,
        text: &str,
        at: Moment,
        progressed: bool,
        partial: u64,
    ) -> Retry {
        let reached = before.map_or(0, |row| row.reached);
        let further = cause.remedy() == Remedy::Again && partial >= reached.saturating_add(PROGRESS_LEAST_BYTES);
        let row = before.filter(|_| !progressed && !further);
        let alike = row.filter(|row| row.cause.remedy() == cause.remedy());
        let attempts = alike.map_or(0, |row| row.attempts).saturating_add(1);
        Retry {
            cause,
            text: cut(text),
            attempts,
            all: row.map_or(0, |row| row.all).saturating_add(1),
            since: alike.map_or(at, |row| row.since),
            last: at,
            until: at.after_ms(cause.remedy().pause_ms(attempts)),
            asleep: true,
            // What was reached stays over the whole leg, so that it counts as progress only so many times.
            reached: if further { partial } else { reached },
        }
    }

    /// Whether it is enough.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.all >= ATTEMPTS_ALL_MAX || self.cause.remedy().is_spent(self.attempts, self.since, self.last)
    }
}
