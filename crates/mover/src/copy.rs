//! The driving end: a command's copy or test, from its request to its summary.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::control::{Code, Direction, Open, Settings, Work};
use tokio::sync::{mpsc, watch};

use crate::connect::{Session, reach};
use crate::control::retry::{Limits, Next, Retry};
use crate::ends::{local_sources, local_target};
use crate::event::{Event, Started, Summary, SweepStep};
use crate::hook::{self, Programs};
use crate::link::LinkError;
use crate::request::{CopyRequest, MoveError, Place, Remote, Steer, TestRequest};
use crate::session::source::End;
use crate::session::{Context, SessionError, Steering, chain, destination, memory, source};

/// Streams at most when their number is to be found and nobody set a bound.
const STREAMS_AUTO_MAX: u16 = 16;
/// Share of the memory limit that is for buffers; the rest is for the manifest and the program.
const BUFFER_SHARE: u64 = 2;

/// Copies a dataset. Events go to `events`; `steer` changes it while it runs. The last event is the summary
/// that is also returned.
///
/// # Errors
/// When the copy could not begin or ended early; a copy that ran to its end with failed files is a summary.
pub async fn copy(
    request: CopyRequest,
    events: mpsc::Sender<Event>,
    steer: mpsc::Receiver<Steer>,
) -> Result<Summary, MoveError> {
    refuse_what_is_missing(&request)?;
    request.hooks.check().map_err(|error| failed(2, error.to_string()))?;
    let programs = Programs::new(request.hooks.clone(), request.options.dry_run);
    let begin = Instant::now();
    let steer: Steering = Arc::new(tokio::sync::Mutex::new(steer));
    let mut job = [0; 16];
    sys::random::fill(&mut job).map_err(|e| failed(1, format!("getting random bytes: {e}")))?;
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let mut retry = Retry::new(Limits::default());
    let mut tried = 0;
    loop {
        let (result, end) = once(&request, job, &programs, (&events, &steer)).await;
        let progress = end.as_ref().is_some_and(|(end, _)| end.outlook.bytes > 0);
        if let Some((end, sending)) = &end {
            fold(&mut summary, end, *sending);
        }
        let error = match result {
            Ok(()) => break,
            Err(error) => error,
        };
        if progress {
            retry.progressed();
        }
        tried += 1;
        // What never worked will not get better by trying: a wrong address is told at once.
        let worth_it = error.is_network() && (progress || summary.reconnects > 0);
        let Some(Next::Again { pause, attempt, of }) = worth_it.then(|| retry.failed(random())) else {
            let failed = Err(error);
            hook::dataset::after(&programs, &mut summary, &failed, (&events, &steer)).await;
            return failed.map(|()| summary).map_err(|error| move_error(error, tried));
        };
        summary.reconnects += 1;
        let why = chain(&error);
        let _ = events.send(Event::Reconnect { attempt, of, why }).await;
        tokio::time::sleep(pause).await;
    }
    summary.seconds = begin.elapsed().as_secs_f64();
    hook::dataset::after(&programs, &mut summary, &Ok(()), (&events, &steer)).await;
    let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
    Ok(summary)
}

/// Says at once what this version cannot do, instead of doing something else.
fn refuse_what_is_missing(request: &CopyRequest) -> Result<(), MoveError> {
    let missing = match (&request.source, &request.destination) {
        (Place::Pipe, _) | (_, Place::Pipe) => "standard input and output are not carried by this version: name a file",
        (Place::Agent(..), Place::Agent(..)) => {
            "copies between two agents are not driven by this version: run the copy at one of them"
        }
        (Place::Local(_), Place::Local(_)) => "both ends are on this host: name an agent or an ssh host at one of them",
        _ => return Ok(()),
    };
    Err(failed(2, missing.to_owned()))
}

/// Spreads the pauses of many that lost their connection at once.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the pause is the shortest of its turn.
    let _ = sys::random::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// One attempt. The second part tells what came of it, and whether this end was the source.
async fn once(
    request: &CopyRequest,
    job: [u8; 16],
    programs: &Programs,
    lines: (&mpsc::Sender<Event>, &Steering),
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    match (&request.source, &request.destination) {
        (Place::Local(paths), Place::Agent(remote, to)) => {
            push(request, paths, remote, to, (job, programs), lines).await
        }
        (Place::Agent(remote, from), Place::Local(paths)) => {
            pull(request, remote, from, paths, (job, programs), lines).await
        }
        _ => (Err(SessionError::Fatal("this pair of places is not supported".to_owned())), None),
    }
}

async fn push(
    request: &CopyRequest,
    paths: &[PathBuf],
    remote: &Remote,
    to: &[Vec<u8>],
    (job, programs): ([u8; 16], &Programs),
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
    context.programs = programs.clone();
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
    (job, programs): ([u8; 16], &Programs),
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
    context.programs = programs.clone();
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

async fn begin(
    request: &CopyRequest,
    remote: &Remote,
    direction: Direction,
    work: Work,
    job: [u8; 16],
) -> Result<Session, SessionError> {
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
    let started = Started {
        session: name,
        protection: opened.settings.protection,
        congestion: opened.settings.congestion.clone(),
        congestion_reason: None,
    };
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
        programs: Programs::default(),
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
pub async fn test(
    request: TestRequest,
    events: mpsc::Sender<Event>,
    steer: mpsc::Receiver<Steer>,
) -> Result<Summary, MoveError> {
    if request.sweep {
        return sweep(&request, &events).await;
    }
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let direction = if request.reverse { Direction::Pull } else { Direction::Push };
    let one = one_way(&request, direction, request.duration, &events, Some(steer));
    let (result, end) = if request.bidirectional {
        let other = if request.reverse { Direction::Push } else { Direction::Pull };
        let (one, back) = tokio::join!(one, one_way(&request, other, request.duration, &events, None));
        back.0.map_err(|e| move_error(e, 0))?;
        summary.reverse_rate_bps = back.1.map(|end| verified(&end, other).1);
        one
    } else {
        one.await
    };
    if let Some(end) = &end {
        end.outlook.summarise(&mut summary, direction == Direction::Push);
        (summary.bytes, summary.rate_bps) = verified(end, direction);
        summary.bytes_text = summary.bytes.to_string();
    }
    result.map_err(|e| move_error(e, 0))?;
    summary.ok = true;
    let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
    Ok(summary)
}

/// Bytes that the receiving end verified, and their rate.
fn verified(end: &End, direction: Direction) -> (u64, u64) {
    let bytes = if direction == Direction::Push { end.outlook.peer.bytes } else { end.outlook.bytes };
    (bytes, crate::session::tally::per_second(bytes, end.outlook.elapsed()))
}

/// Gain that more streams must bring to count, per mille.
const KNEE_GAIN: u64 = 50;

/// Doubles the number of streams until throughput stops rising.
async fn sweep(request: &TestRequest, events: &mpsc::Sender<Event>) -> Result<Summary, MoveError> {
    let mut summary = Summary { protection: request.settings.protection, ..Summary::default() };
    let most = if request.settings.streams_max == 0 { STREAMS_AUTO_MAX } else { request.settings.streams_max };
    let direction = if request.reverse { Direction::Pull } else { Direction::Push };
    let (mut best, mut streams) = (0, 1);
    while streams <= most {
        let settings = Settings { streams_max: streams, ..request.settings.clone() };
        let step = TestRequest { settings, ..request.clone() };
        let (result, end) = one_way(&step, direction, request.duration, events, None).await;
        result.map_err(|e| move_error(e, 0))?;
        let Some(end) = end else { break };
        let (bytes, rate_bps) = verified(&end, direction);
        summary.sweep.push(SweepStep { streams, rate_bps });
        if u128::from(rate_bps) * 1000 < u128::from(best) * u128::from(1000 + KNEE_GAIN) {
            break;
        }
        best = rate_bps;
        summary.knee = Some(streams);
        end.outlook.summarise(&mut summary, direction == Direction::Push);
        (summary.bytes, summary.rate_bps) = (bytes, rate_bps);
        summary.bytes_text = bytes.to_string();
        streams *= 2;
    }
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
        sys::random::fill(&mut job)
            .map_err(|error| SessionError::Os { doing: "getting random bytes".to_owned(), error })?;
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
