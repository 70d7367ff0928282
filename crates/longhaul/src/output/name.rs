//! Names and numbers for people.

use serde::Serialize;
use units::{Bytes, Goodput, Span};

/// The name that a value has in JSON, in words: `source_disk` becomes `source disk`.
pub(crate) fn words(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name.replace('_', " "),
        _ => "?".to_owned(),
    }
}

/// A count with its thousands apart: `1,234,567`.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes, four digits.
pub(crate) fn bytes(count: u64) -> String {
    Bytes::new(count).to_string()
}

/// Goodput, four digits.
pub(crate) fn rate(bps: u64) -> String {
    Goodput::from_bps(bps).to_string()
}

/// Seconds as a span, two units; nothing that is no time.
pub(crate) fn span(seconds: f64) -> String {
    let known = std::time::Duration::try_from_secs_f64(seconds).ok();
    known.map_or_else(|| "?".to_owned(), |duration| Span::new(duration).to_string())
}

/// A share of 1 as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[test]
fn counts_and_shares() {
    let cases =
        [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567"), (u64::MAX, "18,446,744,073,709,551,615")];
    for (count, text) in cases {
        assert_eq!(thousands(count), text);
    }
    assert_eq!((percent(0.834), span(f64::NAN), span(90.0)), ("83 %".into(), "?".into(), "1m30s".into()));
    assert_eq!(words(&"source_disk"), "source disk");
}
