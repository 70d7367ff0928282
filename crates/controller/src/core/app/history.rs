//! History, as the archive has it. It is read on the archive's thread; the core is only asked for the way to it.

use std::sync::Arc;

use api::rest::{self, History, HistoryQuery, Kind, Problem, Series, Time};
use tokio::sync::oneshot;

use super::{AGAIN_SECONDS, Clock, Face, internal, stopping};
use crate::app::Answer;
use crate::core::history::Shut;
use crate::store::{Archive, POINTS_MAX};

/// Answers that are read at once, or wait for it: the archive has room for more, which is for what is to be kept.
pub(super) const HISTORIES_MAX: usize = 4;

const _: () = assert!(rest::POINTS_MAX == POINTS_MAX && rest::SERIES_NAME_MAX == crate::store::SERIES_NAME_MAX);

/// Points of a series.
pub(super) async fn points(face: &Face, query: HistoryQuery) -> Answer<History> {
    let now = Time::from_unix_ms(Clock::new().now().0);
    let [from, to] = query.window(now)?;
    let HistoryQuery { series, points, .. } = query;
    let most = points.unwrap_or(rest::POINTS_DEFAULT);
    let read = move |archive: &mut Archive| {
        if !archive.has(&series) {
            let problem = Problem::not_found(format!("series `{series}`"));
            return Err(
                problem.fix("look at GET /api/v1/history/series: one begins when there is something to be said")
            );
        }
        let answer = archive.query(&series, from.unix_ms(), to.unix_ms(), most).map_err(|error| internal(&error))?;
        let point = |point: crate::store::Point| rest::Point {
            at: Time::from_unix_ms(point.at_ms),
            mean: point.mean,
            max: point.max,
            count: point.count,
        };
        let points = answer.points.into_iter().map(point).collect();
        Ok(History { series, from, to, grain_ms: answer.grain_ms, points })
    };
    ask(face, read).await
}

/// All series.
pub(super) async fn series(face: &Face) -> Answer<Vec<Series>> {
    let read = |archive: &mut Archive| {
        let shown = |name: &str| {
            let last = archive.last(name);
            let at = last.map(|(at_ms, _)| Time::from_unix_ms(at_ms));
            Series { name: name.to_owned(), at, value: last.map(|(_, value)| value) }
        };
        Ok(archive.names().map(shown).collect())
    };
    ask(face, read).await
}

async fn ask<T, F>(face: &Face, read: F) -> Answer<T>
where
    T: Send + 'static,
    F: FnOnce(&mut Archive) -> Answer<T> + Send + 'static,
{
    let Ok(place) = Arc::clone(&face.histories).acquire_owned().await else { return Err(stopping()) };
    let reader = face.look(|core| Ok(core.stores.archive.reader())).await?;
    let (tell, told) = oneshot::channel();
    // The place is kept until it is done: also who went away has something that waits.
    let look = Box::new(move |archive: &mut Archive| {
        let _place = place;
        if !tell.is_closed() {
            drop(tell.send(read(archive)));
        }
    });
    reader.look(look).map_err(|shut| match shut {
        Shut::Busy => {
            let problem = Problem::new(Kind::TooMany, "the archive has more waiting than it takes");
            problem.fix("try again a little later").again(AGAIN_SECONDS)
        }
        Shut::Ended => stopping(),
    })?;
    told.await.map_err(|_| stopping())?
}
