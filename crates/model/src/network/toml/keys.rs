//! The keys of one table, read with the place of each value at hand.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::network::error::{Fault, NetworkError, quoted};
use crate::network::names;

/// Where values come from, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// This text of this file; spans point into it.
    Text(&'a str, &'a str),
    /// This text was made of this file; these are the lines of the file that its lines come from.
    Lines(&'a str, &'a str, &'a [Option<usize>]),
}

impl Source<'_> {
    pub(crate) fn error(&self, span: &Range<usize>, thing: Option<&str>, problem: String) -> NetworkError {
        let fault = Fault { thing: thing.map(str::to_owned), problem };
        let (Source::Text(file, text) | Source::Lines(file, text, _)) = *self;
        let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
        let newlines = before.iter().filter(|byte| **byte == b'\n').count();
        let line = match self {
            Source::Text(..) => Some(newlines + 1),
            Source::Lines(_, _, lines) => lines.get(newlines).copied().flatten(),
        };
        NetworkError::new(file, line, fault)
    }
}

/// A table of a file, and what it describes.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    source: Source<'a>,
    /// What messages call it.
    thing: Option<String>,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Keys<'a> {
    /// The keys of `table`, which are all among `known`.
    pub(crate) fn new(
        source: Source<'a>,
        thing: Option<String>,
        span: Range<usize>,
        table: &'a DeTable<'a>,
        known: &[&'static str],
    ) -> Result<Keys<'a>, NetworkError> {
        let keys = Keys { source, thing, span, table };
        let unknown = table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref()));
        // The table is in the order of the alphabet; the first in the file is told.
        let Some((key, _)) = unknown.min_by_key(|(key, _)| key.span().start) else { return Ok(keys) };
        let hint = match names::meant(key.get_ref(), known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        Err(keys.error(&key.span(), format!("unknown key `{}`; {hint}", quoted(key.get_ref()))))
    }

    pub(crate) fn error(&self, span: &Range<usize>, problem: impl Into<String>) -> NetworkError {
        self.source.error(span, self.thing.as_deref(), problem.into())
    }

    /// About the table as a whole.
    pub(crate) fn fault(&self, problem: impl Into<String>) -> NetworkError {
        self.error(&self.span, problem)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.get(key)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// What `read` makes of the value of `key`, if there is one; what it objects to is told with place and key.
    pub(crate) fn get<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a DeValue<'a>) -> Result<T, String>,
    ) -> Result<Option<T>, NetworkError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let read = read(value.get_ref());
        read.map(Some).map_err(|problem| self.error(&value.span(), format!("{key}: {problem}")))
    }

    /// A quantity: text, or a number that gets to hear which unit it lacks.
    pub(crate) fn quantity<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, NetworkError> {
        self.get(key, |value| parse(written(value)?))
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, NetworkError> {
        self.get(key, text)
    }

    /// The text that must be there.
    pub(crate) fn needed(&self, key: &str, example: &str) -> Result<&'a str, NetworkError> {
        self.text(key)?.ok_or_else(|| self.missing(key, example))
    }

    pub(crate) fn missing(&self, key: &str, example: &str) -> NetworkError {
        self.fault(format!("`{key}` is missing: write for example `{key} = {example}`"))
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<f64>, NetworkError> {
        self.get(key, |value| match value {
            DeValue::Integer(_) | DeValue::Float(_) => {
                written(value)?.parse().map_err(|_| format!("write a number, not {}", kind(value)))
            }
            other => Err(format!("write a number, not {}", kind(other))),
        })
    }

    pub(crate) fn whole(&self, key: &str, bounds: std::ops::RangeInclusive<u32>) -> Result<Option<u32>, NetworkError> {
        self.get(key, |value| {
            let number = value.as_integer().and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok());
            let within = number.filter(|number| bounds.contains(number));
            within.ok_or_else(|| format!("write a whole number from {} to {}", bounds.start(), bounds.end()))
        })
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, NetworkError> {
        self.get(key, |value| value.as_bool().ok_or_else(|| format!("write true or false, not {}", kind(value))))
    }

    /// The texts of a list with their places.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<(&'a str, Range<usize>)>, NetworkError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = |span: &Range<usize>, value: &DeValue<'_>| {
            self.error(span, format!("{key}: write a list of texts such as `[\"a\", \"b\"]`, not {}", kind(value)))
        };
        let items = value.get_ref().as_array().ok_or_else(|| wrong(&value.span(), value.get_ref()))?;
        let text = |item: &'a Spanned<DeValue<'a>>| {
            let text = item.get_ref().as_str().ok_or_else(|| wrong(&item.span(), item.get_ref()))?;
            Ok((text, item.span()))
        };
        items.iter().map(text).collect()
    }

    /// The tables of `[[key]]`.
    pub(crate) fn tables(&self, key: &str) -> Result<Vec<(&'a DeTable<'a>, Range<usize>)>, NetworkError> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = |span: &Range<usize>| self.error(span, format!("{key}: write `[[{key}]]`, once for each {key}"));
        let items = value.get_ref().as_array().ok_or_else(|| wrong(&value.span()))?;
        let table = |item: &'a Spanned<DeValue<'a>>| {
            let table = item.get_ref().as_table().ok_or_else(|| wrong(&item.span()))?;
            Ok((table, item.span()))
        };
        items.iter().map(table).collect()
    }

    /// The table of `key`, whose keys are all among `known`.
    pub(crate) fn table(&self, key: &str, known: &[&'static str]) -> Result<Option<Keys<'a>>, NetworkError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.error(&value.span(), format!("{key}: write a table, not {}", kind(value.get_ref()))));
        };
        let thing = self.thing.as_ref().map(|thing| format!("{thing}: {key}"));
        Keys::new(self.source, thing.or_else(|| Some(key.to_owned())), value.span(), table, known).map(Some)
    }
}

pub(crate) fn text<'a>(value: &'a DeValue<'a>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("write a text in quotes, not {}", kind(value)))
}

/// Texts and numbers as they are written.
pub(crate) fn written<'a>(value: &'a DeValue<'a>) -> Result<&'a str, String> {
    match value {
        DeValue::String(text) => Ok(text),
        DeValue::Integer(number) => Ok(number.as_str()),
        DeValue::Float(number) => Ok(number.as_str()),
        other => Err(format!("write a text in quotes, not {}", kind(other))),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
