//! Listings: what is beneath a source, page by page into the file ledger.

use std::collections::{BTreeMap, BTreeSet};

use api::agent::{After, List, Listed, PAGE_MAX, ToAgent};
use ledger::limits::PAGES_MAX;
use ledger::{Cause, Event, Page, Seen, TransferId};

use super::Core;
use super::paths::absolute;
use crate::store::{NewFile, NewPage, PageId, StoreError};

/// The listings that run.
#[derive(Debug, Default)]
pub(super) struct Listings {
    next: u64,
    /// By number of the request.
    running: BTreeMap<u64, Listing>,
    /// Of what was listed of these before, the file ledger has something else: they begin with page 0.
    anew: BTreeSet<TransferId>,
}

#[derive(Clone, Debug)]
struct Listing {
    transfer: TransferId,
    source: u8,
    host: String,
    /// Pages that came, of this and of listings that were cut off.
    pages: u32,
}

impl Listings {
    /// An agent is gone, and with it its listings: others go on where they were.
    pub(super) fn lose(&mut self, host: &str, seen: &mut Seen) {
        self.running.retain(|_, listing| {
            let stays = listing.host != host;
            if !stays {
                seen.listings.remove(&listing.transfer);
            }
            stays
        });
    }
}

impl Core {
    /// Asks a host what is at the path of a source.
    pub(super) fn list(&mut self, transfer: TransferId, source: u8, host: String) {
        let Some(of) = self.state.transfers.get(&transfer) else { return };
        let path = of.sources.get(usize::from(source)).and_then(|location| absolute(&self.state, location));
        let Some(path) = path else {
            let text = "its endpoint is no more".to_owned();
            self.record_own(Event::ListingFailed { transfer, source, cause: Cause::NotFound, text });
            return;
        };
        let collaboration = of.collaboration.clone();
        let after = self.listed_before(transfer);
        let pages = after.as_ref().map_or(0, |after| after.page);
        self.listings.next += 1;
        let request = self.listings.next;
        self.listings.running.insert(request, Listing { transfer, source, host: host.clone(), pages });
        self.seen.listings.insert(transfer, host.clone());
        self.tell(&host, ToAgent::List(List { request, collaboration, path, after }));
    }

    /// How far a listing came that was cut off, by its agent or by us. Several sources may have other names in other places.
    fn listed_before(&mut self, id: TransferId) -> Option<After> {
        let transfer = self.state.transfers.get(&id)?;
        if transfer.sources.len() != 1 || self.listings.anew.contains(&id) {
            return None;
        }
        let page = u32::try_from(transfer.listing.pages.len()).ok()?;
        let last = PageId { transfer: id.0, leg: 0, page: page.checked_sub(1)? };
        let number = transfer.listing.pages.last()?.files.checked_sub(1)?;
        let named = self.stores.files.reader().named(last, &[number]).ok()?;
        let name = named.into_iter().next().map(|file| api::Name(file.name)).filter(|name| !name.0.is_empty())?;
        Some(After { name, page })
    }

    pub(super) fn listed(&mut self, host: &str, listed: Listed) {
        let request = listed.request;
        let Some(listing) = self.listings.running.get(&request).filter(|listing| listing.host == host).cloned() else {
            return;
        };
        let legs = self.state.transfers.get(&listing.transfer).map(|transfer| transfer.legs.len());
        let is_right = listed.page == listing.pages && listed.entries.len() <= PAGE_MAX;
        let Some(legs) = legs.filter(|_| is_right) else {
            return self.listing_failed(host, request, api::agent::Cause::Other, "the agent sent pages out of turn");
        };
        if listing.pages >= PAGES_MAX {
            let text = format!("there are more than {} files: submit parts of it", PAGES_MAX as usize * PAGE_MAX);
            return self.listing_failed(host, request, api::agent::Cause::Refused, &text);
        }
        let last = listed.last;
        let directory = listed.directory;
        if !listed.entries.is_empty() {
            if let Err(error) = self.put_page(&listing, legs, listed) {
                if matches!(error, StoreError::PageExists { .. }) {
                    let known = &self.state.transfers;
                    self.listings.anew.retain(|id| known.get(id).is_some_and(|of| !of.listing.complete));
                    self.listings.anew.insert(listing.transfer);
                }
                let text = mover::session::chain(&error);
                return self.listing_failed(host, request, api::agent::Cause::Other, &text);
            }
            if let Some(listing) = self.listings.running.get_mut(&request) {
                listing.pages += 1;
            }
        }
        self.tell(host, ToAgent::Taken { request, page: listing.pages });
        if last {
            self.end_listing(request);
            self.listings.anew.remove(&listing.transfer);
            self.record_own(Event::ListingDone { transfer: listing.transfer, directory });
        }
    }

    fn put_page(&mut self, listing: &Listing, legs: usize, listed: Listed) -> Result<(), StoreError> {
        let TransferId(transfer) = listing.transfer;
        if listing.pages == 0 {
            // Of an attempt before this one.
            self.stores.files.delete(transfer)?;
        }
        let bytes = listed.entries.iter().map(|entry| entry.size_bytes).fold(0, u64::saturating_add);
        let files: Vec<NewFile> = listed
            .entries
            .into_iter()
            .map(|entry| NewFile { name: entry.name.0, size_bytes: entry.size_bytes })
            .collect();
        let count = u32::try_from(files.len()).expect("a page is bounded");
        let legs = (0..u32::try_from(legs).expect("legs are bounded")).collect();
        self.stores.files.put(&[NewPage { transfer, page: listing.pages, legs, files }])?;
        let page = Page { files: count, bytes };
        self.record_own(Event::PageListed { transfer: listing.transfer, number: listing.pages, page });
        Ok(())
    }

    pub(super) fn listing_failed(&mut self, host: &str, request: u64, cause: api::agent::Cause, text: &str) {
        let listing = self.listings.running.get(&request).filter(|listing| listing.host == host).cloned();
        let Some(Listing { transfer, source, .. }) = listing else { return };
        self.end_listing(request);
        let cause = crate::cause::known(cause);
        self.record_own(Event::ListingFailed { transfer, source, cause, text: text.to_owned() });
    }

    fn end_listing(&mut self, request: u64) {
        if let Some(listing) = self.listings.running.remove(&request) {
            self.seen.listings.remove(&listing.transfer);
        }
    }
}
