//! What holds for every value.

use std::time::Duration;

use proptest::prelude::*;
use units::{Bytes, Goodput, Rate, Span, WireOverhead};

/// Values of every magnitude, with the borders of the printed form among them.
fn any_count() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0_u32..64, any::<u64>()).prop_map(|(shift, value)| value >> shift),
        (0_u32..20, 0_u64..100).prop_map(|(power, below)| 10_u64.pow(power).saturating_sub(below)),
        (0_u32..64, 0_u64..3).prop_map(|(power, above)| (1_u64 << power).saturating_add(above)),
        (0_u64..3).prop_map(|below| u64::MAX - below),
    ]
}

fn any_duration() -> impl Strategy<Value = Duration> {
    (any_count(), 0_u32..1_000_000_000).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn any_overhead() -> impl Strategy<Value = WireOverhead> {
    (1_u32..=65_535, 0_u32..200, 1_u32..=16_777_216, 0_u32..4_096).prop_map(|(mss, header, file, extra)| {
        WireOverhead::from_mss(mss, header).and_then(|path| path.with_records(file, extra)).unwrap()
    })
}

/// A small alphabet, so that almost-right texts occur.
const ALMOST: &str = "[0-9]{0,3}[.,]?[0-9]{0,3} ?[kKmMGTPEi]{0,2}[bBhdms]?(it|p)?/?s?";

proptest! {
    #[test]
    fn exact_text_gives_the_value_back(count in any_count()) {
        prop_assert_eq!(format!("{:#}", Rate::from_bps(count)).parse(), Ok(Rate::from_bps(count)));
        prop_assert_eq!(format!("{:#}", Goodput::from_bps(count)).parse(), Ok(Goodput::from_bps(count)));
        prop_assert_eq!(format!("{:#}", Bytes::new(count)).parse(), Ok(Bytes::new(count)));
    }

    #[test]
    fn printed_text_gives_the_value_back_at_its_precision(count in any_count()) {
        let printed = Bytes::new(count).to_string();
        let read: Bytes = printed.parse().unwrap();
        prop_assert_eq!(read.to_string(), printed);
        // Four significant digits: half a unit of the last is at most 1/2000 of the value. Only
        // what would round above the largest value is rounded down instead.
        let most = if count > 18_440_000_000_000_000_000 { count / 1_000 } else { count / 2_000 };
        prop_assert!(read.get().abs_diff(count) <= most, "{} is {} off", read, read.get().abs_diff(count));
    }

    #[test]
    fn printed_text_is_short(count in any_count()) {
        let printed = Rate::from_bps(count).to_string();
        prop_assert!(printed.len() <= "9.999 Gb/s".len(), "{}", printed);
    }

    #[test]
    fn spans_give_themselves_back(duration in any_duration()) {
        let span = Span::new(duration);
        prop_assert_eq!(format!("{span:#}").parse(), Ok(span));
        let printed = span.to_string();
        let read: Span = printed.parse().unwrap();
        prop_assert!(read <= span);
        prop_assert_eq!(read.to_string(), printed);
    }

    #[test]
    fn serde_gives_itself_back(count in any_count(), duration in any_duration()) {
        let all = (Rate::from_bps(count), Goodput::from_bps(count), Bytes::new(count), Span::new(duration));
        let json = serde_json::to_string(&all).unwrap();
        prop_assert_eq!(serde_json::from_str::<(Rate, Goodput, Bytes, Span)>(&json).unwrap(), all);
        let wire = postcard::to_stdvec(&all).unwrap();
        prop_assert_eq!(postcard::from_bytes::<(Rate, Goodput, Bytes, Span)>(&wire).unwrap(), all);
    }

    #[test]
    fn no_text_panics(text in prop_oneof![any::<String>(), ALMOST.prop_map(|text| text)]) {
        // Bits and bytes of the same text agree where both read it.
        let rate = text.parse::<Rate>();
        let goodput = text.parse::<Goodput>();
        prop_assert_eq!(rate.ok().map(Rate::bps), goodput.ok().map(Goodput::bps));
        let _ = (text.parse::<Bytes>(), text.parse::<Span>());
    }

    #[test]
    fn a_fraction_is_read_exactly(whole in 0_u64..1_000_000, thousandths in 0_u64..1_000) {
        let text = format!("{whole}.{thousandths:03} GB");
        prop_assert_eq!(text.parse(), Ok(Bytes::new(whole * 1_000_000_000 + thousandths * 1_000_000)));
    }

    #[test]
    fn the_time_suffices_and_a_nanosecond_less_does_not(bytes in any_count(), bps in 1..=u64::MAX) {
        let (bytes, goodput) = (Bytes::new(bytes), Goodput::from_bps(bps));
        if let Some(time) = bytes.checked_time_at(goodput) {
            prop_assert!(goodput * time >= bytes);
            if let Some(less) = time.checked_sub(Duration::from_nanos(1)) {
                prop_assert!(goodput * less < bytes || bytes.is_zero());
            }
        }
    }

    #[test]
    fn a_goodput_over_its_time_is_not_more_than_moved(bytes in any_count(), time in any_duration()) {
        let bytes = Bytes::new(bytes);
        if let Some(goodput) = bytes.checked_over(time) {
            prop_assert!(goodput * time <= bytes);
        }
    }

    #[test]
    fn a_rate_made_for_a_goodput_suffices(path in any_overhead(), bps in 0..u64::MAX >> 20) {
        let goodput = Goodput::from_bps(bps);
        let rate = path.rate(goodput);
        prop_assume!(rate < Rate::MAX);
        prop_assert!(rate.bps() >= bps && path.goodput(rate) >= goodput);
        // And it is tight: four roundings of at most one bit each, scaled down by the records.
        prop_assert!(path.goodput(rate).bps() - bps <= 4, "{} too many", path.goodput(rate).bps() - bps);
        prop_assert!(path.pacing_bytes_per_s(rate) <= rate.bps() / 8);
    }

    #[test]
    fn no_arithmetic_panics(
        a in any_count(), b in any_count(), c in any_count(), time in any_duration(), path in any_overhead(),
    ) {
        let (rate, goodput, bytes) = (Rate::from_bps(a), Goodput::from_bps(b), Bytes::new(c));
        let _ = (bytes / time, bytes / goodput, goodput * time, rate.scaled(b, c), rate.in_flight(time));
        let _ = (path.rate(goodput), path.goodput(rate), path.rate_of_payload(bytes, time));
        let _ = WireOverhead::measured(Bytes::new(a), Bytes::new(b), bytes).map(|seen| {
            (seen.rate(goodput), seen.goodput(rate), seen.pacing_bytes_per_s(rate))
        });
        prop_assert!(bytes.saturating_sub(Bytes::new(a)) <= bytes);
        prop_assert_eq!(rate.checked_add(Rate::from_bps(b)).is_some(), a.checked_add(b).is_some());
    }
}
