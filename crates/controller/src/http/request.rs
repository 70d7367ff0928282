//! From a request to the call it means: token, rate, rights, body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use api::rest::{BODY_LARGE_MAX, BODY_MAX, Check, KEY_MAX, Kind, Problem, Role, Time, TransferId};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, RawPathParams};
use axum::http::{HeaderMap, Request, Uri, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::places::Origin;
use super::rights::Deed;
use super::routes::{Media, Route};
use super::{Face, answer, auth, dispatch};
use crate::app::{App, Caller, IdempotencyKey};

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// A request of somebody who may make it.
pub(super) struct Ask<'a, A> {
    pub(super) face: &'a Arc<Face<A>>,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
    pub(super) key: Option<IdempotencyKey>,
    params: Vec<(String, String)>,
    uri: Uri,
    body: Bytes,
}

/// Does what a request asks for.
pub(super) async fn run<A: App>(
    route: &'static Route,
    face: Arc<Face<A>>,
    params: RawPathParams,
    request: Request<Body>,
) -> Response {
    let response = match ask(route, &face, params, request).await {
        Ok(response) => response,
        Err(problem) => {
            if problem.status >= 500 {
                tracing::warn!(path = route.path, %problem, "request failed");
            }
            answer::problem(&problem)
        }
    };
    face.numbers.answered(response.status().as_u16());
    response
}

async fn ask<A: App>(
    route: &'static Route,
    face: &Arc<Face<A>>,
    params: RawPathParams,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let from = head.extensions.get::<Peer>().map(|peer| peer.0);
    let caller = admit(route, face, &head.headers, from)?;
    let key = key(&head.headers)?;
    let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let body = read(route, face, &head.headers, body).await?;
    let ask = Ask { face, caller, headers: head.headers, key, params, uri: head.uri, body };
    dispatch::call(route.call, ask).await
}

/// Who asks, if that one may do this, now.
fn admit<A: App>(
    route: &Route,
    face: &Face<A>,
    headers: &HeaderMap,
    from: Option<SocketAddr>,
) -> Result<Caller, Problem> {
    let bounds = &face.options.bounds;
    let known = auth::bearer(headers).and_then(|digest| face.app.caller(&digest));
    let now = Instant::now();
    let Some(caller) = known else {
        let origin = from.map_or_else(String::new, |from| Origin::of(from.ip()).to_string());
        // No name of a token has a slash.
        if !face.rates.take(&format!("/{origin}"), bounds.strangers, now) {
            return Err(too_often("this address"));
        }
        let open = match route.deed {
            None => true,
            Some(deed) => deed == Deed::Metrics && face.options.open_metrics,
        };
        if open {
            return Ok(Caller { name: String::new(), role: Role::Viewer });
        }
        let problem = Problem::new(Kind::Unauthenticated, "the request has no token that is known and good");
        return Err(problem.fix("send `Authorization: Bearer TOKEN` with a token from POST /api/v1/tokens"));
    };
    if !face.rates.take(&caller.name, bounds.requests, now) {
        return Err(too_often(&format!("the token `{}`", caller.name)));
    }
    match route.deed {
        Some(deed) if !deed.allows(caller.role.word()) => Err(forbidden(route, &caller, deed)),
        _ => Ok(caller),
    }
}

fn too_often(who: &str) -> Problem {
    Problem::new(Kind::TooMany, format!("{who} asks more often than it may")).fix("ask for more at once").again(1)
}

fn forbidden(route: &Route, caller: &Caller, deed: Deed) -> Problem {
    let word =
        |role| serde_json::to_value(role).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default();
    let (has, needs) = (word(caller.role.word()), word(deed.least()));
    let detail =
        format!("the token `{}` is of a {has}, {} {} needs at least {needs}", caller.name, route.method, route.path);
    Problem::new(Kind::Forbidden, detail).fix("ask an admin for another token")
}

fn key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let fits = (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        return Ok(Some(IdempotencyKey(text.to_owned())));
    }
    let detail = format!("`Idempotency-Key` is not 1 to {KEY_MAX} printable characters without spaces");
    Err(Problem::new(Kind::Malformed, detail).fix("send a random UUID"))
}

/// The body, within its bounds.
async fn read<A>(route: &Route, face: &Face<A>, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let Some(media) = route.takes else {
        // What is not asked for is not read; the connection is closed behind the answer if there is any.
        return Ok(Bytes::new());
    };
    check_media(media, headers)?;
    let most = if route.large { BODY_LARGE_MAX } else { BODY_MAX };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let detail = format!("the body is longer than {most} bytes");
        Problem::new(Kind::TooLarge, detail).fix("split it into several requests")
    };
    if length.is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let patience = face.options.bounds.body_time;
    let late = || {
        let detail = format!("the body did not arrive within {} s", patience.as_secs_f32());
        Problem::new(Kind::Timeout, detail).fix("send less at once, or over a faster path")
    };
    let reading = async {
        let _place = if route.large { face.large_bodies.acquire().await.ok() } else { None };
        to_bytes(body, most).await
    };
    match timeout(patience, reading).await.map_err(|_| late())? {
        Ok(bytes) => Ok(bytes),
        Err(error) if is_too_long(&error) => Err(too_large()),
        Err(error) => Err(Problem::new(Kind::Malformed, format!("the body ended early: {error}"))),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>())
}

/// Without a media type the body is what the route takes.
fn check_media(media: Media, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let given = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if media.names().iter().any(|name| name.eq_ignore_ascii_case(given)) {
        return Ok(());
    }
    let shown: String = given.chars().take(60).collect();
    let problem = Problem::new(Kind::UnsupportedMedia, format!("the body is of media type `{shown}`"));
    Err(problem.fix(format!("send it as `{}`", media.names()[0])))
}

impl<A> Ask<'_, A> {
    /// A part of the path.
    pub(super) fn param(&self, name: &str) -> Result<&str, Problem> {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| Problem::not_found(name))
    }

    /// A part of the path that is the name of something.
    pub(super) fn name(&self, name: &str) -> Result<&str, Problem> {
        let value = self.param(name)?;
        api::rest::checked_name(name, value)?;
        Ok(value)
    }

    /// A part of the path that is the name of an agent.
    pub(super) fn agent(&self, name: &str) -> Result<&str, Problem> {
        let value = self.param(name)?;
        api::rest::checked_agent(name, value)?;
        Ok(value)
    }

    /// A part of the path that names a resource: links have a colon.
    pub(super) fn resource(&self, name: &str) -> Result<&str, Problem> {
        let value = self.param(name)?;
        if value.is_empty() || value.len() > 2 * api::rest::NAME_MAX || value.contains(char::is_control) {
            return Err(api::rest::Wrong::new(name, "it names no resource").into());
        }
        Ok(value)
    }

    /// The transfer that the path names.
    pub(super) fn id(&self) -> Result<TransferId, Problem> {
        Ok(self.param("id")?.parse::<TransferId>()?)
    }

    /// What is asked for behind the `?`.
    pub(super) fn query<T: DeserializeOwned + Check>(&self) -> Result<T, Problem> {
        let Query(query) = Query::<T>::try_from_uri(&self.uri)
            .map_err(|error| Problem::new(Kind::Malformed, format!("the query cannot be read: {}", chain(&error))))?;
        query.check()?;
        Ok(query)
    }

    /// The body as JSON.
    pub(super) fn json<T: DeserializeOwned + Check>(&self) -> Result<T, Problem> {
        parse(&self.body)
    }

    /// The same; a long one is read on another thread, so that it holds up nobody.
    pub(super) async fn long_json<T>(&self) -> Result<T, Problem>
    where
        T: DeserializeOwned + Check + Send + 'static,
    {
        if self.body.len() <= BODY_MAX {
            return self.json();
        }
        let body = self.body.clone();
        let parsing = tokio::task::spawn_blocking(move || parse(&body));
        parsing.await.map_err(|error| Problem::new(Kind::Internal, format!("the body cannot be read: {error}")))?
    }

    /// The body as JSON, or what stands for none.
    pub(super) fn json_or_default<T: DeserializeOwned + Check + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// The body as text.
    pub(super) fn text(&self) -> Result<String, Problem> {
        let text = std::str::from_utf8(&self.body);
        let text = text.map_err(|error| Problem::new(Kind::Malformed, format!("the body is no UTF-8: {error}")))?;
        Ok(text.to_owned())
    }
}

fn parse<T: DeserializeOwned + Check>(body: &[u8]) -> Result<T, Problem> {
    let thing: T = serde_json::from_slice(body).map_err(|error| {
        let kind = if error.is_data() { Kind::Invalid } else { Kind::Malformed };
        Problem::new(kind, format!("the body cannot be read: {error}")).fix("see GET /api/v1/openapi.json")
    })?;
    thing.check()?;
    Ok(thing)
}

fn chain(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Now, as it is written.
pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
