//! What every quantity that counts in 64 bits has in common.

/// Gives a `struct $name(u64)` its bounds, safe sums, text form and serde form.
macro_rules! quantity {
    ($name:ident, $grammar:ident) => {
        impl $name {
            /// Nothing.
            pub const ZERO: $name = $name(0);
            /// The largest value; sums stop here.
            pub const MAX: $name = $name(u64::MAX);

            /// Whether this is nothing.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// The sum, or `None` above the largest value.
            pub const fn checked_add(self, other: $name) -> Option<$name> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some($name(sum)),
                    None => None,
                }
            }

            /// The difference, or `None` below nothing.
            pub const fn checked_sub(self, other: $name) -> Option<$name> {
                match self.0.checked_sub(other.0) {
                    Some(difference) => Some($name(difference)),
                    None => None,
                }
            }

            /// The difference, at least nothing.
            pub const fn saturating_sub(self, other: $name) -> $name {
                $name(self.0.saturating_sub(other.0))
            }

            /// That many times this, at most the largest value.
            pub const fn saturating_mul(self, times: u64) -> $name {
                $name(self.0.saturating_mul(times))
            }
        }

        /// The sum, at most the largest value.
        impl std::ops::Add for $name {
            type Output = $name;

            fn add(self, other: $name) -> $name {
                $name(self.0.saturating_add(other.0))
            }
        }

        /// Adds, up to the largest value.
        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                *self = *self + other;
            }
        }

        /// The sum of all, at most the largest value.
        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = $name>>(all: I) -> $name {
                all.fold($name::ZERO, std::ops::Add::add)
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::ParseError;

            fn from_str(text: &str) -> Result<$name, crate::ParseError> {
                $grammar.parse(text).map($name)
            }
        }

        /// For people: four significant digits. With `{:#}`: exact.
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let exact = f.alternate();
                f.pad(&crate::show::quantity(self.0, &$grammar, exact))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                if to.is_human_readable() {
                    to.collect_str(&format_args!("{self:#}"))
                } else {
                    to.serialize_u64(self.0)
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                if from.is_human_readable() {
                    crate::text::deserialize(from, $grammar.noun, $grammar.example)
                } else {
                    u64::deserialize(from).map($name)
                }
            }
        }
    };
}

pub(crate) use quantity;
