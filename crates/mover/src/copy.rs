//! The driving end of a copy, from its request to its summary.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use proto::RelPath;
use proto::control::{Code, Control, Direction, Refusal, Settings, Work};
use tokio::sync::{mpsc, watch};

use crate::connect::{Ask, Session, reach};
use crate::control::retry::{Limits, Next, Retry};
use crate::ends::{Sources, driven_sources, driven_target};
use crate::event::{Event, Started, Summary};
use crate::frame::{PIPE_SHARE, chunk_max};
use crate::hook::{self, Programs};
use crate::io::output::REORDER_CHUNKS;
use crate::link::LinkError;
use crate::request::{BUFFER_SHARE, CopyRequest, MoveError, Place, Remote, Steer, Why};
use crate::server::Counters;
use crate::session::source::End;
use crate::session::{Context, SessionError, Steering, chain, destination, output, source, stopped};

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
    let (_never, stop) = watch::channel(false);
    copy_counted(request, events, steer, Arc::default(), stop).await
}

/// The same within a program that does more than this copy: its `counters` count it, and it ends when `stop` turns true, also
/// while it connects. Such an end does not wait for what is in flight; [`Steer::Stop`] does.
///
/// # Errors
/// As [`copy`].
pub async fn copy_counted(
    request: CopyRequest,
    events: mpsc::Sender<Event>,
    steer: mpsc::Receiver<Steer>,
    counters: Arc<Counters>,
    stop: watch::Receiver<bool>,
) -> Result<Summary, MoveError> {
    request.hooks.check().map_err(|error| failed(2, error.to_string()))?;
    let programs = Programs::new(request.hooks.clone(), request.options.dry_run);
    let steer = Steering::new(steer);
    let mut job = [0; 16];
    sys::random::fill(&mut job).map_err(|e| failed(1, format!("getting random bytes: {e}")))?;
    let driver = Driver { job, counters, stop, programs };
    let copied = match (&request.source, &request.destination) {
        (Place::Agent(..), Place::Agent(..)) => crate::relay::steer(&request, job, &events, &steer).await,
        _ => drive(&request, &driver, &events, &steer).await,
    };
    match copied {
        Ok(summary) => {
            let _ = events.send(Event::Summary(Box::new(summary.clone()))).await;
            Ok(summary)
        }
        Err(Early { error, attempts, begun, so_far }) => {
            let _ = events.send(Event::Summary(so_far)).await;
            Err(move_error(error, attempts, begun))
        }
    }
}

/// Who drives a copy: a command of its own, or an agent for somebody.
pub(crate) struct Driver {
    /// Names the copy at the other end.
    pub(crate) job: [u8; 16],
    /// Numbers of the agent; a command has some that nobody reads.
    pub(crate) counters: Arc<Counters>,
    /// Turns true when the copy is to stop.
    pub(crate) stop: watch::Receiver<bool>,
    /// Hooks of this end.
    pub(crate) programs: Programs,
}

/// Why a copy ended early.
pub(crate) struct Early {
    /// What happened at last.
    pub(crate) error: SessionError,
    /// Attempts made.
    pub(crate) attempts: u32,
    /// The session had begun: the same command continues it.
    pub(crate) begun: bool,
    /// What came of it until then.
    pub(crate) so_far: Box<Summary>,
}

/// Copies with this end as one of the two, through lost connections, to the end or to an error that another
/// attempt does not mend. The summary is returned, not told.
pub(crate) async fn drive(
    request: &CopyRequest,
    driver: &Driver,
    events: &mpsc::Sender<Event>,
    steer: &Steering,
) -> Result<Summary, Early> {
    let begin = Instant::now();
    let mut stop = driver.stop.clone();
    let digests_file = request.digests_file.as_ref().map(|path| path.to_string_lossy().into_owned());
    let mut summary = Summary { protection: request.settings.protection, digests_file, ..Summary::default() };
    let mut retry = Retry::new(Limits::default());
    // What went through a pipe is gone.
    let is_piped = matches!(request.source, Place::Pipe) || matches!(request.destination, Place::Pipe);
    let mut tried = 0;
    loop {
        // A rate that was changed since holds for every further attempt, from its first packet on.
        let changed = steer.rate().map(|rate_bps| {
            let settings = Settings { rate_bps, ..request.settings.clone() };
            CopyRequest { settings, ..request.clone() }
        });
        let (result, end) = once(changed.as_ref().unwrap_or(request), driver, events, steer).await;
        let progress = end.as_ref().is_some_and(|(end, _)| end.outlook.bytes > 0);
        if let Some((end, sending)) = &end {
            fold(&mut summary, end, *sending);
            count(&driver.counters, end, *sending);
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
        let worth_it = error.is_network() && !is_piped && (progress || summary.reconnects > 0);
        let Some(Next::Again { pause, attempt, of }) = worth_it.then(|| retry.failed(random())) else {
            let begun = end.is_some() || summary.reconnects > 0;
            hook::dataset::after(&driver.programs, &mut summary, Some(&error), (events, steer)).await;
            summary.seconds = begin.elapsed().as_secs_f64();
            let so_far = Box::new(summary);
            return Err(Early { error, attempts: tried, begun, so_far });
        };
        summary.reconnects += 1;
        let why = chain(&error);
        let _ = events.send(Event::Reconnect { attempt, of, why }).await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => {
                let so_far = Box::new(summary);
                return Err(Early { error: SessionError::Stopped, attempts: 1, begun: true, so_far });
            }
        }
    }
    summary.seconds = begin.elapsed().as_secs_f64();
    hook::dataset::after(&driver.programs, &mut summary, None, (events, steer)).await;
    Ok(summary)
}

/// Spreads the pauses of many that lost their connection at once.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the pause is the shortest of its turn.
    let _ = sys::random::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// One attempt. The second part tells what came of it, and whether this end was the source.
async fn once(
    request: &CopyRequest,
    driver: &Driver,
    events: &mpsc::Sender<Event>,
    steer: &Steering,
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    match (&request.source, &request.destination) {
        (Place::Local(_) | Place::Served(..) | Place::Pipe, Place::Agent(remote, to)) => {
            push(request, remote, to, driver, (events, steer)).await
        }
        (Place::Agent(remote, from), Place::Local(_) | Place::Served(..)) => {
            pull(request, remote, from, driver, (events, steer)).await
        }
        (Place::Agent(remote, from), Place::Pipe) => pull_to_pipe(request, remote, from, driver, (events, steer)).await,
        _ => (Err(SessionError::Fatal("this pair of places is not supported".to_owned())), None),
    }
}

async fn push(
    request: &CopyRequest,
    remote: &Remote,
    to: &[Vec<u8>],
    driver: &Driver,
    (events, steer): (&mpsc::Sender<Event>, &Steering),
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    let (from, single, source_key) = match sources(request, driver.job) {
        Ok(sources) => sources,
        Err(error) => return (Err(error), None),
    };
    let work =
        Work::Copy { paths: to.to_vec(), options: request.options.clone(), single, source_key, reorder_chunks: None };
    let mut from = from;
    if driver.programs.is_ready()
        && let Err(error) = from.begin(&request.options)
    {
        return (Err(error), None);
    }
    let session = match begin(request, remote, (Direction::Push, work, &[]), Some(&mut from), driver).await {
        Ok(session) => session,
        Err(error) => return (Err(error), None),
    };
    let (context, _keep) = context(session, &request.settings, &request.limits, (events, Some(steer.clone())), driver);
    let setup = source::Setup {
        context,
        from,
        options: request.options.clone(),
        reorder_chunks: None,
        every_file: request.every_file,
    };
    let (result, end) = source::run(setup).await;
    (result, Some((end, true)))
}

/// What a push moves, whether that is one thing that is no directory, and what names it.
fn sources(request: &CopyRequest, job: [u8; 16]) -> Result<(source::From, bool, [u8; 16]), SessionError> {
    match &request.source {
        Place::Local(_) | Place::Served(..) => {
            let refused = |why| SessionError::Link(LinkError::Refused(why));
            let sources = driven_sources(&request.source, request.names.clone()).map_err(refused)?;
            let Sources { root, specs, single, key } = sources;
            Ok((source::From::Tree { root, specs, early: None }, single, key))
        }
        // What went through a pipe cannot be had again, so no other command continues it.
        _ => {
            let input = std::io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| SessionError::Os { doing: "opening standard input".to_owned(), error })?;
            Ok((source::From::Input(input), true, job))
        }
    }
}

/// Asks an agent for what it is to send; `reorder_chunks` is what a pipe at this end can hold.
async fn begin_pull(
    request: &CopyRequest,
    remote: &Remote,
    from: &[Vec<u8>],
    driver: &Driver,
    reorder_chunks: Option<u32>,
) -> Result<Session, SessionError> {
    let work = Work::Copy {
        paths: from.to_vec(),
        options: request.options.clone(),
        single: false,
        source_key: [0; 16],
        reorder_chunks,
    };
    begin(request, remote, (Direction::Pull, work, &request.names), None, driver).await
}

async fn pull_to_pipe(
    request: &CopyRequest,
    remote: &Remote,
    from: &[Vec<u8>],
    driver: &Driver,
    (events, steer): (&mpsc::Sender<Event>, &Steering),
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    let session = match begin_pull(request, remote, from, driver, Some(REORDER_CHUNKS)).await {
        Ok(session) => session,
        Err(error) => return (Err(error), None),
    };
    if !session.opened.single {
        let text = "standard output takes one file, and this is a directory: name a file in it".to_owned();
        return (Err(LinkError::Refused(Refusal { code: Code::Path, text }).into()), None);
    }
    let output = match std::io::stdout().as_fd().try_clone_to_owned() {
        Ok(output) => output,
        Err(error) => return (Err(SessionError::Os { doing: "opening standard output".to_owned(), error }), None),
    };
    let (context, _keep) = context(session, &request.settings, &request.limits, (events, Some(steer.clone())), driver);
    let (result, end) = output::run(output::Setup { context, output, every_file: request.every_file }).await;
    (result, Some((end, false)))
}

async fn pull(
    request: &CopyRequest,
    remote: &Remote,
    from: &[Vec<u8>],
    driver: &Driver,
    (events, steer): (&mpsc::Sender<Event>, &Steering),
) -> (Result<(), SessionError>, Option<(End, bool)>) {
    let session = match begin_pull(request, remote, from, driver, None).await {
        Ok(session) => session,
        Err(error) => return (Err(error), None),
    };
    let (single, source_key) = (session.opened.single, session.opened.source_key);
    let target = match driven_target(&request.destination, single, request.options.dry_run) {
        Ok(target) => target,
        Err(why) => return (Err(SessionError::Link(LinkError::Refused(why))), None),
    };
    let who = match &request.destination {
        Place::Served(grant, _) => grant.name(),
        Place::Local(_) | Place::Pipe | Place::Agent(..) => "longhaul copy".to_owned(),
    };
    let (context, _keep) = context(session, &request.settings, &request.limits, (events, Some(steer.clone())), driver);
    let setup = destination::Setup {
        context,
        root: target.root,
        root_is_new: target.is_new,
        label: target.label,
        single_name: target.single_name,
        is_shared: target.is_shared,
        single,
        options: request.options.clone(),
        source_key,
        holder: crate::serve::holder(&who),
        every_file: request.every_file,
    };
    let (result, end) = destination::run(setup).await;
    (result, Some((end, false)))
}

async fn begin(
    request: &CopyRequest,
    remote: &Remote,
    (direction, work, names): (Direction, Work, &[RelPath]),
    from: Option<&mut source::From>,
    driver: &Driver,
) -> Result<Session, SessionError> {
    let is_piped = matches!(request.source, Place::Pipe) || matches!(request.destination, Place::Pipe);
    let settings = bounded(&request.settings, &request.limits, is_piped);
    let open = async {
        let connected = reach(remote, &settings, &request.limits, names.is_empty()).await?;
        // What was scanned while the connection was made.
        let says = from.map(source::From::announce).unwrap_or_default();
        let says = says.into_iter().map(Control::Source).collect();
        let ask = Ask { job: driver.job, direction, work, settings: settings.clone() };
        connected.open(ask, names, says).await
    };
    let mut stop = driver.stop.clone();
    tokio::select! {
        session = open => session,
        () = stopped(&mut stop) => Err(SessionError::Stopped),
    }
}

/// The settings with a bound on streams that the other end can count with, and chunks that this end has memory for.
pub(crate) fn bounded(settings: &Settings, limits: &crate::request::Limits, is_piped: bool) -> Settings {
    let streams_max = if settings.streams_max == 0 { limits.streams_auto.max(1) } else { settings.streams_max };
    let share = if is_piped { BUFFER_SHARE * PIPE_SHARE } else { BUFFER_SHARE };
    let chunk_size = settings.chunk_size.min(chunk_max(limits.memory.get() / share));
    Settings { streams_max, chunk_size, ..settings.clone() }
}

/// What a session of this end works with, and what keeps the other end alive.
pub(crate) fn context(
    session: Session,
    wished: &Settings,
    limits: &crate::request::Limits,
    (events, steer): (&mpsc::Sender<Event>, Option<Steering>),
    driver: &Driver,
) -> (Context, Option<crate::connect::Keep>) {
    let Session { id, link, opened, key, rtt, ways, placement, keep } = session;
    let name: String = id.iter().map(|b| format!("{b:02x}")).collect();
    let started =
        Started { session: name, protection: opened.settings.protection, congestion: None, congestion_reason: None };
    let context = Context {
        link,
        session: id,
        key,
        streams_max: opened.settings.streams_max,
        auto_streams: wished.streams_max == 0,
        settings: opened.settings,
        rate_max_bps: opened.rate_max_bps,
        rtt,
        ways,
        placement,
        memory_bytes: limits.memory.get() / BUFFER_SHARE,
        limits: limits.clone(),
        driver: true,
        events: Some(events.clone()),
        started: Some(started),
        steer,
        stop: driver.stop.clone(),
        counters: driver.counters.clone(),
        programs: driver.programs.clone(),
    };
    (context, keep)
}

/// What the session itself does not count for the agent.
fn count(counters: &Counters, end: &End, sending: bool) {
    if sending {
        counters.bytes_out.fetch_add(end.outlook.bytes, Ordering::Relaxed);
    }
    counters.retransmits.fetch_add(end.outlook.sample.retransmits, Ordering::Relaxed);
}

fn fold(summary: &mut Summary, end: &End, sending: bool) {
    end.tally.summarise(summary);
    end.outlook.summarise(summary, sending);
}

fn failed(exit_code: u8, text: String) -> MoveError {
    MoveError { exit_code, text, source: None, again: false, why: Why::Other }
}

/// A session's error as the command's. `begun` if a session was open at all: then it can be continued.
pub(crate) fn move_error(error: SessionError, attempts: u32, begun: bool) -> MoveError {
    let exit_code = match &error {
        error if begun && error.is_network() => 75,
        SessionError::Link(LinkError::Gone(_)) if begun => 75,
        // So does an agent that has as many connections as it takes.
        SessionError::Link(LinkError::Lost(error)) if is_closed(error) => 75,
        SessionError::Busy(_) => 75,
        SessionError::Link(LinkError::Refused(why)) | SessionError::Abandoned(why) => match why.code {
            Code::Busy | Code::Stopping => 75,
            Code::Path | Code::Denied | Code::Version => 2,
            Code::Protocol | Code::Failed | Code::Unreachable => 1,
        },
        SessionError::Stopped => 75,
        _ => 1,
    };
    let text = match attempts {
        _ if begun && matches!(error, SessionError::Link(LinkError::Gone(_))) => {
            format!("{}; the same command continues where it was", chain(&error))
        }
        0 | 1 => chain(&error),
        n => format!("{} (after {n} attempts; the same command continues where it was)", chain(&error)),
    };
    MoveError { exit_code, text, again: error.is_network(), source: None, why: why(&error) }
}

/// Whether the other end answered, and then closed; not that nobody answers.
fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn why(error: &SessionError) -> Why {
    match error {
        SessionError::Link(LinkError::Refused(why)) | SessionError::Abandoned(why) if why.code != Code::Stopping => {
            Why::Refused(why.code, Why::system_number(&why.text))
        }
        SessionError::Link(_) | SessionError::Streams(_) | SessionError::Abandoned(_) => Why::Network,
        SessionError::Os { error, .. } => Why::System(error.raw_os_error()),
        // What threads tell of a disk comes as text.
        SessionError::Fatal(text) => Why::system_number(text).map_or(Why::Other, |number| Why::System(Some(number))),
        SessionError::Stopped => Why::Stopped,
        SessionError::Busy(_) => Why::Busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_to_be_found_have_a_bound_of_their_own() {
        let asked = |streams_max, streams_auto| {
            let settings = Settings { streams_max, ..crate::net::open::plain_settings() };
            let limits = crate::request::Limits { streams_auto, ..Default::default() };
            bounded(&settings, &limits, false).streams_max
        };
        assert_eq!(crate::request::Limits::default().streams_auto, crate::request::STREAMS_AUTO_MAX);
        assert_eq!([asked(0, 16), asked(0, 5), asked(0, 0), asked(128, 5)], [16, 5, 1, 128]);
    }

    #[test]
    fn what_a_pipe_keeps_fits_too() {
        let chunk = |is_piped, memory| {
            let limits = crate::request::Limits { memory: units::Bytes::new(memory), ..Default::default() };
            let settings = Settings { chunk_size: 4 << 20, ..crate::net::open::plain_settings() };
            u64::from(bounded(&settings, &limits, is_piped).chunk_size)
        };
        for memory in [64 << 20, 512 << 20] {
            let [plain, piped] = [false, true].map(|is_piped| chunk(is_piped, memory));
            assert!(plain * crate::frame::FRAMES_MIN <= memory / BUFFER_SHARE);
            let kept = proto::source::STREAM_PARCELS_MAX.max(u64::from(REORDER_CHUNKS));
            assert!(piped * (crate::frame::FRAMES_MIN + kept) <= memory / BUFFER_SHARE);
            assert!(piped * 2 * u64::from(REORDER_CHUNKS) <= memory / BUFFER_SHARE);
        }
    }
}
