//! Longhaul's own keys about a link, in files of others.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::Link;
use super::build::Builder;
use super::error::{NetworkError, thing};
use super::toml::{self as own, Keys, LinkEnds, Source};

/// Begins the keys that are Longhaul's own, where others have keys too.
pub(super) const PREFIX: &str = "longhaul.";

/// Longhaul's keys about a link, with the lines they stand on.
#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: BTreeMap<String, (String, Option<usize>)>,
}

impl Labels {
    /// Takes a key if it is Longhaul's.
    pub(super) fn take(&mut self, key: &str, value: &str, line: Option<usize>) -> bool {
        let own = key.strip_prefix(PREFIX);
        if let Some(own) = own {
            self.labels.insert(own.to_owned(), (value.to_owned(), line));
        }
        own.is_some()
    }

    /// What is said under `key`, no longer to be read as a key of the link.
    pub(super) fn remove(&mut self, key: &str) -> Option<String> {
        self.labels.remove(key).map(|(value, _)| value)
    }

    /// Says `value`, if nothing is said under `key` and `unless`.
    pub(super) fn suppose(&mut self, key: &str, unless: &str, value: String) {
        if !self.labels.contains_key(key) && !self.labels.contains_key(unless) {
            self.labels.insert(key.to_owned(), (value, None));
        }
    }

    /// Reads a link as the labels describe it. `line` is that of the link.
    pub(super) fn read(
        &self,
        builder: &mut Builder,
        file: &str,
        line: Option<usize>,
        name: &str,
        ends: LinkEnds,
    ) -> Result<(), NetworkError> {
        // The same reader as for TOML, over a text in which each key has a line of its own.
        let mut text = String::from("\n");
        let mut lines = vec![line];
        let (back, there): (Vec<_>, Vec<_>) = self.labels.iter().partition(|(key, _)| key.starts_with(BACK));
        let header = (!back.is_empty()).then_some("[back]\n");
        for (part, header) in [(there, None), (back, header)] {
            if let Some(header) = header {
                text += header;
                lines.push(line);
            }
            for (key, (value, key_line)) in part {
                let key = key.strip_prefix(BACK).unwrap_or(key);
                text += &format!("{} = {}\n", own::quote(key), value_text(key, value));
                lines.push(key_line.or(line));
            }
        }
        let source = Source::Lines(file, &text, &lines);
        let called = thing("link", name);
        let table = DeTable::parse(&text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            source.error(&span, Some(&called), error.message().lines().collect::<Vec<_>>().join(", "))
        })?;
        let keys = Keys::new(source, Some(called), 0..0, table.get_ref(), own::LABEL_KEYS)?;
        own::read_link(builder, &keys, name, ends)
    }
}

/// Begins keys about the other direction.
const BACK: &str = "back.";

/// A label's text as a TOML value: what is not text in TOML is recognised by its key or by its brackets.
fn value_text(key: &str, value: &str) -> String {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let one_line = !value.contains(['\n', '\r']);
    let bare = match key {
        "mtu" | "cost" | "members" => digits,
        "reorder" => ["true", "false"].contains(&value),
        "risks" => {
            let risks: Vec<String> = value.split(',').map(|risk| own::quote(risk.trim())).collect();
            return format!("[{}]", risks.join(", "));
        }
        "loss" => value.starts_with('{') && one_line,
        _ => false,
    };
    if bare { value.to_owned() } else { own::quote(value) }
}

/// What the labels of a link say, but for its name: the reverse of [`Labels::read`].
pub(super) fn labels_of(link: &Link) -> Vec<(String, String)> {
    let (keys, back) = own::link_keys(link);
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), key, value));
    let back = back.into_iter().map(|(key, value)| (format!("{BACK}{key}"), key, value));
    let text = |(label, key, value): (String, &str, String)| {
        let text = match key {
            "risks" => link.risks.join(", "),
            // What is quoted are names and quantities: nothing in them is escaped.
            _ => value.trim_matches('"').to_owned(),
        };
        (format!("{PREFIX}{label}"), text)
    };
    keys.chain(back).map(text).collect()
}
