//! What the answers to questions over a path say of it. Pure: time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use api::agent::PathState;

/// Questions in a row without an answer, after which a path is suspect.
const MISSING: u32 = 3;
/// Answers in a row, after which it is so no more.
const BACK: u32 = 3;
/// Questions of which none was ever answered, after which that is told.
const SILENT: u64 = 30;
/// Questions that wait for their answers; the oldest is missing when there would be more.
const WAITING_MAX: usize = 32;
/// How long an answer is waited for while no round trip is known.
const PATIENCE_FIRST: Duration = Duration::from_secs(1);
/// No answer is waited for longer, however slow the path is: a geostationary satellite takes 600 ms.
const PATIENCE_MAX: Duration = Duration::from_secs(2);
/// Beyond the round trip, at least: what the two hosts may be busy with something else.
const SLACK: Duration = Duration::from_millis(50);
/// Between two looks at the clock. What a look is later than that does not count as waiting: answers may have come, and wait to be read.
pub(super) const LOOK: Duration = Duration::from_millis(20);
/// Who was not looked at for so long was not running: what is missing then is not the path's fault.
const ASLEEP: Duration = Duration::from_millis(250);

/// A path, as its asking end sees it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    waiting: VecDeque<(u64, Duration)>,
    missing: u32,
    in_row: u32,
    /// `None` until something is known.
    state: Option<PathState>,
    asked: u64,
    answered: u64,
    /// Questions of which nobody knows: this host slept.
    forgiven: u64,
    /// The shortest and the longest round trip since that was last told.
    range: Option<(Duration, Duration)>,
    /// Smoothed, and its mean deviation (RFC 6298).
    rtt: Option<(Duration, Duration)>,
    looked: Option<Duration>,
}

impl Watch {
    /// Number of the next question, which is asked now.
    pub(super) fn ask(&mut self, now: Duration) -> u64 {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.missed();
        }
        self.asked += 1;
        self.looked.get_or_insert(now);
        self.waiting.push_back((self.asked, now));
        self.asked
    }

    /// An answer came; one that comes late says as much of the path. One that was never asked for, or came before, says nothing.
    pub(super) fn answer(&mut self, number: u64, sent: Duration, now: Duration) {
        let waited = self.waiting.iter().position(|(of, _)| *of == number);
        let is_late = waited.is_none() && number <= self.asked && now.saturating_sub(sent) <= 2 * PATIENCE_MAX;
        if waited.is_none() && !is_late {
            return;
        }
        self.learn(now.saturating_sub(sent));
        self.answered += 1;
        self.missing = 0;
        if let Some(at) = waited {
            // Three in a row are three without an answer to a later one. Those before it may still come, on a path that reorders.
            self.waiting.drain(..=at);
            self.in_row = if at == 0 { self.in_row + 1 } else { 1 };
        }
        match self.state {
            None | Some(PathState::Silent) => self.state = Some(PathState::Answering),
            Some(PathState::Suspect) if self.in_row >= BACK => self.state = Some(PathState::Answering),
            _ => {}
        }
    }

    /// Looks at the clock, each [`LOOK`].
    pub(super) fn look(&mut self, now: Duration) {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |before| now.saturating_sub(before));
        if since > ASLEEP {
            self.forgiven += self.waiting.len() as u64;
            self.waiting.clear();
            self.missing = 0;
            return;
        }
        let late = since.saturating_sub(LOOK);
        for (_, at) in self.waiting.iter_mut().filter(|(_, at)| *at < now) {
            *at += late;
        }
        let patience = self.patience();
        while self.waiting.front().is_some_and(|(_, at)| now.saturating_sub(*at) > patience) {
            self.waiting.pop_front();
            self.missed();
        }
        if self.missing >= MISSING && self.state == Some(PathState::Answering) {
            self.state = Some(PathState::Suspect);
        }
        if self.state.is_none() && self.asked >= SILENT {
            self.state = Some(PathState::Silent);
        }
    }

    /// How the path is, once that is known.
    pub(super) fn state(&self) -> Option<PathState> {
        self.state
    }

    /// Questions so far, but for those that wait or of which nothing can be said, and answers.
    pub(super) fn counts(&self) -> (u64, u64) {
        let settled = self.asked.saturating_sub(self.waiting.len() as u64).saturating_sub(self.forgiven);
        (settled, self.answered)
    }

    /// The shortest and the longest round trip since this was last asked for.
    pub(super) fn take_range(&mut self) -> Option<(Duration, Duration)> {
        self.range.take()
    }

    /// The smoothed round trip.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt.map(|(smoothed, _)| smoothed)
    }

    fn missed(&mut self) {
        self.missing += 1;
        self.in_row = 0;
    }

    fn patience(&self) -> Duration {
        let of = |(smoothed, deviation): (Duration, Duration)| smoothed + SLACK.max(4 * deviation);
        self.rtt.map_or(PATIENCE_FIRST, of).min(PATIENCE_MAX)
    }

    fn learn(&mut self, sample: Duration) {
        let sample = sample.min(2 * PATIENCE_MAX);
        let (low, high) = self.range.unwrap_or((sample, sample));
        self.range = Some((low.min(sample), high.max(sample)));
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((smoothed, deviation)) => {
                let off = sample.abs_diff(smoothed);
                ((7 * smoothed + sample) / 8, (3 * deviation + off) / 4)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EACH: Duration = Duration::from_millis(100);

    /// A path with this round trip on which questions from `cut` on are lost, until `healed`; when its states changed.
    fn told(rtt: Duration, cut: Duration, healed: Duration, until: Duration) -> Vec<(Duration, PathState)> {
        let mut answers: VecDeque<(Duration, u64, Duration)> = VecDeque::new();
        let (mut watch, mut told) = (Watch::default(), Vec::new());
        let (mut now, mut next) = (Duration::from_secs(100), Duration::from_secs(100));
        let (begin, mut state) = (now, None);
        while now - begin < until {
            while answers.front().is_some_and(|(at, ..)| *at <= now) {
                let (at, number, sent) = answers.pop_front().unwrap();
                watch.answer(number, sent, at);
            }
            if now >= next {
                next += EACH;
                let number = watch.ask(now);
                let asked = now - begin;
                // What is on its way when it is cut is lost too.
                let lost = asked + rtt > cut && asked < healed;
                if !lost {
                    answers.push_back((now + rtt, number, now));
                }
            }
            watch.look(now);
            if watch.state() != state {
                state = watch.state();
                told.extend(state.map(|state| (now - begin, state)));
            }
            now += LOOK;
        }
        told
    }

    proptest! {
        #[test]
        fn a_cut_is_seen_in_less_than_a_second_and_so_is_its_end(rtt_ms in 0_u64..350, cut_ms in 2_000_u64..3_000) {
            let rtt = Duration::from_millis(rtt_ms);
            let (cut, healed) = (Duration::from_millis(cut_ms), Duration::from_millis(cut_ms + 5_000));
            let told = told(rtt, cut, healed, Duration::from_secs(12));
            let states: Vec<PathState> = told.iter().map(|(_, state)| *state).collect();
            prop_assert_eq!(states, [PathState::Answering, PathState::Suspect, PathState::Answering]);
            prop_assert!(told[1].0 > cut && told[1].0 - cut < Duration::from_secs(1), "{:?}", told);
            prop_assert!(told[2].0 - healed < Duration::from_secs(1), "{:?}", told);
        }

        #[test]
        fn losses_that_are_not_three_in_a_row_are_none(lost in prop::collection::vec(any::<bool>(), 200)) {
            let (mut watch, mut now, mut row) = (Watch::default(), Duration::from_secs(1), 0);
            for (n, lost) in lost.into_iter().enumerate() {
                let number = watch.ask(now);
                row = if lost && row < 2 && n > 5 { row + 1 } else { 0 };
                if row == 0 {
                    watch.answer(number, now, now + LOOK);
                }
                for _ in 0..5 {
                    now += LOOK;
                    watch.look(now);
                }
                prop_assert_eq!(watch.state(), Some(PathState::Answering));
            }
        }
    }

    #[test]
    fn what_was_never_answered_is_silent_and_no_suspect() {
        let none = told(EACH, Duration::ZERO, Duration::from_secs(60), Duration::from_secs(10));
        assert_eq!(none.iter().map(|(_, state)| *state).collect::<Vec<_>>(), [PathState::Silent]);
        let late = told(EACH, Duration::ZERO, Duration::from_secs(6), Duration::from_secs(10));
        assert_eq!(late.iter().map(|(_, state)| *state).collect::<Vec<_>>(), [PathState::Silent, PathState::Answering]);
    }

    #[test]
    fn an_agent_that_did_not_run_blames_no_path() {
        let (mut watch, mut now) = (Watch::default(), Duration::from_secs(1));
        let number = watch.ask(now);
        watch.answer(number, now, now);
        for _ in 0..8 {
            watch.ask(now);
        }
        now += Duration::from_secs(30);
        watch.look(now);
        assert_eq!(watch.state(), Some(PathState::Answering));
    }

    #[test]
    fn a_look_that_comes_late_misses_nothing_that_waits_to_be_read() {
        // A path so long that several answers are on their way at a time.
        let (rtt, mut watch, mut now) = (Duration::from_millis(350), Watch::default(), Duration::from_secs(1));
        for _ in 0..20 {
            let number = watch.ask(now);
            watch.answer(number, now, now + rtt);
        }
        let mut asked = Vec::new();
        for look in 0..17 {
            if look % 5 == 0 {
                asked.push((watch.ask(now), now));
            }
            now += LOOK;
            watch.look(now);
        }
        // Answers come while this host does something else, and the clock is looked at before they are read.
        now += Duration::from_millis(240);
        watch.look(now);
        assert_eq!(watch.missing, 0);
        for (number, sent) in asked {
            watch.answer(number, sent, now);
        }
        assert_eq!((watch.state(), watch.counts()), (Some(PathState::Answering), (24, 24)));
        // What stays away is missed all the same, though each look is late.
        let asked = now;
        while watch.state() == Some(PathState::Answering) {
            watch.ask(now);
            now += 2 * LOOK;
            watch.look(now);
            assert!(now - asked < Duration::from_secs(2), "it is a cut");
        }
    }

    #[test]
    fn what_waits_or_was_slept_through_is_no_loss_and_ranges_are_since_they_were_told() {
        let (mut watch, mut now) = (Watch::default(), Duration::from_secs(1));
        for rtt_ms in [20, 30, 10] {
            let number = watch.ask(now);
            watch.answer(number, now, now + Duration::from_millis(rtt_ms));
        }
        assert_eq!(watch.take_range(), Some((Duration::from_millis(10), Duration::from_millis(30))));
        assert_eq!(watch.take_range(), None, "it was told");
        watch.ask(now);
        assert_eq!(watch.counts(), (3, 3), "one waits");
        now += Duration::from_secs(30);
        watch.look(now);
        assert_eq!(watch.counts(), (3, 3), "the host slept");
        watch.ask(now);
        for _ in 0..100 {
            now += LOOK;
            watch.look(now);
        }
        assert_eq!(watch.counts(), (4, 3), "one is lost");
    }

    #[test]
    fn an_answer_that_was_not_asked_for_or_came_before_is_none() {
        let mut watch = Watch::default();
        watch.answer(1, Duration::ZERO, Duration::ZERO);
        assert_eq!((watch.state(), watch.counts()), (None, (0, 0)));
        for _ in 0..100 {
            watch.ask(Duration::ZERO);
        }
        assert_eq!(watch.waiting.len(), WAITING_MAX);
    }
}
