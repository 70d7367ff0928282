//! The hook after a command's dataset: once, however many sessions the command needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::RelPath;
use tokio::sync::mpsc;

use super::{Moment, Occasion, Programs, TIME_MAX, run};
use crate::event::{ERRORS_MAX, Event, Summary};
use crate::request::Steer;
use crate::session::hooks::STOPPED_TIME_MAX;
use crate::session::tally::file_event;
use crate::session::{SessionError, Steering, steered};

/// Exit code of a command whose hook failed after everything is in place.
const PARTLY: u8 = 6;

/// Runs the hook after the dataset, if the dataset was begun; `failed` is why the last session ended early. If the hook
/// fails, that is told and makes the summary one of a copy that is partly done. It is killed when the user says stop.
pub async fn after(
    programs: &Programs,
    summary: &mut Summary,
    failed: Option<&SessionError>,
    (events, steer): (&mpsc::Sender<Event>, &Steering),
) {
    let Some(site) = programs.begun().filter(|_| programs.hooks.of(Moment::AfterDataset).is_some()) else { return };
    let occasion = Occasion {
        outcome: Some(if failed.is_none() && summary.ok { "ok" } else { "failed" }),
        files: Some(summary.files),
        bytes: Some(summary.bytes),
        ..Occasion::default()
    };
    let time_max = if matches!(failed, Some(SessionError::Stopped)) { STOPPED_TIME_MAX } else { TIME_MAX };
    let stop = Arc::new(AtomicBool::new(false));
    let (hooks, stopped) = (programs.hooks.clone(), stop.clone());
    let work = move || run(&hooks, Moment::AfterDataset, (&site, &occasion), &stopped, time_max);
    let mut running = tokio::task::spawn_blocking(work);
    let mut steer = Some(steer.clone());
    let verdict = loop {
        tokio::select! {
            verdict = &mut running => break verdict,
            change = steered(&mut steer) => stop.fetch_or(change == Steer::Stop, Ordering::Relaxed),
        };
    };
    let why = match verdict {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => format!("hook {}: {error}", Moment::AfterDataset.name()),
    };
    let _ = events.send(Event::Warning { text: why.clone() }).await;
    let event = file_event(&RelPath::root(), "failed", 0, Some(why));
    if summary.errors.len() < ERRORS_MAX {
        summary.errors.push(event.clone());
    }
    let _ = events.send(Event::File(event)).await;
    summary.files_failed += 1;
    summary.ok = false;
    if summary.exit_code == 0 {
        summary.exit_code = PARTLY;
    }
}
