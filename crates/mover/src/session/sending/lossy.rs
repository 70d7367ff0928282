//! A path that loses packets without being full: its streams step aside to see whether it is, go over to BBR, are held to what they deliver
//! together, and begin again one after the other. Where a session goes over several paths, each is one for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use proto::control::Congestion;
use sys::socket::TcpInfo;

use crate::control::bound::{self, Bound};
use crate::control::congestion::{self, Losses};
use crate::control::doubt::{self, Doubt};
use crate::control::pace::Reading;
use crate::control::turns::Turns;
use crate::net::tune::{self, Choice};
use crate::session::streams::{Live, Streams};

/// What is known of the losses of a session's paths, and what is done about them.
#[derive(Default)]
pub(super) struct LossyPaths {
    /// By their places in the session; at most [`PATHS_MAX`](crate::session::streams::PATHS_MAX).
    paths: BTreeMap<usize, LossyPath>,
    /// What the streams of the latest were switched to, until it is told.
    switched: Option<Congestion>,
}

/// The same of one path.
#[derive(Default)]
struct LossyPath {
    losses: Losses,
    /// Its streams step aside before they go over.
    doubt: Option<Doubt>,
    /// What the least round trip was at most since a queue was found, or since the begin, µs.
    once_us: u64,
    bound: Bound,
    turns: Turns,
    is_lossy: bool,
    /// And the kernel let the streams have BBR.
    has_bbr: bool,
}

/// What the session is about, as far as it bears on its paths.
#[derive(Clone, Copy)]
pub(super) struct About {
    /// Its streams have a set point, and are not held to anything else.
    pub has_set_point: bool,
    /// It is over before stepping aside pays.
    pub ends_soon: bool,
}

/// A stream, by its number, and what its socket says.
type Stream<'a> = (u16, &'a TcpStream, TcpInfo);

impl LossyPaths {
    /// Whether the streams of a path have gone over to BBR, where they can.
    pub(super) fn is_lossy(&self, path: usize) -> bool {
        self.paths.get(&path).is_some_and(|path| path.is_lossy)
    }

    /// What streams were switched to, once.
    pub(super) fn take_switched(&mut self) -> Option<Congestion> {
        self.switched.take()
    }

    /// Takes a look at the streams of each path if it is time for one; whether a path has turned out to be lossy now.
    pub(super) fn look(&mut self, now: Duration, streams: &Streams, about: About) -> bool {
        let live: BTreeSet<_> = streams.live().map(|(_, live)| live.path).collect();
        let mut turns_out = false;
        for n in live {
            let path = self.paths.entry(n).or_default();
            if !path.is_due(now) {
                continue;
            }
            let of_path: Vec<_> = streams.live().filter(|(_, live)| live.path == n).filter_map(read).collect();
            if let Some(switched) = path.look(now, &of_path, about) {
                self.switched = Some(switched);
                turns_out = true;
            }
        }
        turns_out
    }
}

impl LossyPath {
    fn losses_are_due(&self, now: Duration) -> bool {
        !self.is_lossy && self.doubt.map_or_else(|| self.losses.is_due(now), |doubt| doubt.is_due(now))
    }

    fn is_due(&self, now: Duration) -> bool {
        self.losses_are_due(now) || self.bound.is_due(now)
    }

    /// Takes a look at its streams; gives what they were switched to if it has turned out to be lossy now.
    fn look(&mut self, now: Duration, streams: &[Stream<'_>], about: About) -> Option<Congestion> {
        let losses_due = self.losses_are_due(now);
        if self.bound.is_due(now) {
            self.hold(now, streams, about.has_set_point);
        }
        if !losses_due || !self.turns_out(now, streams, about) {
            return None;
        }
        self.is_lossy = true;
        let rtt = self.losses.min_rtt();
        let mut switched = None;
        for (_, socket, _) in streams {
            switched = Some(tune::congestion(socket.as_fd(), Choice::Lossy, rtt));
        }
        let switched = switched?;
        self.has_bbr = switched.name.as_deref() == Some("bbr");
        if self.has_bbr {
            self.bound.begin();
        }
        Some(switched)
    }

    /// Whether the path turns out to lose packets without being full. Streams that have a set point do not step aside for it: they keep to that.
    /// Those that soon have nothing more to send go on as they are.
    fn turns_out(&mut self, now: Duration, streams: &[Stream<'_>], about: About) -> bool {
        let About { has_set_point, ends_soon } = about;
        let looks: Vec<_> = streams.iter().map(|(id, _, info)| look(*id, info)).collect();
        if let Some(mut doubt) = self.doubt {
            if doubt.go_on() && !has_set_point {
                streams.iter().for_each(|(_, socket, _)| pace(socket, None));
            }
            self.doubt = Some(doubt).filter(|doubt| !doubt.is_over(now));
            if self.doubt.is_some() {
                return false;
            }
            let was_queue = doubt.was_queue(&looks);
            tracing::debug!(was_queue, "stepped aside");
            if was_queue {
                self.losses.forget(now);
                self.once_us = 0;
            }
            return !was_queue;
        }
        let least_us = doubt::least(&looks);
        // The greatest number is that of streams that do not know theirs yet.
        if least_us < u64::from(u32::MAX) {
            self.once_us = self.once_us.max(least_us);
        }
        let seems = self.losses.look(now, &looks);
        if !seems || has_set_point {
            return seems;
        }
        if ends_soon {
            return false;
        }
        for (_, socket, info) in streams {
            pace(socket, Some(Doubt::rate(info.pacing_rate, info.snd_mss, info.rtt_us)));
        }
        self.doubt = Some(Doubt::begin(now, &looks, self.once_us));
        false
    }

    /// Holds the streams together, and gives one its turn.
    fn hold(&mut self, now: Duration, streams: &[Stream<'_>], has_set_point: bool) {
        if has_set_point {
            // What it held the streams to is no more.
            self.bound.free();
        }
        let readings: Vec<_> = streams.iter().map(|(id, _, info)| bound_reading(*id, info)).collect();
        let socket = |id: u16| streams.iter().find(|stream| stream.0 == id).map(|stream| stream.1.as_fd());
        let parts = self.bound.look(now, &readings);
        for (id, rate) in parts.into_iter().filter(|_| !has_set_point) {
            let Some(socket) = socket(id) else { continue };
            pace(&socket, rate);
        }
        if !self.has_bbr {
            return;
        }
        if let Some(socket) = self.turns.look(now, &readings).and_then(socket) {
            tune::begin_again(socket);
        }
    }
}

/// Has the kernel hold a stream to so many bytes/s, or to nothing.
fn pace(socket: &impl AsFd, bytes_per_s: Option<u64>) {
    if let Err(error) = sys::socket::set_max_pacing_rate(socket.as_fd(), bytes_per_s.unwrap_or(u64::MAX)) {
        tracing::debug!(%error, "setting the pacing rate");
    }
}

fn read((id, live): (u16, &Live)) -> Option<Stream<'_>> {
    Some((id, &live.socket, sys::socket::tcp_info(live.socket.as_fd()).ok()?))
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

#[cfg(test)]
mod tests;
