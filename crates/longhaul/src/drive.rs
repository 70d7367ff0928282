//! Runs a copy or test to its end: hands on its events, and the user's signals to it.

use std::future::Future;

use anyhow::{Context, Result};
use mover::event::{Event, Summary};
use mover::request::{MoveError, Steer};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit;
use crate::output::{Outputs, note};

/// Events that wait to be told; at this number the mover waits.
const EVENTS_MAX: usize = 1024;
/// Changes that wait to be made; at this number those who ask wait.
const STEERS_MAX: usize = 16;

/// Both ends of what a running work tells and is told.
pub(crate) struct Lines {
    events: mpsc::Receiver<Event>,
    /// For the control socket.
    pub(crate) steer: mpsc::Sender<Steer>,
}

/// The other ends, for the mover.
pub(crate) struct Ends {
    /// Where events go.
    pub(crate) events: mpsc::Sender<Event>,
    /// Where changes come from.
    pub(crate) steer: mpsc::Receiver<Steer>,
}

/// New channels.
pub(crate) fn lines() -> (Lines, Ends) {
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    let (steer, receiver) = mpsc::channel(STEERS_MAX);
    (Lines { events, steer }, Ends { events: sender, steer: receiver })
}

/// What a reader that goes away means for the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenClosed {
    /// It goes on: the data still have to arrive.
    GoOn,
    /// It stops: nobody wants its numbers any more.
    Stop,
}

/// Runs `work` to its end.
///
/// The first SIGINT or SIGTERM lets it finish what is in flight; the second ends it at once.
///
/// # Errors
/// What the work says, or that it was ended at once.
pub(crate) async fn drive<F>(work: F, lines: Lines, outputs: &mut Outputs, when_closed: WhenClosed) -> Result<Summary>
where
    F: Future<Output = Result<Summary, MoveError>>,
{
    let Lines { mut events, steer } = lines;
    let mut signals = Signals::new()?;
    let mut work = Box::pin(work);
    let mut stopping = false;
    let result = loop {
        tokio::select! {
            Some(event) = events.recv() => outputs.event(&event),
            () = signals.next() => {
                if stopping {
                    // Its threads may be in a system call; the end of the process ends them.
                    std::mem::forget(work);
                    return Err(exit::interrupted());
                }
                stopping = true;
                note("stopping: what is in flight is finished; the same command continues where it was. Once more ends it at once");
                ask_to_stop(&steer);
            }
            result = &mut work => break result,
        }
        if outputs.is_closed() && when_closed == WhenClosed::Stop && !stopping {
            stopping = true;
            ask_to_stop(&steer);
        }
    };
    while let Ok(event) = events.try_recv() {
        outputs.event(&event);
    }
    result.map_err(resumable)
}

fn ask_to_stop(steer: &mpsc::Sender<Steer>) {
    // Full means that others ask faster than it listens; a second signal still ends it.
    let _ = steer.try_send(Steer::Stop);
}

/// Says how to go on, where that helps.
fn resumable(mut error: MoveError) -> anyhow::Error {
    // Where it was told to stop, the mover says so itself.
    if error.again && !error.text.contains("same command") {
        error.text.push_str("; the same command continues where it was");
    }
    error.into()
}

/// Signals that no longer end the process by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// Listens to SIGINT and SIGTERM, on the runtime that calls.
    ///
    /// # Errors
    /// When it cannot be listened to them.
    pub(crate) fn new() -> Result<Signals> {
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Signals { interrupt, terminate, hangup: None })
    }

    /// Listens to SIGHUP too, as a terminal sends it that closes, unless this process was told to ignore it (`nohup`).
    ///
    /// # Errors
    /// As [`Signals::new`].
    pub(crate) fn with_hangup() -> Result<Signals> {
        let hangup = (!sys::process::ignores_hangup()).then(|| listen(SignalKind::hangup())).transpose()?;
        Ok(Signals { hangup, ..Signals::new()? })
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot listen to signals")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{End, Exporter};

    /// A reader that is gone.
    struct Gone;

    impl Exporter for Gone {
        fn event(&mut self, _: &Event) -> Result<()> {
            Err(exit::OutputClosed.into())
        }

        fn end(&mut self, _: &End<'_>) -> Result<()> {
            Ok(())
        }
    }

    fn failing(again: bool) -> MoveError {
        MoveError {
            exit_code: exit::AGAIN,
            text: "the connection was lost".into(),
            source: None,
            again,
            why: mover::request::Why::Network,
        }
    }

    #[tokio::test]
    async fn an_error_keeps_its_code_and_says_how_to_go_on() {
        for (again, text) in [
            (true, "the connection was lost; the same command continues where it was"),
            (false, "the connection was lost"),
        ] {
            let (lines, _ends) = lines();
            let error = drive(async { Err(failing(again)) }, lines, &mut Outputs::default(), WhenClosed::GoOn)
                .await
                .unwrap_err();
            assert_eq!((exit::code_of(&error), exit::one_line(&error)), (exit::AGAIN, text.to_owned()));
        }
    }

    #[tokio::test]
    async fn when_nobody_reads_a_test_is_stopped() {
        let (lines, ends) = lines();
        let mut outputs = Outputs::default();
        outputs.add(Gone);
        let work = async move {
            let Ends { events, mut steer } = ends;
            events.send(Event::Warning { text: "x".into() }).await.unwrap();
            assert_eq!(steer.recv().await, Some(Steer::Stop));
            Ok(Summary { ok: true, ..Summary::default() })
        };
        assert!(drive(work, lines, &mut outputs, WhenClosed::Stop).await.unwrap().ok);
    }
}
