//! Decimals of a file as integers: each times one power of ten.

use serde_json::{Number, Value};
use units::{Moment, Window};

use super::{AnswerError, refused};

/// Decimals that are read.
const DECIMALS_MAX: usize = 12;
/// Digits of a number with decimals that JSON readers keep: those of a double.
const DIGITS_MAX: usize = 15;

/// The power of ten that makes integers of all numbers of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    decimals: usize,
}

impl Scale {
    /// For all numbers within a value.
    pub(super) fn of(value: &Value) -> Result<Scale, AnswerError> {
        let decimals = decimals(value);
        if decimals > DECIMALS_MAX {
            return Err(refused(format!("a number has {decimals} decimals: write at most {DECIMALS_MAX}")));
        }
        if let Some(long) = first_too_long(value) {
            return Err(refused(format!("{long} has more than {DIGITS_MAX} digits: write fewer decimals, or none")));
        }
        Ok(Scale { decimals })
    }

    /// What a number of the file is multiplied by.
    pub(super) fn power(self) -> u64 {
        10_u64.pow(self.decimals as u32)
    }

    /// A number of the file, 0 to `most` after scaling.
    pub(super) fn read(self, value: &Value, most: u64) -> Option<u64> {
        self.scaled(&text(value.as_number()?)).filter(|number| *number <= most)
    }

    fn scaled(self, text: &str) -> Option<u64> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        format!("{whole}{fraction:0<width$}", width = self.decimals).parse().ok()
    }

    /// A moment of the file, which may be before 0.
    pub(super) fn moment(self, value: &Value) -> Option<Moment> {
        let text = text(value.as_number()?);
        let (sign, digits) = text.strip_prefix('-').map_or((1, text.as_str()), |digits| (-1, digits));
        let size = self.scaled(digits)?;
        Moment::try_from(size).ok().map(|size| sign * size)
    }

    /// A window of the file; `None` if it is empty.
    pub(super) fn window(self, start: &Value, end: &Value) -> Option<Window> {
        Window::new(self.moment(start)?, self.moment(end)?)
    }

    /// A moment as the file writes it.
    pub(super) fn write_moment(self, moment: Moment) -> Value {
        if moment >= 0 {
            return self.write(moment.unsigned_abs());
        }
        let positive = self.write(moment.unsigned_abs());
        let negated = positive.as_i64().map(|whole| Value::from(-whole));
        negated.unwrap_or_else(|| positive.as_f64().map_or(Value::Null, |fraction| Value::from(-fraction)))
    }

    /// A scaled number as the file writes it.
    pub(super) fn write(self, scaled: u64) -> Value {
        let power = self.power();
        if scaled.is_multiple_of(power) {
            return (scaled / power).into();
        }
        (scaled as f64 / power as f64).into()
    }
}

fn decimals(value: &Value) -> usize {
    match value {
        Value::Number(number) => text(number).split_once('.').map_or(0, |(_, fraction)| fraction.len()),
        Value::Array(items) => items.iter().map(decimals).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(decimals).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::String(_) => 0,
    }
}

/// A number with decimals that was rounded when it was read, perhaps.
fn first_too_long(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => {
            let text = text(number);
            let digits = text.trim_start_matches(['-', '0', '.']).bytes().filter(u8::is_ascii_digit).count();
            (text.contains('.') && digits > DIGITS_MAX).then_some(text)
        }
        Value::Array(items) => items.iter().find_map(first_too_long),
        Value::Object(fields) => fields.values().find_map(first_too_long),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Without an exponent and without zeros at the end.
fn text(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) => float.to_string(),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_power_of_ten_serves_all_numbers_and_nothing_is_rounded() {
        let file = json!({ "a": [1, 2.5], "b": { "c": 0.125, "d": 3.0, "e": "x" } });
        let scale = Scale::of(&file).unwrap();
        let read = |value: &Value| scale.read(value, 10_000);
        assert_eq!([&file["a"][0], &file["a"][1]].map(read), [Some(1000), Some(2500)]);
        assert_eq!([&file["b"]["c"], &file["b"]["d"], &file["b"]["e"]].map(read), [Some(125), Some(3000), None]);
        assert_eq!([1000, 2500, 125].map(|scaled| scale.write(scaled)), [json!(1), json!(2.5), json!(0.125)]);
        assert_eq!((read(&json!(-1)), read(&json!(10)), read(&json!(10.001))), (None, Some(10_000), None));
    }

    #[test]
    fn what_is_too_fine_is_refused() {
        assert!(Scale::of(&json!([1e-12])).is_ok());
        assert!(Scale::of(&json!([1e-13])).unwrap_err().to_string().contains("13 decimals"));
        assert!(
            Scale::of(&json!([{ "a": 123456789012.3456 }])).unwrap_err().to_string().contains("more than 15 digits")
        );
        assert!(Scale::of(&json!([0.000123456789, 12345678901.2345])).is_ok());
        assert!(Scale::of(&json!(1e300)).is_ok_and(|scale| scale.read(&json!(1e300), u64::MAX).is_none()));
    }
}
