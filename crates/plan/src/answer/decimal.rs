//! Decimals of a file as integers: each times one power of ten.

use serde_json::{Number, Value};

use super::{AnswerError, refused};

/// Decimals that are read.
const DECIMALS_MAX: usize = 12;

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
        Ok(Scale { decimals })
    }

    /// A number of the file, 0 to `most` after scaling.
    pub(super) fn read(self, value: &Value, most: u64) -> Option<u64> {
        let text = text(value.as_number()?);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits = format!("{whole}{fraction:0<width$}", width = self.decimals);
        digits.parse().ok().filter(|number| *number <= most)
    }

    /// A scaled number as the file writes it.
    pub(super) fn write(self, scaled: u64) -> Value {
        let power = 10_u64.pow(self.decimals as u32);
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
        assert!(Scale::of(&json!(1e300)).is_ok_and(|scale| scale.read(&json!(1e300), u64::MAX).is_none()));
    }
}
