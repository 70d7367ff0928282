use controller::store::{Archive, PLANNINGS_MAX, POINTS_MAX, RING_SAMPLES, SERIES_MAX, SERIES_NAME_MAX, StoreError};

use super::World;

/// A round time, s: the begin of a 5 min point.
const T0: u64 = 1_700_000_100;
const DAY: u64 = 86_400;

fn ms(s: u64) -> u64 {
    s * 1_000
}

pub(crate) fn resolutions_fit_the_window(world: &mut World) {
    let mut archive = Archive::open(world.store()).unwrap();
    // An hour of 1 s: the value is the second within the hour.
    for s in 0..3_600 {
        archive.push(ms(T0 + s), &[("rate", s as f64), ("other", -1.0)]).unwrap();
    }
    assert_eq!(archive.last("rate"), Some((ms(T0 + 3_599), 3_599.0)));
    assert_eq!(archive.names().collect::<Vec<_>>(), ["other", "rate"]);

    let minute = archive.query("rate", ms(T0 + 3_540), ms(T0 + 3_600), 1_000).unwrap();
    assert_eq!((minute.grain_ms, minute.points.len()), (1_000, 60));
    assert_eq!((minute.points[0].at_ms, minute.points[0].mean), (ms(T0 + 3_540), 3_540.0));

    let hour = archive.query("rate", ms(T0), ms(T0 + 3_600), 1_000).unwrap();
    assert_eq!((hour.grain_ms, hour.points.len()), (10_000, 360), "with what is not written and not complete yet");
    for (place, point) in hour.points.iter().enumerate() {
        let begin = place as f64 * 10.0;
        assert_eq!(
            (point.at_ms, point.mean, point.max, point.count),
            (ms(T0) + place as u64 * 10_000, begin + 4.5, begin + 9.0, 10)
        );
    }
    let few = archive.query("rate", ms(T0), ms(T0 + 3_600), 5).unwrap();
    assert_eq!((few.grain_ms, few.points.len()), (900_000, 4), "5 min put together");
    let points: u32 = few.points.iter().map(|point| point.count).sum();
    let exact = archive.query("rate", ms(T0), ms(T0 + 3_600), 12).unwrap();
    assert_eq!((exact.grain_ms, exact.points.len(), exact.points[3].mean), (300_000, 12, 900.0 + 149.5));
    assert!(points == 3_600 && few.points.last().unwrap().max == 3_599.0);
    assert_eq!(archive.query("nothing", 0, u64::MAX, 9).unwrap().points, []);
    assert_eq!(archive.query("rate", 9, 3, 9).unwrap().points, []);
    // Eight days later the hour is in the coarse points only.
    archive.push(ms(T0 + 8 * DAY), &[("rate", 0.0)]).unwrap();
    let old = archive.query("rate", ms(T0), ms(T0 + 3_600), 1_000).unwrap();
    assert_eq!((old.grain_ms, old.points.len()), (300_000, 12));
    let all = archive.query("rate", 0, u64::MAX, 10).unwrap();
    assert!((1..=10).contains(&all.points.len()), "{all:?}");
}

pub(crate) fn a_restart_loses_no_point_that_was_flushed(world: &mut World) {
    for half in 0..2 {
        let mut archive = Archive::open(world.store()).unwrap();
        for s in (0..5).map(|s| s + half * 5) {
            archive.push(ms(T0 + s), &[("a", s as f64)]).unwrap();
        }
        // It is flushed as it goes.
        drop(archive);
        world.again();
    }
    let mut archive = Archive::open(world.store()).unwrap();
    let answer = archive.query("a", ms(T0), ms(T0 + 600), 100).unwrap();
    let point = answer.points[0];
    assert_eq!((answer.grain_ms, answer.points.len()), (10_000, 1));
    assert_eq!((point.mean, point.max, point.count), (4.5, 9.0, 10), "halves of a point are put together");
}

pub(crate) fn bounds_hold(world: &mut World) {
    let mut archive = Archive::open(world.store()).unwrap();
    let names: Vec<String> = (0..SERIES_MAX).map(|number| format!("series {number}")).collect();
    for chunk in names.chunks(100) {
        archive.push(ms(T0), &chunk.iter().map(|name| (&name[..], 1.0)).collect::<Vec<_>>()).unwrap();
    }
    let long = "x".repeat(SERIES_NAME_MAX + 1);
    for refused in ["one more", &long] {
        let outcome = archive.push(ms(T0 + 1), &[(refused, 1.0), (&names[0], 2.0)]);
        assert!(matches!(outcome, Err(StoreError::Series { .. })));
    }
    assert_eq!(archive.last(&names[0]), Some((ms(T0 + 1), 2.0)), "the others are taken");
    // No numbers, and samples that come late.
    archive.push(ms(T0 + 2), &[(&names[0], f64::NAN), (&names[0], f64::INFINITY)]).unwrap();
    archive.push(ms(T0), &[(&names[0], 7.0)]).unwrap();
    assert_eq!(archive.last(&names[0]), Some((ms(T0 + 1), 2.0)));
    // The ring.
    for s in 0..1_000 {
        archive.push(ms(T0 + 10 + s), &[(&names[1], s as f64)]).unwrap();
    }
    let young = archive.query(&names[1], ms(T0 + 1_010 - RING_SAMPLES as u64), u64::MAX >> 1, POINTS_MAX).unwrap();
    assert_eq!((young.grain_ms, young.points.len()), (1_000, RING_SAMPLES));
    // A clock that is set back by a day begins anew, and takes samples.
    archive.push(ms(T0 - DAY), &[(&names[1], 5.0)]).unwrap();
    assert_eq!(archive.last(&names[1]), Some((ms(T0 - DAY), 5.0)));
    // Too big: the oldest go, again and again, and the newest stay.
    archive.limit_bytes(300_000);
    let busy: Vec<(&str, f64)> = names[..50].iter().map(|name| (&name[..], 3.0)).collect();
    for step in 0..600 {
        archive.push(ms(T0 + 2_000 + step * 10), &busy).unwrap();
    }
    archive.flush().unwrap();
    let bytes = world.store().samples().unwrap().bytes().unwrap();
    assert!(bytes < 2_000_000, "{bytes}");
    let last = archive.query(&names[1], ms(T0 + 2_000 + 5_000), ms(T0 + 9_000), 1_000).unwrap();
    assert!(!last.points.is_empty());
    let points = world.store().samples().unwrap().points(1, 10, 0, i64::MAX, 100_000).unwrap();
    let (oldest, newest) = (points[0].at_s as u64, points[points.len() - 1].at_s as u64);
    assert!(oldest > T0 + 2_000 && newest == (T0 + 2_000 + 5_990) / 10 * 10, "{oldest} {newest}");
}

pub(crate) fn the_last_plannings_are_kept(world: &mut World) {
    let mut archive = Archive::open(world.store()).unwrap();
    assert_eq!(archive.plannings().unwrap(), []);
    for after in 1..=u64::from(PLANNINGS_MAX) + 10 {
        archive.keep_planning(after * 7, format!("{after}").as_bytes()).unwrap();
    }
    archive.keep_planning(77, b"again").unwrap();
    world.again();
    let kept = Archive::open(world.store()).unwrap().plannings().unwrap();
    assert_eq!(kept.len(), PLANNINGS_MAX as usize);
    assert_eq!((kept[0].clone(), kept[1].0), ((77, b"again".to_vec()), 84));
    assert_eq!(kept[kept.len() - 1].0, (u64::from(PLANNINGS_MAX) + 10) * 7);
}
