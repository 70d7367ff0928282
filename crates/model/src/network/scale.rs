//! The same network at other rates.

use std::fmt;
use std::str::FromStr;

use units::{Bytes, Rate};

use super::error::quoted;
use super::{Direction, Network, QueueLimit, limits};

/// What rates are multiplied with: written `1/100` or `0.01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// As it is.
    pub const ONE: Ratio = Ratio { numerator: 1, denominator: 1 };

    /// `numerator / denominator`; `None` if either is 0 or above [`Ratio::TERM_MAX`].
    #[must_use]
    pub fn new(numerator: u64, denominator: u64) -> Option<Ratio> {
        let fits = |term| (1..=Ratio::TERM_MAX).contains(&term);
        (fits(numerator) && fits(denominator)).then_some(Ratio { numerator, denominator })
    }

    /// The largest numerator and denominator.
    pub const TERM_MAX: u64 = 1_000_000_000_000;

    /// The nearest fraction.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// `value` times this, rounded down, at most `u64::MAX`.
    #[must_use]
    pub fn of(self, value: u64) -> u64 {
        let product = u128::from(value) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// `1/100`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// A text is no ratio.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no ratio: write for example `1/100` or `0.01`, above 0")]
pub struct RatioError {
    text: String,
}

impl FromStr for Ratio {
    type Err = RatioError;

    fn from_str(text: &str) -> Result<Ratio, RatioError> {
        let terms = match text.split_once('/') {
            Some((numerator, denominator)) => whole(numerator).zip(whole(denominator)),
            None => decimal(text.trim()),
        };
        let ratio = terms.and_then(|(numerator, denominator)| Ratio::new(numerator, denominator));
        ratio.ok_or_else(|| RatioError { text: quoted(text) })
    }
}

/// Digits and nothing else: `parse` alone would take a sign.
fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Exactly: `0.01` is 1 over 100.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (before, after) = text.split_once('.').unwrap_or((text, "0"));
    let after = after.trim_end_matches('0');
    let denominator = 10_u64.checked_pow(u32::try_from(after.len()).ok()?)?;
    let fraction = if after.is_empty() { 0 } else { whole(after)? };
    Some((whole(before)?.checked_mul(denominator)?.checked_add(fraction)?, denominator))
}

impl Network {
    /// The same network with rates, and queues in bytes and packets, times `ratio`: as many packets in flight fewer as
    /// the rate is lower. Delays and queues in time stay.
    ///
    /// Everything stays within [`limits`]: a rate does not go below or above them, a queue still holds one packet.
    #[must_use]
    pub fn scaled(&self, ratio: Ratio) -> Network {
        let mut network = self.clone();
        for link in &mut network.links {
            let mtu = link.mtu;
            for direction in [&mut link.forward, &mut link.backward] {
                scale(direction, mtu, ratio);
            }
        }
        network
    }
}

fn scale(direction: &mut Direction, mtu: u32, ratio: Ratio) {
    let (lowest, highest) = limits::RATE.into_inner();
    direction.rate = direction.rate.map(|rate| Rate::from_bps(ratio.of(rate.bps()).clamp(lowest.bps(), highest.bps())));
    direction.queue = direction.queue.map(|limit| scaled_limit(limit, u64::from(mtu), ratio));
    direction.ecn = direction.ecn.map(|limit| scaled_limit(limit, 1, ratio));
}

fn scaled_limit(limit: QueueLimit, least: u64, ratio: Ratio) -> QueueLimit {
    match limit {
        QueueLimit::Bytes(bytes) => {
            QueueLimit::Bytes(Bytes::new(ratio.of(bytes.get()).clamp(least, limits::QUEUE_BYTES_MAX.get())))
        }
        QueueLimit::Packets(packets) => {
            let scaled = ratio.of(u64::from(packets)).clamp(1, u64::from(limits::QUEUE_PACKETS_MAX));
            QueueLimit::Packets(scaled as u32)
        }
        QueueLimit::Time(_) => limit,
    }
}
