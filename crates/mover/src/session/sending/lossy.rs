//! A path that loses packets without being full: its streams go over to BBR, are held to what they deliver together, and begin again one
//! after the other.

use std::os::fd::AsFd;
use std::time::Duration;

use proto::control::Congestion;
use sys::socket::TcpInfo;

use crate::control::bound::{self, Bound};
use crate::control::congestion::{self, Losses};
use crate::control::pace::Reading;
use crate::control::turns::Turns;
use crate::net::tune::{self, Choice};
use crate::session::streams::Streams;

/// What is known of the path's losses, and what is done about them.
#[derive(Default)]
pub(super) struct LossyPath {
    losses: Losses,
    bound: Bound,
    turns: Turns,
    is_lossy: bool,
    /// And the kernel let the streams have BBR.
    has_bbr: bool,
    /// What the streams were switched to, until it is told.
    switched: Option<Congestion>,
}

impl LossyPath {
    /// Whether streams have gone over to BBR, where they can.
    pub(super) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// What the streams were switched to, once.
    pub(super) fn take_switched(&mut self) -> Option<Congestion> {
        self.switched.take()
    }

    /// Takes a look at the streams if it is time for one; whether the path has turned out to be lossy now. Streams that have a set point are
    /// not held to anything else.
    pub(super) fn look(&mut self, now: Duration, streams: &Streams, has_set_point: bool) -> bool {
        let (losses_due, bound_due) = (!self.is_lossy && self.losses.is_due(now), self.bound.is_due(now));
        if !losses_due && !bound_due {
            return false;
        }
        let infos: Vec<_> = streams.infos().collect();
        if bound_due {
            let readings: Vec<_> = infos.iter().map(|(stream, info)| bound_reading(*stream, info)).collect();
            self.hold(now, streams, &readings, has_set_point);
        }
        let looks = || infos.iter().map(|(stream, info)| look(*stream, info)).collect::<Vec<_>>();
        let turns_out = losses_due && self.losses.look(now, &looks());
        if turns_out {
            self.is_lossy = true;
            let rtt = self.losses.min_rtt();
            let switch = |socket: &std::net::TcpStream| tune::congestion(socket.as_fd(), Choice::Lossy, rtt);
            self.switched = streams.live().map(|(_, live)| switch(&live.socket)).last();
            self.has_bbr = self.switched.as_ref().is_some_and(|now| now.name.as_deref() == Some("bbr"));
            if self.has_bbr {
                self.bound.begin();
            }
        }
        turns_out
    }

    /// Holds the streams together, and gives one its turn.
    fn hold(&mut self, now: Duration, streams: &Streams, readings: &[bound::Reading], has_set_point: bool) {
        if has_set_point {
            // What it held the streams to is no more.
            self.bound.free();
        }
        let parts = self.bound.look(now, readings);
        for (stream, rate) in parts.into_iter().filter(|_| !has_set_point) {
            let Some(live) = streams.get(stream) else { continue };
            if let Err(error) = sys::socket::set_max_pacing_rate(live.socket.as_fd(), rate.unwrap_or(u64::MAX)) {
                tracing::debug!(%error, "setting the pacing rate");
            }
        }
        if !self.has_bbr {
            return;
        }
        if let Some(live) = self.turns.look(now, readings).and_then(|stream| streams.get(stream)) {
            tune::begin_again(live.socket.as_fd());
        }
    }
}

/// What a stream shows of losses.
fn look(stream: u16, info: &TcpInfo) -> congestion::Look {
    let TcpInfo { rtt_us, min_rtt_us, .. } = *info;
    congestion::Look { stream, lost: info.segments_lost(), rtt_us, min_rtt_us }
}

/// What it shows for what all may send together.
fn bound_reading(stream: u16, info: &TcpInfo) -> bound::Reading {
    let in_flight = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
    let TcpInfo { notsent_bytes, snd_cwnd, pacing_rate, max_pacing_rate, .. } = *info;
    bound::Reading {
        stream,
        sent: info.data_segs_out,
        resent: info.total_retrans,
        delivered: info.delivered,
        mss_bytes: info.snd_mss,
        rtt_us: info.rtt_us,
        min_rtt_us: info.min_rtt_us,
        is_held: Reading::pacing_is_the_limit(notsent_bytes, in_flight, snd_cwnd, pacing_rate, max_pacing_rate),
    }
}
