use units::Rate;

use super::*;

const WAY: &str = "ana:forward";

fn rate(bps: u64) -> Reading {
    Reading { rate_bps: Some(bps), ..Reading::default() }
}

fn total(bytes: u64) -> Reading {
    Reading { total_bytes: Some(bytes), ..Reading::default() }
}

fn taken(samples: &mut CounterSamples, source: &str, reading: Reading) {
    samples.take(WAY, source, reading, Instant::now()).expect("there is room");
}

/// The same once it is known what our sessions did meanwhile, which is nothing.
async fn settled(samples: &mut CounterSamples, source: &str, reading: Reading) {
    taken(samples, source, reading);
    tokio::time::advance(KNOWN_AFTER).await;
    assert!(samples.settle(|_| Done::default(), Instant::now()));
}

fn newest(samples: &CounterSamples) -> Option<(u64, String)> {
    samples.newest(WAY).map(|newest| (newest.rate_bps, newest.source.to_owned()))
}

fn at_large(samples: &CounterSamples) -> Option<u64> {
    let estimate = samples.at_large(&[WAY.to_owned()], Instant::now())?;
    assert!(estimate.low <= estimate.value && estimate.value <= estimate.high && estimate.is_valid(), "{estimate:?}");
    Some(estimate.low)
}

#[tokio::test(start_paused = true)]
async fn rates_are_taken_and_counters_make_rates() {
    let mut samples = CounterSamples::default();
    taken(&mut samples, "snmp", total(1_000_000));
    assert!(!samples.is_counted(WAY), "one count is no rate");
    tokio::time::advance(Duration::from_secs(10)).await;
    taken(&mut samples, "snmp", total(11_000_000));
    let told = Newest { rate_bps: 8_000_000, at_large: None, age: Duration::ZERO, source: "snmp" };
    assert_eq!(samples.newest(WAY), Some(told));
    taken(&mut samples, "snmp", Reading { age: Duration::from_secs(5), ..rate(1) });
    assert_eq!(newest(&samples).map(|(rate, _)| rate), Some(8_000_000), "an older one changes nothing");
    tokio::time::advance(Duration::from_secs(1)).await;
    taken(&mut samples, "snmp", total(5));
    assert_eq!(samples.newest(WAY), None, "the counter began anew");
    taken(&mut samples, "other", rate(7));
    assert_eq!(newest(&samples), Some((7, "other".to_owned())));
    tokio::time::advance(GOOD + Duration::from_secs(1)).await;
    assert_eq!(samples.newest(WAY), None, "it is too old");
    assert!(!samples.is_counted(WAY));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_begins_or_ends_is_no_traffic_at_large() {
    const OTHERS: u64 = 7_000_000;
    const OURS: u64 = 50_000_000;
    // Our session goes from 5 s to 25 s. It tells each second, at any tenth of it, what it did in the last, or in that which ended up to a
    // second before; so does who counts.
    let done = |tenth: u64| OURS / 10 * tenth.clamp(50, 250);
    let last_second = |tenth: u64| done(tenth) - done(tenth.saturating_sub(10));
    for (told_at, late) in (0..10).flat_map(|told_at| [0, 5, 10].map(|late| (told_at, late))) {
        let (mut samples, mut own) = (CounterSamples::default(), Done::default());
        for tenth in 0..400 {
            if tenth % 10 == 0 {
                taken(&mut samples, "twin", rate(OTHERS + last_second(tenth)));
            }
            if tenth % 10 == told_at {
                own.bps = last_second(tenth.saturating_sub(late));
            }
            samples.settle(|_| own, Instant::now());
            let is = at_large(&samples);
            assert_eq!(is.is_some(), tenth >= 25, "it waits");
            let high = samples.newest(WAY).and_then(|newest| newest.at_large).map(|at_large| at_large.high);
            assert!(high.is_none_or(|high| high + OURS / 10 >= OTHERS), "{high:?} after {tenth} tenths");
            assert!(
                is.is_none_or(|is| is <= OTHERS + OURS / 10),
                "{is:?} after {tenth} tenths, told at {told_at}, {late} late"
            );
            if (120..240).contains(&tenth) || tenth > 320 {
                assert_eq!(is, Some(OTHERS), "after {tenth} tenths, told at {told_at}");
            }
            tokio::time::advance(Duration::from_millis(100)).await;
            own.all += u128::from(own.bps) * 100_000;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn more_at_large_is_seen_as_soon_as_it_is_known_and_what_waits_is_bounded() {
    let mut samples = CounterSamples::default();
    for more in [40_000_000, 90_000_000, 3] {
        settled(&mut samples, "twin", rate(more)).await;
        assert_eq!(at_large(&samples), Some(more));
    }
    for _ in 0..100 {
        taken(&mut samples, "twin", rate(1));
    }
    assert_eq!(samples.by_way[WAY][0].waiting.len(), WAITING_MAX);
}

#[tokio::test(start_paused = true)]
async fn by_the_clock_of_the_source_a_late_message_makes_no_wrong_rate() {
    let mut samples = CounterSamples::default();
    let read = |seconds, bytes| Reading { clock: Some(Duration::from_secs(seconds)), ..total(bytes) };
    taken(&mut samples, "agent", read(100, 0));
    // It was under way for 1.5 s longer than the one before, and the next is not.
    tokio::time::advance(Duration::from_millis(3_500)).await;
    taken(&mut samples, "agent", read(102, 2_000_000));
    assert_eq!(newest(&samples).map(|(rate, _)| rate), Some(8_000_000));
    tokio::time::advance(Duration::from_millis(500)).await;
    taken(&mut samples, "agent", read(104, 4_000_000));
    assert_eq!(newest(&samples).map(|(rate, _)| rate), Some(8_000_000));
    taken(&mut samples, "agent", read(1, 5_000_000));
    assert_eq!(samples.newest(WAY), None, "its host began anew");
    taken(&mut samples, "agent", read(1, 6_000_000));
    assert_eq!(samples.newest(WAY), None, "no time has passed");
}

#[tokio::test(start_paused = true)]
async fn of_several_sources_the_one_that_sees_most_at_large_counts_and_none_hides_another() {
    let mut samples = CounterSamples::default();
    let held = |bps| Reading { enforced_bps: Some(bps), ..rate(50) };
    taken(&mut samples, "driver", held(900));
    // Two counters that are read in turn, each with its own totals.
    for n in 0..3 {
        taken(&mut samples, "a", total(n * 1_000_000));
        taken(&mut samples, "b", total(7_000_000 + n * 2_000_000));
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::advance(KNOWN_AFTER).await;
    samples.settle(|_| Done::default(), Instant::now());
    assert_eq!(newest(&samples), Some((16_000_000, "b".to_owned())));
    assert_eq!(at_large(&samples), Some(16_000_000));
    assert_eq!(samples.enforced(WAY), Some(900), "who counts does not unsay what a driver holds");
    taken(&mut samples, "driver2", held(700));
    assert_eq!(samples.enforced(WAY), Some(700), "what comes through both is the lesser");
    assert_eq!(samples.take(WAY, "fifth", rate(1), Instant::now()), Err(Full::Sources));
    taken(&mut samples, "a", rate(3));
    tokio::time::advance(GOOD).await;
    taken(&mut samples, "fifth", rate(1));
    let sources: Vec<&str> = samples.by_way[WAY].iter().map(|sample| sample.source.as_str()).collect();
    assert_eq!(sources, ["driver2", "a", "fifth"], "old ones made room");
}

#[tokio::test(start_paused = true)]
async fn samples_are_bounded_and_old_ones_make_room() {
    let mut samples = CounterSamples::default();
    let take =
        |samples: &mut CounterSamples, n: usize| samples.take(&format!("l{n}:forward"), "s", rate(1), Instant::now());
    for n in 0..COUNTED_MAX {
        assert_eq!(take(&mut samples, n), Ok(()));
    }
    assert_eq!(take(&mut samples, COUNTED_MAX), Err(Full::Directions));
    assert_eq!(take(&mut samples, 3), Ok(()), "a known one");
    tokio::time::advance(GOOD + Duration::from_secs(1)).await;
    assert_eq!(take(&mut samples, COUNTED_MAX), Ok(()));
    assert_eq!(samples.by_way.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flexible_mark_needs_a_count_falls_at_once_and_rises_slowly() {
    const G: u64 = 1_000_000_000;
    let flexible = Flexible {
        share_ppm: 900_000,
        margin: Rate::ZERO,
        least: Rate::from_bps(G),
        most: None,
        now: None,
        as_of: None,
        at_large: None,
        expires: None,
    };
    let mut samples = CounterSamples::default();
    let mark =
        |samples: &mut CounterSamples| samples.mark("m", &flexible, 100 * G, vec![WAY.to_owned()], Instant::now());
    assert_eq!(mark(&mut samples), G, "nobody has counted yet: its least, and it does not rise from there");
    settled(&mut samples, "s", rate(40 * G)).await;
    assert_eq!(mark(&mut samples), 50 * G);
    settled(&mut samples, "s", rate(80 * G)).await;
    assert_eq!(mark(&mut samples), 10 * G);
    settled(&mut samples, "s", rate(0)).await;
    tokio::time::advance(Duration::from_secs(10) - KNOWN_AFTER).await;
    assert_eq!(mark(&mut samples), 12 * G, "2 % of the rate in 10 s");
    tokio::time::advance(GOOD + Duration::from_secs(1)).await;
    assert_eq!(mark(&mut samples), G, "nobody counts any more");
    settled(&mut samples, "s", rate(0)).await;
    tokio::time::advance(Duration::from_secs(10) - KNOWN_AFTER).await;
    assert_eq!(mark(&mut samples), 3 * G, "it rises from there");
    samples.keep_marks(&[]);
    assert_eq!(mark(&mut samples), 90 * G, "another one of the same name");
}
