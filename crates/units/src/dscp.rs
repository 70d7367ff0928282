//! Differentiated services code points, by number or name.

/// Names of RFC 2474, 2597, 3246 and 8622.
const NAMES: &[(&str, u8)] = &[
    ("le", LOWER_EFFORT),
    ("cs0", 0),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

/// Less than best effort (RFC 8622): what a network may hold back first.
pub const LOWER_EFFORT: u8 = 1;

/// Largest code point.
pub const DSCP_MAX: u8 = 63;

/// Reads a code point: 0 to 63, or a name.
///
/// # Errors
/// When it is neither.
pub fn parse(text: &str) -> Result<u8, String> {
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, value)| *value);
    let point = named.or_else(|| text.parse().ok()).filter(|point| *point <= DSCP_MAX);
    point.ok_or_else(|| format!("a DSCP is a number from 0 to {DSCP_MAX} or a name such as le, cs1, af11 or ef"))
}

/// A code point as people write it: its name, or the number where it has none.
#[must_use]
pub fn show(point: u8) -> String {
    let named = NAMES.iter().find(|(_, value)| *value == point).map(|(name, _)| (*name).to_owned());
    named.unwrap_or_else(|| point.to_string())
}

#[test]
fn numbers_and_names() {
    assert_eq!(["0", "63", "le", "EF", "af43"].map(|text| parse(text).ok()), [0, 63, 1, 46, 38].map(Some));
    assert!(["64", "-1", "", "af14"].iter().all(|bad| parse(bad).is_err()));
    assert!((0..=DSCP_MAX).all(|point| parse(&show(point)) == Ok(point)));
}
