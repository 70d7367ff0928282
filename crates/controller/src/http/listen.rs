//! `GET /events`: Server-Sent Events. A client that is cut off comes back with `Last-Event-ID` and misses nothing that is kept.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api::rest::{Event, Kind, Problem, Time};
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::numbers::{Counted, Numbers};
use super::{Face, answer};
use crate::app::App;
use crate::events::Listening;

/// After so long without an event something is said nevertheless, so that both ends see whether the other is there.
const SILENCE: Duration = Duration::from_secs(15);
/// When a client that is cut off may come back, ms.
const RETRY_MS: u32 = 1000;
/// When to try again if all places are taken, s.
const AGAIN_SECONDS: u64 = 5;

/// What is sent, piece by piece.
struct Telling<G> {
    first: Option<String>,
    missed: VecDeque<Event>,
    live: Receiver<Event>,
    numbers: Arc<Numbers>,
    /// The place of the client, as long as it listens.
    _keep: G,
}

/// Answers with what was missed and what comes, until the client goes away or is too slow.
pub(super) fn events<A: App>(face: &Face<A>, headers: &HeaderMap, now: Time) -> Result<Response, Problem> {
    let after = last_seen(headers)?;
    let place = face.listeners.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Kind::TooMany, "as many clients as may listen to events do so").again(AGAIN_SECONDS)
    })?;
    let counted = Counted::new(&face.numbers, |numbers| &numbers.listeners);
    let Listening { missed, live } = face.app.events().listen(after, now);
    let telling = Telling {
        first: Some(format!("retry: {RETRY_MS}\n\n")),
        missed: missed.into(),
        live,
        numbers: face.numbers.clone(),
        _keep: (place, counted),
    };
    let pieces = stream::unfold(telling, async |mut telling| {
        let piece = telling.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), telling))
    });
    Ok(answer::with(StatusCode::OK, "text/event-stream", Body::from_stream(pieces)))
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let wrong = || Problem::new(Kind::Malformed, "`Last-Event-ID` is no number of an event").fix("leave it out");
    number.map(Some).ok_or_else(wrong)
}

impl<G> Telling<G> {
    /// `None` ends the answer: the client was too slow, or the controller ends.
    async fn next(&mut self) -> Option<String> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if let Some(event) = self.missed.pop_front() {
            return Some(written(&event));
        }
        match tokio::time::timeout(SILENCE, self.live.recv()).await {
            Ok(Ok(event)) => Some(written(&event)),
            Ok(Err(RecvError::Lagged(_))) => {
                self.numbers.let_go.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                None
            }
            Ok(Err(RecvError::Closed)) => None,
            Err(_) => Some(":\n\n".to_owned()),
        }
    }
}

/// JSON has no line breaks of its own, and words of kinds have none.
fn written(event: &Event) -> String {
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.id, event.kind)
}
