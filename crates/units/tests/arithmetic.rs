//! Sums, quotients and the bridge between rate and goodput.

use std::time::Duration;

use units::{Bytes, Goodput, Rate, TCP4_HEADER_BYTES, TCP6_HEADER_BYTES, WireOverhead};

#[test]
fn a_petabyte_at_400_gbps_takes_exactly_20_000_seconds() {
    assert_eq!(Bytes::tb(1_000) / Goodput::gbps(400), Duration::from_secs(20_000));
    assert_eq!(Goodput::gbps(400) * Duration::from_secs(20_000), Bytes::tb(1_000));
    assert_eq!(Bytes::tb(1_000) / Duration::from_secs(20_000), Goodput::gbps(400));
}

#[test]
fn a_time_is_never_too_short() {
    // 20 picoseconds.
    assert_eq!(Bytes::new(1) / Goodput::gbps(400), Duration::from_nanos(1));
    assert_eq!(Bytes::new(1) / Goodput::from_bps(3), Duration::from_nanos(2_666_666_667));
}

#[test]
fn the_edges_have_values() {
    let some = Bytes::new(1);
    assert_eq!(some / Duration::ZERO, Goodput::MAX);
    assert_eq!(some.checked_over(Duration::ZERO), None);
    assert_eq!(Bytes::ZERO / Duration::ZERO, Goodput::ZERO);
    assert_eq!(some / Goodput::ZERO, Duration::MAX);
    assert_eq!(some.checked_time_at(Goodput::ZERO), None);
    assert_eq!(Bytes::ZERO / Goodput::ZERO, Duration::ZERO);
    assert_eq!(Goodput::MAX * Duration::MAX, Bytes::MAX);
    assert_eq!(Bytes::MAX / Goodput::from_bps(1), Duration::MAX);
    assert_eq!(Bytes::MAX / Duration::from_nanos(1), Goodput::MAX);
    assert_eq!(Bytes::MAX / Duration::MAX, Goodput::from_bps(7));
    assert_eq!(Rate::MAX + Rate::MAX, Rate::MAX);
    assert_eq!([Bytes::MAX, Bytes::MAX].into_iter().sum::<Bytes>(), Bytes::MAX);
    assert_eq!(Rate::MAX.scaled(u64::MAX, 1), Rate::MAX);
    assert_eq!(Rate::MAX.scaled(3, 4), Rate::from_bps(13_835_058_055_282_163_711));
    assert_eq!(Rate::MAX.scaled(1, 0), Rate::ZERO);
}

#[test]
fn a_long_fat_path_holds_five_gigabytes() {
    assert_eq!(Rate::gbps(400).in_flight(Duration::from_millis(100)), Bytes::new(5_000_000_000));
}

#[test]
fn headers_cost_what_the_documentation_says() {
    let cases = [
        (1448, TCP4_HEADER_BYTES, 36),
        (8948, TCP4_HEADER_BYTES, 6),
        (1428, TCP6_HEADER_BYTES, 50),
        (8928, TCP6_HEADER_BYTES, 8),
    ];
    for (mss, header, per_mille) in cases {
        let path = WireOverhead::from_mss(mss, header).expect("an MSS is not 0");
        let rate = path.rate(Goodput::gbps(1));
        let extra = rate.bps() - 1_000_000_000;
        assert_eq!((extra + 500_000) / 1_000_000, per_mille, "MSS {mss}");
    }
}

#[test]
fn pacing_takes_off_headers_and_goodput_also_records() {
    let path = WireOverhead::from_mss(1448, TCP4_HEADER_BYTES).unwrap();
    let sealed = path.with_records(16_384, 22).unwrap();
    let rate = Rate::gbps(8);
    assert_eq!(path.pacing_bytes_per_s(rate), 965_333_333);
    assert_eq!(sealed.pacing_bytes_per_s(rate), 965_333_333);
    assert_eq!(path.goodput(rate), Goodput::from_bps(7_722_666_666));
    assert_eq!(sealed.goodput(rate), Goodput::from_bps(7_712_310_779));
    assert_eq!(WireOverhead::NONE.goodput(rate), Goodput::gbps(8));
}

#[test]
fn what_was_acknowledged_becomes_a_rate() {
    let path = WireOverhead::from_mss(1448, TCP4_HEADER_BYTES).unwrap();
    let second = Duration::from_secs(1);
    assert_eq!(path.rate_of_payload(Bytes::new(1448), second), Rate::from_bps(12_000));
    assert_eq!(path.rate_of_payload(Bytes::ZERO, Duration::ZERO), Rate::ZERO);
    assert_eq!(path.rate_of_payload(Bytes::new(1), Duration::ZERO), Rate::MAX);
    assert_eq!(path.rate_of_payload(Bytes::MAX, Duration::from_nanos(1)), Rate::MAX);
}

#[test]
fn a_measurement_replaces_the_arithmetic() {
    let seen = WireOverhead::measured(Bytes::new(1_100), Bytes::new(1_010), Bytes::new(1_000)).unwrap();
    assert_eq!(seen.rate(Goodput::gbps(1)), Rate::from_bps(1_100_000_000));
    assert_eq!(seen.goodput(Rate::from_bps(1_100_000_000)), Goodput::gbps(1));
    assert_eq!(WireOverhead::measured(Bytes::new(1), Bytes::ZERO, Bytes::new(1)), None);
    assert_eq!(WireOverhead::from_mss(0, 52), None);
    assert_eq!(WireOverhead::NONE.with_records(0, 22), None);
}
