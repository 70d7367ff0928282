//! Quantities with their units: rates, sizes, spans, and the one bridge between rate and goodput.
//!
//! - [`Rate`]: bits per second of IP packets, headers included. What a link, a reservation or a
//!   pacing set point is measured in.
//! - [`Goodput`]: bits per second of file bytes. What a user sees arrive.
//! - [`Bytes`]: a number of bytes.
//! - [`Span`]: a length of time as written in options (`2d`, `1h30m`, `250ms`).
//! - [`Utc`]: a moment as people write it (`2026-03-01T06:00:00Z`).
//! - [`Window`]: from one moment to another, half-open.
//! - [`dscp`]: differentiated services code points by name.
//! - [`Marks`]: what packets carry so that routers can tell them from others.
//! - [`WireOverhead`]: the only conversion between a [`Rate`] and a [`Goodput`].
//!
//! # Written form
//!
//! A number, an optional space, a unit: `8 Gb/s`, `1.5TB`, `512 MiB`. `k M G T P E` are powers of
//! 1000, `Ki Mi Gi Ti Pi Ei` powers of 1024, and case matters: `b` is a bit, `B` is a byte. A bare
//! number is refused, with a hint. Decimals are read exactly, in integers; what is finer than one
//! bit or byte is dropped (`1.3 KiB` is 1331 bytes), unless nothing would be left of it.
//!
//! `{}` prints for people: four significant digits, decimal prefixes. `{:#}` prints the exact
//! value. Parsing either gives the value back, at the printed precision.
//!
//! With serde a quantity is the exact text in formats for people (JSON, TOML), and a plain integer
//! in the others; when read from a format for people only text with a unit is accepted.
//!
//! # Arithmetic
//!
//! Nothing wraps and nothing panics: products are taken in 128 bits, operators stop at the largest
//! value (18.4 exabytes, 18.4 Eb/s), and the `checked_` forms say when that would happen.
//!
//! ```
//! use std::time::Duration;
//! use units::{Bytes, Goodput};
//!
//! let dataset: Bytes = "1 PB".parse()?;
//! let speed: Goodput = "400 Gb/s".parse()?;
//! assert_eq!(dataset / speed, Duration::from_secs(20_000));
//!
//! let refused = "8000".parse::<Goodput>().unwrap_err();
//! assert_eq!(refused.to_string(), "`8000` has no unit: write `8000 b/s`, or for example `8 Gb/s`");
//! # Ok::<(), units::ParseError>(())
//! ```

#![forbid(unsafe_code)]

mod bytes;
pub mod dscp;
mod goodput;
pub mod marks;
mod overhead;
mod parse;
mod quantity;
mod rate;
mod show;
mod span;
mod text;
mod utc;
mod window;

pub use bytes::Bytes;
pub use goodput::Goodput;
pub use marks::Marks;
pub use overhead::{TCP4_HEADER_BYTES, TCP6_HEADER_BYTES, WireOverhead};
pub use parse::ParseError;
pub use rate::Rate;
pub use span::Span;
pub use utc::{Utc, UtcError};
pub use window::{Moment, Window};
