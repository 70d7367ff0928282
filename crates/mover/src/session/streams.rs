//! The data streams of a session: opened, counted, watched, replaced.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::control::Settings;
use proto::hello::{SessionId, SessionKey};
use sys::socket::TcpInfo;
use tokio::sync::mpsc;

use super::SessionError;
use super::addresses::{Addresses, RETRY};
use crate::net::Opened;
use crate::net::ahead::Ahead;
use crate::net::open::{OPEN_TIMEOUT, OpenError, dial};
use crate::way::Way;

/// Streams being opened at once: all that a long path begins with.
const PENDING_MAX: usize = 16;
/// Attempts to open a stream while none is open, before the session gives up.
const FAILURES_MAX: u32 = 6;
/// Paths that are told apart; the streams of further ones count with the last.
pub const PATHS_MAX: usize = 64;
/// How long an attempt on an address may take that was dead a moment ago: a packet that is lost is sent again after a
/// second, and one that is sent after the address has come back is answered.
const TRIAL: Duration = Duration::from_millis(2500);

/// How streams come to a session.
pub enum Ways {
    /// This end connects, over these ways.
    Dial {
        /// To the other end.
        to: Vec<Way>,
        /// Connections that were made ahead for the first streams.
        ahead: Vec<Ahead>,
        /// The ways are liked in their order; else all are used.
        in_order: bool,
    },
    /// The other end connects; the accepting port hands them on.
    Wait(mpsc::Receiver<Opened>),
}

impl Ways {
    /// No way: what stands where one was taken from.
    #[must_use]
    pub fn nowhere() -> Ways {
        Ways::Dial { to: Vec::new(), ahead: Vec::new(), in_order: false }
    }
}

/// The same, with what is known of the addresses.
enum Source {
    Dial(Addresses),
    Wait(mpsc::Receiver<Opened>),
}

/// What came of an attempt to open a stream, and over which address.
type Attempt = (usize, Result<Opened, OpenError>);

/// What tells the path of a stream from others: this end's way, or the addresses if the other end connected.
#[derive(Debug, PartialEq, Eq)]
enum Path {
    Way(usize),
    Between(Option<IpAddr>, Option<IpAddr>),
}

/// A stream that is open.
pub struct Live {
    /// Its socket.
    pub socket: Arc<TcpStream>,
    /// The sample before.
    before: TcpInfo,
    /// The latest sample.
    pub info: TcpInfo,
    /// Which of the addresses it goes over, if this end connected.
    way: Option<usize>,
    /// Which of the session's paths it goes over, less than [`PATHS_MAX`].
    pub path: usize,
    /// Nothing comes back on it, or its path is left, and it is being given up.
    stalled: bool,
    /// It goes over a path that works and is to be left, as soon as there is a stream over another.
    leaving: bool,
    /// Payload of the parcels that it took, bytes.
    pub taken: u64,
}

impl Live {
    /// Whether it is one of the streams that are wanted; else another takes its place.
    fn stays(&self) -> bool {
        !self.stalled && !self.leaving
    }
}

/// The streams of a session.
pub struct Streams {
    source: Source,
    /// Connections made ahead, until streams are opened for the first time.
    ahead: Vec<Ahead>,
    session: SessionId,
    key: SessionKey,
    settings: Settings,
    arrive: mpsc::Sender<Attempt>,
    arrivals: mpsc::Receiver<Attempt>,
    live: BTreeMap<u16, Live>,
    /// Those that streams went over, by their places.
    paths: Vec<Path>,
    pending: usize,
    /// Streams that this end wants open, if it connects.
    pub wanted: u16,
    next_id: u16,
    failures: u32,
    last_failure: String,
    /// The control connection works.
    is_heard: bool,
    /// Streams that ended otherwise than in good order.
    lost: u32,
    /// Segments sent again on streams that are closed.
    closed_retransmits: u64,
    /// What streams that were closed did since the last sample.
    ended: Sample,
}

/// What all streams together did between two samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Streams open.
    pub streams: u16,
    /// Streams lost since the session's begin.
    pub lost: u32,
    /// Segments sent again since the session's begin.
    pub retransmits: u64,
    /// Segments lost in the interval.
    pub segments_lost: u64,
    /// Segments sent in the interval.
    pub segments: u64,
    /// Mean smoothed round trip, µs.
    pub rtt_us: u64,
    /// Least round trip of the path that a stream goes over, mean over the streams, µs.
    pub min_rtt_us: u64,
    /// Sum of congestion windows, bytes.
    pub cwnd_bytes: u64,
    /// Streams that were open in the interval.
    pub seen: u64,
    /// Sums over streams in the interval, µs.
    pub busy_us: u64,
    /// Waiting for the receiver's window.
    pub rwnd_limited_us: u64,
    /// Waiting for room in the send buffer.
    pub sndbuf_limited_us: u64,
    /// Payload bytes acknowledged in the interval.
    pub acked: u64,
    /// Segment size of the path, bytes.
    pub mss: u32,
}

impl Live {
    /// Reads the socket. One that is closed has its last numbers.
    fn look(&mut self) {
        if let Ok(info) = sys::socket::tcp_info(self.socket.as_fd()) {
            self.before = std::mem::replace(&mut self.info, info);
        }
    }
}

impl Sample {
    /// Segments lost in the interval, in a million of those sent.
    #[must_use]
    pub fn loss_ppm(&self) -> u32 {
        (self.segments_lost.saturating_mul(1_000_000) / self.segments.max(1)).min(1_000_000) as u32
    }

    /// Adds what a stream did between its last two looks.
    fn add(&mut self, live: &Live) {
        let (now, was) = (&live.info, &live.before);
        self.seen += 1;
        self.mss = now.snd_mss;
        self.segments_lost += u64::from(now.segments_lost().saturating_sub(was.segments_lost()));
        self.segments += u64::from(now.segs_out.wrapping_sub(was.segs_out));
        self.busy_us += now.busy_time_us.saturating_sub(was.busy_time_us);
        self.rwnd_limited_us += now.rwnd_limited_us.saturating_sub(was.rwnd_limited_us);
        self.sndbuf_limited_us += now.sndbuf_limited_us.saturating_sub(was.sndbuf_limited_us);
        self.acked += now.bytes_acked.saturating_sub(was.bytes_acked);
    }
}

impl Streams {
    /// No stream yet; `wanted` will be opened if this end connects.
    #[must_use]
    pub fn new(ways: Ways, session: SessionId, key: SessionKey, settings: Settings, wanted: u16) -> Streams {
        let (arrive, arrivals) = mpsc::channel(PENDING_MAX);
        let (source, ahead) = match ways {
            Ways::Dial { to, ahead, in_order } => (Source::Dial(Addresses::new(&to, in_order)), ahead),
            Ways::Wait(arrivals) => (Source::Wait(arrivals), Vec::new()),
        };
        Streams {
            source,
            ahead,
            session,
            key,
            settings,
            arrive,
            arrivals,
            live: BTreeMap::new(),
            paths: Vec::new(),
            pending: 0,
            wanted,
            next_id: 0,
            failures: 0,
            last_failure: String::new(),
            is_heard: true,
            lost: 0,
            closed_retransmits: 0,
            ended: Sample::default(),
        }
    }

    /// True if this end connects.
    #[must_use]
    pub fn dials(&self) -> bool {
        matches!(self.source, Source::Dial(_))
    }

    /// The next stream that is open. Cancel safe.
    pub async fn next(&mut self) -> Opened {
        loop {
            match &mut self.source {
                Source::Wait(arrivals) => match arrivals.recv().await {
                    Some(opened) => return self.enter(opened, None),
                    None => std::future::pending::<()>().await,
                },
                Source::Dial(addresses) => {
                    let (way, arrived) = self.arrivals.recv().await.expect("this end holds a sender");
                    self.pending -= 1;
                    match arrived {
                        Ok(opened) => {
                            self.failures = 0;
                            addresses.opened(way);
                            return self.enter(opened, Some(way));
                        }
                        Err(error) => {
                            let is_news = !addresses.is_bad(way);
                            addresses.refused(way, Instant::now());
                            self.failures += u32::from(self.live.is_empty() && self.is_heard);
                            self.last_failure = super::chain(&error);
                            if is_news {
                                tracing::warn!(error = %self.last_failure, "a data stream could not be opened");
                            }
                        }
                    }
                }
            }
        }
    }

    fn enter(&mut self, opened: Opened, way: Option<usize>) -> Opened {
        let info = sys::socket::tcp_info(opened.socket.as_fd()).unwrap_or_default();
        let socket = opened.socket.clone();
        let path = self.path(way, &socket);
        let live = Live { socket, before: info, info, way, path, stalled: false, leaving: false, taken: 0 };
        self.live.insert(opened.id, live);
        opened
    }

    /// Place of the path that a socket goes over.
    fn path(&mut self, way: Option<usize>, socket: &TcpStream) -> usize {
        let ip = |address: std::io::Result<SocketAddr>| address.ok().map(|address| address.ip());
        let path = way.map_or_else(|| Path::Between(ip(socket.local_addr()), ip(socket.peer_addr())), Path::Way);
        if let Some(n) = self.paths.iter().position(|known| *known == path) {
            return n;
        }
        if self.paths.len() < PATHS_MAX {
            self.paths.push(path);
        }
        self.paths.len() - 1
    }

    /// Opens what is missing, if this end connects, and tries again what was dead.
    ///
    /// # Errors
    /// When none is open and opening fails again and again, though the other end is heard: else no path to it works, and
    /// the control connection says how long that is waited for.
    pub fn maintain(&mut self, now: Instant, is_heard: bool) -> Result<(), SessionError> {
        self.is_heard = is_heard;
        let Source::Dial(addresses) = &mut self.source else { return Ok(()) };
        if self.live.is_empty() && self.failures >= FAILURES_MAX {
            return Err(SessionError::Streams(self.last_failure.clone()));
        }
        while self.pending < PENDING_MAX {
            let alive = self.live.values().filter(|live| live.stays()).count();
            let missing = alive + self.pending < usize::from(self.wanted);
            let Some((n, way)) = addresses.next(now, missing) else { break };
            let patience = if addresses.is_bad(n) { TRIAL } else { OPEN_TIMEOUT };
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            let (session, key, settings, arrive) =
                (self.session, self.key.clone(), self.settings.clone(), self.arrive.clone());
            let ahead = Ahead::take(&mut self.ahead, id, way);
            self.pending += 1;
            tokio::spawn(async move {
                let opened = tokio::time::timeout(patience, dial(way, &settings, session, key, id, ahead)).await;
                let _ = arrive.send((n, opened.unwrap_or(Err(OpenError::Timeout(way.to))))).await;
            });
        }
        self.ahead.clear();
        Ok(())
    }

    /// A stream is closed; `why` if not in good order.
    pub fn closed(&mut self, id: u16, mut why: Option<&str>) {
        if let Some(mut live) = self.live.remove(&id) {
            // It was left of our own accord; its path works.
            why = why.filter(|_| !live.leaving);
            live.look();
            self.ended.add(&live);
            self.closed_retransmits += u64::from(live.info.total_retrans);
            if let (Some(way), Source::Dial(addresses)) = (live.way, &mut self.source) {
                let pause = if live.stalled { RETRY } else { RETRY / 4 };
                addresses.closed(way, why.map(|_| pause), Instant::now());
            }
        }
        if let Some(why) = why {
            tracing::warn!(stream = id, why, "a data stream was lost");
            self.lost += 1;
        }
    }

    /// Nothing comes back on a stream: it is to be given up if `others_get_on`, or there is another address to try. Whether
    /// it is.
    pub fn give_up(&mut self, id: u16, others_get_on: bool) -> bool {
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.stalled) else { return false };
        let elsewhere = match (&self.source, live.way) {
            (Source::Dial(addresses), Some(way)) => addresses.has_another(way),
            _ => false,
        };
        live.stalled = others_get_on || elsewhere;
        live.stalled
    }

    /// A stream that should end so that another can take its place over an address that has fewer.
    pub fn to_move(&mut self, now: Instant) -> Option<u16> {
        let Source::Dial(addresses) = &mut self.source else { return None };
        if self.live.len() < usize::from(self.wanted) {
            return None;
        }
        let crowded = addresses.crowded(now)?;
        self.live.iter().rev().find(|(_, live)| live.way == Some(crowded) && live.stays()).map(|(id, _)| *id)
    }

    /// An address goes before all others, if this end connects to it. Streams over others are left: if those are cut at once, and no
    /// further ones are opened over them for a while; else when there is one over the first ([`Streams::left_for`]). Gives those that are to be given up now.
    pub fn prefer(&mut self, to: Way, is_cut: bool) -> Vec<u16> {
        let Source::Dial(addresses) = &mut self.source else { return Vec::new() };
        let Some(first) = addresses.prefer(to, is_cut.then(Instant::now)) else { return Vec::new() };
        let mut elsewhere = Vec::new();
        for (id, live) in self.live.iter_mut().filter(|(_, live)| !live.stalled) {
            let is_elsewhere = live.way.is_some_and(|way| way != first);
            live.leaving = is_elsewhere && !is_cut;
            elsewhere.extend((is_elsewhere && is_cut).then_some(*id));
        }
        elsewhere
    }

    /// The streams over a path that works and is to be left, once there is one over another. They are given up, and not ended in good order: the
    /// kernel may hold seconds of what this path carries, and the rate that it has now is meant for the other.
    pub fn left_for(&self) -> Vec<u16> {
        let leaving = self.live.iter().filter(|(_, live)| live.leaving && !live.stalled).map(|(id, _)| *id);
        leaving.filter(|_| self.live.values().any(Live::stays)).collect()
    }

    /// A stream over a path that is cut or left is being given up; false if it was before. Another one takes its place at once: it does not
    /// count any more.
    pub fn leave(&mut self, id: u16) -> bool {
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.stalled) else { return false };
        live.stalled = true;
        true
    }

    /// A stream took a parcel with so many bytes.
    pub fn took(&mut self, id: u16, bytes: u64) {
        if let Some(live) = self.live.get_mut(&id) {
            live.taken += bytes;
        }
    }

    /// A stream over a path that works is given up for others, which are faster; false if it was given up before.
    pub fn leave_slow(&mut self, id: u16) -> bool {
        let is_new = self.leave(id);
        if let Some(live) = self.live.get_mut(&id).filter(|_| is_new) {
            live.leaving = true;
        }
        is_new
    }

    /// Streams open.
    #[must_use]
    pub fn len(&self) -> u16 {
        self.live.len() as u16
    }

    /// True if a stream is open, as far as its thread has told.
    #[must_use]
    pub fn is_open(&self, id: u16) -> bool {
        self.live.contains_key(&id)
    }

    /// True if none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// A stream, if it is open.
    #[must_use]
    pub fn get(&self, id: u16) -> Option<&Live> {
        self.live.get(&id)
    }

    /// The streams that are open.
    pub fn live(&self) -> impl Iterator<Item = (u16, &Live)> {
        self.live.iter().map(|(id, live)| (*id, live))
    }

    /// Which of the session's paths a stream goes over; 0 if it is closed.
    #[must_use]
    pub fn path_of(&self, id: u16) -> usize {
        self.get(id).map_or(0, |live| live.path)
    }

    /// What the sockets of all streams say now.
    pub fn infos(&self) -> impl Iterator<Item = (u16, TcpInfo)> {
        self.live().filter_map(|(id, live)| Some((id, sys::socket::tcp_info(live.socket.as_fd()).ok()?)))
    }

    /// The newest streams above a number, to be ended.
    #[must_use]
    pub fn surplus(&self, keep: u16) -> Vec<u16> {
        let stay = self.live.iter().filter(|(_, live)| live.stays()).map(|(id, _)| *id);
        stay.skip(usize::from(keep.max(1))).collect()
    }

    /// Reads all sockets.
    pub fn sample(&mut self) -> Sample {
        let ended = std::mem::take(&mut self.ended);
        let mut sample = Sample { streams: self.len(), lost: self.lost, retransmits: self.closed_retransmits, ..ended };
        let mut least = vec![u32::MAX; self.paths.len()];
        for live in self.live.values_mut() {
            live.look();
            sample.add(live);
            let now = &live.info;
            sample.retransmits += u64::from(now.total_retrans);
            sample.rtt_us += u64::from(now.rtt_us);
            sample.cwnd_bytes += u64::from(now.snd_cwnd) * u64::from(now.snd_mss);
            least[live.path] = least[live.path].min(now.min_rtt_us);
        }
        // So that it compares with the mean of the round trips where paths differ in theirs.
        let least = self.live.values().map(|live| u64::from(least[live.path])).sum::<u64>();
        let streams = u64::from(sample.streams.max(1));
        Sample { rtt_us: sample.rtt_us / streams, min_rtt_us: least / streams, ..sample }
    }

    /// Bytes that the kernel holds and no thread has taken.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.live.values().map(|live| sys::socket::inq(live.socket.as_fd()).unwrap_or(0)).sum()
    }

    /// Socket buffer memory of this end, bytes, by what the kernel was asked for or grew to.
    #[must_use]
    pub fn buffer_bytes(&self) -> u64 {
        let size = |live: &Live| {
            let send = sys::socket::send_buffer(live.socket.as_fd()).unwrap_or(0);
            send + sys::socket::receive_buffer(live.socket.as_fd()).unwrap_or(0)
        };
        self.live.values().map(|live| size(live) as u64).sum()
    }
}
