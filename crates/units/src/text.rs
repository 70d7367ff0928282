//! Reading a quantity from a format for people: text with a unit, nothing else.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};

use crate::ParseError;

/// Reads text and parses it; numbers go through the same parser, whose hint they earn.
pub(crate) fn deserialize<'de, D, T>(from: D, noun: &'static str, example: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = ParseError>,
{
    // Not `deserialize_str`: with it a number would fail before the hint could be given.
    from.deserialize_any(Text { noun, example, of: PhantomData })
}

struct Text<T> {
    noun: &'static str,
    example: &'static str,
    of: PhantomData<T>,
}

impl<T: FromStr<Err = ParseError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} with its unit, such as \"{}\"", self.noun, self.example)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}
