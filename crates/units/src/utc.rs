//! [`Utc`]: a moment as people write it.

use std::fmt;
use std::str::FromStr;

use crate::Moment;
use crate::window::Window;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A moment of Unix time, in nanoseconds, written as RFC 3339 does: `2026-03-01T06:00:00Z`, also with an offset.
///
/// ```
/// use units::Utc;
///
/// let begin: Utc = "2026-03-01T07:00:00.5+01:00".parse()?;
/// assert_eq!(begin.to_string(), "2026-03-01T06:00:00.5Z");
/// assert!("2026-03-01".parse::<Utc>().is_err());
/// # Ok::<(), units::UtcError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc(pub Moment);

/// Why a text is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UtcError {
    /// It is not written so.
    #[error("`{0}` is no date and time with its offset: write for example `2026-03-01T06:00:00Z`")]
    Form(String),
    /// It is too far away.
    #[error("`{0}` is before 1897 or after 2043")]
    Range(String),
}

impl FromStr for Utc {
    type Err = UtcError;

    fn from_str(text: &str) -> Result<Utc, UtcError> {
        let shown = || text.chars().filter(|c| !c.is_control()).take(40).collect();
        let moment = read(text).ok_or_else(|| UtcError::Form(shown()))?;
        let within = (Window::EARLIEST..=Window::LATEST).contains(&moment);
        if within { Ok(Utc(moment)) } else { Err(UtcError::Range(shown())) }
    }
}

fn read(text: &str) -> Option<Moment> {
    let bytes = text.as_bytes();
    let sign_of = |at: usize, signs: &[u8]| bytes.get(at).is_some_and(|byte| signs.contains(byte));
    let marks = sign_of(4, b"-") && sign_of(7, b"-") && sign_of(10, b"Tt ") && sign_of(13, b":") && sign_of(16, b":");
    let number = |from: usize, to: usize| digits(text.get(from..to)?);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_day = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !marks || !is_day || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = &text[19..];
    let (nanos, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let fraction = rest.get(..end).filter(|digits| (1..=9).contains(&digits.len()))?;
            (digits(&format!("{fraction:0<9}"))?, &rest[end..])
        }
        None => (0, rest),
    };
    let offset = match rest.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (digits(&rest[1..3])?, digits(&rest[4..6])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 60 + minutes) * if *sign == b'+' { 60 } else { -60 }
        }
        _ => return None,
    };
    let seconds = days_from_epoch(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(nanos)
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn days_in(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_epoch(next_year, next, 1) - days_from_epoch(year, month, 1)
}

/// Days from 1970-01-01 in the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms": a year begins in
/// March, so that the day of a leap year is its last).
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

/// Year, month and day; the reverse of [`days_from_epoch`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.div_euclid(NANOS_PER_SECOND), self.0.rem_euclid(NANOS_PER_SECOND));
        let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction = if nanos == 0 { String::new() } else { format!(".{nanos:09}") };
        let fraction = fraction.trim_end_matches('0');
        f.pad(&format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-03-01T06:00:00Z", 1_772_344_800),
            ("1969-12-31T23:59:58Z", -2),
        ] {
            assert_eq!(text.parse(), Ok(Utc(seconds * NANOS_PER_SECOND)), "{text}");
            assert_eq!(Utc(seconds * NANOS_PER_SECOND).to_string(), text);
        }
        assert_eq!("1970-01-01T01:00:00.000000001+01:00".parse(), Ok(Utc(1)));
        assert_eq!(Utc(-1).to_string(), "1969-12-31T23:59:59.999999999Z");
    }

    #[test]
    fn every_day_comes_back() {
        for days in -26_000..26_000 {
            let moment = Utc(days * SECONDS_PER_DAY * NANOS_PER_SECOND + 1_500_000_000);
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        let wrong = [
            "",
            "now",
            "2026-03-01",
            "2026-03-01T06:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T06:00:00.Z",
            "2026-03-01T06:00:00.0123456789Z",
            "2026-03-01T06:00:00+1:00",
            "2026-03-01T06:00:00Zé",
            "2026-03-0éT06:00:00Z",
            "+026-03-01T06:00:00Z",
        ];
        for text in wrong {
            assert!(matches!(text.parse::<Utc>(), Err(UtcError::Form(_))), "{text}");
        }
        assert!(matches!("2044-01-01T00:00:00Z".parse::<Utc>(), Err(UtcError::Range(_))));
    }
}
