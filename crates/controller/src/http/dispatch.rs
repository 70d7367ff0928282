//! From a route to the one method of the app that it calls.

use api::agent::Mode;
use api::rest::{
    Counters, EndpointRequest, EnrolRequest, FilesQuery, HistoryQuery, Kind, LimitRequest, ModeRequest, PatchRequest,
    Problem, Role, TokenRequest, TransferId, TransferQuery, TransferRequest,
};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::{json, nothing, with};
use super::request::{Ask, now};
use super::routes::Call;
use super::{listen, numbers, openapi};
use crate::app::{Answer, App, Steer};

/// Calls it.
pub(super) async fn call<A: App>(call: Call, ask: Ask<'_, A>) -> Answer<Response> {
    match call {
        Call::Submit
        | Call::Transfers
        | Call::Transfer
        | Call::Files
        | Call::Pause
        | Call::Resume
        | Call::Cancel
        | Call::Patch => transfers(call, ask).await,
        Call::Agents
        | Call::Enrol
        | Call::RemoveAgent
        | Call::DrainAgent
        | Call::PauseAgent
        | Call::ResumeAgent
        | Call::Endpoints
        | Call::Endpoint
        | Call::SetEndpoint
        | Call::RemoveEndpoint => hosts(call, ask).await,
        Call::Tokens | Call::MakeToken | Call::RemoveToken => tokens(call, ask).await,
        Call::Metrics | Call::OpenApi | Call::Health | Call::Events => pages(call, ask).await,
        _ => network(call, ask).await,
    }
}

async fn transfers<A: App>(call: Call, ask: Ask<'_, A>) -> Answer<Response> {
    let (app, caller) = (&ask.face.app, &ask.caller);
    match call {
        Call::Submit => {
            let request = for_whom(&caller.role, ask.long_json().await?)?;
            let submitted = app.submit(caller, request, ask.key.clone()).await?;
            Ok(json(StatusCode::CREATED, &submitted))
        }
        Call::Transfers => ok(app.transfers(caller, ask.query::<TransferQuery>()?).await),
        Call::Transfer => ok(app.transfer(caller, ask.id()?).await),
        Call::Files => ok(app.files(caller, ask.id()?, ask.query::<FilesQuery>()?).await),
        Call::Pause => steer(&ask, Steer::Pause).await,
        Call::Resume => steer(&ask, Steer::Resume).await,
        Call::Cancel => steer(&ask, Steer::Cancel).await,
        _ => {
            let (id, request) = (ask.id()?, ask.json::<PatchRequest>()?);
            own(&ask, id).await?;
            ok(app.patch(caller, id, request).await)
        }
    }
}

async fn steer<A: App>(ask: &Ask<'_, A>, how: Steer) -> Answer<Response> {
    let (id, request) = (ask.id()?, ask.json_or_default::<ModeRequest>()?);
    own(ask, id).await?;
    ok(ask.face.app.steer(&ask.caller, id, how, request.reason).await)
}

/// A submitter changes transfers of its own collaboration only. That of a transfer never changes.
async fn own<A: App>(ask: &Ask<'_, A>, id: TransferId) -> Answer<()> {
    let Role::Submitter { collaboration: own } = &ask.caller.role else { return Ok(()) };
    let transfer = ask.face.app.transfer(&ask.caller, id).await?;
    if transfer.collaboration == *own {
        return Ok(());
    }
    let detail =
        format!("transfer {id} is of `{}`, the token `{}` is for `{own}`", transfer.collaboration, ask.caller.name);
    Err(Problem::new(Kind::Forbidden, detail).fix("use a token of that collaboration, or an operator's"))
}

/// For whom a transfer is: a submitter's token says it, others may; if nobody does, for whom its class is called after.
fn for_whom(role: &Role, request: TransferRequest) -> Answer<TransferRequest> {
    match (role, &request.collaboration) {
        (Role::Submitter { collaboration: own }, Some(other)) if other != own => {
            let detail = format!("the token is for `{own}`, the transfer for `{other}`");
            Err(Problem::new(Kind::Forbidden, detail).fix("leave `collaboration` out, or use another token"))
        }
        (Role::Submitter { collaboration }, _) => {
            Ok(TransferRequest { collaboration: Some(collaboration.clone()), ..request })
        }
        (_, None) => Ok(TransferRequest { collaboration: Some(request.class.clone()), ..request }),
        _ => Ok(request),
    }
}

async fn network<A: App>(call: Call, ask: Ask<'_, A>) -> Answer<Response> {
    let (app, caller) = (&ask.face.app, &ask.caller);
    match call {
        Call::Network => Ok(with(StatusCode::OK, "application/toml", app.network(caller).await?)),
        Call::SetNetwork => ok(app.set_network(caller, ask.text()?).await),
        Call::Shares => Ok(with(StatusCode::OK, "application/toml", app.shares(caller).await?)),
        Call::SetShares => ok(app.set_shares(caller, ask.text()?).await),
        Call::Bookings => Ok(with(StatusCode::OK, "application/toml", app.bookings(caller).await?)),
        Call::SetBookings => ok(app.set_bookings(caller, ask.text()?).await),
        Call::Classes => ok(app.classes(caller).await),
        Call::Links => ok(app.links(caller).await),
        Call::Link => ok(app.link(caller, ask.resource("id")?).await),
        Call::Paths => ok(app.paths(caller).await),
        Call::Path => ok(app.path(caller, ask.resource("id")?).await),
        Call::Limits => ok(app.limits(caller).await),
        Call::Limit => ok(app.limit(caller, ask.resource("resource")?).await),
        Call::SetLimit => ok(app.set_limit(caller, ask.resource("resource")?, ask.json::<LimitRequest>()?).await),
        Call::LiftLimit => done(app.lift_limit(caller, ask.resource("resource")?).await),
        Call::History => ok(app.history(caller, ask.query::<HistoryQuery>()?).await),
        Call::Series => ok(app.series(caller).await),
        Call::Count => done(app.count(caller, ask.json::<Counters>()?).await),
        _ => {
            let about = ask.param("kind")?.parse()?;
            ok(app.explain(caller, about, ask.resource("id")?).await)
        }
    }
}

async fn hosts<A: App>(call: Call, ask: Ask<'_, A>) -> Answer<Response> {
    let (app, caller) = (&ask.face.app, &ask.caller);
    match call {
        Call::Endpoints => ok(app.endpoints(caller).await),
        Call::Endpoint => ok(app.endpoint(caller, ask.name("name")?).await),
        Call::SetEndpoint => ok(app.set_endpoint(caller, ask.name("name")?, ask.json::<EndpointRequest>()?).await),
        Call::RemoveEndpoint => done(app.remove_endpoint(caller, ask.name("name")?).await),
        Call::Agents => ok(app.agents(caller).await),
        Call::Enrol => Ok(json(StatusCode::CREATED, &app.enrol(caller, ask.json::<EnrolRequest>()?).await?)),
        Call::RemoveAgent => done(app.remove_agent(caller, ask.agent("host")?).await),
        Call::DrainAgent => set_mode(&ask, Mode::Draining).await,
        Call::PauseAgent => set_mode(&ask, Mode::Paused).await,
        _ => set_mode(&ask, Mode::Active).await,
    }
}

async fn set_mode<A: App>(ask: &Ask<'_, A>, mode: Mode) -> Answer<Response> {
    let request = ask.json_or_default::<ModeRequest>()?;
    ok(ask.face.app.set_mode(&ask.caller, ask.agent("host")?, mode, request.reason).await)
}

async fn tokens<A: App>(call: Call, ask: Ask<'_, A>) -> Answer<Response> {
    let (app, caller) = (&ask.face.app, &ask.caller);
    match call {
        Call::Tokens => ok(app.tokens(caller).await),
        Call::MakeToken => Ok(json(StatusCode::CREATED, &app.make_token(caller, ask.json::<TokenRequest>()?).await?)),
        _ => done(app.remove_token(caller, ask.name("name")?).await),
    }
}

async fn pages<A: App>(call: Call, ask: Ask<'_, A>) -> Answer<Response> {
    let face = ask.face;
    match call {
        Call::Metrics => {
            let text = face.numbers.behind(&face.app.metrics().await?);
            Ok(with(StatusCode::OK, numbers::CONTENT_TYPE, text))
        }
        Call::OpenApi => Ok(json(StatusCode::OK, &openapi::document())),
        Call::Health => done(face.app.health()),
        _ => listen::events(face, &ask.headers, now()),
    }
}

fn ok<T: Serialize>(answer: Answer<T>) -> Answer<Response> {
    answer.map(|thing| json(StatusCode::OK, &thing))
}

fn done(answer: Answer<()>) -> Answer<Response> {
    answer.map(|()| nothing())
}
