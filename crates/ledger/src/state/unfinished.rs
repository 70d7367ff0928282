//! What sessions named that ended early, so that the next one names the same.

use serde::{Deserialize, Serialize};

use crate::limits::UNFINISHED_MAX;
use crate::{Session, State, TransferId};

/// The files that a session named which ended before all of them were finished.
///
/// A mover goes on in the middle of a file if it is given the same names again. This is folded from events, so it outlives the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Of which transfer.
    pub transfer: TransferId,
    /// Of which leg.
    pub leg: u16,
    /// Of which page.
    pub page: u32,
    /// Which files, as [`Session::pick`] has it.
    pub pick: Vec<u8>,
}

impl State {
    /// A session has ended early.
    pub(super) fn note_unfinished(&mut self, session: &Session) {
        if self.unfinished.len() >= UNFINISHED_MAX {
            self.unfinished.pop_front();
        }
        let Session { transfer, leg, page, ref pick, .. } = *session;
        self.unfinished.push_back(Unfinished { transfer, leg, page, pick: pick.clone() });
    }

    /// A session begins: whatever names one of its files is taken up by it, or cannot be any more.
    pub(super) fn take_up(&mut self, session: &Session) {
        let shares = |pick: &[u8]| pick.iter().zip(&session.pick).any(|(one, other)| one & other != 0);
        let of = (session.transfer, session.leg, session.page);
        self.unfinished.retain(|noted| (noted.transfer, noted.leg, noted.page) != of || !shares(&noted.pick));
    }

    /// No session follows for these.
    pub(super) fn drop_unfinished(&mut self, mut which: impl FnMut(&Unfinished) -> bool) {
        self.unfinished.retain(|noted| !which(noted));
    }

    /// What the next session of a page may name, the oldest first.
    pub fn unfinished_of(&self, transfer: TransferId, leg: u16, page: u32) -> impl Iterator<Item = &Unfinished> {
        self.unfinished.iter().filter(move |noted| (noted.transfer, noted.leg, noted.page) == (transfer, leg, page))
    }
}
