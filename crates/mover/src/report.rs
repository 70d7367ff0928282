//! What a session looked like from one end: samples gathered into telemetry, attribution and summary.

use std::time::{Duration, Instant};

use proto::control::{Congestion, StorageIo, Telemetry};
use tokio::sync::mpsc;
use units::Rate;

use crate::control::attribution::{Destination, Limit, PerMille, Second, Shares, Source, Tcp, attribute};
use crate::event::{CpuPerGb, Ends, Event, Started, Summary};
use crate::link::LinkError;
use crate::session::streams::Sample;
use crate::session::tally::{Clock, per_second};
use crate::session::{Context, SECOND, Wire, cpu_us};

/// The shortest time of which counters say anything: some of the kernel's advance by 10 ms.
pub const LOOK_MIN: Duration = Duration::from_millis(50);

/// Share of the set point that counts as reached in less than a second: packets have headers of several lengths.
const REACHED_PERCENT: u128 = 95;

/// How long the word that a session started waits for its first stream: then somebody may want to stop it.
const STARTED_AFTER: Duration = Duration::from_secs(5);

/// How busy a receiving end was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Network threads, per mille, on the mean.
    pub net: u16,
    /// Writers, per mille.
    pub disk: u16,
    /// Time in which data waited for a free buffer, per mille.
    pub starved: u16,
}

/// One second of a sending end, or what there is of the last one.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendSecond {
    /// How long it was.
    pub span: Duration,
    /// Busy time of the mean network thread, µs.
    pub net_busy_us: u64,
    /// Time that the gate was closed, µs.
    pub gated_us: u64,
    /// Time that streams had nothing to send, µs.
    pub starved_us: u64,
    /// Time that the session was at its set point.
    pub held: Duration,
    /// Time that the session sent what giving way left it.
    pub polite: Duration,
    /// Busy time of the mean reader, µs.
    pub disk_busy_us: u64,
    /// Something was under way: read, waiting or being sent.
    pub outstanding: bool,
}

impl SendSecond {
    /// A thread books the time that it slept when it wakes, and may sleep now, for up to 200 ms: long beside a short
    /// copy. What nobody has booked, and in which the sockets had nothing to send, was spent waiting for parcels.
    pub fn book_sleep(&mut self, sample: &Sample) {
        let span = self.span.as_micros() as u64;
        let unbooked = span.saturating_sub(self.net_busy_us + self.gated_us + self.starved_us);
        let quiet = span.saturating_sub(sample.busy_us / sample.seen.max(1));
        self.starved_us += unbooked.min(quiet);
    }

    /// The pacer knows after a whole second whether the set point is reached. Of less than that the mean tells: if what
    /// was acknowledged is what the set point allows in the time in which there was something to send, it held.
    pub fn book_held(&mut self, sample: &Sample, set_point: Rate) {
        let active = self.span.saturating_sub(Duration::from_micros(self.starved_us));
        let mss = u64::from(sample.mss).max(1);
        let acked_bits =
            u128::from(sample.acked) * u128::from(mss + u64::from(units::TCP4_HEADER_BYTES)) * 8 / u128::from(mss);
        let allowed_bits = u128::from(set_point.bps()) * active.as_micros() / 1_000_000;
        if self.span < SECOND && acked_bits * 100 >= allowed_bits * REACHED_PERCENT {
            self.held = self.held.max(active);
        }
    }

    /// What attribution looks at: these counters, the sockets, the last telemetry of the other end, and the busy share
    /// of this host in thousandths.
    fn seen(&self, sample: &Sample, peer: &Telemetry, host_busy: u16) -> Second {
        let share = |us: u64| PerMille::of(us, self.span.as_micros() as u64);
        Second {
            outstanding: self.outstanding,
            moved: sample.acked > 0,
            held: PerMille::of_time(self.held, self.span),
            polite: PerMille::of_time(self.polite, self.span),
            source: Source {
                empty: share(self.starved_us),
                readers: share(self.disk_busy_us),
                hashing: PerMille::default(),
                net: share(self.net_busy_us),
                host: PerMille::new(host_busy),
            },
            tcp: Tcp {
                busy: Duration::from_micros(sample.busy_us),
                receiver_limited: Duration::from_micros(sample.rwnd_limited_us),
                buffer_limited: Duration::from_micros(sample.sndbuf_limited_us),
                segments: sample.segments,
                lost: sample.segments_lost,
                window_full: None,
            },
            destination: Destination::from(peer),
        }
    }
}

/// What had arrived at the receiving end of a test at one time, and was verified then or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Payload bytes.
    pub bytes: u64,
    /// Time since the first stream was open, by the clock of that end.
    pub took: Duration,
}

impl Arrived {
    /// As the receiving end tells it; `None` if nothing had arrived.
    #[must_use]
    pub fn told(telemetry: &Telemetry) -> Option<Arrived> {
        let took = Duration::from_micros(telemetry.at_us);
        (telemetry.bytes > 0).then_some(Arrived { bytes: telemetry.bytes, took })
    }

    /// The rate up to then, b/s of payload.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        per_second(self.bytes, self.took)
    }
}

/// Samples of one end.
#[derive(Debug)]
pub struct Outlook {
    /// Rates of now and on the mean.
    pub clock: Clock,
    /// What limited the last second.
    pub limit: Limit,
    /// How busy a receiving end was in the last second.
    pub load: Load,
    /// Shares of the time by limit.
    pub shares: Shares,
    /// Last telemetry of the other end.
    pub peer: Telemetry,
    /// Payload bytes at this end.
    pub bytes: u64,
    /// Parcels verified at this end.
    pub parcels: u64,
    /// Latest sample of the sockets.
    pub sample: Sample,
    /// Most streams at once.
    pub streams: u16,
    /// Socket buffer memory, bytes.
    pub socket_buffer_bytes: u64,
    /// Congestion control in force at the sending end, and why.
    pub congestion: Option<Congestion>,
    /// It was another one before.
    switched: bool,
    /// What this end reads or writes with, as far as that is known.
    pub io: Option<StorageIo>,
    /// Of a test: what had arrived when it ended.
    pub arrived: Option<Arrived>,
    events: Option<mpsc::Sender<Event>>,
    /// Until it is told.
    started: Option<Started>,
    begin: Instant,
    cpu_begin_us: u64,
    host_before: Option<(u64, u64)>,
}

impl Default for Outlook {
    fn default() -> Self {
        Outlook {
            clock: Clock::default(),
            limit: Limit::Unknown,
            load: Load::default(),
            shares: Shares::default(),
            peer: Telemetry::default(),
            bytes: 0,
            parcels: 0,
            sample: Sample::default(),
            streams: 0,
            socket_buffer_bytes: 0,
            congestion: None,
            switched: false,
            io: None,
            arrived: None,
            events: None,
            started: None,
            begin: Instant::now(),
            cpu_begin_us: cpu_us(),
            host_before: None,
        }
    }
}

impl Outlook {
    /// An outlook that has seen nothing, and will tell that the session started.
    #[must_use]
    pub fn new(context: &mut Context) -> Outlook {
        Outlook { events: context.events.clone(), started: context.started.take(), ..Outlook::default() }
    }

    /// The first stream is open: the time of a test counts from here.
    pub fn restart(&mut self) {
        self.begin = Instant::now();
        self.cpu_begin_us = cpu_us();
        self.clock = Clock::default();
    }

    /// Time since the begin.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// A stream was set up to send: the first one's congestion control is told, and every refusal. True if it is news.
    pub async fn congestion(&mut self, now: &Congestion) -> bool {
        if self.congestion.as_ref() == Some(now) {
            return false;
        }
        tracing::info!(congestion = now.name, reason = now.reason, "congestion control");
        let before = self.congestion.replace(now.clone());
        self.switched |= before.is_some_and(|before| before.name != now.name);
        self.started().await;
        if let (Some(reason), true) = (&now.reason, now.refused) {
            self.tell(Event::Warning { text: reason.clone() }).await;
        }
        true
    }

    /// What [`Outlook::congestion`] is, as the far end says that sends.
    ///
    /// # Errors
    /// When it says what cannot be.
    pub async fn congestion_told(&mut self, now: &Congestion) -> Result<(), LinkError> {
        if !now.is_sound() {
            return Err(LinkError::Protocol("a congestion control with an impossible name".to_owned()));
        }
        self.congestion(now).await;
        Ok(())
    }

    /// Whether the sending end went over to another congestion control in the middle of the session, as it does for losses that no
    /// queue explains. Streams over addresses that differ much in their round trip look the same from here.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        self.switched
    }

    /// Called once a second: a session whose first stream takes long has started too.
    pub async fn second(&mut self) {
        if self.elapsed() >= STARTED_AFTER {
            self.started().await;
        }
    }

    /// Tells that the session started, once, with what is known of its congestion control.
    async fn started(&mut self) {
        let Some(mut started) = self.started.take() else { return };
        if let Some(now) = &self.congestion {
            (started.congestion, started.congestion_reason) = (now.name.clone(), now.reason.clone());
        }
        self.tell(Event::Started(started)).await;
    }

    async fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            let _ = events.send(event).await;
        }
    }

    /// A sample of a sending end.
    pub fn sent(&mut self, bytes: u64, sample: Sample, socket_buffer_bytes: u64) {
        self.bytes = bytes;
        self.streams = self.streams.max(sample.streams);
        if sample.streams > 0 {
            self.socket_buffer_bytes = socket_buffer_bytes;
            self.sample = sample;
        } else {
            (self.sample.retransmits, self.sample.lost) = (sample.retransmits, sample.lost);
        }
    }

    /// A sample of a receiving end.
    pub fn received(&mut self, bytes: u64, sample: Sample, socket_buffer_bytes: u64) {
        self.sent(bytes, sample, socket_buffer_bytes);
    }

    /// The last numbers of a receiving end, and what it heard.
    pub fn received_last(&mut self, bytes: u64, parcels: u64, wire: &Wire) {
        (self.bytes, self.parcels) = (bytes, parcels);
        self.heard(wire);
    }

    /// Takes what the sending end told until now.
    pub fn heard(&mut self, wire: &Wire) {
        (self.peer, self.shares) = (wire.peer, wire.limits.clone());
    }

    /// Says what limited the last second of a sending end.
    pub fn attribute(&mut self, second: &SendSecond, sample: &Sample, peer: &Telemetry) {
        self.peer = *peer;
        let host_busy = self.host_busy();
        let seen = second.seen(sample, peer, host_busy);
        self.limit = if second.span < LOOK_MIN { Limit::Unknown } else { attribute(&seen) };
        self.shares.add(self.limit, second.span);
    }

    /// Busy share of all cores since the last call, per mille.
    fn host_busy(&mut self) -> u16 {
        let Ok(now) = sys::cpu::host_time() else { return 0 };
        let now = (now.busy.as_micros() as u64, now.total.as_micros() as u64);
        let before = self.host_before.replace(now);
        let Some((busy, total)) = before else { return 0 };
        ((now.0 - busy) * 1000 / (now.1 - total).max(1)).min(1000) as u16
    }

    /// Telemetry for the other end.
    #[must_use]
    pub fn telemetry(&self, bytes: u64, records: u64, parcels: u64) -> Telemetry {
        Telemetry {
            bytes,
            cpu_us: cpu_us().saturating_sub(self.cpu_begin_us),
            rss_bytes: sys::cpu::peak_rss_bytes().unwrap_or(0),
            records_checked: records,
            parcels_checked: parcels,
            at_us: self.begin.elapsed().as_micros() as u64,
            limit: self.limit.code(),
            net_busy: self.load.net,
            disk_busy: self.load.disk,
            starved: self.load.starved,
            retransmits: self.sample.retransmits,
            rtt_us: self.sample.rtt_us,
            min_rtt_us: self.sample.min_rtt_us,
            loss_ppm: self.sample.loss_ppm(),
            cwnd_bytes: self.sample.cwnd_bytes,
            io: self.io,
            ..Telemetry::default()
        }
    }

    /// Fills in what the outlook knows of a summary. `sending` says which end this is.
    pub fn summarise(&self, summary: &mut Summary, sending: bool) {
        let own_cpu = cpu_us().saturating_sub(self.cpu_begin_us);
        let bytes = if sending { self.bytes } else { self.bytes.max(self.peer.bytes) };
        let per_gb = |us: u64| if bytes == 0 { 0.0 } else { us as f64 * 1e3 / bytes as f64 };
        let own_rss = sys::cpu::peak_rss_bytes().unwrap_or(0);
        let (source, destination) = if sending { (own_cpu, self.peer.cpu_us) } else { (self.peer.cpu_us, own_cpu) };
        let (source_rss, destination_rss) =
            if sending { (own_rss, self.peer.rss_bytes) } else { (self.peer.rss_bytes, own_rss) };
        summary.bytes_sent += bytes;
        summary.seconds = self.begin.elapsed().as_secs_f64();
        summary.rate_bps = per_second(bytes, self.begin.elapsed());
        summary.streams = self.streams;
        summary.streams_lost += self.sample.lost;
        let far = if sending {
            (self.sample.retransmits, self.sample.rtt_us, self.sample.cwnd_bytes)
        } else {
            (self.peer.retransmits, self.peer.rtt_us, self.peer.cwnd_bytes)
        };
        summary.retransmits += far.0;
        (summary.rtt_us, summary.cwnd_bytes) = (far.1, far.2);
        summary.chunks_verified += if sending { self.peer.parcels_checked } else { self.parcels };
        if sending {
            summary.deleted = self.peer.deleted;
        }
        summary.cpu_s_per_gb =
            CpuPerGb { source: per_gb(source), destination: per_gb(destination), total: per_gb(source + destination) };
        summary.peak_rss_bytes = Ends { source: source_rss, destination: destination_rss };
        let (source_io, destination_io) = if sending { (self.io, self.peer.io) } else { (self.peer.io, self.io) };
        // What an earlier attempt knew holds for the next, which may have ended before it knew.
        summary.io.source = source_io.or(summary.io.source);
        summary.io.destination = destination_io.or(summary.io.destination);
        summary.socket_buffer_bytes = self.socket_buffer_bytes;
        summary.limits = self.shares.shares();
        summary.limited_by = self.shares.dominant();
        if let Some(now) = &self.congestion {
            (summary.congestion, summary.congestion_reason) = (now.name.clone(), now.reason.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(200);

    /// 200 ms of two streams of one thread, which has booked 30 ms of its sleep.
    fn short(busy_ms: u64, sockets_busy_ms: u64) -> (SendSecond, Sample) {
        let starved_us = 30_000;
        let second = SendSecond { span: SPAN, net_busy_us: busy_ms * 1000, starved_us, ..SendSecond::default() };
        let sample = Sample { streams: 2, seen: 2, busy_us: 2 * sockets_busy_ms * 1000, acked: 1, ..Sample::default() };
        (second, sample)
    }

    fn named(second: &SendSecond, sample: &Sample) -> Limit {
        // The first look at the host says nothing of it.
        let mut outlook = Outlook::default();
        outlook.attribute(second, sample, &Telemetry::default());
        assert_eq!(outlook.shares.shares().values().sum::<f64>(), 1.0, "all of the time has a name");
        outlook.limit
    }

    #[test]
    fn the_sleep_that_lasts_still_counts() {
        for (busy_ms, sockets_busy_ms, starved_ms) in [(10, 20, 190), (10, 180, 50), (190, 20, 30), (10, 300, 30)] {
            let (mut second, sample) = short(busy_ms, sockets_busy_ms);
            second.book_sleep(&sample);
            assert_eq!(second.starved_us, starved_ms * 1000, "{busy_ms} {sockets_busy_ms}");
        }
    }

    #[test]
    fn a_short_copy_has_a_limit_too() {
        let booked = |busy_ms, sockets_busy_ms, disk_busy_us| {
            let (mut second, sample) = short(busy_ms, sockets_busy_ms);
            second.disk_busy_us = disk_busy_us;
            second.book_sleep(&sample);
            named(&second, &sample)
        };
        assert_eq!(booked(10, 20, 180_000), Limit::SourceDisk);
        assert_eq!(booked(10, 20, 1_000), Limit::Latency);
        assert_eq!(booked(10, 190, 1_000), Limit::NetworkPath);
        assert_eq!(booked(190, 190, 1_000), Limit::SourceCpu);
    }

    #[test]
    fn the_set_point_of_a_short_copy_counts_while_there_was_something_to_send() {
        // 40 of 200 ms nothing was there; 160 ms of 20 Mb/s are 400 kB with their headers.
        let held = |acked, span| {
            let (mut second, mut sample) = short(10, 160);
            (second.span, second.starved_us, sample.acked, sample.mss) = (span, 40_000, acked, 1_448);
            second.book_held(&sample, Rate::from_bps(20_000_000));
            second.held
        };
        let active = Duration::from_millis(160);
        assert_eq!((held(390_000, SPAN), held(800_000, SPAN), held(350_000, SPAN)), (active, active, Duration::ZERO));
        assert_eq!(held(u64::MAX, SECOND), Duration::ZERO, "the pacer knows");
    }

    #[test]
    fn of_a_moment_nothing_is_said() {
        let (mut second, sample) = short(10, 190);
        second.span = LOOK_MIN - Duration::from_millis(1);
        assert_eq!(named(&second, &sample), Limit::Unknown);
    }
}
