//! The table. `A`nswers, `B`odies and `Q`ueries are described by their types.

use api::rest::{
    Accepted, Agent, ApiToken, Class, Counters, Endpoint, EndpointRequest, EnrolMade, EnrolRequest, Event, Explanation,
    File, FilesQuery, History, HistoryQuery, Limit, LimitRequest, Link, ModeRequest, Page, PatchRequest, Path, Series,
    Submitted, TokenMade, TokenRequest, Transfer, TransferQuery, TransferRequest,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{Call, Deed, Media, Route};
use crate::http::numbers;

const JSON: &str = "application/json";
const TOML: &str = "application/toml";
const NOTHING: &str = "";

/// All routes.
pub const ROUTES: &[Route] = &[
    post("/api/v1/transfers", Call::Submit, "Submits a transfer", Deed::Transfer)
        .body::<TransferRequest>()
        .large()
        .keyed()
        .answers::<Submitted>(201),
    get("/api/v1/transfers", Call::Transfers, "Lists transfers, the newest first", Deed::Look)
        .query::<TransferQuery>()
        .answers::<Page<Transfer>>(200),
    get("/api/v1/transfers/{id}", Call::Transfer, "Shows a transfer", Deed::Look).answers::<Transfer>(200),
    patch("/api/v1/transfers/{id}", Call::Patch, "Changes class or urgency of a transfer", Deed::Transfer)
        .body::<PatchRequest>()
        .answers::<Transfer>(200),
    get("/api/v1/transfers/{id}/files", Call::Files, "Lists the files of a transfer", Deed::Look)
        .query::<FilesQuery>()
        .answers::<Page<File>>(200),
    post("/api/v1/transfers/{id}/pause", Call::Pause, "Lets a transfer stand still", Deed::Transfer)
        .body::<ModeRequest>()
        .answers::<Transfer>(200),
    post("/api/v1/transfers/{id}/resume", Call::Resume, "Lets a paused transfer go on", Deed::Transfer)
        .body::<ModeRequest>()
        .answers::<Transfer>(200),
    post("/api/v1/transfers/{id}/cancel", Call::Cancel, "Ends a transfer; what is in place stays", Deed::Transfer)
        .body::<ModeRequest>()
        .answers::<Transfer>(200),
    get("/api/v1/network", Call::Network, "Gives the file of the network", Deed::Look).gives_toml(),
    put("/api/v1/network", Call::SetNetwork, "Takes a file of the network", Deed::Govern)
        .takes_toml()
        .answers::<Accepted>(200),
    get("/api/v1/shares", Call::Shares, "Gives the file of classes and marks", Deed::Look).gives_toml(),
    put("/api/v1/shares", Call::SetShares, "Takes a file of classes and marks", Deed::Govern)
        .takes_toml()
        .answers::<Accepted>(200),
    get("/api/v1/bookings", Call::Bookings, "Gives the file of what others have booked", Deed::Look).gives_toml(),
    put("/api/v1/bookings", Call::SetBookings, "Takes a file of what others have booked", Deed::Operate)
        .takes_toml()
        .answers::<Accepted>(200),
    get("/api/v1/classes", Call::Classes, "Lists classes of work", Deed::Look).answers::<Vec<Class>>(200),
    get("/api/v1/links", Call::Links, "Lists the directions of links", Deed::Look).answers::<Vec<Link>>(200),
    get("/api/v1/links/{id}", Call::Link, "Shows a direction of a link", Deed::Look).answers::<Link>(200),
    get("/api/v1/paths", Call::Paths, "Lists the directions of named paths", Deed::Look).answers::<Vec<Path>>(200),
    get("/api/v1/paths/{id}", Call::Path, "Shows a direction of a named path", Deed::Look).answers::<Path>(200),
    get("/api/v1/endpoints", Call::Endpoints, "Lists endpoints", Deed::Look).answers::<Vec<Endpoint>>(200),
    get("/api/v1/endpoints/{name}", Call::Endpoint, "Shows an endpoint", Deed::Look).answers::<Endpoint>(200),
    put("/api/v1/endpoints/{name}", Call::SetEndpoint, "Makes or changes an endpoint", Deed::Operate)
        .body::<EndpointRequest>()
        .answers::<Endpoint>(200),
    delete("/api/v1/endpoints/{name}", Call::RemoveEndpoint, "Removes an endpoint", Deed::Operate),
    get("/api/v1/agents", Call::Agents, "Lists agents", Deed::Look).answers::<Vec<Agent>>(200),
    post("/api/v1/agents/tokens", Call::Enrol, "Makes a token with which a host comes in once", Deed::Enrol)
        .body::<EnrolRequest>()
        .answers::<EnrolMade>(201),
    delete("/api/v1/agents/{host}", Call::RemoveAgent, "Throws an agent out", Deed::Enrol),
    post("/api/v1/agents/{host}/drain", Call::DrainAgent, "Lets an agent end what it has", Deed::Operate)
        .body::<ModeRequest>()
        .answers::<Agent>(200),
    post("/api/v1/agents/{host}/pause", Call::PauseAgent, "Lets an agent stand still", Deed::Operate)
        .body::<ModeRequest>()
        .answers::<Agent>(200),
    post("/api/v1/agents/{host}/resume", Call::ResumeAgent, "Lets an agent take part again", Deed::Operate)
        .body::<ModeRequest>()
        .answers::<Agent>(200),
    get("/api/v1/limits", Call::Limits, "Lists limits from outside", Deed::Look).answers::<Vec<Limit>>(200),
    get("/api/v1/limits/{resource}", Call::Limit, "Shows the limit of a resource", Deed::Look).answers::<Limit>(200),
    put("/api/v1/limits/{resource}", Call::SetLimit, "Limits a resource for a time", Deed::Operate)
        .body::<LimitRequest>()
        .answers::<Limit>(200),
    delete("/api/v1/limits/{resource}", Call::LiftLimit, "Lifts the limit of a resource", Deed::Operate),
    post("/api/v1/counters", Call::Count, "Takes counters of links", Deed::Count).body::<Counters>(),
    get("/api/v1/history", Call::History, "Gives points of a series of samples", Deed::Look)
        .query::<HistoryQuery>()
        .answers::<History>(200),
    get("/api/v1/history/series", Call::Series, "Lists the series of samples", Deed::Look).answers::<Vec<Series>>(200),
    get("/api/v1/explain/{kind}/{id}", Call::Explain, "Says why something is as it is", Deed::Look)
        .answers::<Explanation>(200),
    get("/api/v1/events", Call::Events, "Tells what happens, as Server-Sent Events", Deed::Look)
        .answers::<Event>(200)
        .gives("text/event-stream"),
    get("/api/v1/tokens", Call::Tokens, "Lists API tokens", Deed::Tokens).answers::<Vec<ApiToken>>(200),
    post("/api/v1/tokens", Call::MakeToken, "Makes an API token", Deed::Tokens)
        .body::<TokenRequest>()
        .answers::<TokenMade>(201),
    delete("/api/v1/tokens/{name}", Call::RemoveToken, "Removes an API token", Deed::Tokens),
    get("/api/v1/metrics", Call::Metrics, "Gives the metrics", Deed::Metrics)
        .answers::<String>(200)
        .gives(numbers::CONTENT_TYPE),
    get("/metrics", Call::Metrics, "Gives the metrics", Deed::Metrics)
        .answers::<String>(200)
        .gives(numbers::CONTENT_TYPE),
    get("/api/v1/openapi.json", Call::OpenApi, "Gives this document", Deed::Look)
        .open()
        .answers::<serde_json::Value>(200),
    get("/api/v1/health", Call::Health, "Says whether the controller works", Deed::Look).open(),
    get("/health", Call::Health, "Says whether the controller works", Deed::Look).open(),
];

const fn get(path: &'static str, call: Call, summary: &'static str, deed: Deed) -> Route {
    route("GET", path, call, summary, deed)
}

const fn put(path: &'static str, call: Call, summary: &'static str, deed: Deed) -> Route {
    route("PUT", path, call, summary, deed)
}

const fn post(path: &'static str, call: Call, summary: &'static str, deed: Deed) -> Route {
    route("POST", path, call, summary, deed)
}

const fn patch(path: &'static str, call: Call, summary: &'static str, deed: Deed) -> Route {
    route("PATCH", path, call, summary, deed)
}

const fn delete(path: &'static str, call: Call, summary: &'static str, deed: Deed) -> Route {
    route("DELETE", path, call, summary, deed)
}

/// Takes no body and answers nothing.
const fn route(method: &'static str, path: &'static str, call: Call, summary: &'static str, deed: Deed) -> Route {
    Route {
        method,
        path,
        summary,
        call,
        deed: Some(deed),
        takes: None,
        large: false,
        keyed: false,
        query: None,
        body: None,
        answer: None,
        gives: NOTHING,
        status: 204,
    }
}

impl Route {
    const fn body<T: JsonSchema>(self) -> Route {
        Route { takes: Some(Media::Json), body: Some(describe::<T>), ..self }
    }

    const fn takes_toml(self) -> Route {
        Route { takes: Some(Media::Toml), body: Some(describe::<String>), large: true, ..self }
    }

    const fn gives_toml(self) -> Route {
        self.answers::<String>(200).gives(TOML)
    }

    const fn query<T: JsonSchema>(self) -> Route {
        Route { query: Some(describe_here::<T>), ..self }
    }

    const fn answers<T: JsonSchema>(self, status: u16) -> Route {
        Route { answer: Some(describe::<T>), gives: JSON, status, ..self }
    }

    const fn gives(self, media_type: &'static str) -> Route {
        Route { gives: media_type, ..self }
    }

    const fn large(self) -> Route {
        Route { large: true, ..self }
    }

    const fn keyed(self) -> Route {
        Route { keyed: true, ..self }
    }

    const fn open(self) -> Route {
        Route { deed: None, ..self }
    }
}

fn describe<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Without a reference: the fields of a query are written out.
fn describe_here<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}
