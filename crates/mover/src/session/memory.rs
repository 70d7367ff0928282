//! Memory to memory: the same threads, streams and checks as a copy, without disks.
//!
//! The sending end makes its data as it sends them ([`TestData`]), no two records alike. The receiving end checks each
//! record and drops it.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use proto::control::{Bye, Control, StorageIo};

use super::receiving::{Queues, Receiving, wakers};
use super::sending::Sending;
use super::tally::{Tally, per_second};
use super::{CLOSE, Context, SECOND, SessionError, Wire, steered, stopped};
use crate::event::{Event, Interval};
use crate::frame::Pool;
use crate::link::LinkError;
use crate::net::NetEvent;
use crate::net::test_data::TestData;
use crate::report::{Arrived, Outlook};
use crate::request::Steer;
use crate::session::source::End;

/// Between two looks at the sockets; also how fine the end of a test is.
const TICK: Duration = Duration::from_millis(20);
/// How long streams may take to end in good order; none of what arrives then is counted. Where a queue dropped a whole window the kernel's
/// BBR repairs a few packets a round trip, which takes 20 s and more (5 Gb/s, 100 ms): that is not waited for.
const ENDING: Duration = Duration::from_secs(4);
// The receiving end takes so long before it says goodbye, and the sending end hears it.
const _: () = assert!(ENDING.as_millis() < CLOSE.as_millis());

/// Sends for `duration`, then ends the streams.
pub async fn send(
    mut context: Context,
    duration: Duration,
    interval: Duration,
    direction: &'static str,
) -> (Result<(), SessionError>, End) {
    let mut end = end(&mut context);
    // Test data never enter a frame; the pool is as small as it may be.
    let pool = match Pool::new(1, context.settings.chunk_size as usize, Vec::new(), context.placement.clone()) {
        Ok(pool) => pool,
        Err(error) => return (Err(SessionError::Os { doing: "getting memory for buffers".to_owned(), error }), end),
    };
    let test = TestData::new(context.settings.chunk_size);
    let mut wire = Wire::of(&mut context);
    let mut sending = Sending::new(&mut context, pool, Some(test));
    let mut result = send_until(&mut wire, &mut sending, &mut context, &mut end, duration, interval, direction).await;
    let took = end.outlook.elapsed();
    sending.finish();
    if result.is_ok() {
        result = drain(&mut wire, &mut sending, &mut end.outlook).await;
    }
    let telemetry = sending.last(&wire.peer, 0, &mut end.outlook);
    wire.say_goodbye(telemetry, &result).await;
    let is_whole = hear_goodbye(&mut wire, &mut sending, &mut end.outlook).await;
    end.outlook.peer = wire.peer;
    // With the goodbye the last of all is of when every record was checked, and the one before of the end of the test; without it that
    // is the last one. The time is the other end's word: no longer than until it was heard, nor much shorter than what was sent for.
    let counted = if is_whole { &wire.peer_before } else { &wire.peer };
    end.outlook.arrived = Arrived::told(counted).map(|then| {
        let heard = end.outlook.elapsed();
        Arrived { took: then.took.clamp(took / 2, heard), bytes: then.bytes.min(wire.peer.bytes) }
    });
    wire.link.close(CLOSE).await;
    let _ = tokio::task::spawn_blocking(move || drop(sending)).await;
    (result, end)
}

async fn send_until(
    wire: &mut Wire,
    sending: &mut Sending,
    context: &mut Context,
    end: &mut End,
    duration: Duration,
    interval: Duration,
    direction: &'static str,
) -> Result<(), SessionError> {
    let mut tick = tokio::time::interval(TICK.min(sending.beat()));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut stop = context.stop.clone();
    let mut steer = context.steer.take();
    let mut begun: Option<Instant> = None;
    let mut last = Instant::now();
    let mut line = Line::new(direction, interval);
    loop {
        tokio::select! {
            message = wire.link.recv() => match wire.hear(message?).await {
                Some(Control::Bye(Bye::Abandoned(why))) => return Err(SessionError::Abandoned(why)),
                Some(Control::Refused(why)) => return Err(LinkError::Refused(why).into()),
                Some(Control::SetRate(rate)) => sending.set_rate(rate, false),
                Some(Control::SetStreams(n)) => sending.set_streams(n),
                _ => {}
            },
            Some(event) = sending.events.recv() => closed(sending, event),
            opened = sending.streams.next() => {
                if let Some(news) = sending.add(opened, &mut end.outlook).await? {
                    wire.link.send(news).await;
                }
                if begun.is_none() {
                    begun = Some(Instant::now());
                    end.outlook.restart();
                }
            },
            _ = tick.tick() => {
                let now = Instant::now();
                wire.tick(now).await?;
                for id in sending.tick(now, wire, None, || false)? {
                    wire.link.send(Control::StreamLost(id)).await;
                }
                if now - last >= SECOND {
                    let telemetry = sending.second(&wire.peer, 0, &mut end.outlook);
                    last = now;
                    wire.link.send(Control::Telemetry(telemetry)).await;
                    if let Some(news) = sending.tell_congestion(&mut end.outlook).await {
                        wire.link.send(news).await;
                    }
                    end.outlook.second().await;
                }
                line.tick(context, end, || sending.bytes()).await;
                if begun.is_some_and(|b| now - b >= duration) {
                    return Ok(());
                }
            },
            change = steered(&mut steer) => match change {
                Steer::Rate(rate) => sending.set_rate(rate, true),
                Steer::Streams(n) => sending.set_streams(n),
                Steer::Path { to, is_cut } => {
                    wire.link.prefer(to);
                    sending.prefer(to, is_cut);
                }
                Steer::Stop => return Ok(()),
            },
            () = stopped(&mut stop) => return Err(SessionError::Stopped),
        }
    }
}

/// Takes the news that a stream is closed.
fn closed(sending: &mut Sending, event: NetEvent) {
    if let NetEvent::Closed { id, why, .. } = event {
        sending.closed(id, why.as_deref());
    }
}

/// Waits until every stream has ended in good order.
async fn drain(wire: &mut Wire, sending: &mut Sending, outlook: &mut Outlook) -> Result<(), SessionError> {
    let until = Instant::now() + ENDING;
    let beat = TICK.min(sending.beat());
    while !sending.streams.is_empty() && Instant::now() < until {
        tokio::select! {
            message = wire.link.recv() => { wire.hear(message?).await; },
            Some(event) = sending.events.recv() => closed(sending, event),
            opened = sending.streams.next() => { sending.add(opened, outlook).await?; },
            () = tokio::time::sleep(beat) => {}
        }
        sending.pace(Instant::now());
    }
    Ok(())
}

/// Listens until the other end has said goodbye, and says whether it has. It waits for the end of every stream, also of one that was being
/// opened when the test ended.
async fn hear_goodbye(wire: &mut Wire, sending: &mut Sending, outlook: &mut Outlook) -> bool {
    let until = tokio::time::Instant::now() + ENDING + CLOSE;
    loop {
        tokio::select! {
            message = wire.until_goodbye() => match message {
                Some(Control::Bye(_)) => return true,
                Some(_) => {}
                None => return false,
            },
            Some(event) = sending.events.recv() => closed(sending, event),
            opened = sending.streams.next() => if sending.add(opened, outlook).await.is_err() { return false },
            () = tokio::time::sleep_until(until) => return false,
        }
    }
}

/// Receives until the other end says goodbye. What counts is what arrived in the `duration` that the other end sends, by the
/// clock of this one, and no more than what has passed its check in the end: a goodbye that was lost and sent again comes seconds later over a path that loses much.
pub async fn receive(
    mut context: Context,
    duration: Duration,
    interval: Duration,
    direction: &'static str,
) -> (Result<(), SessionError>, End) {
    let mut end = end(&mut context);
    let os = |error| SessionError::Os { doing: "getting ready to receive".to_owned(), error };
    // Test data never enter a frame; the pool is as small as it may be.
    let (size, placement) = (context.settings.chunk_size as usize, context.placement.clone());
    let made = wakers(&placement).and_then(|wakers| Ok((Pool::new(1, size, wakers.clone(), placement)?, wakers)));
    let (pool, wakers) = match made {
        Ok(made) => made,
        Err(error) => return (Err(os(error)), end),
    };
    // Frames of a copy have no place in a test: their queue is closed.
    let queues = Queues { chunks: bounded(0).0, batches: bounded(0).0, backlog: None };
    let mut wire = Wire::of(&mut context);
    let mut receiving = Receiving::new(&mut context, pool, wakers, queues);
    receiving.begin_test();
    let result = receive_until(&mut wire, &mut receiving, &mut context, &mut end, duration, interval, direction).await;
    let (bytes, parcels) = (receiving.bytes(), receiving.parcels());
    let telemetry = receiving.look(0, &mut end.outlook);
    end.outlook.received_last(bytes, parcels, &wire);
    if let Some(then) = &mut end.outlook.arrived {
        then.bytes = then.bytes.min(bytes);
    }
    wire.say_goodbye(telemetry, &result).await;
    wire.link.close(CLOSE).await;
    context.counters.bytes_in.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    let _ = tokio::task::spawn_blocking(move || drop(receiving)).await;
    (result, end)
}

async fn receive_until(
    wire: &mut Wire,
    receiving: &mut Receiving,
    context: &mut Context,
    end: &mut End,
    duration: Duration,
    interval: Duration,
    direction: &'static str,
) -> Result<(), SessionError> {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut stop = context.stop.clone();
    let mut steer = context.steer.take();
    let mut last = Instant::now();
    let mut line = Line::new(direction, interval);
    let mut begun: Option<Instant> = None;
    let mut counted = None;
    loop {
        tokio::select! {
            message = wire.link.recv() => match wire.hear(message?).await {
                Some(Control::Bye(Bye::Done)) => {
                    // It may also end early.
                    let telemetry = counted.unwrap_or_else(|| receiving.count(&mut end.outlook));
                    end.outlook.arrived = Arrived::told(&telemetry);
                    wire.link.send(Control::Telemetry(telemetry)).await;
                    last_records(receiving).await;
                    return Ok(());
                }
                Some(Control::Bye(Bye::Abandoned(why))) => return Err(SessionError::Abandoned(why)),
                Some(Control::Refused(why)) => return Err(LinkError::Refused(why).into()),
                Some(Control::SetStreams(n)) => receiving.set_streams(n),
                Some(Control::StreamLost(id)) => receiving.abandon(id),
                Some(Control::Congestion(congestion)) => end.outlook.congestion_told(&congestion).await?,
                _ => {}
            },
            Some(event) = receiving.events.recv() => {
                if let NetEvent::Closed { id, why, .. } = event {
                    receiving.closed(id, why.as_deref());
                }
            },
            opened = receiving.streams.next() => {
                receiving.add(opened)?;
                if begun.is_none() {
                    begun = Some(Instant::now());
                    end.outlook.restart();
                }
            },
            _ = tick.tick() => {
                let now = Instant::now();
                wire.tick(now).await?;
                receiving.tick(now, wire)?;
                if counted.is_none() && begun.is_some_and(|begun| now - begun >= duration) {
                    counted = Some(receiving.count(&mut end.outlook));
                }
                if now - last >= SECOND {
                    let span = now - last;
                    let telemetry = receiving.look(0, &mut end.outlook);
                    last = now;
                    wire.link.send(Control::Telemetry(telemetry)).await;
                    end.outlook.peer = wire.peer;
                    end.outlook.limit = crate::control::attribution::Limit::of_code(wire.peer.limit);
                    if let Some(n) = receiving.tune(span, &end.outlook, &wire.peer) {
                        wire.link.send(Control::SetStreams(n)).await;
                    }
                    end.outlook.second().await;
                }
                line.tick(context, end, || receiving.arrived()).await;
            },
            change = steered(&mut steer) => match change {
                Steer::Rate(rate) => {
                    receiving.paced(rate);
                    wire.link.send(Control::SetRate(rate)).await;
                }
                Steer::Streams(n) => {
                    receiving.set_streams(n);
                    wire.link.send(Control::SetStreams(n)).await;
                }
                Steer::Path { to, is_cut } => {
                    wire.link.prefer(to);
                    receiving.prefer(to, is_cut);
                }
                Steer::Stop => return Ok(()),
            },
            () = stopped(&mut stop) => return Err(SessionError::Stopped),
        }
    }
}

/// Waits for what is still on its way, for repairs of losses too, so that every record is checked. None of it counts.
async fn last_records(receiving: &mut Receiving) {
    let until = tokio::time::Instant::now() + ENDING;
    while !receiving.streams.is_empty() {
        let Ok(Some(event)) = tokio::time::timeout_at(until, receiving.events.recv()).await else { return };
        if let NetEvent::Closed { id, why, .. } = event {
            receiving.closed(id, why.as_deref());
        }
    }
}

fn end(context: &mut Context) -> End {
    let mut end = End { tally: Tally::default(), outlook: Outlook::new(context) };
    end.outlook.io = Some(StorageIo::Memory);
    end
}

/// The interval lines of a test.
struct Line {
    direction: &'static str,
    interval: Duration,
    from: Duration,
    /// When the next one is to be told; those that follow keep to its beat.
    due: Duration,
    begin: Instant,
    bytes: u64,
    retransmits: u64,
}

impl Line {
    fn new(direction: &'static str, interval: Duration) -> Line {
        let begin = Instant::now();
        Line { direction, interval, from: Duration::ZERO, due: interval, begin, bytes: 0, retransmits: 0 }
    }

    /// Tells of what has passed since the last line, if one is due, of all `bytes` until now. Round trip, window and retransmits are looked
    /// at once a second.
    async fn tick(&mut self, context: &Context, end: &End, bytes: impl FnOnce() -> u64) {
        let now = self.begin.elapsed();
        let Some(events) = &context.events else { return };
        if now < self.due {
            return;
        }
        self.due = (self.due + self.interval).max(now);
        // A stream that was lost takes back what had arrived of its record.
        let bytes = bytes().max(self.bytes);
        let sending = self.direction == "forward";
        let (retransmits, rtt_us, cwnd_bytes) = match sending {
            true => (end.outlook.sample.retransmits, end.outlook.sample.rtt_us, end.outlook.sample.cwnd_bytes),
            false => (end.outlook.peer.retransmits, end.outlook.peer.rtt_us, end.outlook.peer.cwnd_bytes),
        };
        let interval = Interval {
            from_s: self.from.as_secs_f64(),
            to_s: now.as_secs_f64(),
            bytes: bytes - self.bytes,
            rate_bps: per_second(bytes - self.bytes, now - self.from),
            retransmits: retransmits.saturating_sub(self.retransmits),
            rtt_us,
            cwnd_bytes,
            streams: end.outlook.sample.streams,
            direction: self.direction,
            limit: end.outlook.limit,
        };
        (self.from, self.bytes, self.retransmits) = (now, bytes, retransmits);
        let _ = events.send(Event::Interval(interval)).await;
    }
}
