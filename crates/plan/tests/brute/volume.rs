//! Earliest finishes beside trying all boxes, and beside the smallest cut of every tick.

use plan::book::Part;
use plan::slots::Slots;
use plan::volume::{Ask, NoSplit, Volume};
use units::{Moment, Window};

use crate::each_case;
use crate::nets::{Net, TICKS, above_0, window};

/// The parts are free, in order, send the volume and end at the finish.
fn holds(net: &Net, ask: &Ask, parts: &[Part], finish: Moment) {
    let sent: u128 = parts.iter().map(|part| u128::from(part.rate) * u128::from(part.window.nanos())).sum();
    assert!(sent >= ask.volume.get(), "it is all sent");
    assert_eq!(parts.iter().map(|part| part.window.end()).max(), Some(finish));
    assert!(parts.iter().all(|part| ask.within.start() <= part.window.start() && finish <= ask.within.end()));
    for tick in ask.within.start()..finish {
        let now: Vec<&Part> = parts.iter().filter(|part| part.window.contains(tick)).collect();
        assert!(now.iter().map(|part| part.rate).sum::<u64>() <= ask.most.get(), "no more than was asked");
        let tick = window(tick, tick + 1);
        for edge in 0..net.graph().edges().len() {
            let on: u64 = now.iter().filter(|part| part.path.contains(&edge)).map(|part| part.rate).sum();
            assert!(on <= net.free(edge, tick), "{on} over edge {edge} in {tick:?}");
        }
    }
    let offer = net.book.view().offer(parts).expect("it is small");
    let mut book = net.book.clone();
    book.hold(crate::nets::holder("volume"), &offer, Moment::MAX, Moment::MIN).expect("what is found can be held");
}

fn ask(net: &Net, rng: &mut crate::rng::Rng) -> Ask {
    let from = rng.within(0, TICKS - 2);
    Ask {
        ends: net.ends,
        volume: Volume::of_rate(above_0(rng.size(1, 12)), above_0(rng.size(1, 6))),
        most: above_0(rng.size(1, 15)),
        within: window(from, rng.within(from + 1, TICKS)),
    }
}

#[test]
fn one_rate_over_one_path_finishes_as_early_as_any_box() {
    each_case(1500, |rng| {
        let net = Net::new(rng, true);
        let ask = ask(&net, rng);
        let slots = Slots::of(net.book.view());
        let candidates = slots.candidates(net.ends, plan::volume::CANDIDATES);
        let finish = |path: &Vec<usize>| {
            let boxes = (ask.within.start()..ask.within.end())
                .flat_map(|start| (start + 1..=ask.within.end()).map(move |end| (start, end)));
            let fits = boxes.filter(|(start, end)| {
                let rate = net.width(path, window(*start, *end)).min(ask.most.get());
                u128::from(rate) * u128::from(start.abs_diff(*end)) >= ask.volume.get()
            });
            fits.map(|(_, end)| end).min()
        };
        let expected = candidates.iter().enumerate().filter_map(|(n, path)| Some((finish(path)?, n))).min();
        let found = slots.volume_at_fixed_rate(&ask, &candidates);
        assert_eq!(found.as_ref().map(|found| (found.finish, found.candidate)), expected, "{ask:?}");
        found.iter().for_each(|found| holds(&net, &ask, &found.parts, found.finish));
    });
}

#[test]
fn any_rate_over_one_path_finishes_when_its_sum_does() {
    each_case(1500, |rng| {
        let net = Net::new(rng, true);
        let ask = ask(&net, rng);
        let slots = Slots::of(net.book.view());
        let candidates = slots.candidates(net.ends, plan::volume::CANDIDATES);
        let finish = |path: &Vec<usize>| {
            let mut sent = 0;
            (ask.within.start()..ask.within.end()).find_map(|tick| {
                sent += u128::from(net.width(path, window(tick, tick + 1)).min(ask.most.get()));
                (sent >= ask.volume.get()).then_some(tick + 1)
            })
        };
        let expected = candidates.iter().enumerate().filter_map(|(n, path)| Some((finish(path)?, n))).min();
        let found = slots.volume_at_variable_rate(&ask, &candidates);
        assert_eq!(found.as_ref().map(|found| (found.finish, found.candidate)), expected, "{ask:?}");
        found.iter().for_each(|found| holds(&net, &ask, &found.parts, found.finish));
    });
}

/// The smallest cut is the greatest flow (Ford and Fulkerson 1956).
fn smallest_cut(net: &Net, tick: Window) -> u64 {
    let graph = net.graph();
    let nodes = graph.names().len();
    let usable = |edge: &usize| {
        let edge = graph.edge(*edge);
        let through = |node: usize| graph.forwards(node) || node == net.ends.from() || node == net.ends.to();
        through(edge.from) && through(edge.to)
    };
    let cut = |side: usize| {
        let within = |node: usize| side >> node & 1 == 1;
        let edges = (0..graph.edges().len()).filter(usable);
        let cut = edges.filter(|edge| within(graph.edge(*edge).from) && !within(graph.edge(*edge).to));
        cut.map(|edge| net.free(edge, tick)).sum()
    };
    let sides = (0..1 << nodes).filter(|side| side >> net.ends.from() & 1 == 1 && side >> net.ends.to() & 1 == 0);
    sides.map(cut).min().expect("the one end alone is a side")
}

#[test]
fn all_paths_finish_when_the_cuts_let_them() {
    each_case(1500, |rng| {
        let net = Net::new(rng, false);
        let ask = ask(&net, rng);
        let slots = Slots::of(net.book.view());
        let mut sent = 0;
        let expected = (ask.within.start()..ask.within.end()).find_map(|tick| {
            sent += u128::from(smallest_cut(&net, window(tick, tick + 1)).min(ask.most.get()));
            (sent >= ask.volume.get()).then_some(tick + 1)
        });
        match slots.volume_over_paths(&ask) {
            Ok(found) => {
                assert_eq!(Some(found.finish), expected, "{ask:?}");
                holds(&net, &ask, &found.parts, found.finish);
            }
            Err(refused) => assert_eq!((refused, expected), (NoSplit::NotInTime, None), "{ask:?}"),
        }
    });
}
