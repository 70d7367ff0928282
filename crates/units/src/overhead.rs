//! [`WireOverhead`]: the one bridge between what the network carries and what a file gains.

use std::time::Duration;

use crate::goodput::NANOS_PER_SECOND;
use crate::{Bytes, Goodput, Rate};

/// Header bytes of a TCP packet over IPv4: 20 of IP, 20 of TCP, 12 of the timestamps option.
///
/// RFC 791, RFC 9293, RFC 7323; selective acknowledgements travel the other way.
pub const TCP4_HEADER_BYTES: u32 = 52;

/// Header bytes of a TCP packet over IPv6: 40 of IP, 20 of TCP, 12 of the timestamps option.
///
/// RFC 8200, RFC 9293, RFC 7323.
pub const TCP6_HEADER_BYTES: u32 = 72;

/// What a path adds to file bytes on their way: packet headers, and the records of a protection.
///
/// ```text
///  file bytes ──(records: framing, TLS, tags)──▶ TCP payload ──(headers per segment)──▶ IP packets
///  Goodput                                       pacing                                 Rate
/// ```
///
/// This is the only conversion between a [`Rate`] and a [`Goodput`]. Full segments are assumed:
/// over IPv4 with timestamps the headers cost 3.6 % at an MTU of 1500 (1500 / 1448) and 0.6 % at
/// 9000 (9000 / 8948); over IPv6 5.0 % and 0.8 %. A running session knows better and gives
/// [`WireOverhead::measured`].
///
/// Conversions to less (goodput, pacing) round down and to more (rate) round up, so that a rate
/// made from a goodput always suffices for it. Results stop at the largest value.
///
/// ```
/// use units::{Goodput, Rate, TCP4_HEADER_BYTES, WireOverhead};
///
/// let path = WireOverhead::from_mss(1448, TCP4_HEADER_BYTES).expect("an MSS is not 0");
/// assert_eq!(path.goodput(Rate::gbps(10)), Goodput::from_bps(9_653_333_333));
/// assert_eq!(path.rate(Goodput::from_bps(9_653_333_333)), Rate::from_bps(10_000_000_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireOverhead {
    /// Bytes of IP packets per byte of TCP payload.
    packets: Ratio,
    /// Bytes of TCP payload per byte of file.
    records: Ratio,
}

impl WireOverhead {
    /// Nothing added: a rate is a goodput. For local copies.
    pub const NONE: WireOverhead = WireOverhead { packets: Ratio::ONE, records: Ratio::ONE };

    /// `header_bytes` in front of every segment of `mss_bytes`; `None` when the MSS is 0.
    ///
    /// `mss_bytes` is the payload of a full segment as the kernel reports it (`tcpi_snd_mss`:
    /// options already taken off); `header_bytes` is [`TCP4_HEADER_BYTES`] or
    /// [`TCP6_HEADER_BYTES`].
    pub const fn from_mss(mss_bytes: u32, header_bytes: u32) -> Option<WireOverhead> {
        match Ratio::with_extra(mss_bytes, header_bytes) {
            Some(packets) => Some(WireOverhead { packets, records: Ratio::ONE }),
            None => None,
        }
    }

    /// The same path with `extra_bytes` of framing and protection around every `file_bytes` of
    /// file; `None` when `file_bytes` is 0.
    ///
    /// A TLS 1.3 record of full size is 16384 bytes and 22 more (RFC 8446: 5 of header, 1 of
    /// type, 16 of tag).
    pub const fn with_records(self, file_bytes: u32, extra_bytes: u32) -> Option<WireOverhead> {
        match Ratio::with_extra(file_bytes, extra_bytes) {
            Some(records) => Some(WireOverhead { records, ..self }),
            None => None,
        }
    }

    /// What a session saw: `packets` on the wire for `payload` of TCP for `file` bytes.
    ///
    /// Counts partial segments and retransmissions, which the arithmetic cannot know. `None` while
    /// any of the three is still zero.
    pub const fn measured(packets: Bytes, payload: Bytes, file: Bytes) -> Option<WireOverhead> {
        if packets.is_zero() || payload.is_zero() || file.is_zero() {
            return None;
        }
        Some(WireOverhead {
            packets: Ratio { more: packets.get(), less: payload.get() },
            records: Ratio { more: payload.get(), less: file.get() },
        })
    }

    /// The goodput that fits into a rate, rounded down.
    pub fn goodput(self, rate: Rate) -> Goodput {
        Goodput::from_bps(self.records.down(self.packets.down(rate.bps())))
    }

    /// The rate that a goodput needs, rounded up.
    pub fn rate(self, goodput: Goodput) -> Rate {
        Rate::from_bps(self.packets.up(self.records.up(goodput.bps())))
    }

    /// What to ask of the kernel's pacing so that a stream holds `rate`, rounded down.
    ///
    /// `SO_MAX_PACING_RATE` is in bytes per second and charges TCP payload, without the headers.
    pub fn pacing_bytes_per_s(self, rate: Rate) -> u64 {
        self.packets.down(rate.bps()) / 8
    }

    /// The rate that carried `payload` bytes of TCP in that time, rounded up.
    ///
    /// For counters of the kernel such as `tcpi_bytes_acked`. Something in no time is
    /// [`Rate::MAX`], nothing in no time is [`Rate::ZERO`].
    pub fn rate_of_payload(self, payload: Bytes, time: Duration) -> Rate {
        if payload.is_zero() {
            return Rate::ZERO;
        }
        if time.is_zero() {
            return Rate::MAX;
        }
        let bits = u128::from(payload.get()) * 8 * NANOS_PER_SECOND;
        let bps = bits.div_ceil(time.as_nanos());
        Rate::from_bps(self.packets.up(u64::try_from(bps).unwrap_or(u64::MAX)))
    }
}

/// `more` bytes outside for `less` bytes inside; neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    more: u64,
    less: u64,
}

impl Ratio {
    const ONE: Ratio = Ratio { more: 1, less: 1 };

    const fn with_extra(inner: u32, extra: u32) -> Option<Ratio> {
        if inner == 0 {
            return None;
        }
        Some(Ratio { more: inner as u64 + extra as u64, less: inner as u64 })
    }

    /// From outside to inside.
    fn down(self, value: u64) -> u64 {
        let inside = u128::from(value) * u128::from(self.less) / u128::from(self.more);
        u64::try_from(inside).unwrap_or(u64::MAX)
    }

    /// From inside to outside.
    fn up(self, value: u64) -> u64 {
        let outside = (u128::from(value) * u128::from(self.more)).div_ceil(u128::from(self.less));
        u64::try_from(outside).unwrap_or(u64::MAX)
    }
}
