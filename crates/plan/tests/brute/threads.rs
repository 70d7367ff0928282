//! The same input has the same answer, however many ask at once.

use plan::reserve::Request;
use plan::slots::Slots;
use plan::volume::{Ask, CANDIDATES, Volume};

use crate::nets::{Marks, Net, TICKS, above_0, window};
use crate::rng::Rng;

const NETS: u64 = 200;

/// Answers to one question of each kind, in full.
fn answers(net: &Net) -> String {
    let slots = Slots::of(net.book.view());
    let (ends, rate, slot, all) = (net.ends, above_0(4), window(1, 6), window(0, TICKS));
    let request = Request { ends, rate, slot, horizon: TICKS, balance: true };
    let volume = Volume::of_rate(rate, above_0(5));
    let ask = Ask { ends, volume, most: above_0(9), within: all };
    let candidates = slots.candidates(ends, CANDIDATES);
    let one_path = [slots.volume_at_fixed_rate(&ask, &candidates), slots.volume_at_variable_rate(&ask, &candidates)];
    let starts = slots.all(ends, rate, above_0(3), all);
    let pair = (slots.highest(ends, slot), slots.first(ends, rate, above_0(3), all));
    format!(
        "{:?}\n{candidates:?}\n{one_path:?}\n{starts:?}\n{pair:?}\n{:?}",
        slots.reserve(&request),
        slots.volume_over_paths(&ask)
    )
}

#[test]
fn as_many_threads_as_there_may_be_get_the_same_answers() {
    let nets: Vec<Net> = (0..NETS).map(|seed| Net::new(&mut Rng::new(seed), Marks::AtNodes)).collect();
    let alone: Vec<String> = nets.iter().map(answers).collect();
    for threads in [2, 3, 8] {
        let (nets, alone) = (&nets, &alone);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(move || nets.iter().zip(alone).for_each(|(net, alone)| assert_eq!(answers(net), *alone)));
            }
        });
    }
}
