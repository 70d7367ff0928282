//! Earliest finishes beside trying all boxes, and beside the smallest cut of every tick.

use plan::book::Part;
use plan::slots::Slots;
use plan::volume::{Ask, NoSplit, Volume};
use units::{Moment, Window};

use crate::each_case;
use crate::nets::{Marks, Net, TICKS, above_0, window};

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
        for (mark, edges) in net.marked.iter().enumerate() {
            let on = now.iter().filter(|part| part.path.iter().any(|edge| edges.contains(edge)));
            let on: u64 = on.map(|part| part.rate).sum();
            assert!(on <= net.free_of(net.graph().edges().len() + mark, tick), "{on} of mark {mark} in {tick:?}");
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
        let net = Net::new(rng, Marks::Anywhere);
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
        let net = Net::new(rng, Marks::Anywhere);
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

/// The greatest flow, by trying all cuts (Ford and Fulkerson 1956) for each way to share what a limit on several links allows
/// among these.
fn greatest(net: &Net, tick: Window) -> u64 {
    let edges = net.graph().edges().len();
    let free: Vec<u64> = (0..edges).map(|edge| net.free(edge, tick)).collect();
    shared(net, tick, 0, &free)
}

fn shared(net: &Net, tick: Window, mark: usize, free: &[u64]) -> u64 {
    let Some(edges) = net.marked.get(mark) else { return smallest_cut(net, free) };
    let limit = net.free_of(free.len() + mark, tick);
    let mut greatest = 0;
    each_share(edges, limit, &mut free.to_vec(), &mut |free| {
        greatest = greatest.max(shared(net, tick, mark + 1, free))
    });
    greatest
}

/// Each way to lower what these edges have, so that it adds up to no more than the limit, as little as can be.
fn each_share(edges: &[usize], limit: u64, free: &mut Vec<u64>, tried: &mut impl FnMut(&[u64])) {
    let Some((edge, others)) = edges.split_first() else { return tried(free) };
    let all = free[*edge];
    let others_need = others.iter().map(|edge| free[*edge]).sum::<u64>();
    for share in limit.saturating_sub(others_need).min(all)..=limit.min(all) {
        free[*edge] = share;
        each_share(others, limit - share, free, tried);
    }
    free[*edge] = all;
}

fn smallest_cut(net: &Net, free: &[u64]) -> u64 {
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
        cut.map(|edge| free[edge]).sum()
    };
    let sides = (0..1 << nodes).filter(|side| side >> net.ends.from() & 1 == 1 && side >> net.ends.to() & 1 == 0);
    sides.map(cut).min().expect("the one end alone is a side")
}

#[test]
fn all_paths_finish_when_the_cuts_let_them() {
    each_case(1500, |rng| {
        let net = Net::new(rng, Marks::AtNodes);
        let ask = ask(&net, rng);
        let slots = Slots::of(net.book.view());
        let mut sent = 0;
        let expected = (ask.within.start()..ask.within.end()).find_map(|tick| {
            sent += u128::from(greatest(&net, window(tick, tick + 1)).min(ask.most.get()));
            (sent >= ask.volume.get()).then_some(tick + 1)
        });
        match slots.volume_over_paths(&ask) {
            Ok(found) => {
                assert_eq!(Some(found.finish), expected, "{ask:?}");
                holds(&net, &ask, &found.parts, found.finish);
            }
            Err(NoSplit::NotInTime) => assert_eq!(expected, None, "{ask:?}"),
            Err(NoSplit::Shared { .. }) => assert!(cross(&net), "{ask:?}"),
        }
    });
}

/// Whether two limits are on some of the same links, and each on some that the other is not on.
fn cross(net: &Net) -> bool {
    let [one, two] = &net.marked[..] else { return false };
    let beyond = |one: &[usize], two: &[usize]| one.iter().any(|edge| !two.contains(edge));
    one.iter().any(|edge| two.contains(edge)) && beyond(one, two) && beyond(two, one)
}
