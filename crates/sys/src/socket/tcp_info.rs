//! What the kernel knows about a connection.

use std::io;
use std::os::fd::AsFd;

use super::raw::get_bytes;

/// Room for `struct tcp_info` of kernels to come; 6.18 has 280 bytes.
const SPACE_BYTES: usize = 512;

/// A connection's state, by its kernel number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpState {
    /// Data flows both ways.
    Established,
    /// Connecting.
    SynSent,
    /// Being accepted.
    SynReceived,
    /// Closed here; data may be unacknowledged.
    FinWait1,
    /// Closed here and acknowledged.
    FinWait2,
    /// Over; waiting for stray segments.
    TimeWait,
    /// Not connected.
    #[default]
    Closed,
    /// Closed by the peer.
    CloseWait,
    /// Closed by both; the last acknowledgement is missing.
    LastAck,
    /// A listener.
    Listen,
    /// Closed by both at once.
    Closing,
    /// A number this version does not know.
    Other(u8),
}

impl TcpState {
    fn new(number: u8) -> TcpState {
        match number {
            1 => TcpState::Established,
            2 => TcpState::SynSent,
            3 | 12 => TcpState::SynReceived,
            4 => TcpState::FinWait1,
            5 => TcpState::FinWait2,
            6 => TcpState::TimeWait,
            7 => TcpState::Closed,
            8 => TcpState::CloseWait,
            9 => TcpState::LastAck,
            10 => TcpState::Listen,
            11 => TcpState::Closing,
            other => TcpState::Other(other),
        }
    }
}

/// `struct tcp_info`. Times are microseconds, rates bytes per second, windows of the sender
/// segments, everything else bytes or counts since the connection began.
///
/// A kernel older than a field leaves it 0; [`TcpInfo::known_bytes`] tells which that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// How much of the structure the kernel filled: 192 bytes (Linux 4.10) cover everything up to
    /// [`sndbuf_limited_us`](TcpInfo::sndbuf_limited_us), 216 (4.19) the bytes sent and
    /// retransmitted, 232 (5.4) [`snd_wnd`](TcpInfo::snd_wnd).
    pub known_bytes: u16,
    /// The connection's state.
    pub state: TcpState,
    /// Congestion avoidance: 0 open, 1 disorder, 2 window reduced, 3 recovering, 4 after a timeout.
    pub ca_state: u8,
    /// Timeouts in a row of the segment that waits.
    pub retransmits: u8,
    /// The delivery rate was bounded by the application, not the path.
    pub delivery_rate_app_limited: bool,
    /// Shift of the windows we announce.
    pub rcv_wscale: u8,
    /// Shift of the windows the peer announces.
    pub snd_wscale: u8,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Payload of the segments we send.
    pub snd_mss: u32,
    /// Payload of the segments we get, estimated.
    pub rcv_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments acknowledged out of order.
    pub sacked: u32,
    /// Segments taken for lost.
    pub lost: u32,
    /// Retransmitted segments in flight.
    pub retrans: u32,
    /// Largest packet the path takes.
    pub pmtu: u32,
    /// Round trip, smoothed.
    pub rtt_us: u32,
    /// Its mean deviation.
    pub rttvar_us: u32,
    /// Smallest round trip seen; `u32::MAX` before the first.
    pub min_rtt_us: u32,
    /// Slow-start threshold in segments; at or above 0x7fff_ffff none was set.
    pub snd_ssthresh: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segment size we announced.
    pub advmss: u32,
    /// How far segments may overtake each other before one counts as lost.
    pub reordering: u32,
    /// Round trip as the receiver sees it; 0 if it never could.
    pub rcv_rtt_us: u32,
    /// What the application reads in a round trip, the goal of buffer growth, in bytes.
    pub rcv_space: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// Rate the kernel paces at now; `u64::MAX` without pacing.
    pub pacing_rate: u64,
    /// Limit set by [`set_max_pacing_rate`](super::set_max_pacing_rate).
    pub max_pacing_rate: u64,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Segments received.
    pub segs_in: u32,
    /// Bytes in the socket not sent for the first time.
    pub notsent_bytes: u32,
    /// Data segments received.
    pub data_segs_in: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Latest rate at which the peer got data.
    pub delivery_rate: u64,
    /// Time with something to send.
    pub busy_time_us: u64,
    /// Part of it bounded by the receiver's window.
    pub rwnd_limited_us: u64,
    /// Part of it bounded by the send buffer.
    pub sndbuf_limited_us: u64,
    /// Segments delivered.
    pub delivered: u32,
    /// Segments delivered with a congestion mark.
    pub delivered_ce: u32,
    /// Bytes sent, with retransmissions.
    pub bytes_sent: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Duplicates the peer reported.
    pub dsack_dups: u32,
    /// Reorderings seen.
    pub reord_seen: u32,
    /// Segments received out of order.
    pub rcv_ooopack: u32,
    /// Window the peer announces, in bytes.
    pub snd_wnd: u32,
    /// Window we announce, in bytes (Linux 6.2).
    pub rcv_wnd: u32,
}

impl TcpInfo {
    /// Segments that were lost: sent again, less those that the peer says it had already (DSACK, RFC 2883). The kernel sends again what is late
    /// too, the last segment before a pause above all (tail loss probe, RFC 8985): a receiver that was not scheduled is no path that loses.
    #[must_use]
    pub fn segments_lost(&self) -> u32 {
        self.total_retrans.saturating_sub(self.dsack_dups)
    }

    /// Reads as much of the structure as there is.
    ///
    /// The offsets are those of `linux/tcp.h`, which only grows at its end.
    pub fn parse(bytes: &[u8]) -> TcpInfo {
        let u8_at = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let u32_at = |at: usize| field(bytes, at).map_or(0, u32::from_ne_bytes);
        let u64_at = |at: usize| field(bytes, at).map_or(0, u64::from_ne_bytes);
        // Two bit fields share a byte; which end comes first depends on the machine.
        let low_first = |byte: u8| {
            if cfg!(target_endian = "little") { byte & 15 } else { byte >> 4 }
        };
        let high_last = |byte: u8| {
            if cfg!(target_endian = "little") { byte >> 4 } else { byte & 15 }
        };
        let app_limited = if cfg!(target_endian = "little") { 1 } else { 0x80 };
        TcpInfo {
            known_bytes: bytes.len().min(SPACE_BYTES) as u16,
            state: TcpState::new(u8_at(0)),
            ca_state: u8_at(1),
            retransmits: u8_at(2),
            snd_wscale: low_first(u8_at(6)),
            rcv_wscale: high_last(u8_at(6)),
            delivery_rate_app_limited: u8_at(7) & app_limited != 0,
            rto_us: u32_at(8),
            snd_mss: u32_at(16),
            rcv_mss: u32_at(20),
            unacked: u32_at(24),
            sacked: u32_at(28),
            lost: u32_at(32),
            retrans: u32_at(36),
            pmtu: u32_at(60),
            rtt_us: u32_at(68),
            rttvar_us: u32_at(72),
            snd_ssthresh: u32_at(76),
            snd_cwnd: u32_at(80),
            advmss: u32_at(84),
            reordering: u32_at(88),
            rcv_rtt_us: u32_at(92),
            rcv_space: u32_at(96),
            total_retrans: u32_at(100),
            pacing_rate: u64_at(104),
            max_pacing_rate: u64_at(112),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            segs_out: u32_at(136),
            segs_in: u32_at(140),
            notsent_bytes: u32_at(144),
            min_rtt_us: u32_at(148),
            data_segs_in: u32_at(152),
            data_segs_out: u32_at(156),
            delivery_rate: u64_at(160),
            busy_time_us: u64_at(168),
            rwnd_limited_us: u64_at(176),
            sndbuf_limited_us: u64_at(184),
            delivered: u32_at(192),
            delivered_ce: u32_at(196),
            bytes_sent: u64_at(200),
            bytes_retrans: u64_at(208),
            dsack_dups: u32_at(216),
            reord_seen: u32_at(220),
            rcv_ooopack: u32_at(224),
            snd_wnd: u32_at(228),
            rcv_wnd: u32_at(232),
        }
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// What the kernel knows about this connection now: one system call, no allocation.
///
/// # Errors
///
/// `ENOPROTOOPT` when it is no TCP socket.
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    let mut space = [0; SPACE_BYTES];
    let len = get_bytes(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut space)?;
    Ok(TcpInfo::parse(&space[..len]))
}
