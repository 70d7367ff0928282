//! `longhaul agent`, `class`, `topology`, `endpoint`, `limit`, `explain`, `history`.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use api::Name;
use api::rest::{
    self, Accepted, Agent, BODY_LARGE_MAX, Check, Class, Endpoint, EndpointRequest, EnrolMade, EnrolRequest,
    Explanation, History, HistoryQuery, Limit, LimitRequest, Link, ModeRequest, Series,
};
use serde_json::json;

use super::client::{Content, Controller, part};
use super::show;
use super::transfer::tell;
use crate::args::controller::ControllerCommand;
use crate::args::controller::fleet::{
    AgentWhat, AllArgs, BookingWhat, ClassWhat, EndpointSetArgs, EndpointWhat, EnrolArgs, ExplainArgs, HistoryArgs,
    HostModeArgs, LimitSetArgs, LimitWhat, TopologyWhat,
};
use crate::exit::{self, as_usage, usage};
use crate::output::{note, print};

/// Does what was asked.
///
/// # Errors
/// When the controller cannot be reached, or says no.
pub(super) async fn run(command: ControllerCommand, controller: &Controller) -> Result<u8> {
    match command {
        ControllerCommand::Class(args) => class(args.what, controller).await,
        ControllerCommand::Topology(args) => topology(args.what, controller).await,
        ControllerCommand::Agent(args) => agent(args.what, controller).await,
        ControllerCommand::Booking(args) => booking(args.what, controller).await,
        ControllerCommand::Endpoint(args) => endpoint(args.what, controller).await,
        ControllerCommand::Limit(args) => limit(args.what, controller).await,
        ControllerCommand::Explain(args) => explain(&args, controller).await,
        ControllerCommand::History(args) => history(args, controller).await,
        ControllerCommand::Transfer(_) | ControllerCommand::Event(_) => unreachable!("they are done elsewhere"),
    }
}

async fn class(what: ClassWhat, controller: &Controller) -> Result<u8> {
    match what {
        ClassWhat::Ls(AllArgs { .. }) => {
            let classes: Vec<Class> = controller.get("/api/v1/classes").await?;
            tell(controller, &json!({ "classes": classes }), || show::classes(&classes))
        }
        ClassWhat::Set(args) => set_file("/api/v1/shares", &args.file, controller).await,
    }
}

async fn topology(what: TopologyWhat, controller: &Controller) -> Result<u8> {
    match what {
        TopologyWhat::Show(_) => show_file("/api/v1/network", controller).await,
        TopologyWhat::Set(args) => set_file("/api/v1/network", &args.file, controller).await,
        TopologyWhat::Links(_) => {
            let links: Vec<Link> = controller.get("/api/v1/links").await?;
            tell(controller, &json!({ "links": links }), || show::links(&links))
        }
        TopologyWhat::Paths(_) => {
            let paths: Vec<rest::Path> = controller.get("/api/v1/paths").await?;
            tell(controller, &json!({ "paths": paths }), || show::paths(&paths))
        }
    }
}

async fn booking(what: BookingWhat, controller: &Controller) -> Result<u8> {
    match what {
        BookingWhat::Show(_) => show_file("/api/v1/bookings", controller).await,
        BookingWhat::Set(args) => set_file("/api/v1/bookings", &args.file, controller).await,
    }
}

async fn show_file(path: &str, controller: &Controller) -> Result<u8> {
    let bytes = controller.bytes("GET", path, Content::None, None).await?;
    if controller.json {
        let text = String::from_utf8_lossy(&bytes);
        print(format!("{}\n", json!({ "toml": text })))?;
    } else {
        print(bytes)?;
    }
    Ok(exit::DONE)
}

async fn set_file(path: &str, file: &Path, controller: &Controller) -> Result<u8> {
    let accepted: Accepted = controller.ask("PUT", path, Content::Toml(read(file)?)).await?;
    let text = || accepted.notes.iter().map(|line| show::plain(line) + "\n").collect();
    tell(controller, &accepted, text)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    let shown = file.display();
    let mut bytes = Vec::new();
    let most = BODY_LARGE_MAX as u64 + 1;
    let read = match file == Path::new("-") {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {shown}")).map_err(as_usage)?;
    if bytes.len() > BODY_LARGE_MAX {
        return Err(usage(format!("{shown} is longer than {BODY_LARGE_MAX} bytes, which no controller takes")));
    }
    Ok(bytes)
}

async fn agent(what: AgentWhat, controller: &Controller) -> Result<u8> {
    match what {
        AgentWhat::Ls(_) => {
            let agents: Vec<Agent> = controller.get("/api/v1/agents").await?;
            tell(controller, &json!({ "agents": agents }), || show::agents(&agents))
        }
        AgentWhat::Token(args) => enrol(args, controller).await,
        AgentWhat::Rm(args) => remove(&format!("/api/v1/agents/{}", part(&args.host)), &args.host, controller).await,
        AgentWhat::Drain(args) => mode("drain", args, controller).await,
        AgentWhat::Pause(args) => mode("pause", args, controller).await,
        AgentWhat::Resume(args) => mode("resume", args, controller).await,
        AgentWhat::Status { .. } | AgentWhat::Forget { .. } => unreachable!("they ask this host"),
    }
}

async fn enrol(args: EnrolArgs, controller: &Controller) -> Result<u8> {
    let good_seconds = args.expires.map(|span| span.get().as_secs());
    let request = EnrolRequest { host: args.host, good_seconds };
    request.check().map_err(|wrong| usage(wrong.to_string()))?;
    let made: EnrolMade = controller.ask("POST", "/api/v1/agents/tokens", Content::json(&request)?).await?;
    if !controller.json {
        note(&format!(
            "for {}, once, until {}; the controller's fingerprint is {}",
            show::plain(&made.host),
            show::seconds(made.expires_at),
            show::plain(&made.fingerprint)
        ));
    }
    tell(controller, &made, || format!("{}\n", made.token))
}

async fn mode(how: &str, args: HostModeArgs, controller: &Controller) -> Result<u8> {
    let host = args.host.unwrap_or_default();
    let path = format!("/api/v1/agents/{}/{how}", part(&host));
    let agent: Agent = controller.ask("POST", &path, Content::json(&ModeRequest { reason: args.reason })?).await?;
    tell(controller, &agent, || show::agents(std::slice::from_ref(&agent)))
}

async fn endpoint(what: EndpointWhat, controller: &Controller) -> Result<u8> {
    match what {
        EndpointWhat::Ls(_) => {
            let endpoints: Vec<Endpoint> = controller.get("/api/v1/endpoints").await?;
            tell(controller, &json!({ "endpoints": endpoints }), || show::endpoints(&endpoints))
        }
        EndpointWhat::Set(EndpointSetArgs { name, host, root, .. }) => {
            let request = EndpointRequest { hosts: host, root: Name(root.as_os_str().as_bytes().to_vec()) };
            request.check().map_err(|wrong| usage(wrong.to_string()))?;
            let path = format!("/api/v1/endpoints/{}", part(&name));
            let endpoint: Endpoint = controller.ask("PUT", &path, Content::json(&request)?).await?;
            tell(controller, &endpoint, || show::endpoints(std::slice::from_ref(&endpoint)))
        }
        EndpointWhat::Rm(args) => {
            remove(&format!("/api/v1/endpoints/{}", part(&args.name)), &args.name, controller).await
        }
    }
}

async fn limit(what: LimitWhat, controller: &Controller) -> Result<u8> {
    match what {
        LimitWhat::Ls(_) => {
            let limits: Vec<Limit> = controller.get("/api/v1/limits").await?;
            tell(controller, &json!({ "limits": limits }), || show::limits(&limits))
        }
        LimitWhat::Set(LimitSetArgs { resource, rate, span, why, .. }) => {
            let request = LimitRequest { rate_bps: rate.bps(), for_seconds: span.get().as_secs(), why };
            request.check().map_err(|wrong| usage(wrong.to_string()))?;
            let path = format!("/api/v1/limits/{}", part(&resource));
            let limit: Limit = controller.ask("PUT", &path, Content::json(&request)?).await?;
            tell(controller, &limit, || show::limits(std::slice::from_ref(&limit)))
        }
        LimitWhat::Lift(args) => remove(&format!("/api/v1/limits/{}", part(&args.name)), &args.name, controller).await,
    }
}

async fn remove(path: &str, name: &str, controller: &Controller) -> Result<u8> {
    controller.bytes("DELETE", path, Content::None, None).await?;
    if controller.json {
        print(format!("{}\n", json!({ "removed": name })))?;
    }
    Ok(exit::DONE)
}

async fn history(args: HistoryArgs, controller: &Controller) -> Result<u8> {
    let Some(series) = args.series else {
        let series: Vec<Series> = controller.get("/api/v1/history/series").await?;
        return tell(controller, &json!({ "series": series }), || show::series(&series));
    };
    let (seconds, points) = (Some(args.since.get().as_secs()), Some(args.points));
    let query = HistoryQuery { series, seconds, points, ..HistoryQuery::default() };
    query.check().map_err(|wrong| usage(wrong.to_string()))?;
    let path = format!(
        "/api/v1/history?series={}&seconds={}&points={}",
        part(&query.series),
        args.since.get().as_secs(),
        args.points
    );
    let history: History = controller.get(&path).await?;
    tell(controller, &history, || show::history(&history))
}

async fn explain(args: &ExplainArgs, controller: &Controller) -> Result<u8> {
    let word = clap::ValueEnum::to_possible_value(&args.what).expect("no value is left out");
    let path = format!("/api/v1/explain/{}/{}", word.get_name(), part(&args.id));
    let explanation: Explanation = controller.get(&path).await?;
    tell(controller, &explanation, || show::explanation(&explanation))
}
