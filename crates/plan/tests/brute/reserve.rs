//! Refusals: what binds, and that nothing better can be had than what is offered instead.

use plan::book::Part;
use plan::paths::Path;
use plan::reserve::{Absent, Over, Request};
use plan::slots::Slots;
use plan::volume::{Ask, CANDIDATES, Volume};
use units::{Moment, Window};

use crate::each_case;
use crate::nets::{Marks, Net, TICKS, above_0, holder, window};

#[test]
fn alternatives_are_accepted_and_nothing_better_is() {
    each_case(1500, |rng| {
        let net = Net::new(rng, Marks::Anywhere);
        let slots = Slots::of(net.book.view());
        let start = rng.within(0, TICKS - 1);
        let slot = window(start, rng.within(start + 1, TICKS));
        let rate = above_0(rng.size(1, 9));
        let horizon = TICKS + rng.within(0, 40);
        let request = Request { ends: net.ends, rate, slot, horizon, balance: false };
        let refusal = match slots.reserve(&request) {
            Ok(granted) => {
                let balanced = slots.reserve(&Request { balance: true, ..request }).expect("as it is with the first");
                assert_eq!(balanced.path.edges, least_loaded(&net, &granted.path, rate.get(), slot));
                assert_eq!(Some(granted.path.edges), net.cheapest(rate.get(), slot));
                let held = net.book.clone().hold(holder("a"), &granted.offer, Moment::MAX, Moment::MIN);
                held.expect("what is granted can be held");
                return;
            }
            Err(refusal) => refusal,
        };
        assert_eq!(net.cheapest(rate.get(), slot), None, "what fits is granted");
        let asked_for = |rate, slot| slots.reserve(&Request { rate, slot, ..request }).is_ok();

        let highest = refusal.highest.as_ref().map_or(0, |highest| highest.rate.get());
        assert_eq!(highest, net.widest(slot));
        assert!(highest == 0 || asked_for(above_0(highest), slot));
        assert!(!asked_for(above_0(highest + 1), slot), "one b/s more is refused");

        let lasting = |start| Window::lasting(start, slot.nanos()).expect("it is not empty");
        let starts = (start..).take_while(|start| lasting(*start).end() <= horizon);
        let first = starts.into_iter().find(|start| net.widest(lasting(*start)) >= rate.get());
        assert_eq!(refusal.first.as_ref().ok().map(|slot| slot.window.start()), first, "{request:?}");
        if let Ok(first) = &refusal.first {
            assert!(asked_for(rate, first.window));
            assert!(!asked_for(rate, lasting(first.window.start() - 1)), "a start 1 ns earlier is refused");
        }

        let volume = Volume::of_rate(rate, above_0(slot.nanos()));
        let until = |end| Ask { ends: net.ends, volume, most: rate, within: window(slot.start(), end) };
        let finishes = |end, over| match over {
            Over::AllPaths => slots.volume_over_paths(&until(end)).is_ok(),
            Over::OneOf(count) => {
                slots.volume_at_variable_rate(&until(end), &slots.candidates(net.ends, count)).is_some()
            }
        };
        match &refusal.finish {
            Ok(finish) => {
                assert!(finishes(finish.at, finish.over));
                assert!(
                    finish.at - 1 == slot.start() || !finishes(finish.at - 1, finish.over),
                    "1 ns earlier is refused"
                );
                let offer = net.book.view().offer(&finish.parts).expect("it is small");
                let held = net.book.clone().hold(holder("a"), &offer, Moment::MAX, Moment::MIN);
                held.expect("what is offered can be held");
            }
            Err(_) => assert!(!finishes(horizon, Over::AllPaths) && !finishes(horizon, Over::OneOf(CANDIDATES))),
        }

        let is_path = !net.paths().is_empty();
        assert_eq!(refusal.binding.is_empty(), !is_path, "something binds where there is a path");
        assert_eq!(refusal.highest == Err(Absent::NoPath), !is_path);
        for path in net.paths() {
            let drawn = net.book.view().drawn_by(&path);
            assert!(refusal.binding.iter().any(|binding| drawn.contains(&binding.resource)), "each path has one");
        }
        for binding in &refusal.binding {
            let calendar = net.book.view().resources()[binding.resource].calendar();
            let held: u64 = binding.holders.iter().map(|holds| holds.rate).sum();
            assert_eq!(binding.capacity.cast_signed() - held.cast_signed(), calendar.left_at(binding.at));
            assert!(binding.free < rate.get() && binding.free == calendar.free(slot) && slot.contains(binding.at));
            assert!(binding.holders.iter().all(|holds| holds.until > binding.at));
        }
    });
}

/// Of the paths that cost as much as this one and have as many hops, the one whose fullest edge is least full, the first by
/// names.
fn least_loaded(net: &Net, like: &Path, rate: u64, slot: Window) -> Vec<usize> {
    let load = |path: &[usize]| path.iter().map(|edge| net.load(*edge, slot)).max().expect("a path has an edge");
    let cost = |path: &[usize]| path.iter().map(|edge| net.graph().edge(*edge).cost).sum::<u64>();
    let mut equals = net.paths();
    equals.retain(|path| {
        (cost(path), path.len()) == (cost(&like.edges), like.edges.len()) && net.width(path, slot) >= rate
    });
    let least = equals.iter().map(|path| load(path)).min().expect("there is the one");
    equals.retain(|path| load(path) == least);
    net.first_by_names(equals).expect("there is the one")
}

#[test]
fn a_refusal_names_classes_and_until_when() {
    let mut graph = plan::graph::Graph::default();
    graph.add_node("a", true);
    graph.add_node("b", true);
    let edges = ["one", "two"].map(|name| graph.add_edge(crate::nets::edge(name, 0, 1, 10)));
    let mut book = plan::book::Book::new(graph);
    let slot = window(0, 10);
    let offer = |book: &plan::book::Book, edge, window, rate| {
        book.view().offer(&[Part { path: vec![edge], window, rate }]).expect("it is small")
    };
    let [one, two] = [offer(&book, edges[0], slot, 4), offer(&book, edges[1], slot, 4)];
    book.hold_protected(holder("urgent"), &one, &two, 9, -1).unwrap();
    let later = offer(&book, edges[1], window(5, 30), 5);
    book.hold(holder("bulk"), &later, 9, -1).unwrap();
    let request =
        Request { ends: plan::slots::Ends::new(0, 1).unwrap(), rate: above_0(7), slot, horizon: 100, balance: false };
    let refusal = Slots::of(book.view()).reserve(&request).unwrap_err();
    let binding: Vec<_> = refusal.binding.iter().map(|binding| (binding.resource, binding.at, binding.free)).collect();
    assert_eq!(binding, [(0, 0, 6), (1, 5, 1)]);
    let holders: Vec<_> = refusal.binding.iter().flat_map(|binding| &binding.holders).collect();
    let holders: Vec<_> = holders.iter().map(|holds| (holds.class.as_str(), holds.rate, holds.until)).collect();
    assert_eq!(holders, [("urgent", 4, 10), ("backup", 4, 10), ("bulk", 5, 30)]);
    assert_eq!(refusal.highest.unwrap().rate.get(), 6);
    assert_eq!(refusal.first.unwrap().window, window(10, 20));
    assert_eq!(refusal.finish.unwrap().at, 10);
}
