//! What holds for every state that events lead to.

use std::collections::BTreeMap;

use crate::limits::{LEGS_MAX, PAGE_FILES_MAX, PICK_MAX, SOURCES_MAX, UNFINISHED_MAX, USAGE_MAX};
use crate::{Leg, State, Transfer, TransferId, Unfinished};

impl State {
    /// That the counts of files agree with each other and with the sessions, and that numbers are above those in use.
    ///
    /// # Errors
    /// What does not hold, for [`State::decode`], and for tests.
    pub fn check(&self) -> Result<(), String> {
        let mut given: BTreeMap<(TransferId, u16, u32), u64> = BTreeMap::new();
        for (id, session) in &self.sessions {
            let transfer = self.transfers.get(&session.transfer).ok_or(format!("session {id} has no transfer"))?;
            let leg = transfer.legs.get(usize::from(session.leg)).ok_or(format!("session {id} has no leg"))?;
            let settled = u64::from(session.done) + u64::from(session.failed) + u64::from(session.again);
            let known = leg.sessions.contains(id) && usize::from(session.source) < transfer.sources.len();
            if !known || settled > u64::from(session.files) {
                return Err(format!("session {id} has a wrong leg, source or count"));
            }
            let left = u64::from(session.held());
            *given.entry((session.transfer, session.leg, session.page)).or_default() += left;
        }
        if self.sessions.keys().any(|id| *id >= self.next_session) {
            return Err("a session has the number of a later one".into());
        }
        self.check_unfinished()?;
        for (id, transfer) in &self.transfers {
            if *id >= self.next_transfer {
                return Err(format!("transfer {id} has the number of a later one"));
            }
            check_transfer(*id, transfer).map_err(|problem| format!("transfer {id}: {problem}"))?;
            for (number, leg) in (0..).zip(&transfer.legs) {
                self.check_leg(*id, number, leg, &given).map_err(|problem| format!("transfer {id}: {problem}"))?;
            }
        }
        Ok(())
    }

    fn check_unfinished(&self) -> Result<(), String> {
        if self.urgent.len() > USAGE_MAX || !self.urgent.values().all(crate::UrgentUsed::is_right) {
            return Err("what is urgent is of too many classes or days".into());
        }
        let page = |of: &Unfinished| {
            let transfer = self.transfers.get(&of.transfer).filter(|transfer| transfer.ended.is_none())?;
            transfer.legs.get(usize::from(of.leg))?.pages.get(of.page as usize)
        };
        let is_right = |of: &Unfinished| of.pick.len() <= PICK_MAX && page(of).is_some();
        if self.unfinished.len() > UNFINISHED_MAX || !self.unfinished.iter().all(is_right) {
            return Err("what ended early is of no page, or too much".into());
        }
        Ok(())
    }

    fn check_leg(
        &self,
        id: TransferId,
        number: u16,
        leg: &Leg,
        given: &BTreeMap<(TransferId, u16, u32), u64>,
    ) -> Result<(), String> {
        for session in &leg.sessions {
            let session = self.sessions.get(session).ok_or(format!("leg {number} has a session that there is not"))?;
            if (session.transfer, session.leg) != (id, number) || session.page as usize >= leg.pages.len() {
                return Err(format!("leg {number} has the session of another"));
            }
        }
        for (page, left) in (0..).zip(&leg.pages) {
            let with_sessions = given.get(&(id, number, page)).copied().unwrap_or(0);
            if u64::from(left.given) != with_sessions {
                return Err(format!("page {page} of leg {number}: {} given, {with_sessions} had", left.given));
            }
        }
        Ok(())
    }
}

fn check_transfer(id: TransferId, transfer: &Transfer) -> Result<(), String> {
    let listing = &transfer.listing;
    let within = (1..=SOURCES_MAX).contains(&transfer.sources.len()) && (1..=LEGS_MAX).contains(&transfer.legs.len());
    let files = |files: u32| (1..=PAGE_FILES_MAX).contains(&files);
    if !within || !listing.pages.iter().all(|page| files(page.files)) {
        return Err("too few or too many sources, legs or files".into());
    }
    if listing.files != listing.pages.iter().map(|page| u64::from(page.files)).sum::<u64>() {
        return Err("its pages have other files than all together".into());
    }
    if transfer.after.iter().any(|other| *other >= id) {
        return Err("it waits for a later one".into());
    }
    for leg in &transfer.legs {
        if leg.pages.len() != listing.pages.len() {
            return Err("a leg has other pages".into());
        }
        let mut sums = [0_u64; 3];
        for (page, left) in listing.pages.iter().zip(&leg.pages) {
            let counts = [left.given, left.done, left.failed].map(u64::from);
            if counts.iter().sum::<u64>() > u64::from(page.files) {
                return Err("a page has more files than it has".into());
            }
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        if sums != [leg.given, leg.done, leg.failed] {
            return Err("a leg counts other files than its pages".into());
        }
    }
    Ok(())
}
