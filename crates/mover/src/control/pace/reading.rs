//! What is read of a stream at each tick.

use units::{Bytes, WireOverhead};

/// Counters and state of one stream.
///
/// From `tcp_info`: `sent_bytes` is `bytes_sent`, `retransmitted_bytes` is `bytes_retrans`, `mss_bytes` is
/// `snd_mss`, `waiting_bytes` is `notsent_bytes`. Kernels before 4.19 lack the first two: there
/// `total_retrans × snd_mss` are the retransmitted bytes, and these with `bytes_acked` the sent ones. That
/// lags by a round trip and comes in bursts, so corrections are coarser.
///
/// Bytes sent are preferred to bytes acknowledged because the set point is about the wire now: an
/// acknowledgement that fills a hole counts bytes that left long before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Number of the stream in the session.
    pub stream: u16,
    /// Payload sent since the connection began, retransmissions included.
    pub sent_bytes: u64,
    /// Payload sent again since the connection began.
    pub retransmitted_bytes: u64,
    /// Packets with payload sent since the connection began, retransmissions included, modulo 2^32: `data_segs_out`.
    /// Records end in short packets, so there are more of them than payload over MSS. Where it stays 0 (kernels
    /// before 4.6) full segments are assumed.
    pub packets: u32,
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// Headers of a segment: [`units::TCP4_HEADER_BYTES`] or [`units::TCP6_HEADER_BYTES`].
    pub header_bytes: u32,
    /// Payload that waits in the socket to be sent for the first time: `notsent_bytes`.
    pub waiting_bytes: u64,
    /// It has something to send: with the sender, or waiting in the socket.
    pub backlog: bool,
    /// Only pacing holds it back; see [`rate_limited`](Reading::rate_limited).
    pub rate_limited: bool,
}

/// Smallest MSS that Linux works with (`TCP_MIN_MSS`).
const MSS_BYTES_MIN: u32 = 88;
/// Fewer say little about those to come.
const PACKETS_MIN: u64 = 16;
/// Packets that the kernel sends together at low rates (`tcp_min_tso_segs`).
const STEP_PACKETS: u64 = 2;
/// Lowest pacing is one step in this part of a second. A step sent at a rate delays the next one by its
/// length over that rate, also when the rate is raised meanwhile: this bounds it to 200 ms.
const STEPS_PER_SECOND_MIN: u64 = 5;

impl Reading {
    /// Whether pacing alone holds a stream back, from `tcp_info`: data wait in the socket
    /// (`notsent_bytes`), the congestion window has room (`in_flight` is
    /// `unacked - sacked - lost + retrans` segments, `snd_cwnd` the window), and the kernel paces at
    /// the limit set (`pacing_rate`, `max_pacing_rate`) rather than at its congestion control's rate.
    #[must_use]
    pub fn pacing_is_the_limit(
        notsent_bytes: u32,
        in_flight: u32,
        snd_cwnd: u32,
        pacing_rate: u64,
        max_pacing_rate: u64,
    ) -> bool {
        notsent_bytes > 0 && in_flight < snd_cwnd && pacing_rate >= max_pacing_rate
    }

    pub(super) fn overhead(&self) -> WireOverhead {
        let mss_bytes = self.mss_bytes.max(MSS_BYTES_MIN);
        WireOverhead::from_mss(mss_bytes, self.header_bytes).unwrap_or(WireOverhead::NONE)
    }

    /// Headers as they were since an earlier reading, or of full segments if little was sent since.
    pub(super) fn overhead_since(&self, before: &Reading) -> WireOverhead {
        let packets = u64::from(self.packets.wrapping_sub(before.packets));
        let payload = Bytes::new(self.sent_bytes.saturating_sub(before.sent_bytes));
        if packets < PACKETS_MIN {
            return self.overhead();
        }
        let wire = payload + Bytes::new(packets * u64::from(self.header_bytes));
        WireOverhead::measured(wire, payload, payload).unwrap_or_else(|| self.overhead())
    }

    /// Bits on the wire that one step of pacing releases at low rates.
    pub(super) fn step_bits(&self) -> u64 {
        let packet_bytes = u64::from(self.mss_bytes.max(MSS_BYTES_MIN)) + u64::from(self.header_bytes);
        packet_bytes * STEP_PACKETS * 8
    }

    /// Lowest pacing, in payload bytes per second.
    pub(super) fn pacing_min(&self) -> u64 {
        u64::from(self.mss_bytes.max(MSS_BYTES_MIN)) * STEP_PACKETS * STEPS_PER_SECOND_MIN
    }
}
