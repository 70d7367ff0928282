//! The machine against numbers worked out by hand, and against itself.

mod properties;

use std::time::Duration;

use model::network::{Jitter, Loss, Probability, QueueLimit};
use units::{Bytes, Rate};

use super::*;

/// 1500 bytes at 1 Gb/s.
const SERIALISED: u64 = 12_000;

/// One segment of 1500 bytes.
const FULL: Shape = Shape::single(40, 1460);

/// Three segments: 1500, 1500 and 640 bytes.
const THREE: Shape = Shape { header: 40, payload: 3520, segment: 1460, markable: false };

fn gigabit() -> Direction {
    Direction { rate: Some(Rate::gbps(1)), ..Direction::default() }
}

fn p(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

fn drain(link: &mut Link, now: u64) -> Vec<Output> {
    std::iter::from_fn(|| link.poll(now)).collect()
}

/// Key, first segment, count, due time.
fn departures(link: &mut Link, now: u64) -> Vec<(u64, u16, u16, u64)> {
    let departure = |output| match output {
        Output::Departure(d) => Some((d.key, d.first, d.count, d.due)),
        Output::Forget(_) => None,
    };
    drain(link, now).into_iter().filter_map(departure).collect()
}

#[test]
fn shapes_have_their_segments_and_bytes() {
    assert_eq!((FULL.segments(), FULL.wire_bytes()), (1, 1500));
    assert_eq!((THREE.segments(), THREE.wire_bytes()), (3, 3640));
    assert_eq!((Shape::single(40, 0).segments(), Shape::single(40, 0).wire_bytes()), (1, 40));
    let exact = Shape { payload: 2920, ..THREE };
    assert_eq!((exact.segments(), exact.wire_bytes()), (2, 3000));
    let no_segment = Shape { segment: 0, ..THREE };
    assert_eq!((no_segment.segments(), no_segment.wire_bytes()), (1, 3560));
    let absurd = Shape { header: 0, payload: u32::MAX, segment: 1, markable: false };
    assert_eq!((absurd.segments(), absurd.wire_bytes()), (u16::MAX, u64::from(u32::MAX)));
}

#[test]
fn what_leaves_next_can_be_seen_before_and_nothing_changes() {
    let delayed = Direction { delay: Duration::from_millis(1), ..Direction::default() };
    let mut link = Link::new(&delayed, 1);
    let seen_and_left = |link: &mut Link| {
        let before = (link.counters(0), link.poll_timeout());
        let seen = link.preview().unwrap();
        assert_eq!((link.counters(0), link.poll_timeout()), before);
        assert_eq!(link.poll(seen.due), Some(Output::Departure(seen)));
        (seen.key, seen.first, seen.count, seen.due, seen.last)
    };
    assert_eq!(link.preview(), None);
    link.handle_packet(0, 7, THREE);
    assert_eq!(seen_and_left(&mut link), (7, 0, 3, 1_000_000, true));

    link.set(1_000_000, &Direction { rate: Some(Rate::gbps(1)), ..delayed });
    link.handle_packet(1_000_000, 8, THREE);
    assert_eq!(link.preview(), None, "it is being serialised");
    assert_eq!(link.poll(1_500_000), None);
    assert_eq!(seen_and_left(&mut link), (8, 0, 1, 2_012_000, false));
    assert_eq!(seen_and_left(&mut link), (8, 1, 1, 2_024_000, false));
    assert_eq!(seen_and_left(&mut link), (8, 2, 1, 2_029_120, true));
    assert_eq!(link.preview(), None);
}

#[test]
fn a_super_packet_leaves_segment_by_segment() {
    let mut link = Link::new(&Direction { delay: Duration::from_millis(1), ..gigabit() }, 1);
    link.handle_packet(0, 7, THREE);
    assert_eq!(link.poll_timeout(), Some(1_012_000));
    assert_eq!(departures(&mut link, 1_011_999), []);
    assert_eq!(departures(&mut link, 1_012_000), [(7, 0, 1, 1_012_000)]);
    // 640 bytes take 5.12 µs.
    assert_eq!(link.poll_timeout(), Some(1_024_000));
    let Some(Output::Departure(rest)) = link.poll(1_029_120) else { panic!("two are due") };
    assert_eq!((rest.first, rest.count, rest.due, rest.last), (1, 2, 1_024_000, true));
    assert_eq!((link.poll(u64::MAX), link.poll_timeout()), (None, None));
    let counters = link.counters(2_000_000);
    assert_eq!(counters.departed, Volume { segments: 3, bytes: 3640 });
    assert_eq!((counters.lateness.count(), counters.lateness.max()), (3, 5120));
    assert_eq!(counters.busy, 29_120);
}

#[test]
fn what_falls_due_while_a_step_is_carried_away_stays_for_the_next() {
    let mut link = Link::new(&Direction { delay: Duration::from_millis(1), ..gigabit() }, 1);
    link.handle_packet(0, 7, THREE);
    let Some(Output::Departure(step)) = link.poll_until(1_029_120, 1_024_000) else { panic!("two are due") };
    assert_eq!((step.first, step.count, step.last), (0, 2, false));
    assert_eq!(link.poll_until(1_029_120, 1_024_000), None);
    assert_eq!(link.counters(1_029_120).lateness.max(), 1_029_120 - 1_012_000, "as it left, not as the step began");
    assert_eq!(link.poll_timeout(), Some(1_029_120));
    let Some(Output::Departure(rest)) = link.poll_until(1_029_120, 2_000_000) else { panic!("one is due") };
    assert_eq!((rest.first, rest.count, rest.last), (2, 1, true));
}

#[test]
fn as_many_are_dropped_as_asked_for() {
    for direction in [gigabit(), Direction::default()] {
        let mut link = Link::new(&direction, 1);
        link.handle_packet(0, 1, FULL);
        // At a rate the first one is still being serialised: it is not on the wire yet.
        let first = u16::from(direction.rate.is_some());
        link.drop_next(0, 1);
        link.drop_next(0, 1);
        link.handle_packet(0, 2, THREE);
        link.handle_packet(0, 3, FULL);
        let left: Vec<_> =
            departures(&mut link, u64::MAX).into_iter().map(|(key, index, count, _)| (key, index, count)).collect();
        let whole = [(1, 0, 1), (2, 2, 1), (3, 0, 1)];
        let queued = [(2, 1, 2), (3, 0, 1)];
        assert_eq!(left, if first == 1 { &queued[..] } else { &whole[..] });
        let counters = link.counters(u64::MAX);
        assert_eq!((counters.dropped.loss.segments, counters.check()), (2, Ok(())));
        link.handle_packet(u64::MAX, 4, THREE);
        assert_eq!(departures(&mut link, u64::MAX).len(), 1, "the rest goes through, whole again");
    }
}

#[test]
fn what_is_dropped_as_asked_for_draws_no_chance() {
    let lossy = Direction { loss: Loss::Random(p(0.5)), ..Direction::default() };
    let fates = |dooms: u32| {
        let mut link = Link::new(&lossy, 9);
        link.drop_next(0, dooms);
        let kept = (0..100 + dooms).map(|key| link.handle_packet(0, u64::from(key), FULL) == Admission::Kept);
        kept.collect::<Vec<_>>()
    };
    let (without, with) = (fates(0), fates(3));
    assert_eq!(with[..3], [false; 3]);
    assert_eq!(with[3..], without);
}

#[test]
fn segments_of_different_packets_leave_apart() {
    let mut link = Link::new(&gigabit(), 1);
    link.handle_packet(0, 1, FULL);
    link.handle_packet(0, 2, THREE);
    let due = 4 * SERIALISED;
    assert_eq!(departures(&mut link, due), [(1, 0, 1, SERIALISED), (2, 0, 3, 2 * SERIALISED)]);
}

#[test]
fn a_late_look_changes_no_due_time() {
    let mut link = Link::new(&gigabit(), 1);
    link.handle_packet(0, 1, FULL);
    // The link was idle from 12 µs on, though nobody looked.
    link.handle_packet(100_000, 2, FULL);
    assert_eq!(departures(&mut link, u64::MAX), [(1, 0, 1, 12_000), (2, 0, 1, 112_000)]);
}

#[test]
fn remainders_below_a_nanosecond_add_up() {
    // 1501 bytes at 3 Gb/s: 4002 2/3 ns.
    let mut link = Link::new(&Direction { rate: Some(Rate::gbps(3)), ..Direction::default() }, 1);
    (0..6).for_each(|key| assert_eq!(link.handle_packet(0, key, Shape::single(40, 1461)), Admission::Kept));
    let due: Vec<u64> = departures(&mut link, u64::MAX).into_iter().map(|departure| departure.3).collect();
    assert_eq!(due, [4003, 8006, 12_008, 16_011, 20_014, 24_016]);
}

#[test]
fn a_full_queue_drops_the_tail() {
    let queue = Some(QueueLimit::Bytes(Bytes::new(2140)));
    let mut link = Link::new(&Direction { queue, ..gigabit() }, 1);
    assert_eq!(link.handle_packet(0, 1, FULL), Admission::Kept, "it is serialised at once");
    // The first of the three waits (1500), the second finds no room, the third does (640).
    assert_eq!(link.handle_packet(0, 2, THREE), Admission::Kept);
    assert_eq!(link.handle_packet(0, 3, Shape::single(1, 0)), Admission::Dropped);
    let counters = link.counters(0);
    assert_eq!(counters.queued, Volume { segments: 3, bytes: 3640 });
    assert_eq!(counters.dropped.queue, Volume { segments: 2, bytes: 1501 });
    counters.check().unwrap();
    let expected = [(1, 0, 1, 12_000), (2, 0, 1, 24_000), (2, 2, 1, 29_120)];
    assert_eq!(departures(&mut link, u64::MAX), expected);
}

#[test]
fn room_is_made_when_a_segment_starts() {
    let queue = Some(QueueLimit::Packets(1));
    let mut link = Link::new(&Direction { queue, ..gigabit() }, 1);
    let came = |link: &mut Link, now| link.handle_packet(now, now, FULL);
    assert_eq!([came(&mut link, 0), came(&mut link, 0), came(&mut link, 0)], {
        use Admission::{Dropped, Kept};
        [Kept, Kept, Dropped]
    });
    assert_eq!(came(&mut link, SERIALISED - 1), Admission::Dropped);
    assert_eq!(came(&mut link, SERIALISED), Admission::Kept);
}

#[test]
fn no_queue_still_sends() {
    let queue = Some(QueueLimit::Packets(0));
    let mut link = Link::new(&Direction { queue, ..gigabit() }, 1);
    assert_eq!(link.handle_packet(0, 1, THREE), Admission::Kept);
    assert_eq!(departures(&mut link, u64::MAX), [(1, 0, 1, SERIALISED)]);
    assert_eq!(link.counters(0).dropped.queue.segments, 2);
}

#[test]
fn a_new_rate_holds_in_the_middle_of_a_queue() {
    let mut link = Link::new(&gigabit(), 1);
    (0..4).for_each(|key| assert_eq!(link.handle_packet(0, key, FULL), Admission::Kept));
    // In the middle of the second: it ends at 24 µs, the others take 6 µs each.
    link.set(18_000, &Direction { rate: Some(Rate::gbps(2)), ..Direction::default() });
    let expected = [(0, 0, 1, 12_000), (1, 0, 1, 24_000), (2, 0, 1, 30_000), (3, 0, 1, 36_000)];
    assert_eq!(departures(&mut link, u64::MAX), expected);
}

#[test]
fn without_its_rate_a_link_lets_go_of_its_queue() {
    let mut link = Link::new(&gigabit(), 1);
    (0..3).for_each(|key| assert_eq!(link.handle_packet(0, key, FULL), Admission::Kept));
    link.set(1000, &Direction::default());
    // What comes now waits for what is before it, and no longer.
    link.handle_packet(2000, 3, THREE);
    link.handle_packet(12_500, 4, THREE);
    let due: Vec<_> =
        departures(&mut link, u64::MAX).into_iter().map(|(key, _, count, due)| (key, count, due)).collect();
    assert_eq!(due, [(0, 1, 12_000), (1, 1, 12_000), (2, 1, 12_000), (3, 3, 12_000), (4, 3, 12_500)]);
}

#[test]
fn what_is_in_flight_keeps_its_time_and_its_order() {
    let far = Direction { delay: Duration::from_millis(50), ..Direction::default() };
    let near = Direction { delay: Duration::from_millis(10), ..Direction::default() };
    let mut link = Link::new(&far, 1);
    link.handle_packet(0, 1, FULL);
    link.set(1_000_000, &near);
    link.handle_packet(2_000_000, 2, FULL);
    link.handle_packet(45_000_000, 3, FULL);
    let expected = [(1, 0, 1, 50_000_000), (2, 0, 1, 50_000_000), (3, 0, 1, 55_000_000)];
    assert_eq!(departures(&mut link, u64::MAX), expected);
}

#[test]
fn nobody_is_woken_for_what_must_wait_for_others() {
    let mut link = Link::new(&Direction { delay: Duration::from_millis(50), ..gigabit() }, 1);
    link.handle_packet(0, 1, FULL);
    link.set(1_000_000, &gigabit());
    link.handle_packet(1_000_000, 2, FULL);
    assert_eq!(link.poll_timeout(), Some(50_012_000));
}

#[test]
fn a_cut_loses_what_is_on_the_way() {
    let mut link = Link::new(&Direction { delay: Duration::from_millis(1), ..gigabit() }, 1);
    (0..3).for_each(|key| assert_eq!(link.handle_packet(0, key, THREE), Admission::Kept));
    assert_eq!(departures(&mut link, 1_012_000), [(0, 0, 1, 1_012_000)]);
    link.handle_packet(1_012_000, 3, THREE);
    link.cut(1_013_000);
    assert_eq!(link.handle_packet(1_013_000, 4, FULL), Admission::Dropped);
    let mut forgotten = drain(&mut link, 1_013_000);
    forgotten.sort_by_key(|output| matches!(output, Output::Forget(key) if *key == 3));
    assert_eq!(forgotten, [0, 1, 2, 3].map(Output::Forget));
    assert_eq!(link.poll_timeout(), None);
    let counters = link.counters(1_013_000);
    assert_eq!(counters.dropped.cut, Volume { segments: 12, bytes: 4 * 3640 });
    // Nine segments in one spell, then 1 µs of another: the cut ended it.
    assert_eq!(counters.busy, 3 * 29_120 + 1000);
    counters.check().unwrap();
    link.heal(2_000_000);
    link.handle_packet(2_000_000, 5, FULL);
    assert_eq!(departures(&mut link, u64::MAX), [(5, 0, 1, 3_012_000)]);
}

#[test]
fn marks_begin_above_the_threshold_and_only_where_allowed() {
    let ecn = Some(QueueLimit::Bytes(Bytes::new(1500)));
    let mut link = Link::new(&Direction { ecn, ..gigabit() }, 1);
    let shape = Shape { payload: 5 * 1460, markable: true, ..THREE };
    // In front of the five wait 0 (the first is serialised), 0, 1500, 3000, 4500 bytes.
    link.handle_packet(0, 1, shape);
    link.handle_packet(0, 2, FULL);
    let fates: Vec<_> = drain(&mut link, u64::MAX)
        .into_iter()
        .map(|output| match output {
            Output::Departure(d) => (d.key, d.first, d.count, d.fate),
            Output::Forget(key) => panic!("{key} was not lost"),
        })
        .collect();
    assert_eq!(fates, [(1, 0, 3, Fate::Whole), (1, 3, 2, Fate::Marked), (2, 0, 1, Fate::Whole)]);
    assert_eq!(link.counters(0).marked, Volume { segments: 2, bytes: 3000 });
}

#[test]
fn what_the_wire_loses_is_forgotten() {
    let mut link = Link::new(&Direction { loss: Loss::Random(Probability::ONE), ..gigabit() }, 1);
    assert_eq!(link.handle_packet(0, 1, THREE), Admission::Kept, "it is not on the wire yet");
    assert_eq!(drain(&mut link, 29_119), []);
    assert_eq!(drain(&mut link, 29_120), [Output::Forget(1)]);
    link.set(29_120, &Direction { loss: Loss::Random(Probability::ONE), ..Direction::default() });
    assert_eq!(link.handle_packet(30_000, 2, THREE), Admission::Dropped, "without a rate it is lost at once");
    assert_eq!((link.poll(u64::MAX), link.counters(0).dropped.loss.segments), (None, 6));
}

#[test]
fn a_lost_segment_splits_a_super_packet() {
    let direction = Direction { loss: Loss::Random(p(0.2)), ..Direction::default() };
    let mut link = Link::new(&direction, 5);
    let shape = Shape { payload: 1460 * 44, ..THREE };
    link.handle_packet(0, 1, shape);
    let left = departures(&mut link, 0);
    assert!(left.len() > 2, "{left:?}");
    assert!(left.windows(2).all(|pair| pair[0].1 + pair[0].2 < pair[1].1), "a gap between any two: {left:?}");
    let counters = link.counters(0);
    let lost = 44 - left.iter().map(|departure| u64::from(departure.2)).sum::<u64>();
    assert_eq!(counters.dropped.loss.segments, lost);
    counters.check().unwrap();
}

#[test]
fn a_corrupt_segment_leaves_alone() {
    let mut link = Link::new(&Direction { corrupt: Probability::ONE, ..Direction::default() }, 1);
    link.handle_packet(0, 1, THREE);
    let outputs = drain(&mut link, 0);
    assert_eq!(outputs.len(), 3);
    for output in outputs {
        assert!(matches!(output, Output::Departure(Departure { count: 1, fate: Fate::Corrupt(_), .. })), "{output:?}");
    }
    assert_eq!(link.counters(0).corrupted, Volume { segments: 3, bytes: 3640 });
}

#[test]
fn a_duplicate_follows_its_original() {
    let mut link = Link::new(&Direction { duplicate: Probability::ONE, ..gigabit() }, 1);
    link.handle_packet(0, 1, Shape { payload: 2920, ..THREE });
    let left: Vec<_> = drain(&mut link, u64::MAX)
        .into_iter()
        .map(|output| match output {
            Output::Departure(d) => (d.first, d.count, d.due, d.last),
            Output::Forget(key) => panic!("{key} was not lost"),
        })
        .collect();
    // The copy of the first and the second are neighbours, so they leave as one.
    let expected = [(0, 1, 12_000, false), (0, 2, 12_000, false), (1, 1, 24_000, true)];
    assert_eq!(left, expected);
    let counters = link.counters(0);
    assert_eq!((counters.duplicated.segments, counters.departed.segments), (2, 4));
    counters.check().unwrap();
}

#[test]
fn a_clean_link_takes_a_packet_as_one() {
    let jitter = Jitter { amount: Duration::from_millis(1), reorder: true };
    let mut link = Link::new(&Direction { delay: Duration::from_millis(5), jitter, ..Direction::default() }, 1);
    for key in 0..100 {
        link.handle_packet(0, key, THREE);
    }
    assert_eq!(link.counters(0).in_flight, Volume { segments: 300, bytes: 364_000 });
    let left = departures(&mut link, u64::MAX);
    assert!(
        left.iter()
            .all(|(_, first, count, due)| { (*first, *count) == (0, 3) && (5_000_000..=6_000_000).contains(due) })
    );
    assert!(left.is_sorted_by_key(|departure| departure.3));
    assert!(!left.is_sorted_by_key(|departure| departure.0), "some have overtaken");
}

#[test]
fn jitter_in_order_holds_back_what_follows() {
    let jitter = Jitter { amount: Duration::from_millis(1), reorder: false };
    let mut link = Link::new(&Direction { delay: Duration::from_millis(5), jitter, ..Direction::default() }, 1);
    (0..1000).for_each(|key| assert_eq!(link.handle_packet(key * 1000, key, FULL), Admission::Kept));
    let left = departures(&mut link, u64::MAX);
    assert_eq!(left.len(), 1000);
    assert!(left.is_sorted_by_key(|departure| departure.3) && left.is_sorted_by_key(|departure| departure.0));
    assert!(left.iter().all(|(key, _, _, due)| (5_000_000 + key * 1000..=6_000_000 + key * 1000).contains(due)));
}

#[test]
fn time_does_not_go_back() {
    let mut link = Link::new(&gigabit(), 1);
    link.handle_packet(1_000_000, 1, FULL);
    link.handle_packet(0, 2, FULL);
    assert_eq!(departures(&mut link, 1_024_000), [(1, 0, 1, 1_012_000), (2, 0, 1, 1_024_000)]);
    assert_eq!(link.counters(0).at, 1_024_000);
}

#[test]
fn utilisation_is_of_the_time_between_two_snapshots() {
    let mut link = Link::new(&gigabit(), 1);
    let before = link.counters(0);
    link.handle_packet(0, 1, FULL);
    let after = link.counters(48_000);
    assert_eq!(after.utilisation_ppm(&before), 250_000);
    assert_eq!(after.utilisation_ppm(&after), 0);
}

#[test]
fn a_leak_is_found() {
    let mut counters = Counters::default();
    counters.arrived.add(2, 3000);
    counters.departed.add(1, 1500);
    let unbalanced = counters.check().unwrap_err();
    let expected = "2 segments of 3000 bytes came, 1 segments of 1500 bytes are accounted for";
    assert_eq!(unbalanced.to_string(), expected);
}

#[test]
fn no_slot_is_left_behind() {
    let direction =
        Direction { loss: Loss::Random(p(0.3)), duplicate: p(0.3), queue: Some(QueueLimit::Packets(4)), ..gigabit() };
    let mut link = Link::new(&direction, 1);
    for key in 0..10_000 {
        link.handle_packet(key * 20_000, key, THREE);
        drain(&mut link, key * 20_000);
    }
    assert!(link.packets.slots() <= 5, "{} slots for at most five packets", link.packets.slots());
}
