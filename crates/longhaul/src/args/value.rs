//! Small values of options.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use proto::control::{DigestKind, Overwrite};
use proto::seal::Protection;
use units::Rate;

/// `8Gb/s`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetPoint(pub(crate) Option<Rate>);

/// What is no set point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSetPoint {
    /// Not a rate.
    #[error("{0}, or `off`")]
    Rate(units::ParseError),
    /// Nothing would ever arrive.
    #[error("a rate of nothing; `off` lifts the limit, `longhaul session stop` ends a session")]
    Zero,
}

impl FromStr for SetPoint {
    type Err = NoSetPoint;

    fn from_str(text: &str) -> Result<SetPoint, NoSetPoint> {
        if text == "off" {
            return Ok(SetPoint(None));
        }
        let rate: Rate = text.parse().map_err(NoSetPoint::Rate)?;
        if rate.is_zero() { Err(NoSetPoint::Zero) } else { Ok(SetPoint(Some(rate))) }
    }
}

impl fmt::Display for SetPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rate) => write!(f, "{rate:#}"),
            None => f.write_str("off"),
        }
    }
}

impl SetPoint {
    /// As the mover takes it.
    pub(crate) fn bps(self) -> Option<u64> {
        self.0.map(Rate::bps)
    }
}

/// Most streams that may be asked for: 16 fill a path of 400 Gb/s × 100 ms.
pub(crate) const STREAMS_MAX: u16 = 512;

/// `auto`, or a number of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// As many as help.
    Auto,
    /// Exactly so many.
    Fixed(u16),
}

/// What is no number of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write auto, or a number of streams from 1 to {STREAMS_MAX}")]
pub(crate) struct NoStreams;

impl FromStr for Streams {
    type Err = NoStreams;

    fn from_str(text: &str) -> Result<Streams, NoStreams> {
        if text == "auto" {
            return Ok(Streams::Auto);
        }
        let fits = |streams: &u16| (1..=STREAMS_MAX).contains(streams);
        text.parse().ok().filter(fits).map(Streams::Fixed).ok_or(NoStreams)
    }
}

impl Streams {
    /// As the mover takes it: 0 for auto.
    pub(crate) fn count(self) -> u16 {
        match self {
            Streams::Auto => 0,
            Streams::Fixed(streams) => streams,
        }
    }
}

/// A range of TCP ports, `LOW-HIGH`, or one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    /// Lowest.
    pub(crate) low: u16,
    /// Highest.
    pub(crate) high: u16,
}

/// What is no range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write ports as LOW-HIGH, for example 50000-50100")]
pub(crate) struct NoPorts;

impl FromStr for Ports {
    type Err = NoPorts;

    fn from_str(text: &str) -> Result<Ports, NoPorts> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        match (low.parse(), high.parse()) {
            (Ok(low), Ok(high)) if 0 < low && low <= high => Ok(Ports { low, high }),
            _ => Err(NoPorts),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// How the data are protected. Control is TLS 1.3 in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protect {
    /// A checksum: against accidents. Whoever is on the path can read and change the data
    Clear,
    /// A keyed code (AES-GMAC): against accidents and tampering. The data can still be read
    Integrity,
    /// Encryption (AES-128-GCM): against accidents, tampering and reading
    Private,
}

impl From<Protect> for Protection {
    fn from(choice: Protect) -> Protection {
        match choice {
            Protect::Clear => Protection::Clear,
            Protect::Integrity => Protection::Integrity,
            Protect::Private => Protection::Private,
        }
    }
}

/// Whole-file digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Checksum {
    /// Adler-32, as the WLCG keeps it
    Adler32,
    /// CRC-32C (Castagnoli)
    Crc32c,
    /// MD5; check with md5sum -c
    Md5,
    /// SHA-256; check with sha256sum -c
    Sha256,
    /// BLAKE3, 256 bits; check with b3sum -c
    Blake3,
    /// XXH3, 64 bits
    Xxh3,
}

impl From<Checksum> for DigestKind {
    fn from(choice: Checksum) -> DigestKind {
        match choice {
            Checksum::Adler32 => DigestKind::Adler32,
            Checksum::Crc32c => DigestKind::Crc32c,
            Checksum::Md5 => DigestKind::Md5,
            Checksum::Sha256 => DigestKind::Sha256,
            Checksum::Blake3 => DigestKind::Blake3,
            Checksum::Xxh3 => DigestKind::Xxh3,
        }
    }
}

/// Replace what is at the destination?
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Replace {
    /// What is there stays
    Never,
    /// What differs in size or time (with --by-checksum: in content) is replaced
    Changed,
    /// Everything is copied again
    Always,
}

impl From<Replace> for Overwrite {
    fn from(choice: Replace) -> Overwrite {
        match choice {
            Replace::Never => Overwrite::Never,
            Replace::Changed => Overwrite::Changed,
            Replace::Always => Overwrite::Always,
        }
    }
}

/// What of a file is kept beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preserve {
    /// Also hard links, extended attributes, ACLs and, as root, owners
    All,
}

/// When a progress line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressWhen {
    /// When standard error is a terminal
    Auto,
    /// In any case; a line a second where there is no terminal
    Always,
    /// Not at all
    Never,
}

/// How the agent writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Human,
    /// One JSON object a line
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_points() {
        assert_eq!("off".parse(), Ok(SetPoint(None)));
        assert_eq!("8Gb/s".parse(), Ok(SetPoint(Some(Rate::gbps(8)))));
        assert_eq!("0 b/s".parse::<SetPoint>(), Err(NoSetPoint::Zero));
        let hint = "8000".parse::<SetPoint>().unwrap_err().to_string();
        assert!(hint.contains("has no unit") && hint.ends_with("or `off`"), "{hint}");
        for text in ["off", "8 Gb/s", "1234567 b/s"] {
            assert_eq!(text.parse::<SetPoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn streams() {
        assert_eq!("auto".parse(), Ok(Streams::Auto));
        assert_eq!("512".parse(), Ok(Streams::Fixed(512)));
        assert!(["0", "513", "-1", "", "many", "70000"].iter().all(|bad| bad.parse::<Streams>().is_err()));
        assert_eq!((Streams::Auto.count(), Streams::Fixed(4).count()), (0, 4));
    }

    #[test]
    fn ports() {
        assert_eq!("50000-50100".parse(), Ok(Ports { low: 50000, high: 50100 }));
        assert_eq!("5000".parse(), Ok(Ports { low: 5000, high: 5000 }));
        assert!(["0-1", "2-1", "x", "1-65536", "-"].iter().all(|bad| bad.parse::<Ports>().is_err()));
    }
}
