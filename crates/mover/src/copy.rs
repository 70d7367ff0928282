//! The driving end: a command's copy or test, from its request to its summary.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::control::{Code, Direction, Open, Settings, Work};
use tokio::sync::{mpsc, watch};

use crate::connect::{Session, reach};
use crate::ends::{local_sources, local_target};
use crate::event::{Event, Started, Summary};
use crate::link::LinkError;
use crate::request::{CopyRequest, MoveError, Place, Remote, Steer, TestRequest};
use crate::session::source::End;
use crate::session::{Context, SessionError, Steering, chain, destination, memory, source};

/// Streams at most when their number is to be found and nobody set a bound.
const STREAMS_AUTO_MAX: u16 = 16;
/// Attempts without progress before a lost connection ends the copy.
const ATTEMPTS_MAX: u32 = 6;
/// First pause between two attempts; it doubles.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// Share of the memory limit that is for buffers; the rest is for the manifest and the program.
const BUFFER_SHARE: u64 = 2;

/// Copies a dataset. Events go to `events`; `steer` changes it while it runs. The last event is the summary
/// that is also returned.
///
/// # Errors
/// When the copy could not begin or ended early; a copy that ran to its end with failed files is a summary.
pub async fn copy(request: CopyRequest, events: mpsc::Sender<Event>, steer: mpsc::Receiver<Steer>) -> Result<Summary, MoveError> {
    let begin = Instant::now();
    let steer: Steering = Arc::new(tokio::sync::Mutex::new(steer));
    let mut job = [0; 16];
    sys::random::fill(&mut job).map_err(|e| failed(1, format!("getting random bytes: {e}")))?;
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let mut attempt = 0;
    loop {
        let (result, end) = once(&request, job, &events, &steer).await;
        let progress = end.as_ref().is_some_and(|(end, _)| end.outlook.bytes > 0);
        if let Some((end, sending)) = &end {
            fold(&mut summary, end, *sending);
        }
        let error = match result {
            Ok(()) => break,
            Err(error) => error,
        };
        attempt = if progress { 1 } else { attempt + 1 };
        if !error.is_network() || attempt >= ATTEMPTS_MAX {
            summary.seconds = begin.elapsed().as_secs_f64();
            return Err(move_error(error, attempt));
        }
        summary.reconnects += 1;
        let why = chain(&error);
        let _ = events.send(Event::Reconnect { attempt, of: ATTEMPTS_MAX, why }).await;
        tokio::time::sleep((PAUSE * 2u32.pow(attempt.min(8))).min(PAUSE_MAX)).await;
    }
    summary.seconds = begin.elapsed().as_secs_f64();
    let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
    Ok(summary)
}

/// One attempt. The second part tells what came of it, and whether this end was the source.
async fn once(
    request: &CopyRequest,
    job: [u8; 16],
    events: &mpsc::Sender<Event>,
    steer: &Steering,
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    match (&request.source, &request.destination) {
        (Place::Local(paths), Place::Agent(remote, to)) => push(request, paths, remote, to, job, (events, steer)).await,
        (Place::Agent(remote, from), Place::Local(paths)) => pull(request, remote, from, paths, job, (events, steer)).await,
        _ => (Err(SessionError::Fatal("this pair of places is not supported".to_owned())), None),
    }
}

async fn push(
    request: &CopyRequest,
    paths: &[PathBuf],
    remote: &Remote,
    to: &[Vec<u8>],
    job: [u8; 16],
    (events, steer): (&mpsc::Sender<Event>, &Steering),
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    let sources = match local_sources(paths, request.names.clone()) {
        Ok(sources) => sources,
        Err(why) => return (Err(SessionError::Link(LinkError::Refused(why))), None),
    };
    let work = Work::Copy {
        paths: to.to_vec(),
        names: Vec::new(),
        options: request.options.clone(),
        single: sources.single,
        source_key: sources.key,
    };
    let session = match begin(request, remote, Direction::Push, work, job).await {
        Ok(session) => session,
        Err(error) => return (Err(error), None),
    };
    let reorder_chunks = session.opened.reorder_chunks;
    let (mut context, _keep, _stop) = context(session, &request.settings, &request.limits, events).await;
    context.steer = Some(steer.clone());
    let setup = source::Setup {
        context,
        root: sources.root,
        specs: sources.specs,
        options: request.options.clone(),
        reorder_chunks,
        every_file: request.every_file,
    };
    let (result, end) = source::run(setup).await;
    (result, Some((end, true)))
}

async fn pull(
    request: &CopyRequest,
    remote: &Remote,
    from: &[Vec<u8>],
    paths: &[PathBuf],
    job: [u8; 16],
    (events, steer): (&mpsc::Sender<Event>, &Steering),
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    let work = Work::Copy {
        paths: from.to_vec(),
        names: request.names.clone(),
        options: request.options.clone(),
        single: false,
        source_key: [0; 16],
    };
    let session = match begin(request, remote, Direction::Pull, work, job).await {
        Ok(session) => session,
        Err(error) => return (Err(error), None),
    };
    let (single, source_key) = (session.opened.single, session.opened.source_key);
    let [path] = paths else { return (Err(SessionError::Fatal("a copy has one destination".to_owned())), None) };
    let target = match local_target(path, single, request.options.dry_run) {
        Ok(target) => target,
        Err(why) => return (Err(SessionError::Link(LinkError::Refused(why))), None),
    };
    let (mut context, _keep, _stop) = context(session, &request.settings, &request.limits, events).await;
    context.steer = Some(steer.clone());
    let setup = destination::Setup {
        context,
        root: target.root,
        root_is_new: target.is_new,
        label: target.label,
        single_name: target.single_name,
        single,
        options: request.options.clone(),
        source_key,
        holder: crate::serve::holder("longhaul copy"),
        every_file: request.every_file,
    };
    let (result, end) = destination::run(setup).await;
    (result, Some((end, false)))
}

async fn begin(request: &CopyRequest, remote: &Remote, direction: Direction, work: Work, job: [u8; 16]) -> Result<Session, SessionError> {
    let settings = bounded(&request.settings);
    let connected = reach(remote, &settings, &request.limits).await?;
    connected.open(Open { job, direction, work, settings }).await
}

/// The settings with a bound on streams that the other end can count with.
fn bounded(settings: &Settings) -> Settings {
    let streams_max = if settings.streams_max == 0 { STREAMS_AUTO_MAX } else { settings.streams_max };
    Settings { streams_max, ..settings.clone() }
}

async fn context(
    session: Session,
    wished: &Settings,
    limits: &crate::request::Limits,
    events: &mpsc::Sender<Event>,
) -> (Context, Option<crate::connect::Keep>, watch::Sender<bool>) {
    let (stop, stopped) = watch::channel(false);
    let Session { link, opened, key, ways, keep } = session;
    let name: String = opened.session.iter().map(|b| format!("{b:02x}")).collect();
    let started = Started { session: name, protection: opened.settings.protection, congestion: opened.settings.congestion.clone(), congestion_reason: None };
    let _ = events.send(Event::Started(started)).await;
    let context = Context {
        link,
        session: opened.session,
        key,
        streams_max: opened.settings.streams_max,
        auto_streams: wished.streams_max == 0,
        settings: opened.settings,
        ways,
        memory_bytes: limits.memory.get() / BUFFER_SHARE,
        limits: limits.clone(),
        driver: true,
        events: Some(events.clone()),
        steer: None,
        stop: stopped,
        counters: std::sync::Arc::default(),
    };
    (context, keep, stop)
}

fn fold(summary: &mut Summary, end: &End, sending: bool) {
    end.tally.summarise(summary);
    end.outlook.summarise(summary, sending);
}

fn failed(exit_code: u8, text: String) -> MoveError {
    MoveError { exit_code, text, source: None, again: false }
}

/// A session's error as the command's.
fn move_error(error: SessionError, attempts: u32) -> MoveError {
    let exit_code = match &error {
        SessionError::Busy(_) => 75,
        SessionError::Link(LinkError::Refused(why)) | SessionError::Abandoned(why) => match why.code {
            Code::Busy | Code::Stopping => 75,
            Code::Path | Code::Denied | Code::Version => 2,
            Code::Protocol | Code::Failed => 1,
        },
        SessionError::Stopped => 75,
        _ => 1,
    };
    let text = match attempts {
        0 | 1 => chain(&error),
        n => format!("{} (after {n} attempts; the same command continues where it was)", chain(&error)),
    };
    MoveError { exit_code, text, again: error.is_network(), source: None }
}

/// Runs a throughput test: memory to memory through the same engine as a copy.
///
/// # Errors
/// When the test could not begin or ended early.
pub async fn test(request: TestRequest, events: mpsc::Sender<Event>, steer: mpsc::Receiver<Steer>) -> Result<Summary, MoveError> {
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let direction = if request.reverse { Direction::Pull } else { Direction::Push };
    let (result, end) = one_way(&request, direction, request.duration, &events, Some(steer)).await;
    if let Some(end) = &end {
        let sending = direction == Direction::Push;
        end.outlook.summarise(&mut summary, sending);
        let verified = if sending { end.outlook.peer.bytes } else { end.outlook.bytes };
        summary.bytes = verified;
        summary.bytes_text = verified.to_string();
        summary.rate_bps = crate::session::tally::per_second(verified, end.outlook.elapsed());
    }
    result.map_err(|e| move_error(e, 0))?;
    summary.ok = true;
    let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
    Ok(summary)
}

async fn one_way(
    request: &TestRequest,
    direction: Direction,
    duration: Duration,
    events: &mpsc::Sender<Event>,
    steer: Option<mpsc::Receiver<Steer>>,
) -> (Result<(), SessionError>, Option<End>) {
    let open = async {
        let mut job = [0; 16];
        sys::random::fill(&mut job).map_err(|error| SessionError::Os { doing: "getting random bytes".to_owned(), error })?;
        let settings = bounded(&request.settings);
        let connected = reach(&request.remote, &settings, &request.limits).await?;
        let work = Work::Memory { duration_ms: duration.as_millis() as u64 };
        connected.open(Open { job, direction, work, settings }).await
    };
    let session = match open.await {
        Ok(session) => session,
        Err(error) => return (Err(error), None),
    };
    let (mut context, _keep, _stop) = context(session, &request.settings, &request.limits, events).await;
    context.steer = steer.map(|s| Arc::new(tokio::sync::Mutex::new(s)));
    let (result, end) = match direction {
        Direction::Push => memory::send(context, duration, request.interval, "forward").await,
        Direction::Pull => memory::receive(context, request.interval, "reverse").await,
    };
    (result, Some(end))
}
