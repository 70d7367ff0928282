//! A calendar beside an array with an entry for each tick.

use std::num::NonZeroU64;

use plan::calendar::Calendar;
use units::Window;

use crate::each_case;
use crate::rng::Rng;

/// Ticks of the array; outside of it is what there is at its ends.
const TICKS: i64 = 60;

struct Both {
    calendar: Calendar,
    /// Capacity less bookings, from tick 0 on.
    left: Vec<i64>,
    booked: Vec<(Window, u64)>,
    grain: u64,
}

impl Both {
    fn new(rng: &mut Rng) -> Both {
        let grain = *rng.pick(&[1, 1, 3, 10]);
        let first = rng.size(0, 100);
        let mut changes: Vec<(i64, u64)> =
            (0..rng.size(0, 3)).map(|_| (rng.within(0, TICKS - 1), rng.size(0, 100))).collect();
        changes.sort_unstable();
        changes.dedup_by_key(|change| change.0);
        let capacity = |tick: i64| changes.iter().rfind(|(from, _)| *from <= tick).map_or(first, |change| change.1);
        let calendar = Calendar::with_steps(first, &changes, NonZeroU64::new(grain).expect("it is above 0"));
        (0..TICKS).for_each(|tick| assert_eq!(calendar.capacity_at(tick), capacity(tick)));
        Both {
            calendar,
            left: (0..TICKS).map(|tick| capacity(tick).cast_signed()).collect(),
            booked: Vec::new(),
            grain,
        }
    }

    fn take(&mut self, window: Window, rate: u64) {
        self.calendar.take(window, rate).expect("it is small");
        self.ticks(window).for_each(|tick| self.left[tick] -= rate.cast_signed());
        self.booked.push((window, rate));
    }

    fn give_back(&mut self, booked: usize) {
        let (window, rate) = self.booked.swap_remove(booked);
        self.calendar.give_back(window, rate).expect("it was taken");
        self.ticks(window).for_each(|tick| self.left[tick] += rate.cast_signed());
    }

    fn ticks(&self, window: Window) -> std::ops::Range<usize> {
        window.start() as usize..window.end() as usize
    }

    fn free(&self, window: Window) -> u64 {
        let least = self.left[self.ticks(window)].iter().copied().min().expect("a window has a tick");
        u64::try_from(least).map_or(0, |least| least / self.grain * self.grain)
    }

    /// All moments from which on it fits.
    fn fitting(&self, within: Window, rate: u64, nanos: u64) -> Vec<i64> {
        let slot = |start: i64| Window::lasting(start, nanos).filter(|slot| slot.end() <= within.end());
        let need = rate.div_ceil(self.grain) * self.grain;
        (within.start()..within.end())
            .filter(|start| slot(*start).is_some_and(|slot| self.free(slot) >= need))
            .collect()
    }

    fn compare(&self, rng: &mut Rng) {
        let window = window(rng);
        let rate = rng.size(1, 60);
        let nanos = NonZeroU64::new(rng.size(1, 20)).expect("it is above 0");
        let fitting = self.fitting(window, rate, nanos.get());
        let free = self.free(window);
        let ticks = || self.ticks(window).map(|tick| Window::new(tick as i64, tick as i64 + 1).expect("a tick"));

        assert_eq!(self.calendar.free(window), free, "free over {window:?}");
        assert!((free == 0 || self.calendar.fits(window, free)) && !self.calendar.fits(window, free + 1));
        assert_eq!(
            self.calendar.first_fit(window, rate, nanos),
            fitting.first().copied(),
            "{rate} for {nanos} in {window:?}"
        );
        assert_eq!(
            self.calendar.latest_fit(window, rate, nanos),
            fitting.last().copied(),
            "{rate} for {nanos} in {window:?}"
        );
        let starts = self.calendar.starts(window, rate, nanos);
        assert_eq!(starts.intervals().iter().flat_map(|(first, last)| *first..=*last).collect::<Vec<_>>(), fitting);
        assert!(starts.intervals().is_sorted_by(|a, b| a.1 < b.0));
        let most = rng.size(0, 80);
        assert_eq!(self.calendar.volume(window, most), ticks().map(|tick| u128::from(self.free(tick).min(most))).sum());
        assert!(ticks().all(|tick| self.calendar.free_at(tick.start()) == self.free(tick)));
        let tightest = self.calendar.tightest(window);
        let least = self.calendar.left(window);
        assert!(window.contains(tightest) && self.calendar.left_at(tightest) == least);
        assert!(ticks().all(|tick| self.left[tick.start() as usize] >= least));
    }
}

fn window(rng: &mut Rng) -> Window {
    let start = rng.within(0, TICKS - 1);
    Window::new(start, rng.within(start + 1, TICKS)).expect("it is not empty")
}

#[test]
fn every_operation_is_what_an_array_of_ticks_says() {
    each_case(400, |rng| {
        let mut both = Both::new(rng);
        let empty = both.calendar.clone();
        for _ in 0..24 {
            if rng.one_in(3) && !both.booked.is_empty() {
                both.give_back(rng.size(0, both.booked.len() as u64 - 1) as usize);
            } else {
                // More than there is, now and then: what is imposed is.
                both.take(window(rng), rng.size(1, 40));
            }
            both.compare(rng);
        }
        while !both.booked.is_empty() {
            both.give_back(0);
        }
        assert_eq!(both.calendar, empty, "what is given back leaves no trace");
    });
}

/// Enough bookings to cut blocks and join them again.
#[test]
fn many_bookings_are_as_exact_as_few() {
    const LONG: i64 = 8_000;
    each_case(3, |rng| {
        let mut calendar = Calendar::new(1_000);
        let mut left = vec![1_000i64; LONG as usize];
        let mut booked: Vec<(Window, u64)> = Vec::new();
        let snapshot = calendar.clone();
        for step in 0..6_000u64 {
            // Grows for the first half and shrinks in the second.
            let (window, rate, sign) = if booked.is_empty() || rng.size(0, 9) < if step < 3_000 { 8 } else { 2 } {
                let start = rng.within(0, LONG - 2);
                let window = Window::new(start, (start + rng.within(1, 40)).min(LONG)).expect("it is not empty");
                booked.push((window, rng.size(1, 40)));
                let (window, rate) = *booked.last().expect("it was pushed");
                calendar.take(window, rate).expect("it is small");
                (window, rate, -1)
            } else {
                let (window, rate) = booked.swap_remove(rng.size(0, booked.len() as u64 - 1) as usize);
                calendar.give_back(window, rate).expect("it was taken");
                (window, rate, 1)
            };
            left[window.start() as usize..window.end() as usize]
                .iter_mut()
                .for_each(|left| *left += sign * rate.cast_signed());
            let start = rng.within(0, LONG - 2);
            let asked = Window::new(start, rng.within(start + 1, LONG)).expect("it is not empty");
            let ticks = &left[asked.start() as usize..asked.end() as usize];
            assert_eq!(calendar.left(asked), *ticks.iter().min().expect("a window has a tick"));
            let need = rng.within(850, 1_000);
            let first = ticks.iter().position(|left| *left >= need).map(|at| start + at as i64);
            assert_eq!(calendar.first_fit(asked, need.unsigned_abs(), NonZeroU64::MIN), first);
            let last = ticks.iter().rposition(|left| *left >= need).map(|at| start + at as i64);
            assert_eq!(calendar.latest_fit(asked, need.unsigned_abs(), NonZeroU64::MIN), last);
        }
        for (window, rate) in booked {
            calendar.give_back(window, rate).expect("it was taken");
        }
        assert_eq!(calendar, snapshot, "a copy keeps what it had");
    });
}

#[test]
fn what_is_out_of_range_is_refused_and_changes_nothing() {
    let window = Window::new(0, 10).expect("it is not empty");
    let mut calendar = Calendar::new(u64::MAX);
    let empty = calendar.clone();
    assert_eq!(calendar.free(window), plan::calendar::CAPACITY_MAX, "more counts as the most");
    assert!(calendar.give_back(window, 1).is_err());
    assert!(calendar.take(window, u64::MAX).is_err());
    assert_eq!(calendar, empty);
    calendar.take(window, plan::calendar::CAPACITY_MAX).expect("it is there");
    calendar.take(window, plan::calendar::CAPACITY_MAX).expect("as much again may be imposed");
    assert!(calendar.take(window, 1).is_err());
    assert_eq!(calendar.free(window), 0);
}
