//! [`Span`]: how long, as people write it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::goodput::NANOS_PER_SECOND;
use crate::parse::{Number, ParseError, Unfit, quoted};
use crate::text;

/// A [`Duration`] as it is written in options and configuration.
///
/// One or more numbers with units, from large to small: `2d`, `1h30m`, `90s`, `250ms`, `1.5 h`.
/// Units are `w d h m s ms us ns`; `min` and `µs` are read too. Only the last number may have
/// decimals. A bare number is refused.
///
/// `{}` prints the two largest units that matter (`2d3h`, `1m30s`, `12.3s`, `250ms`); `{:#}` prints
/// the exact span.
///
/// ```
/// use std::time::Duration;
/// use units::Span;
///
/// let deadline: Span = "1h30m".parse()?;
/// assert_eq!(Duration::from(deadline), Duration::from_secs(5400));
/// assert_eq!(Span::from(Duration::from_millis(93_784_005)).to_string(), "1d2h");
/// assert_eq!(format!("{:#}", Span::from(Duration::from_millis(93_784_005))), "1d2h3m4.005s");
/// assert!("90".parse::<Span>().is_err());
/// # Ok::<(), units::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(Duration);

impl Span {
    /// A span of that duration.
    pub const fn new(duration: Duration) -> Span {
        Span(duration)
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(duration)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        span.0
    }
}

const NOUN: &str = "span of time";
const EXAMPLE: &str = "1h30m";

/// Nanoseconds in each unit, largest first.
const UNITS: [(&str, u64); 10] = [
    ("w", 7 * 86_400 * SECOND),
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];
const SECOND: u64 = 1_000_000_000;

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Span, ParseError> {
        let text = text.trim();
        let mut left = text;
        let mut total = Duration::ZERO;
        let mut smallest = u64::MAX;
        let mut ended = false;
        // Every turn takes a smaller unit, so there are at most as many as units.
        while !left.is_empty() || smallest == u64::MAX {
            let (number, scale, rest) = term(text, left)?;
            if ended || scale >= smallest {
                return Err(unknown(text, "units go from large to small, decimals come last"));
            }
            let part = number.times_nanos(scale).map_err(|problem| problem.of(text, NOUN))?;
            total = total.checked_add(part).ok_or_else(|| Unfit::TooLarge.of(text, NOUN))?;
            (smallest, ended, left) = (scale, number.has_fraction(), rest);
        }
        Ok(Span(total))
    }
}

/// The number and the unit that `left` begins with, and what follows.
fn term<'a>(text: &str, left: &'a str) -> Result<(Number<'a>, u64, &'a str), ParseError> {
    let Some((number, after)) = Number::split(left) else {
        return Err(ParseError::NoNumber { text: quoted(text), noun: NOUN, example: EXAMPLE });
    };
    let end = after.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(after.len());
    let (unit, rest) = after.split_at(end);
    if unit.is_empty() {
        return Err(ParseError::NoUnit { text: quoted(text), unit: "s", example: EXAMPLE });
    }
    let known = UNITS.iter().find(|(symbol, _)| *symbol == unit);
    let (_, scale) = known.ok_or_else(|| unknown(text, "its units are w d h m s ms us ns"))?;
    Ok((number, *scale, rest.trim_start()))
}

fn unknown(text: &str, hint: &str) -> ParseError {
    ParseError::UnknownUnit { text: quoted(text), noun: NOUN, hint: hint.to_owned() }
}

/// For people: the two largest units that matter, rounded down. With `{:#}`: exact.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() { exact(self.0) } else { brief(self.0) };
        f.pad(&text)
    }
}

/// `d h m` as they occur, then seconds with decimals; below a second the largest whole unit.
fn exact(span: Duration) -> String {
    let nanos = u64::from(span.subsec_nanos());
    if span.as_secs() == 0 && nanos > 0 {
        let whole = UNITS[6..].iter().find(|(symbol, scale)| *symbol != "µs" && nanos.is_multiple_of(*scale));
        return whole.map_or_else(String::new, |(symbol, scale)| format!("{}{symbol}", nanos / scale));
    }
    let mut text = String::new();
    for (count, symbol) in clock(span) {
        if count > 0 {
            text += &format!("{count}{symbol}");
        }
    }
    let seconds = span.as_secs() % 60;
    if seconds > 0 || nanos > 0 || text.is_empty() {
        text += &format!("{}s", decimals(seconds, nanos, 9));
    }
    text
}

/// What a person wants of a span: `2d3h`, `1m30s`, `12.3s`, `250ms`.
fn brief(span: Duration) -> String {
    let [days, hours, minutes] = clock(span).map(|(count, _)| count);
    let seconds = span.as_secs() % 60;
    let nanos = span.subsec_nanos();
    match (days, hours, minutes, seconds) {
        (0, 0, 0, 0) => below_a_second(nanos),
        (0, 0, 0, 1..=9) => format!("{}s", decimals(seconds, u64::from(nanos), 2)),
        (0, 0, 0, _) => format!("{}s", decimals(seconds, u64::from(nanos), 1)),
        (0, 0, _, _) => two(minutes, "m", seconds, "s"),
        (0, _, _, _) => two(hours, "h", minutes, "m"),
        _ => two(days, "d", hours, "h"),
    }
}

fn clock(span: Duration) -> [(u64, &'static str); 3] {
    let seconds = span.as_secs();
    [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m")]
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

/// Three significant digits of less than a second.
fn below_a_second(nanos: u32) -> String {
    let (unit, scale) = match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => ("us", 1_000),
        _ => ("ms", 1_000_000),
    };
    let whole = nanos / scale;
    let kept = 2 - whole.ilog10() as usize;
    // `decimals` counts in billionths of its whole.
    let rest = u64::from(nanos % scale) * (SECOND / u64::from(scale));
    format!("{}{unit}", decimals(u64::from(whole), rest, kept))
}

/// `whole` and the first `kept` digits of its `billionths`, without trailing zeros.
fn decimals(whole: u64, billionths: u64, kept: usize) -> String {
    let all = format!("{whole}.{billionths:09}");
    let cut = all.len() - (9 - kept);
    all[..cut].trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Number<'_> {
    /// This many spans of `scale` nanoseconds.
    fn times_nanos(self, scale: u64) -> Result<Duration, Unfit> {
        let nanos = self.times_wide(scale)?;
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND).map_err(|_| Unfit::TooLarge)?;
        Ok(Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { to.collect_str(&format_args!("{self:#}")) } else { self.0.serialize(to) }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        if from.is_human_readable() {
            text::deserialize(from, NOUN, EXAMPLE)
        } else {
            Duration::deserialize(from).map(Span)
        }
    }
}
