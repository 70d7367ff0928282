//! The fold of transfers: their coming, listing, steering and ending.

use std::collections::BTreeSet;

use crate::limits::{AFTER_MAX, KEYS_MAX, LEGS_MAX, PAGE_FILES_MAX, PAGES_MAX, SOURCES_MAX, TRANSFERS_MAX};
use crate::reason::cut;
use crate::transfer::{Ended, PageLeft};
use crate::{
    Cause, Event, Files, Leg, Listing, Moment, Page, Phase, Reason, Remedy, Retry, State, Submission, Transfer,
    TransferId,
};

use super::{Fit, Keyed, need};

impl State {
    pub(super) fn take_transfer(&mut self, at: Moment, event: &Event) -> Fit {
        let id = match event {
            Event::KeyExpired { by, key } => return self.key_expired(by, key),
            Event::Submitted { transfer, submission } => return self.submitted(at, *transfer, submission),
            Event::Forgotten { transfer } => return self.forgotten(*transfer),
            Event::Ended { transfer, phase, reason } => return self.ended(at, *transfer, *phase, reason),
            Event::PageListed { transfer, .. }
            | Event::ListingDone { transfer, .. }
            | Event::ListingFailed { transfer, .. }
            | Event::PageFailed { transfer, .. }
            | Event::LegFailed { transfer, .. }
            | Event::Woken { transfer, .. }
            | Event::Paused { transfer, .. }
            | Event::Resumed { transfer }
            | Event::Reclassed { transfer, .. }
            | Event::UrgencySet { transfer, .. } => *transfer,
            other => unreachable!("{} is folded elsewhere", other.kind()),
        };
        let transfer = self.transfers.get_mut(&id).ok_or_else(|| format!("there is no transfer {id}"))?;
        need(transfer.ended.is_none(), || format!("transfer {id} has ended"))?;
        change(transfer, at, event)?;
        match event {
            Event::PageFailed { leg, page, .. } => {
                self.drop_unfinished(|of| (of.transfer, of.leg, of.page) == (id, *leg, *page));
            }
            Event::LegFailed { leg, .. } => self.drop_unfinished(|of| (of.transfer, of.leg) == (id, *leg)),
            _ => {}
        }
        self.reindex(id);
        Ok(())
    }

    fn submitted(&mut self, at: Moment, id: TransferId, made: &Submission) -> Fit {
        need(id == self.next_transfer, || format!("the next transfer is {}", self.next_transfer))?;
        need(id.0 < u64::MAX, || "there are no numbers left".into())?;
        need(self.index.active < TRANSFERS_MAX, || format!("{TRANSFERS_MAX} transfers have not ended"))?;
        let within =
            (1..=SOURCES_MAX).contains(&made.sources.len()) && (1..=LEGS_MAX).contains(&made.destinations.len());
        need(within && made.after.len() <= AFTER_MAX, || "too few or too many sources, destinations or others".into())?;
        let unknown = made.after.iter().find(|other| !self.transfers.contains_key(other));
        need(unknown.is_none(), || "it waits for a transfer that there is not".into())?;
        if let Some((key, request)) = &made.key {
            let at_key = (made.by.clone(), key.clone());
            need(!self.keys.contains_key(&at_key), || format!("the key `{key}` was used"))?;
            if self.keys.len() >= KEYS_MAX {
                let oldest = self.index.keys.first().map(|(_, key)| key.clone());
                oldest.into_iter().for_each(|key| self.drop_key(&key));
            }
            self.index.keys.insert((at, at_key.clone()));
            self.keys.insert(at_key, Keyed { transfer: id, request: *request, at });
        }
        let done = |other: &TransferId| self.transfers[other].phase() == Phase::Done;
        let after: BTreeSet<TransferId> = made.after.iter().copied().filter(|other| !done(other)).collect();
        self.transfers.insert(id, new_transfer(at, made, after));
        self.next_transfer = TransferId(id.0 + 1);
        self.reindex(id);
        Ok(())
    }

    fn ended(&mut self, at: Moment, id: TransferId, phase: Phase, reason: &Reason) -> Fit {
        let transfer = self.transfers.get_mut(&id).ok_or_else(|| format!("there is no transfer {id}"))?;
        need(transfer.ended.is_none(), || format!("transfer {id} has ended"))?;
        need(phase.is_end(), || format!("`{}` is no end", phase.word()))?;
        let whole = |leg: &Leg| leg.given_up.is_none() && leg.failed == 0;
        let complete = transfer.is_settled() && transfer.legs.iter().all(whole);
        need(phase != Phase::Done || complete, || format!("transfer {id} has files that are not in place"))?;
        let reason = Reason { detail: cut(&reason.detail), ..reason.clone() };
        transfer.ended = Some(Ended { phase, reason, at });
        transfer.paused = None;
        self.drop_unfinished(|of| of.transfer == id);
        let waiting = self.index.dependents.get(&id).cloned().unwrap_or_default();
        self.reindex(id);
        for other in waiting {
            if let Some(other) = self.transfers.get_mut(&other).filter(|_| phase == Phase::Done) {
                other.after.remove(&id);
            }
            // Else it is doomed now, which the index sees.
            self.reindex(other);
        }
        Ok(())
    }

    fn forgotten(&mut self, id: TransferId) -> Fit {
        let transfer = self.transfers.get(&id).ok_or_else(|| format!("there is no transfer {id}"))?;
        let idle = transfer.legs.iter().all(|leg| leg.sessions.is_empty());
        need(transfer.ended.is_some() && idle, || format!("transfer {id} has not ended"))?;
        need(!self.index.dependents.contains_key(&id), || format!("others wait for transfer {id}"))?;
        self.transfers.remove(&id);
        self.reindex(id);
        Ok(())
    }

    fn key_expired(&mut self, by: &str, key: &str) -> Fit {
        let at_key = (by.to_owned(), key.to_owned());
        need(self.keys.contains_key(&at_key), || format!("there is no key `{key}` of `{by}`"))?;
        self.drop_key(&at_key);
        Ok(())
    }

    fn drop_key(&mut self, key: &(String, String)) {
        if let Some(gone) = self.keys.remove(key) {
            self.index.keys.remove(&(gone.at, key.clone()));
        }
    }
}

fn new_transfer(at: Moment, made: &Submission, after: BTreeSet<TransferId>) -> Transfer {
    Transfer {
        name: made.name.clone(),
        collaboration: made.collaboration.clone(),
        class: made.class.clone(),
        sources: made.sources.clone(),
        files: made.files,
        legs: made.destinations.iter().cloned().map(Leg::new).collect(),
        urgency: made.urgency,
        deadline: made.deadline,
        how: made.how.clone(),
        after,
        by: made.by.clone(),
        at,
        promise: made.promise.clone(),
        listing: Listing { directory: matches!(made.files, Files::List { .. }), ..Listing::default() },
        paused: None,
        ended: None,
    }
}

/// What changes one transfer and nothing beside it.
fn change(transfer: &mut Transfer, at: Moment, event: &Event) -> Fit {
    match event {
        Event::PageListed { number, page, .. } => listed(transfer, *number, *page)?,
        Event::ListingDone { directory, .. } => {
            need(!transfer.listing.complete, || "its files are known already".into())?;
            transfer.listing.complete = true;
            transfer.listing.directory = *directory;
            transfer.listing.retry = None;
        }
        Event::ListingFailed { source, cause, text, .. } => listing_failed(transfer, at, *source, *cause, text)?,
        Event::PageFailed { leg, page, files, .. } => page_failed(transfer, *leg, *page, *files)?,
        Event::LegFailed { leg, reason, .. } => {
            let leg = leg_of(transfer, *leg)?;
            need(leg.given_up.is_none(), || "the leg was given up before".into())?;
            leg.given_up = Some(Reason { detail: cut(&reason.detail), ..reason.clone() });
        }
        Event::Woken { leg, .. } => {
            let retry = match leg {
                Some(leg) => &mut leg_of(transfer, *leg)?.retry,
                None => &mut transfer.listing.retry,
            };
            let retry = retry.as_mut().filter(|retry| retry.asleep).ok_or("it does not pause before a retry")?;
            retry.asleep = false;
        }
        Event::Paused { reason, .. } => {
            need(transfer.paused.is_none(), || "it is paused already".into())?;
            transfer.paused = Some(Reason { detail: cut(&reason.detail), ..reason.clone() });
        }
        Event::Resumed { .. } => drop(transfer.paused.take().ok_or("it is not paused")?),
        Event::Reclassed { class, .. } => transfer.class.clone_from(class),
        Event::UrgencySet { urgency, .. } => transfer.urgency = *urgency,
        other => unreachable!("{} is folded elsewhere", other.kind()),
    }
    Ok(())
}

fn leg_of(transfer: &mut Transfer, leg: u16) -> Result<&mut Leg, String> {
    transfer.legs.get_mut(usize::from(leg)).ok_or_else(|| format!("there is no leg {leg}"))
}

fn listed(transfer: &mut Transfer, number: u32, page: Page) -> Fit {
    let listing = &mut transfer.listing;
    need(!listing.complete, || "its files are known already".into())?;
    need(number == 0 || number as usize == listing.pages.len(), || format!("page {} is next", listing.pages.len()))?;
    need((1..=PAGE_FILES_MAX).contains(&page.files), || format!("a page has 1 to {PAGE_FILES_MAX} files"))?;
    need(number < PAGES_MAX, || format!("a transfer has at most {PAGES_MAX} pages"))?;
    if number == 0 {
        // A listing that was cut off: nothing of it was given to anyone.
        (listing.files, listing.bytes) = (0, 0);
        listing.pages.clear();
        transfer.legs.iter_mut().for_each(|leg| leg.pages.clear());
    }
    listing.pages.push(page);
    listing.files += u64::from(page.files);
    listing.bytes = listing.bytes.saturating_add(page.bytes);
    transfer.legs.iter_mut().for_each(|leg| leg.pages.push(PageLeft::default()));
    Ok(())
}

fn listing_failed(transfer: &mut Transfer, at: Moment, source: u8, cause: Cause, text: &str) -> Fit {
    need(!transfer.listing.complete, || "its files are known already".into())?;
    need(usize::from(source) < transfer.sources.len(), || format!("there is no source {source}"))?;
    let all = transfer.all_sources();
    let listing = &mut transfer.listing;
    let mut retry = Retry::after(listing.retry.as_ref(), cause, text, at, false, 0);
    if cause.remedy() == Remedy::Nothing {
        listing.spent |= 1 << source;
        if listing.spent != all {
            // Another source may have it, at once.
            retry = Retry { asleep: false, cause: Cause::Other, attempts: 1, all: 1, ..retry };
        }
    }
    listing.retry = Some(retry);
    Ok(())
}

fn page_failed(transfer: &mut Transfer, leg: u16, page: u32, files: u32) -> Fit {
    let total = transfer.listing.pages.get(page as usize).map_or(0, |page| page.files);
    let leg = leg_of(transfer, leg)?;
    let left = leg.pages.get_mut(page as usize).ok_or_else(|| format!("there is no page {page}"))?;
    need(left.given == 0, || format!("page {page} is with a session"))?;
    let open = total.saturating_sub(left.done).saturating_sub(left.failed);
    need(open == files && files > 0, || format!("page {page} has {open} open files"))?;
    left.failed += files;
    leg.failed += u64::from(files);
    leg.page_retries.remove(&page);
    Ok(())
}
