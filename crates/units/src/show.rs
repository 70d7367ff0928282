//! Printing a number of bits or bytes: rounded for people, or exact.

use crate::parse::{BINARY_PREFIXES, DECIMAL_PREFIXES, Grammar};

/// Digits that a person reads at a glance and that still tell 9.41 from 9.42 Gb/s.
const SIGNIFICANT_DIGITS: u32 = 4;

/// `value` with a prefix and the grammar's base unit.
pub(crate) fn quantity(value: u64, grammar: &Grammar, exact: bool) -> String {
    let unit = grammar.base();
    if exact {
        let (number, prefix) = shortest(value, grammar.binary);
        format!("{number} {prefix}{unit}")
    } else {
        let (number, prefix) = rounded(value);
        format!("{number} {prefix}{unit}")
    }
}

/// The smallest whole number that a prefix can express `value` with.
fn shortest(value: u64, binary: bool) -> (u64, &'static str) {
    if value == 0 {
        return (0, "");
    }
    let binary_prefixes = if binary { BINARY_PREFIXES } else { &[] };
    DECIMAL_PREFIXES
        .iter()
        .chain(binary_prefixes)
        .filter(|(_, scale)| value.is_multiple_of(*scale))
        .map(|&(prefix, scale)| (value / scale, prefix))
        .min()
        .unwrap_or((value, ""))
}

/// `value` to four significant digits, half up, without trailing zeros, and its decimal prefix.
fn rounded(value: u64) -> (String, &'static str) {
    let (prefix, scale) = prefix_for(value);
    if scale == 1 {
        return (value.to_string(), prefix);
    }
    let leading_digits = (value / scale).ilog10() + 1;
    let decimals = SIGNIFICANT_DIGITS - leading_digits;
    let per_whole = 10_u64.pow(decimals);
    let step = scale / per_whole;
    let nearest = value / step + u64::from(value % step >= step.div_ceil(2));
    match nearest.checked_mul(step) {
        // 999.96 G becomes 1 T.
        Some(carried) if prefix_for(carried) != (prefix, scale) => rounded(carried),
        Some(_) => (decimal(nearest, per_whole, decimals), prefix),
        // The largest values are rounded down, so that what is printed can be read back.
        None => (decimal(value / step, per_whole, decimals), prefix),
    }
}

fn prefix_for(value: u64) -> (&'static str, u64) {
    let fitting = DECIMAL_PREFIXES.iter().rev().find(|(_, scale)| value >= *scale);
    fitting.copied().unwrap_or(("", 1))
}

fn decimal(number: u64, per_whole: u64, decimals: u32) -> String {
    let text = format!("{}.{:0width$}", number / per_whole, number % per_whole, width = decimals as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_people(value: u64) -> String {
        let (number, prefix) = rounded(value);
        format!("{number} {prefix}")
    }

    #[test]
    fn four_significant_digits_and_no_trailing_zeros() {
        let cases = [
            (0, "0 "),
            (1, "1 "),
            (999, "999 "),
            (1_000, "1 k"),
            (1_001, "1.001 k"),
            (10_000, "10 k"),
            (9_412_345_678, "9.412 G"),
            (94_123_456_789, "94.12 G"),
            (941_234_567_891, "941.2 G"),
            (1_500_000_000, "1.5 G"),
        ];
        for (value, text) in cases {
            assert_eq!(for_people(value), text, "{value}");
        }
    }

    #[test]
    fn rounding_carries_into_the_next_digit_and_prefix() {
        assert_eq!(for_people(9_999_499), "9.999 M");
        assert_eq!(for_people(9_999_500), "10 M");
        assert_eq!(for_people(999_949_999), "999.9 M");
        assert_eq!(for_people(999_950_000), "1 G");
        assert_eq!(for_people(999_950), "1 M");
    }

    #[test]
    fn the_largest_value_prints_as_something_that_fits() {
        assert_eq!(for_people(u64::MAX), "18.44 E");
    }

    #[test]
    fn exact_takes_the_shortest_whole_number() {
        assert_eq!(shortest(0, true), (0, ""));
        assert_eq!(shortest(1_536, true), (1_536, ""));
        assert_eq!(shortest(3 << 20, true), (3, "Mi"));
        assert_eq!(shortest(3 << 20, false), (3 << 20, ""));
        assert_eq!(shortest(2_000_000_000_000, true), (2, "T"));
        assert_eq!(shortest(1_500_000_000, false), (1_500, "M"));
        assert_eq!(shortest(u64::MAX, true), (u64::MAX, ""));
    }
}
