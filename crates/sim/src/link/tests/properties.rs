//! What holds for any link, any packets and any times.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Something that happens to a link, some time after what happened before.
#[derive(Clone, Debug)]
enum Event {
    Packet(Shape),
    Set(Direction),
    Cut,
    Heal,
}

#[derive(Debug, PartialEq)]
struct Run {
    /// The segments that left: key, index, what befell it.
    left: Vec<(u64, u16, Fate)>,
    /// What was told of due times: key, index, time. Only the first segment of a departure has one.
    due: Vec<(u64, u16, u64)>,
    counters: Counters,
}

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![3 => Just(Probability::ZERO), 2 => (0.0..0.5).prop_map(p), 1 => Just(Probability::ONE)]
}

fn loss() -> impl Strategy<Value = Loss> {
    let bursts = (probability(), probability(), probability(), probability());
    prop_oneof![
        2 => Just(Loss::None),
        1 => probability().prop_map(Loss::Random),
        1 => bursts.prop_map(|(to_bad, to_good, in_good, in_bad)| Loss::Bursts { to_bad, to_good, in_good, in_bad }),
    ]
}

fn limit() -> impl Strategy<Value = Option<QueueLimit>> {
    prop_oneof![
        Just(None),
        (0_u64..20_000).prop_map(|bytes| Some(QueueLimit::Bytes(Bytes::new(bytes)))),
        (0_u32..20).prop_map(|packets| Some(QueueLimit::Packets(packets))),
        (0_u64..200_000).prop_map(|ns| Some(QueueLimit::Time(Duration::from_nanos(ns)))),
    ]
}

fn direction() -> impl Strategy<Value = Direction> {
    let rate =
        prop_oneof![1 => Just(None), 3 => (1_000_000_u64..20_000_000_000).prop_map(|bps| Some(Rate::from_bps(bps)))];
    let jitter = (prop_oneof![Just(0), 0_u64..100_000], any::<bool>())
        .prop_map(|(ns, reorder)| Jitter { amount: Duration::from_nanos(ns), reorder });
    let delay = (0_u64..300_000).prop_map(Duration::from_nanos);
    (rate, delay, jitter, loss(), limit(), limit(), probability(), probability()).prop_map(
        |(rate, delay, jitter, loss, queue, ecn, duplicate, corrupt)| Direction {
            rate,
            delay,
            jitter,
            loss,
            queue,
            ecn,
            duplicate,
            corrupt,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let shape = (0_u32..80, 0_u32..9000, 0_u32..1500, any::<bool>())
        .prop_map(|(header, payload, segment, markable)| Shape { header, payload, segment, markable });
    prop_oneof![
        20 => shape.prop_map(Event::Packet),
        2 => direction().prop_map(Event::Set),
        1 => Just(Event::Cut),
        1 => Just(Event::Heal),
    ]
}

/// What happens, each with the time since what happened before.
fn story() -> impl Strategy<Value = Vec<(u64, Event)>> {
    prop::collection::vec((prop_oneof![Just(0), 0_u64..1000, 0_u64..200_000], event()), 1..80)
}

/// Lets a link live through a story; between events it is polled at the times that `polls` says, and asserted to be sound.
fn live(start: &Direction, story: &[(u64, Event)], mut polls: impl FnMut(&Link, u64, u64) -> Vec<u64>) -> Run {
    let mut link = Link::new(start, 42);
    let mut run = Run { left: Vec::new(), due: Vec::new(), counters: Counters::default() };
    let mut held = BTreeMap::new();
    let mut now = 0;
    for (key, (wait, event)) in (0..).zip(story) {
        for at in polls(&link, now, now + wait) {
            collect(&mut link, at, &mut held, &mut run);
        }
        now += wait;
        match event {
            Event::Packet(shape) => {
                if link.handle_packet(now, key, *shape) == Admission::Kept {
                    held.insert(key, *shape);
                }
            }
            Event::Set(direction) => link.set(now, direction),
            Event::Cut => {
                // What is due at the cut but not yet fetched is lost with it, so everybody fetches before.
                collect(&mut link, now, &mut held, &mut run);
                link.cut(now);
            }
            Event::Heal => link.heal(now),
        }
        assert_eq!(link.counters(now).check(), Ok(()));
    }
    for at in polls(&link, now, u64::MAX) {
        collect(&mut link, at, &mut held, &mut run);
    }
    collect(&mut link, u64::MAX, &mut held, &mut run);
    assert!(held.is_empty(), "nothing was said of {held:?}");
    assert_eq!(link.poll_timeout(), None);
    run.left.sort_by_key(|(key, index, _)| (*key, *index));
    run.due.sort_unstable();
    run.counters = link.counters(u64::MAX);
    assert_eq!(run.counters.check(), Ok(()));
    assert_eq!((run.counters.queued, run.counters.in_flight), (Volume::default(), Volume::default()));
    run.counters.lateness = Default::default();
    run
}

fn collect(link: &mut Link, now: u64, held: &mut BTreeMap<u64, Shape>, run: &mut Run) {
    while let Some(output) = link.poll(now) {
        match output {
            // Or the last departure says it, if the loss of what followed was already known then.
            Output::Forget(key) => assert!(held.remove(&key).is_some(), "{key} is not held"),
            Output::Departure(d) => {
                let shape = held.get(&d.key).unwrap_or_else(|| panic!("{} is not held", d.key));
                assert!(d.due <= now, "{d:?} before its time, at {now}");
                assert!(d.count >= 1 && d.first + d.count <= shape.segments());
                if d.last {
                    held.remove(&d.key);
                }
                run.due.push((d.key, d.first, d.due));
                run.left.extend((d.first..d.first + d.count).map(|index| (d.key, index, d.fate)));
            }
        }
    }
    assert_eq!(link.counters(now).check(), Ok(()));
}

/// All instants at which something may leave: nothing is merged that is not due together.
fn on_time(link: &Link, from: u64, to: u64) -> Vec<u64> {
    let mut link = link.clone();
    let mut times = vec![from];
    while let Some(next) = link.poll_timeout().filter(|next| *next <= to) {
        assert!(times.len() == 1 || times.last() < Some(&next), "told to come at {next} again");
        times.push(next);
        while link.poll(next).is_some() {}
    }
    times
}

proptest! {
    #[test]
    fn when_it_is_polled_changes_nothing(
        start in direction(),
        story in story(),
        offsets in prop::collection::vec(0_u64..200_000, 1..50),
    ) {
        let reference = live(&start, &story, on_time);
        let mut offset = offsets.iter().cycle();
        let at_random = live(&start, &story, |_, from, to| {
            let mut times: Vec<u64> = (0..3).filter_map(|_| offset.next()).map(|offset| from + offset).collect();
            times.retain(|time| *time <= to);
            times.sort_unstable();
            times
        });
        let at_the_end = live(&start, &story, |_, _, _| Vec::new());
        for run in [at_random, at_the_end] {
            prop_assert_eq!(&reference.left, &run.left);
            prop_assert_eq!(&reference.counters, &run.counters);
            let told_on_time = |told: &&(u64, u16, u64)| reference.due.binary_search(told).is_ok();
            prop_assert_eq!(run.due.iter().filter(told_on_time).count(), run.due.len());
        }
    }

    #[test]
    fn single_segments_have_the_same_due_times_however_it_is_polled(
        start in direction(),
        gaps in prop::collection::vec((0_u64..30_000, 0_u32..9000), 1..100),
    ) {
        let packet = |(gap, payload): &(u64, u32)| (*gap, Event::Packet(Shape::single(40, *payload)));
        let story: Vec<_> = gaps.iter().map(packet).collect();
        let on_time = live(&start, &story, on_time);
        prop_assert_eq!(on_time.counters.lateness.count(), 0);
        let at_the_end = live(&start, &story, |_, _, _| Vec::new());
        prop_assert_eq!(on_time, at_the_end);
    }

    #[test]
    fn who_comes_when_he_is_told_is_never_late(start in direction(), story in story()) {
        let mut link = Link::new(&start, 42);
        let mut now = 0;
        for (key, (wait, event)) in (0..).zip(&story) {
            for at in on_time(&link, now, now + wait) {
                drain(&mut link, at);
            }
            now += wait;
            match event {
                Event::Packet(shape) => drop(link.handle_packet(now, key, *shape)),
                Event::Set(direction) => link.set(now, direction),
                Event::Cut => link.cut(now),
                Event::Heal => link.heal(now),
            }
        }
        for at in on_time(&link, now, u64::MAX) {
            drain(&mut link, at);
        }
        prop_assert_eq!(link.counters(now).lateness.max(), 0);
    }
}
