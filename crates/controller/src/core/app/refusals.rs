//! What was refused, kept for whoever asks why, and asked again of the state as it is then.

use std::collections::VecDeque;

use api::rest::{Kind, Problem};
use ledger::wish::Kind as Refused;
use ledger::{Event, Moment, Refusal, State};

use super::internal;
use crate::app::Answer;
use crate::core::Core;

/// Refusals that are kept; the oldest go first.
pub(super) const REFUSALS_MAX: usize = 1_000;
/// Something is full: it may have room after so long, s.
const ROOM_SECONDS: u64 = 60;

/// Whether the state would refuse the same now.
type Again = Box<dyn Fn(&State, Moment) -> Result<(), Refusal> + Send>;

/// Those that were refused of late.
#[derive(Default)]
pub(super) struct Refusals {
    last: u64,
    kept: VecDeque<Kept>,
}

struct Kept {
    number: u64,
    at: Moment,
    problem: Problem,
    again: Option<Again>,
}

/// What is to be said of a refusal.
pub(super) struct Told {
    /// When it was refused.
    pub(super) at: Moment,
    /// As it was told.
    pub(super) problem: Problem,
    /// What the state says now; `None` if that is not known without the whole request.
    pub(super) now: Option<Result<(), String>>,
}

impl Core {
    /// Records what a wish comes to, or refuses it; the refusal can be asked about by its number.
    pub(super) fn wish<F>(&mut self, wish: F) -> Answer<()>
    where
        F: Fn(&State, Moment) -> Result<Vec<Event>, Refusal> + Send + 'static,
    {
        match wish(&self.state, self.now()) {
            Ok(events) => self.grant(events),
            Err(refusal) => {
                let again: Again = Box::new(move |state, now| wish(state, now).map(drop));
                Err(self.turn_down(&refusal, Some(again)))
            }
        }
    }

    /// Records all events of a wish that was found good.
    pub(super) fn grant(&mut self, events: Vec<Event>) -> Answer<()> {
        for event in events {
            self.record(event).map_err(|rejected| {
                tracing::error!(%rejected, "the state does not take what was found good");
                internal(&rejected)
            })?;
        }
        Ok(())
    }

    /// How many events the log has.
    pub(crate) fn log_events(&self) -> u64 {
        self.stores.log.next().saturating_sub(1)
    }

    /// A refusal as a problem with its number, kept.
    pub(super) fn turn_down(&mut self, refusal: &Refusal, again: Option<Again>) -> Problem {
        // Numbers rise over restarts as far as the log does, so that an old one is hardly another's.
        let number = (self.desk.refusals.last + 1).max(self.stores.log.next());
        let at = self.now();
        let problem = problem(refusal, number);
        self.desk.refusals.keep(Kept { number, at, problem: problem.clone(), again });
        problem
    }

    /// What there is to say of a refusal; `None` if it is not kept.
    pub(super) fn refusal(&self, number: u64) -> Option<Told> {
        let kept = self.desk.refusals.kept.iter().find(|kept| kept.number == number)?;
        let ask = |again: &Again| again(&self.state, self.now()).map_err(|refusal| refusal.text);
        Some(Told { at: kept.at, problem: kept.problem.clone(), now: kept.again.as_ref().map(ask) })
    }
}

impl Refusals {
    fn keep(&mut self, refusal: Kept) {
        self.last = refusal.number;
        if self.kept.len() == REFUSALS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(refusal);
    }
}

fn problem(refusal: &Refusal, number: u64) -> Problem {
    let kind = match refusal.kind {
        Refused::Unknown => Kind::NotFound,
        Refused::Conflict => Kind::Conflict,
        Refused::Bad => Kind::Invalid,
        Refused::Full => Kind::TooMany,
    };
    let problem = Problem::new(kind, format!("{} (refusal {number})", refusal.text));
    if kind == Kind::TooMany { problem.again(ROOM_SECONDS) } else { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: Refused) -> Refusal {
        Refusal { kind, text: "there is no room: wait".to_owned() }
    }

    #[test]
    fn kinds_have_their_status() {
        let status = |kind| problem(&refusal(kind), 7).status;
        let all = [Refused::Unknown, Refused::Conflict, Refused::Bad, Refused::Full].map(status);
        assert_eq!(all, [404, 409, 422, 429]);
        assert_eq!(problem(&refusal(Refused::Full), 7).detail, "there is no room: wait (refusal 7)");
        assert_eq!(problem(&refusal(Refused::Full), 7).again_seconds, Some(ROOM_SECONDS));
    }

    #[test]
    fn only_the_last_refusals_are_kept() {
        let mut refusals = Refusals::default();
        for number in 1..=REFUSALS_MAX as u64 + 5 {
            let problem = problem(&refusal(Refused::Bad), number);
            refusals.keep(Kept { number, at: Moment(number), problem, again: None });
        }
        let numbers = || refusals.kept.iter().map(|kept| kept.number);
        assert_eq!(numbers().count(), REFUSALS_MAX);
        assert_eq!((numbers().next(), refusals.last), (Some(6), REFUSALS_MAX as u64 + 5));
    }
}
