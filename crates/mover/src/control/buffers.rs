//! How large a stream's send buffer should be.
//!
//! The buffer holds what is in flight until it is acknowledged, so it has to hold bandwidth × delay, and
//! as much again while a loss is repaired. More than that only queues: on a short path megabytes in the
//! socket leave the processor's cache before they are sent.

use std::time::Duration;

use proto::limits::RECORD_PAYLOAD_MAX;
use units::{Bytes, Rate};

/// What is known of a stream's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Smallest round trip seen (`tcpi_min_rtt`); `None` before the first.
    pub min_rtt: Option<Duration>,
    /// The session's rate: its set point, or what it was measured to reach, whichever is known; `None`
    /// for neither.
    pub rate: Option<Rate>,
    /// Streams that share the rate.
    pub streams: u16,
}

/// What may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest buffer that the kernel grows by itself: the third number of `net.ipv4.tcp_wmem`.
    pub grown_max: Bytes,
    /// Largest buffer that can be asked for: `net.core.wmem_max`, or [`Bytes::MAX`] with CAP_NET_ADMIN,
    /// which `SO_SNDBUFFORCE` needs.
    pub asked_max: Bytes,
    /// All send buffers of the session together: its part of the host's budget.
    pub session_max: Bytes,
}

/// What to do with a stream's send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendBuffer {
    /// Leave it to the kernel, which grows it with the congestion window.
    Kernel,
    /// Ask for that many bytes. The kernel books twice as many for its own administration.
    Bytes(Bytes),
}

/// Below this round trip a path is within a site: a computer room, or one host.
pub const SHORT_PATH: Duration = Duration::from_millis(1);
/// Send buffer on a short path. Over a veth pair one stream reached 38 Gb/s with it and 24 Gb/s with
/// what the kernel had grown: what is in flight stays in the cache.
pub const SHORT_PATH_BUFFER: Bytes = Bytes::kib(512);
/// Times bandwidth × delay: one while data is in flight, one while a loss in it is repaired.
const FLIGHTS: u64 = 2;

/// Bytes that a stream holds at most which the kernel has not sent yet. They wait for nothing there: what is decided later
/// (another rate, another path) does not reach them, and when the stream's path dies they go over another one again. It is 0.3 ms
/// of 25 Gb/s, in which a thread has its turn.
pub const UNSENT_MAX: u32 = 1 << 20;
/// A stream that has begun sends so much a few round trips later.
const UNSENT_MIN: u32 = 128 << 10;
/// On a long path a stream holds what it sends in this time, which is longer than a busy host keeps a thread waiting: what a slow stream
/// holds of the last data is waited for, while others that would send it at once have nothing to do.
const UNSENT_TIME: Duration = Duration::from_millis(25);

/// What of [`UNSENT_MAX`] a stream on a long path is to hold that has a congestion window of so many bytes: a power of two, so that it
/// seldom changes.
#[must_use]
pub fn unsent(window_bytes: u64, rtt: Duration) -> u32 {
    let sent = u128::from(window_bytes) * UNSENT_TIME.as_micros() / rtt.as_micros().max(1);
    let sent = u32::try_from(sent).unwrap_or(u32::MAX);
    sent.clamp(UNSENT_MIN, UNSENT_MAX).next_power_of_two()
}

/// A stream of a far path has so many records in its congestion window,
const RECORDS_IN_FLIGHT: u64 = 16;
/// of at least so many bytes: less is no smaller part of what is sent twice when a path is cut.
const RECORD_MIN: u64 = 32 << 10;

/// Payload that a record on a far path should have at most, where streams have a congestion window of so many bytes in the mean. What has
/// come of a record when its stream is lost is sent again, half of one in the mean of each stream: with records of any length that was
/// a tenth of what was in flight (two paths of 500 Mb/s, 100 ms, 16 streams: 1.4 MB beside 12.8).
#[must_use]
pub fn record_payload(window_bytes: u64) -> usize {
    (window_bytes / RECORDS_IN_FLIGHT).clamp(RECORD_MIN, RECORD_PAYLOAD_MAX as u64) as usize
}

/// The send buffer of a stream.
///
/// - On a **short path** it is fixed at [`SHORT_PATH_BUFFER`], or at what the path needs if that is more.
/// - On a **long path** the kernel's own growth is right while it can grow far enough. If it cannot
///   (400 Gb/s × 100 ms in 16 streams need 625 MB each; `tcp_wmem` allows 4 MiB by default), the buffer
///   is fixed at what is needed, provided that this gets more than growth would.
/// - Nothing is fixed before the path is known.
///
/// What is fixed is at most the stream's part of the session's limit.
#[must_use]
pub fn send_buffer(path: &Path, limits: &Limits) -> SendBuffer {
    let Some(min_rtt) = path.min_rtt else {
        return SendBuffer::Kernel;
    };
    let streams = u64::from(path.streams.max(1));
    let needed = path.rate.map_or(Bytes::ZERO, |rate| {
        let flights = rate.in_flight(min_rtt).get().div_ceil(streams).saturating_mul(FLIGHTS);
        Bytes::new(flights)
    });
    let allowed = limits.asked_max.min(Bytes::new(limits.session_max.get() / streams));
    if min_rtt < SHORT_PATH {
        return SendBuffer::Bytes(needed.max(SHORT_PATH_BUFFER).min(allowed));
    }
    // The kernel's maximum is of booked bytes, half of which are data.
    let grown = Bytes::new(limits.grown_max.get() / 2);
    let got = needed.min(allowed);
    if needed > grown && got > grown { SendBuffer::Bytes(got) } else { SendBuffer::Kernel }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Linux's defaults, for an ordinary user and for one with CAP_NET_ADMIN.
    const USER: Limits = Limits { grown_max: Bytes::mib(4), asked_max: Bytes::kib(208), session_max: Bytes::gib(16) };
    const ADMIN: Limits = Limits { asked_max: Bytes::MAX, ..USER };

    fn path(rtt_us: u64, rate: Option<Rate>, streams: u16) -> Path {
        Path { min_rtt: Some(Duration::from_micros(rtt_us)), rate, streams }
    }

    #[test]
    fn by_hand() {
        use SendBuffer::{Bytes as Fixed, Kernel};
        let unknown = Path { min_rtt: None, ..path(0, Some(Rate::gbps(10)), 1) };
        let wide = Limits { grown_max: Bytes::gib(2), ..ADMIN };
        let table = [
            (unknown, ADMIN, Kernel, "nothing is known"),
            (path(50, None, 1), ADMIN, Fixed(Bytes::kib(512)), "one host"),
            (path(50, Some(Rate::gbps(32)), 1), ADMIN, Fixed(Bytes::kib(512)), "one host, 200 kB in flight"),
            (path(50, None, 1), USER, Fixed(Bytes::kib(208)), "all that an ordinary user may ask for"),
            (path(500, Some(Rate::gbps(400)), 16), ADMIN, Fixed(Bytes::new(3_125_000)), "a large computer room"),
            (path(100_000, None, 4), ADMIN, Kernel, "a long path of unknown rate"),
            (path(10_000, Some(Rate::gbps(1)), 2), ADMIN, Kernel, "1.25 MB: the kernel grows it"),
            (path(100_000, Some(Rate::gbps(400)), 16), ADMIN, Fixed(Bytes::new(625_000_000)), "the kernel cannot"),
            (path(100_000, Some(Rate::gbps(400)), 16), wide, Kernel, "here it can"),
            (path(100_000, Some(Rate::gbps(400)), 16), USER, Kernel, "growing gets more than asking"),
        ];
        for (path, limits, expected, why) in table {
            assert_eq!(send_buffer(&path, &limits), expected, "{why}");
        }
    }

    #[test]
    fn what_is_not_sent_yet_is_soon() {
        let rtt = Duration::from_millis(100);
        for (window, expected) in
            [(14_480, UNSENT_MIN), (524_288, UNSENT_MIN), (1 << 20, 256 << 10), (1_500_000, 512 << 10)]
        {
            assert_eq!(unsent(window, rtt), expected, "{window} bytes in flight");
        }
        assert_eq!(unsent(156_000_000, rtt), UNSENT_MAX, "12 Gb/s");
        assert_eq!(unsent(u64::MAX, Duration::ZERO), UNSENT_MAX);
    }

    #[test]
    fn a_record_is_a_small_part_of_what_is_in_flight() {
        for (window, payload) in
            [(0, 32 << 10), (1 << 20, 64 << 10), (2 << 20, 128 << 10), (u64::MAX, RECORD_PAYLOAD_MAX)]
        {
            assert_eq!(record_payload(window), payload, "{window} bytes in flight");
        }
    }

    #[test]
    fn a_session_keeps_to_its_limit() {
        let limits = Limits { session_max: Bytes::mib(64), ..ADMIN };
        let long = path(100_000, Some(Rate::gbps(100)), 4);
        assert_eq!(send_buffer(&long, &limits), SendBuffer::Bytes(Bytes::mib(16)));
        let small = Limits { session_max: Bytes::mib(1), ..ADMIN };
        assert_eq!(send_buffer(&path(50, None, 16), &small), SendBuffer::Bytes(Bytes::kib(64)));
    }

    proptest! {
        #[test]
        fn bounded_by_the_flight_and_the_limits(rtt_us in 0..10_000_000_u64, bps: u64, streams: u16, asked: u64, session: u64, grown: u64) {
            let limits = Limits { grown_max: Bytes::new(grown), asked_max: Bytes::new(asked), session_max: Bytes::new(session) };
            let path = path(rtt_us, Some(Rate::from_bps(bps)), streams);
            if let SendBuffer::Bytes(bytes) = send_buffer(&path, &limits) {
                let all = bytes.saturating_mul(u64::from(streams.max(1)));
                prop_assert!(bytes <= limits.asked_max && all <= limits.session_max);
                let flight = Rate::from_bps(bps).in_flight(Duration::from_micros(rtt_us)).get() / u64::from(streams.max(1)) + 1;
                prop_assert!(bytes.get() <= flight.saturating_mul(2).max(SHORT_PATH_BUFFER.get()));
            }
        }
    }
}
