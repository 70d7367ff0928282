//! The questions of a reservation beside all paths at all ticks.

use plan::slots::{Slot, Slots};
use units::Window;

use crate::each_case;
use crate::nets::{Marks, Net, TICKS, above_0, window};

#[test]
fn every_question_is_answered_as_trying_all_does() {
    each_case(1500, |rng| {
        let net = Net::new(rng, Marks::Anywhere);
        let slots = Slots::of(net.book.view());
        let rate = above_0(rng.size(1, 9));
        let nanos = above_0(rng.size(1, 7));
        let from = rng.within(0, TICKS - 2);
        let within = window(from, rng.within(from + 1, TICKS));

        let highest = slots.highest(net.ends, within);
        let widest = net.widest(within);
        assert_eq!(highest.as_ref().map_or(0, |highest| highest.rate.get()), widest, "highest in {within:?}");
        assert_eq!(
            highest.map(|highest| highest.path.edges),
            (widest > 0).then(|| net.cheapest(widest, within)).flatten()
        );

        let fixed = slots.fixed(net.ends, rate, within).map(|path| path.edges);
        assert_eq!(fixed, net.cheapest(rate.get(), within), "{rate} in {within:?}");

        let slot = |start| Window::lasting(start, nanos.get()).filter(|slot| slot.end() <= within.end());
        let fits = |start: &i64| slot(*start).is_some_and(|slot| net.widest(slot) >= rate.get());
        let fitting: Vec<i64> = (within.start()..within.end()).filter(fits).collect();
        let starts = slots.all(net.ends, rate, nanos, within);
        let ticks: Vec<i64> = starts.intervals().iter().flat_map(|(first, last)| *first..=*last).collect();
        assert_eq!(ticks, fitting, "{rate} for {nanos} in {within:?}");
        assert!(starts.intervals().is_sorted_by(|a, b| a.1 < b.0));

        let first = slots.first(net.ends, rate, nanos, within);
        let expected = fitting.first().map(|start| slot(*start).expect("it fits"));
        assert_eq!(first.as_ref().map(|slot| slot.window), expected);
        assert_eq!(slots.first(net.ends, rate, nanos, within), first, "the same question has the same answer");
        if let Some(Slot { window, path }) = first {
            assert_eq!(Some(path.edges), net.cheapest(rate.get(), window));
        }
    });
}
