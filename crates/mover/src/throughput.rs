//! The driving end of a throughput test, from its request to its summary.

use std::sync::Arc;

use proto::control::{Direction, Settings, Work};
use tokio::sync::{mpsc, watch};

use crate::connect::{Ask, reach};
use crate::copy::{Driver, bounded, context, move_error};
use crate::event::{Event, Summary, SweepStep};
use crate::hook::Programs;
use crate::report::Arrived;
use crate::request::{MoveError, Steer, TestRequest};
use crate::session::source::End;
use crate::session::{SessionError, Steering, memory};

/// A sweep stops here even if more streams still bring more.
pub const SWEEP_STREAMS_MAX: u16 = 512;
/// Gain that more streams must bring to count, per mille.
const KNEE_GAIN: u64 = 50;

/// Runs a throughput test: memory to memory through the same engine as a copy.
///
/// # Errors
/// When the test could not begin or ended early.
pub async fn test(
    request: TestRequest,
    events: mpsc::Sender<Event>,
    steer: mpsc::Receiver<Steer>,
) -> Result<Summary, MoveError> {
    let steer = Steering::new(steer);
    if request.sweep {
        return sweep(&request, &events, &steer).await;
    }
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let direction = if request.reverse { Direction::Pull } else { Direction::Push };
    let one = one_way(&request, direction, &events, Some(steer));
    let Measured { result, end, .. } = if request.bidirectional {
        let (one, back) = tokio::join!(one, one_way(&request, Direction::Pull, &events, None));
        back.result.map_err(|e| move_error(e, 0, false))?;
        summary.reverse_rate_bps = back.end.map(|end| arrived(&end, Direction::Pull).rate_bps());
        one
    } else {
        one.await
    };
    if let Some(end) = &end {
        tell(&mut summary, end, direction);
    }
    result.map_err(|e| move_error(e, 0, false))?;
    summary.ok = true;
    let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
    Ok(summary)
}

/// What had arrived at the receiving end when the sending end stopped.
fn arrived(end: &End, direction: Direction) -> Arrived {
    let total = if direction == Direction::Push { end.outlook.peer.bytes } else { end.outlook.bytes };
    end.outlook.arrived.unwrap_or_else(|| Arrived { bytes: total, took: end.outlook.elapsed() })
}

fn tell(summary: &mut Summary, end: &End, direction: Direction) {
    end.outlook.summarise(summary, direction == Direction::Push);
    let arrived = arrived(end, direction);
    (summary.bytes, summary.rate_bps) = (arrived.bytes, arrived.rate_bps());
    summary.bytes_text = summary.bytes.to_string();
    summary.seconds = arrived.took.as_secs_f64();
}

/// Doubles the number of streams until throughput stops rising, or the other end grants no more.
async fn sweep(request: &TestRequest, events: &mpsc::Sender<Event>, steer: &Steering) -> Result<Summary, MoveError> {
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let direction = if request.reverse { Direction::Pull } else { Direction::Push };
    let mut streams = 1;
    while streams <= SWEEP_STREAMS_MAX {
        // A set point that was changed since holds for all further steps.
        let rate_bps = steer.rate().unwrap_or(request.settings.rate_bps);
        let settings = Settings { streams_max: streams, rate_bps, ..request.settings.clone() };
        let step = TestRequest { settings, ..request.clone() };
        let Measured { result, end, granted } = one_way(&step, direction, events, Some(steer.clone())).await;
        result.map_err(|e| move_error(e, 0, false))?;
        // A step that was cut short says nothing.
        let Some(end) = end.filter(|_| !steer.is_stopped()) else { break };
        let best = summary.sweep.last().map_or(0, |step| step.rate_bps);
        let rate_bps = arrived(&end, direction).rate_bps();
        if summary.sweep.last().is_some_and(|step| step.streams == granted) {
            break;
        }
        summary.sweep.push(SweepStep { streams: granted, rate_bps });
        if !is_rise(best, rate_bps) {
            summary.knee = Some(streams / 2);
            break;
        }
        tell(&mut summary, &end, direction);
        if granted < streams {
            break;
        }
        streams *= 2;
    }
    summary.ok = true;
    let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
    Ok(summary)
}

/// Is a rate so much above the best before it that the streams it took are worth it?
fn is_rise(best_bps: u64, rate_bps: u64) -> bool {
    u128::from(rate_bps) * 1000 >= u128::from(best_bps) * u128::from(1000 + KNEE_GAIN)
}

/// What came of one direction.
struct Measured {
    result: Result<(), SessionError>,
    end: Option<End>,
    /// Streams that the other end let it have at most.
    granted: u16,
}

impl Measured {
    fn failed(error: SessionError) -> Measured {
        Measured { result: Err(error), end: None, granted: 0 }
    }
}

async fn one_way(
    request: &TestRequest,
    direction: Direction,
    events: &mpsc::Sender<Event>,
    steer: Option<Steering>,
) -> Measured {
    let duration = request.duration;
    let mut job = [0; 16];
    if let Err(error) = sys::random::fill(&mut job) {
        return Measured::failed(SessionError::Os { doing: "getting random bytes".to_owned(), error });
    }
    let open = async {
        let settings = bounded(&request.settings, &request.limits, false);
        let connected = reach(&request.remote, &settings, &request.limits, true).await?;
        let work = Work::Memory { duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) };
        connected.open(Ask { job, direction, work, settings }, &[], Vec::new()).await
    };
    let session = match open.await {
        Ok(session) => session,
        Err(error) => return Measured::failed(error),
    };
    let granted = session.opened.settings.streams_max;
    let (_never, stop) = watch::channel(false);
    let driver = Driver { job, counters: Arc::default(), stop, programs: Programs::default() };
    let (context, _keep) = context(session, &request.settings, &request.limits, (events, steer), &driver);
    let (result, end) = match direction {
        Direction::Push => memory::send(context, duration, request.interval, "forward").await,
        Direction::Pull => memory::receive(context, duration, request.interval, "reverse").await,
    };
    Measured { result, end: Some(end), granted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_streams_must_bring_a_twentieth_more() {
        let of = |rate_bps| is_rise(1_000_000_000, rate_bps);
        assert_eq!([1_000_000_000, 1_049_999_999, 1_050_000_000, u64::MAX].map(of), [false, false, true, true]);
        assert!(is_rise(0, 0), "a path that carries nothing has no knee, and the first step is always one");
    }
}
