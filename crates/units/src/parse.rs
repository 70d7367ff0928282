//! Reading a number with its unit, exactly and without floating point.

/// Powers of 1000, smallest first.
pub(crate) const DECIMAL_PREFIXES: &[(&str, u64)] = &[
    ("", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
];

/// Powers of 1024, smallest first.
pub(crate) const BINARY_PREFIXES: &[(&str, u64)] =
    &[("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40), ("Pi", 1 << 50), ("Ei", 1 << 60)];

/// Decimals that are read; no unit here has use for more, and 128 bits hold them.
const MAX_DECIMALS: usize = 18;

/// Characters of the input that an error quotes.
const MAX_QUOTED: usize = 40;

/// Why a text is not the quantity that was expected.
///
/// The message is one sentence for the person who wrote the text: what is wrong, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text does not begin with a number.
    #[error("`{text}` is not a {noun}: write a number and a unit, for example `{example}`")]
    NoNumber {
        /// The text, shortened.
        text: String,
        /// What was expected.
        noun: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// A number stands there without a unit.
    #[error("`{text}` has no unit: write `{text} {unit}`, or for example `{example}`")]
    NoUnit {
        /// The text, shortened.
        text: String,
        /// The unit without a prefix.
        unit: &'static str,
        /// A text that would do.
        example: &'static str,
    },
    /// What follows the number is not a unit of this quantity.
    #[error("`{text}` is not a {noun}: {hint}")]
    UnknownUnit {
        /// The text, shortened.
        text: String,
        /// What was expected.
        noun: &'static str,
        /// The unit that was meant, or those that exist.
        hint: String,
    },
    /// The value is above the largest that the quantity holds.
    #[error("`{text}` is too large for a {noun}")]
    TooLarge {
        /// The text, shortened.
        text: String,
        /// What was expected.
        noun: &'static str,
    },
    /// The value is a fraction of the smallest unit, or has more than 18 decimals.
    #[error("`{text}` is finer than a {noun} can be")]
    TooFine {
        /// The text, shortened.
        text: String,
        /// What was expected.
        noun: &'static str,
    },
}

/// How one quantity is written.
pub(crate) struct Grammar {
    /// What it is called in messages.
    pub(crate) noun: &'static str,
    /// Unit symbols with their worth; the first is the base unit, all are named in hints.
    pub(crate) units: &'static [(&'static str, u64)],
    /// Symbols that are read too, and never written.
    pub(crate) aliases: &'static [(&'static str, u64)],
    /// Whether the exact form may use powers of 1024.
    pub(crate) binary: bool,
    /// A text that parses.
    pub(crate) example: &'static str,
}

impl Grammar {
    /// The symbol of the unit without a prefix.
    pub(crate) fn base(&self) -> &'static str {
        self.units[0].0
    }

    /// Reads a number and a unit as a number of base units.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, ParseError> {
        let text = text.trim();
        let Some((number, unit)) = Number::split(text) else {
            return Err(ParseError::NoNumber { text: quoted(text), noun: self.noun, example: self.example });
        };
        if unit.is_empty() {
            return Err(ParseError::NoUnit { text: quoted(text), unit: self.base(), example: self.example });
        }
        let scale = self.scale(unit).ok_or_else(|| ParseError::UnknownUnit {
            text: quoted(text),
            noun: self.noun,
            hint: self.hint(unit),
        })?;
        number.times(scale).map_err(|problem| problem.of(text, self.noun))
    }

    /// How many base units one `unit` is worth.
    fn scale(&self, unit: &str) -> Option<u64> {
        self.units.iter().chain(self.aliases).find_map(|(symbol, worth)| {
            let prefix = unit.strip_suffix(symbol)?;
            let (_, scale) = prefixes().find(|(known, _)| *known == prefix)?;
            Some(scale * worth)
        })
    }

    /// What may have been meant by an unknown unit.
    fn hint(&self, unit: &str) -> String {
        // Only ever compared, so an over-long unit costs nothing but this copy.
        let meant = unit.to_ascii_lowercase().replace("ps", "/s").replace("bit", "b");
        let known = || self.units.iter().flat_map(|(symbol, _)| prefixes().map(move |(prefix, _)| (prefix, symbol)));
        let same_letters = known().filter(|(prefix, symbol)| {
            format!("{prefix}{symbol}").to_ascii_lowercase() == meant
                || prefix.to_ascii_lowercase() == meant && !prefix.is_empty()
        });
        let names: Vec<String> = same_letters.map(|(prefix, symbol)| format!("`{prefix}{symbol}`")).collect();
        if !names.is_empty() {
            return format!("`{}` is no unit, write {}", quoted(unit), names.join(" or "));
        }
        let symbols: Vec<String> = self.units.iter().map(|(symbol, _)| format!("`{symbol}`")).collect();
        format!(
            "its unit is {} after k M G T P E (powers of 1000) or Ki Mi Gi Ti Pi Ei (of 1024)",
            symbols.join(" or ")
        )
    }
}

fn prefixes() -> impl Iterator<Item = (&'static str, u64)> {
    DECIMAL_PREFIXES.iter().chain(BINARY_PREFIXES).copied()
}

/// A decimal number as written: digits, perhaps a point and more digits. Exact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number<'a> {
    whole: &'a str,
    /// Digits after the point, without trailing zeros.
    decimals: &'a str,
}

/// Why a number does not become a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    TooLarge,
    TooFine,
}

impl<'a> Number<'a> {
    /// The number at the start of `text`, and what follows it after spaces.
    pub(crate) fn split(text: &'a str) -> Option<(Number<'a>, &'a str)> {
        let (whole, rest) = digits(text);
        if whole.is_empty() {
            return None;
        }
        let (decimals, rest) = match rest.strip_prefix('.') {
            Some(after_point) => digits(after_point),
            None => ("", rest),
        };
        let number = Number { whole, decimals: decimals.trim_end_matches('0') };
        Some((number, rest.trim_start()))
    }

    /// This number times `scale`, as a whole number of 64 bits.
    pub(crate) fn times(self, scale: u64) -> Result<u64, Unfit> {
        u64::try_from(self.times_wide(scale)?).map_err(|_| Unfit::TooLarge)
    }

    /// This number times `scale`, as a whole number.
    ///
    /// What is left below one is dropped, except when the number was written in ones, or when
    /// nothing else would be left.
    pub(crate) fn times_wide(self, scale: u64) -> Result<u128, Unfit> {
        if self.decimals.len() > MAX_DECIMALS || (scale == 1 && self.has_fraction()) {
            return Err(Unfit::TooFine);
        }
        let whole = self.whole.parse::<u64>().map_err(|_| Unfit::TooLarge)?;
        let fraction = self.decimals.parse::<u64>().unwrap_or(0);
        let of_fraction = u128::from(fraction) * u128::from(scale) / 10_u128.pow(self.decimals.len() as u32);
        let count = u128::from(whole) * u128::from(scale) + of_fraction;
        if count == 0 && self.has_fraction() {
            return Err(Unfit::TooFine);
        }
        Ok(count)
    }

    /// Whether anything but zeros follows the point.
    pub(crate) fn has_fraction(self) -> bool {
        !self.decimals.is_empty()
    }
}

impl Unfit {
    /// The error about `text`, which should have been a `noun`.
    pub(crate) fn of(self, text: &str, noun: &'static str) -> ParseError {
        let text = quoted(text);
        match self {
            Unfit::TooLarge => ParseError::TooLarge { text, noun },
            Unfit::TooFine => ParseError::TooFine { text, noun },
        }
    }
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// `text` as an error may show it: on one line and short, whatever came in.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}
