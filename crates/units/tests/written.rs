//! How quantities are written and read.

use std::time::Duration;

use units::{Bytes, Goodput, ParseError, Rate, Span};

#[test]
fn rates_are_read_in_bits_and_in_bytes() {
    let same = ["8 Gb/s", "8Gb/s", "8Gbps", "8 Gbit/s", "1 GB/s", "8000 Mb/s", " 8.0  Gb/s ", "8000000000 b/s"];
    for text in same {
        assert_eq!(text.parse(), Ok(Rate::gbps(8)), "{text}");
        assert_eq!(text.parse(), Ok(Goodput::gbps(8)), "{text}");
    }
    assert_eq!("1 Kib/s".parse(), Ok(Rate::from_bps(1024)));
    assert_eq!("1 KiB/s".parse(), Ok(Rate::from_bps(8192)));
    assert_eq!("1.5 GB/s".parse(), Ok(Rate::gbps(12)));
    assert_eq!("0.1 B/s".parse::<Rate>(), Err(too_fine("0.1 B/s", "rate")));
}

#[test]
fn sizes_are_read_with_both_kinds_of_prefix() {
    let cases = [
        ("0 B", 0),
        ("0B", 0),
        ("17 B", 17),
        ("2 TB", 2_000_000_000_000),
        ("2TiB", 2_199_023_255_552),
        ("512 MiB", 536_870_912),
        ("1.5 kB", 1_500),
        ("1.3 KiB", 1_331),
        ("0.5 EiB", 1 << 59),
        ("18446744073709551615 B", u64::MAX),
        ("0000000000000000000000001 B", 1),
        ("1.500000000000000000000000000 kB", 1_500),
    ];
    for (text, bytes) in cases {
        assert_eq!(text.parse(), Ok(Bytes::new(bytes)), "{text}");
    }
}

#[test]
fn a_refusal_names_the_text_and_the_way_out() {
    let rates = [
        ("8000", "`8000` has no unit: write `8000 b/s`, or for example `8 Gb/s`"),
        ("0", "`0` has no unit: write `0 b/s`, or for example `8 Gb/s`"),
        ("", "`` is not a rate: write a number and a unit, for example `8 Gb/s`"),
        ("-8 Gb/s", "`-8 Gb/s` is not a rate: write a number and a unit, for example `8 Gb/s`"),
        ("fast", "`fast` is not a rate: write a number and a unit, for example `8 Gb/s`"),
        ("8G", "`8G` is not a rate: `G` is no unit, write `Gb/s` or `GB/s`"),
        ("8 gb/s", "`8 gb/s` is not a rate: `gb/s` is no unit, write `Gb/s` or `GB/s`"),
        ("8 GBps", "`8 GBps` is not a rate: `GBps` is no unit, write `Gb/s` or `GB/s`"),
        ("8 Kb/s", "`8 Kb/s` is not a rate: `Kb/s` is no unit, write `kb/s` or `kB/s`"),
        (
            "8,5 Gb/s",
            "`8,5 Gb/s` is not a rate: its unit is `b/s` or `B/s` after k M G T P E (powers of 1000) \
             or Ki Mi Gi Ti Pi Ei (of 1024)",
        ),
        ("20 Eb/s", "`20 Eb/s` is too large for a rate"),
        ("99999999999999999999 b/s", "`99999999999999999999 b/s` is too large for a rate"),
        ("1.5 b/s", "`1.5 b/s` is finer than a rate can be"),
        ("0.0001 kb/s", "`0.0001 kb/s` is finer than a rate can be"),
        ("1.0000000000000000001 Gb/s", "`1.0000000000000000001 Gb/s` is finer than a rate can be"),
    ];
    for (text, message) in rates {
        assert_eq!(text.parse::<Rate>().unwrap_err().to_string(), message, "{text}");
    }
    let sizes = [
        ("512", "`512` has no unit: write `512 B`, or for example `512 MiB`"),
        ("512 M", "`512 M` is not a size: `M` is no unit, write `MB`"),
        ("512 Mb", "`512 Mb` is not a size: `Mb` is no unit, write `MB`"),
        ("8 K", "`8 K` is not a size: `K` is no unit, write `kB`"),
        (
            "2 TB/s",
            "`2 TB/s` is not a size: its unit is `B` after k M G T P E (powers of 1000) \
             or Ki Mi Gi Ti Pi Ei (of 1024)",
        ),
    ];
    for (text, message) in sizes {
        assert_eq!(text.parse::<Bytes>().unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn a_refusal_stays_on_one_short_line() {
    let hostile = format!("8 \n\u{1b}[31m{}", "x".repeat(1_000_000));
    let message = hostile.parse::<Rate>().unwrap_err().to_string();
    assert!(message.len() < 300 && !message.contains(['\n', '\u{1b}']), "{message}");
}

#[test]
fn spans_are_read_from_large_to_small() {
    let cases = [
        ("0s", 0),
        ("250ms", 250_000_000),
        ("250 ms", 250_000_000),
        ("90s", 90_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1h 30min", 5_400_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("2d", 172_800_000_000_000),
        ("1w1d", 691_200_000_000_000),
        ("1m0.25s", 60_250_000_000),
        ("20us", 20_000),
        ("20µs", 20_000),
        ("7 ns", 7),
    ];
    for (text, nanos) in cases {
        assert_eq!(text.parse(), Ok(Span::new(Duration::from_nanos(nanos))), "{text}");
    }
    let refused = [
        ("90", "`90` has no unit: write `90 s`, or for example `1h30m`"),
        ("1h30", "`1h30` has no unit: write `1h30 s`, or for example `1h30m`"),
        ("", "`` is not a span of time: write a number and a unit, for example `1h30m`"),
        ("soon", "`soon` is not a span of time: write a number and a unit, for example `1h30m`"),
        ("3 months", "`3 months` is not a span of time: its units are w d h m s ms us ns"),
        ("30m1h", "`30m1h` is not a span of time: units go from large to small, decimals come last"),
        ("1m1min", "`1m1min` is not a span of time: units go from large to small, decimals come last"),
        ("1.5h30m", "`1.5h30m` is not a span of time: units go from large to small, decimals come last"),
        ("0.5ns", "`0.5ns` is finer than a span of time can be"),
        ("18446744073709551615w", "`18446744073709551615w` is too large for a span of time"),
    ];
    for (text, message) in refused {
        assert_eq!(text.parse::<Span>().unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn spans_print_what_a_person_wants() {
    let cases = [
        (0, "0s", "0s"),
        (7, "7ns", "7ns"),
        (1_234, "1.23us", "1234ns"),
        (12_345_678, "12.3ms", "12345678ns"),
        (250_000_000, "250ms", "250ms"),
        (1_234_567_890, "1.23s", "1.23456789s"),
        (59_990_000_000, "59.9s", "59.99s"),
        (60_000_000_000, "1m", "1m"),
        (90_500_000_000, "1m30s", "1m30.5s"),
        (20_000_000_000_000, "5h33m", "5h33m20s"),
        (183_600_000_000_000, "2d3h", "2d3h"),
    ];
    for (nanos, brief, exact) in cases {
        let span = Span::new(Duration::from_nanos(nanos));
        assert_eq!((span.to_string(), format!("{span:#}")), (brief.to_owned(), exact.to_owned()));
    }
    assert_eq!(format!("{:#}", Span::new(Duration::MAX)), "213503982334601d7h15.999999999s");
}

#[test]
fn quantities_fill_a_column() {
    assert_eq!(format!("[{:>10}]", Rate::mbps(1500)), "[  1.5 Gb/s]");
    assert_eq!(format!("[{:<10}]", Bytes::ZERO), "[0 B       ]");
}

#[test]
fn serde_is_exact_text_for_people() {
    let rate = Rate::from_bps(9_412_345_678);
    assert_eq!(serde_json::to_string(&rate).unwrap(), r#""9412345678 b/s""#);
    assert_eq!(serde_json::to_string(&Bytes::mib(512)).unwrap(), r#""512 MiB""#);
    assert_eq!(serde_json::to_string(&Span::new(Duration::from_millis(1500))).unwrap(), r#""1.5s""#);
    assert_eq!(serde_json::from_str::<Rate>(r#""9412345678 b/s""#).unwrap(), rate);
}

#[test]
fn serde_refuses_bare_numbers_with_the_same_hint() {
    let hint = "`8000` has no unit: write `8000 b/s`, or for example `8 Gb/s`";
    let json = serde_json::from_str::<Rate>("8000").unwrap_err().to_string();
    assert!(json.contains(hint), "{json}");

    #[derive(Debug, serde::Deserialize)]
    struct Limits {
        #[expect(dead_code, reason = "only whether it is read matters")]
        rate: Rate,
    }
    let toml = toml::from_str::<Limits>("rate = 8000").unwrap_err().to_string();
    assert!(toml.contains(hint), "{toml}");
    let float = toml::from_str::<Limits>("rate = 8.5").unwrap_err().to_string();
    assert!(float.contains("`8.5` has no unit"), "{float}");
    let other = serde_json::from_str::<Rate>("true").unwrap_err().to_string();
    assert!(other.contains(r#"a rate with its unit, such as "8 Gb/s""#), "{other}");
}

#[test]
fn serde_is_a_plain_integer_for_machines() {
    let wire = postcard::to_stdvec(&Bytes::new(300)).unwrap();
    assert_eq!(wire, postcard::to_stdvec(&300_u64).unwrap());
    assert_eq!(postcard::from_bytes::<Bytes>(&wire).unwrap(), Bytes::new(300));
    let span = Span::new(Duration::from_nanos(1_000_000_007));
    assert_eq!(postcard::from_bytes::<Span>(&postcard::to_stdvec(&span).unwrap()).unwrap(), span);
}

fn too_fine(text: &str, noun: &'static str) -> ParseError {
    ParseError::TooFine { text: text.to_owned(), noun }
}
