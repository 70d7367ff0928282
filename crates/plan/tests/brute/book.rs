//! A book beside a list that is added up for each tick.

use std::collections::{BTreeMap, BTreeSet};

use plan::book::{Backup, Book, BookError, Booking, BookingId, Failure, Offer, Part, State, Take};
use plan::calendar::Calendar;
use plan::graph::Graph;
use plan::slots::{Ends, Slots};
use units::Window;

use crate::each_case;
use crate::nets::{TICKS, edge, holder, window};
use crate::rng::Rng;

/// Routers in a ring with a chord, and risks that links share.
fn ring(rng: &mut Rng) -> Graph {
    let mut graph = Graph::default();
    for node in 0..4 {
        graph.add_node(&format!("n{node}"), true);
    }
    let risks = [graph.risk("duct"), graph.risk("bridge")];
    for (n, (from, to)) in [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (0, 1)].into_iter().enumerate() {
        let risk = rng.one_in(3).then(|| *rng.pick(&risks));
        let mut way = |from, to| {
            let mut way = edge(&format!("link {n} {from}-{to}"), from, to, rng.size(4, 12));
            way.risks.extend(risk);
            way
        };
        let (forward, backward) = (way(from, to), way(to, from));
        graph.add_link(forward, backward);
    }
    graph
}

/// What is left of all resources at all ticks from one on: by adding up all that counts.
fn left<'a>(book: &Book, bookings: impl Iterator<Item = &'a Booking>, from: i64) -> Vec<Vec<i64>> {
    let bookings: Vec<&Booking> = bookings.filter(|booking| booking.state.counts()).collect();
    let at = |resource: usize, tick: i64| {
        let rate = |takes: &[Take]| -> u64 {
            let now = takes.iter().filter(|take| take.resource == resource && take.window.contains(tick));
            now.map(|take| take.rate).sum()
        };
        let taken: u64 = bookings.iter().map(|booking| rate(&booking.takes)).sum();
        let mut loads: BTreeMap<Failure, u64> = BTreeMap::new();
        for backup in bookings.iter().filter_map(|booking| booking.backup.as_ref()) {
            backup.failures.iter().for_each(|failure| *loads.entry(*failure).or_default() += rate(&backup.takes));
        }
        let capacity = book.view().resources()[resource].calendar().capacity_at(tick);
        capacity.cast_signed() - (taken + loads.values().max().copied().unwrap_or(0)).cast_signed()
    };
    let resources = 0..book.view().resources().len();
    resources.map(|resource| (from..TICKS).map(|tick| at(resource, tick)).collect()).collect()
}

fn all_left(book: &Book, from: i64) -> Vec<Vec<i64>> {
    left(book, book.view().bookings().iter().map(|(_, booking)| booking), from)
}

/// Calendars are what the list adds up to, and the list is where time has brought it.
fn assert_true(book: &Book, now: i64) {
    for (id, booking) in book.view().bookings().iter() {
        let due = match booking.state {
            State::Held { expires } => now < expires.min(booking.window.end()),
            State::Committed => now < booking.window.start(),
            State::Active => booking.window.contains(now),
            State::Ended => booking.window.end() <= now,
            State::Released | State::Expired | State::Failed => true,
        };
        assert!(due, "{id:?} at {now}: {booking:?}");
    }
    for (resource, left) in all_left(book, now).into_iter().enumerate() {
        let calendar = book.view().resources()[resource].calendar();
        assert_eq!((now..TICKS).map(|tick| calendar.left_at(tick)).collect::<Vec<_>>(), left, "resource {resource}");
    }
}

fn part(book: &Book, rng: &mut Rng, slot: Option<Window>, rate: u64) -> Part {
    let paths = Slots::of(book.view()).candidates(Ends::new(0, 2).expect("they are two"), 8);
    let start = rng.within(0, TICKS - 1);
    let slot = slot.unwrap_or_else(|| window(start, rng.within(start + 1, TICKS)));
    Part { path: rng.pick(&paths).clone(), window: slot, rate }
}

/// Whether all that is taken more than before is there, tick by tick.
fn fits(before: &[Vec<i64>], after: &[Vec<i64>]) -> bool {
    before.iter().flatten().zip(after.iter().flatten()).all(|(before, after)| after >= before || *after >= 0)
}

/// A booking as it would be in the list.
fn booking(book: &Book, part: &Part, backup: Option<&Part>) -> Booking {
    let graph = book.view().graph();
    let takes = |part: &Part| book.view().offer(std::slice::from_ref(part)).expect("it is small").takes().to_vec();
    let failures = part.path.iter().flat_map(|edge| {
        let risks = graph.edge(*edge).risks.iter().map(|risk| Failure::Risk(*risk));
        risks.chain([Failure::Link(graph.link_of(*edge))])
    });
    let failures = failures.collect::<BTreeSet<_>>().into_iter().collect();
    let backup = backup.map(|backup| Backup { takes: takes(backup), failures });
    let state = State::Held { expires: 0 };
    Booking { holder: holder("a"), state, window: part.window, takes: takes(part), backup, version: 0 }
}

#[test]
fn a_book_takes_what_adds_up_and_no_more() {
    each_case(60, |rng| {
        let mut book = Book::new(ring(rng));
        let mut now = 0;
        let mut ids: Vec<BookingId> = Vec::new();
        for _ in 0..14 {
            let rate = rng.size(1, 6);
            let one = part(&book, rng, None, rate);
            let two = part(&book, rng, Some(one.window), rate);
            let two = rng.one_in(2).then_some(two);
            let offer = |part: &Part| book.view().offer(std::slice::from_ref(part)).expect("it is small");
            let (first, second) = (offer(&one), two.as_ref().map(offer));
            let asked = booking(&book, &one, two.as_ref());
            let before = all_left(&book, now);
            let list = |without: Option<BookingId>| {
                let others = book.view().bookings().iter().filter(move |(id, _)| Some(*id) != without);
                left(&book, others.map(|(_, booking)| booking).chain([&asked]), now)
            };
            let (done, expected) = if ids.is_empty() || rng.one_in(2) {
                let fit = fits(&before, &list(None));
                // Some would last longer than what they hold.
                let longest = *rng.pick(&[6, 2 * TICKS]);
                let expires = now + rng.within(1, longest);
                let held = match &second {
                    Some(backup) => book.hold_protected(holder("a"), &first, backup, expires, now),
                    None => book.hold(holder("a"), &first, expires, now),
                };
                (held.map(|id| ids.push(id)), Some(fit))
            } else {
                let id = *rng.pick(&ids);
                match rng.size(0, 4) {
                    0 => (book.commit(id, now), None),
                    1 => (book.release(id, now), None),
                    2 => {
                        let fit = fits(&before, &list(Some(id)));
                        (book.modify(id, &first, second.as_ref(), now), Some(fit))
                    }
                    3 => (book.impose(holder("works"), first.takes().to_vec(), now).map(|id| ids.push(id)), None),
                    _ => (book.switch(id, now), None),
                }
            };
            match &done {
                Ok(()) => assert_ne!(expected, Some(false), "what does not fit is refused"),
                Err(BookError::NotFree { .. }) => assert_eq!(expected, Some(false), "what fits is not refused"),
                Err(BookError::Changed { .. }) => panic!("nobody else books: {done:?}"),
                // Not in this state, over by now, or both paths fail together.
                Err(_) => {}
            }
            if done.is_err() {
                assert_eq!(all_left(&book, now), before, "what is refused changes nothing");
            }
            assert_true(&book, now);
            if rng.one_in(3) {
                let mut in_steps = book.clone();
                let later = now + rng.within(0, 3);
                (now..=later).for_each(|moment| drop(in_steps.advance(moment)));
                now = later;
                book.advance(now);
                assert!(in_steps.view().bookings().iter().eq(book.view().bookings().iter()), "in one step or in many");
                assert_true(&book, now);
            }
        }
    });
}

#[test]
fn any_one_failure_finds_its_backups() {
    each_case(60, |rng| {
        let mut book = Book::new(ring(rng));
        for _ in 0..12 {
            let rate = rng.size(1, 4);
            let one = part(&book, rng, None, rate);
            let two = part(&book, rng, Some(one.window), rate);
            let [one, two] = [one, two].map(|part| book.view().offer(&[part]).expect("it is small"));
            // Some are refused, which is as good.
            let _ = book.hold_protected(holder("a"), &one, &two, TICKS, -1);
        }
        let graph = book.view().graph();
        let links = (0..graph.edges().len()).map(|edge| Failure::Link(graph.link_of(edge)));
        let failures: Vec<Failure> = links.chain((0..graph.risks().len()).map(Failure::Risk)).collect();
        for failure in failures {
            let mut failed = book.clone();
            for (id, booking) in book.view().bookings().iter() {
                if booking.backup.as_ref().is_some_and(|backup| backup.failures.contains(&failure)) {
                    failed.switch(id, -1).expect("it has a backup");
                }
            }
            let bookings =
                failed.view().bookings().iter().map(|(_, booking)| Booking { backup: None, ..booking.clone() });
            let bookings: Vec<Booking> = bookings.collect();
            let left = left(&failed, bookings.iter(), 0);
            assert!(left.iter().flatten().all(|left| *left >= 0), "{failure:?}: {left:?}");
        }
    });
}

/// Two routes of 10 between two nodes, one of them of two links.
fn two_routes() -> Book {
    let mut graph = Graph::default();
    for node in ["a", "b", "c"] {
        graph.add_node(node, true);
    }
    for (name, from, to) in [("ab", 0, 1), ("ac", 0, 2), ("cb", 2, 1)] {
        graph.add_edge(edge(name, from, to, 10));
    }
    Book::new(graph)
}

fn over(book: &Book, path: &[usize], window: Window, rate: u64) -> Offer {
    book.view().offer(&[Part { path: path.to_vec(), window, rate }]).expect("it is small")
}

#[test]
fn a_booking_lives_by_the_time_it_is_told() {
    let mut book = two_routes();
    let offer = over(&book, &[0], window(10, 20), 4);
    let held = book.hold(holder("a"), &offer, 5, 0).unwrap();
    let kept = book.hold(holder("a"), &offer, 5, 0).unwrap();
    book.commit(kept, 4).unwrap();
    assert_eq!(book.advance(4), []);
    assert_eq!(book.advance(5), [(held, State::Expired)], "a hold does not count at its expiry any more");
    assert_eq!(book.view().free(0, window(10, 20)), 6);
    assert_eq!(book.commit(held, 6).unwrap_err().to_string(), "a booking that expired cannot be committed");
    assert_eq!(book.advance(30), [(kept, State::Active), (kept, State::Ended)]);
    assert_eq!(book.release(kept, 31).unwrap_err().to_string(), "a booking that ended cannot be released");
    book.forget(kept).unwrap();
    assert_eq!(book.release(kept, 31), Err(BookError::Unknown));
    assert_eq!(book.hold(holder("a"), &offer, 40, 31), Err(BookError::Past));

    // Its hold would have lasted longer than its time: it ends once, when its new time is over.
    let short = book.hold(holder("a"), &over(&book, &[0], window(32, 34), 4), 40, 31).unwrap();
    book.commit(short, 31).unwrap();
    book.modify(short, &over(&book, &[0], window(32, 36), 4), None, 31).unwrap();
    assert_eq!(book.advance(35), [(short, State::Active)]);
    assert_eq!(book.advance(36), [(short, State::Ended)]);
    assert_eq!(book.view().free(0, window(32, 50)), 10);

    let late = over(&book, &[0], window(40, 50), 4);
    let failed = book.hold(holder("a"), &late, 40, 36).unwrap();
    assert_eq!(book.fail(failed, 36).unwrap_err().to_string(), "a booking that is held cannot be failed");
    book.commit(failed, 36).unwrap();
    book.fail(failed, 45).unwrap();
    assert_eq!(book.view().bookings().get(failed).unwrap().state, State::Failed);
    assert_eq!(book.view().free(0, window(40, 50)), 10);
}

#[test]
fn what_changed_since_the_search_is_named() {
    let mut book = two_routes();
    let slot = window(0, 10);
    let snapshot = book.snapshot();
    let mine = snapshot.offer(&[Part { path: vec![1, 2], window: slot, rate: 8 }]).unwrap();
    let theirs = over(&book, &[2], slot, 2);
    book.hold(holder("b"), &theirs, 9, -1).unwrap();
    assert!(book.hold(holder("a"), &mine, 9, -1).is_ok(), "it changed, and it still fits");
    let mine = snapshot.offer(&[Part { path: vec![1, 2], window: slot, rate: 1 }]).unwrap();
    let refused = book.hold(holder("a"), &mine, 9, -1).unwrap_err();
    assert_eq!(refused.to_string(), "`cb` changed since the search: search again");
    assert_eq!(snapshot.free(2, slot), 10, "what was taken to search in does not change");
    let never = over(&book, &[0], slot, 11);
    assert_eq!(book.hold(holder("a"), &never, 9, -1).unwrap_err().to_string(), "`ab` has not that much free");
}

#[test]
fn a_shrink_never_fails() {
    let mut book = two_routes();
    let all = over(&book, &[0], window(0, 10), 8);
    let id = book.hold(holder("a"), &all, 9, -1).unwrap();
    let works = Take { resource: 0, window: window(0, 20), rate: 10 };
    book.impose(holder("maintenance"), vec![works], -1).unwrap();
    assert_eq!(book.view().resources()[0].calendar().left(window(0, 10)), -8);
    let less = over(&book, &[0], window(2, 9), 7);
    book.modify(id, &less, None, -1).unwrap();
    let longer = over(&book, &[0], window(2, 11), 1);
    assert_eq!(book.modify(id, &longer, None, -1), Err(BookError::NotFree { resource: "ab".to_owned() }));
}

#[test]
fn a_backup_does_not_depend_on_what_it_is_for() {
    let mut book = two_routes();
    let slot = window(0, 10);
    let [one, two] = [over(&book, &[0], slot, 8), over(&book, &[1, 2], slot, 8)];
    let refused = book.hold_protected(holder("a"), &one, &one, 9, -1).unwrap_err();
    assert_eq!(refused.to_string(), "the backup fails with the first path: both depend on `ab`");
    let id = book.hold_protected(holder("a"), &one, &two, 9, -1).unwrap();
    assert_eq!(book.view().free(1, slot), 2);
    book.switch(id, -1).unwrap();
    assert_eq!((book.view().free(0, slot), book.view().free(1, slot)), (10, 2));
    assert_eq!(book.switch(id, -1), Err(BookError::NoBackup));
}

#[test]
fn space_is_held_with_the_path() {
    let mut book = two_routes();
    let space = book.add_resource("space", Calendar::new(100), &[]);
    let (slot, kept) = (window(0, 10), window(0, 1000));
    let both =
        |book: &Book, rate| over(book, &[0], slot, rate).with(book.view(), space, kept, 60).expect("it is small");
    let seen = both(&book, 1);
    let one = book.hold(holder("a"), &both(&book, 4), 9, -1).unwrap();
    let refused = book.hold(holder("b"), &both(&book, 4), 9, -1).unwrap_err();
    assert_eq!(refused.to_string(), "`space` has not that much free");
    assert_eq!(
        book.hold(holder("b"), &seen, 9, -1).unwrap_err().to_string(),
        "`space` changed since the search: search again"
    );
    book.commit(one, -1).unwrap();
    assert_eq!(book.advance(999), [(one, State::Active)], "what is kept lasts longer than the path");
    assert_eq!(book.view().resources()[space].calendar().left_at(999), 40);
    book.release(one, 999).unwrap();
    assert_eq!(book.view().resources()[space].calendar().left_at(999), 100);
}
