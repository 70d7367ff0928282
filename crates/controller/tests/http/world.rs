//! An app in memory, and a port that serves it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use api::agent::Mode;
use api::rest::*;
use controller::app::{Answer, App, Caller, IdempotencyKey, Steer, TokenDigest};
use controller::events::EventHub;
use controller::http::{Bounds, FaceOptions, Port, find_constant_time, serve, token_digest};
use mover::request::Fingerprint;
use tokio::sync::{mpsc, watch};

pub(crate) const NOW: Time = Time(1_772_344_800_000_000_000);

/// Tokens of the world: their texts are their names.
pub(crate) fn role(token: &str) -> Role {
    match token {
        "viewer" => Role::Viewer,
        "cms" | "atlas" => Role::Submitter { collaboration: token.to_owned() },
        "operator" => Role::Operator,
        _ => Role::Admin,
    }
}

pub(crate) const TOKENS: [&str; 5] = ["viewer", "cms", "atlas", "operator", "admin"];

pub(crate) struct World {
    pub(crate) hub: EventHub,
    pub(crate) heard: Mutex<Vec<String>>,
    transfers: Mutex<BTreeMap<TransferId, Transfer>>,
    keys: Mutex<BTreeMap<(String, IdempotencyKey), (TransferRequest, TransferId)>>,
}

impl World {
    fn say(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }
}

fn view(id: TransferId, caller: &Caller, request: &TransferRequest) -> Transfer {
    let leg = |(number, destination): (u32, &Location)| Leg {
        number,
        destination: destination.clone(),
        state: TransferState::Queued,
        reason: "for a place".to_owned(),
        bytes_total: 0,
        bytes_done: 0,
        files_total: request.files.len() as u64,
        files_done: 0,
        files_failed: 0,
        rate_bps: 0,
        sessions: Vec::new(),
    };
    Transfer {
        id,
        name: request.name.clone().unwrap_or_default(),
        collaboration: request.collaboration.clone().unwrap(),
        class: request.class.clone(),
        urgency: request.urgency,
        deadline: request.deadline,
        state: TransferState::Queued,
        reason: "for a place".to_owned(),
        waits_for: None,
        until: None,
        sources: request.sources.clone(),
        bytes_total: 0,
        bytes_done: 0,
        files_total: request.files.len() as u64,
        files_done: 0,
        files_failed: 0,
        rate_bps: 0,
        allocated_bps: 0,
        legs: (1..).zip(request.all_destinations()).map(leg).collect(),
        after: request.after.clone(),
        submitted_by: caller.name.clone(),
        submitted_at: NOW,
        started_at: None,
        assurance: api::rest::Assurance::Edge,
        ended_at: None,
    }
}

fn agent(host: &str, mode: Mode, reason: String) -> Agent {
    Agent {
        host: host.to_owned(),
        state: AgentState::Online,
        mode,
        reason,
        fingerprint: String::new(),
        version: String::new(),
        hostname: host.to_owned(),
        enrolled_at: NOW,
        away_since: None,
        addresses: Vec::new(),
        interfaces: Vec::new(),
        grants: Vec::new(),
        cores: 1,
        host_bps: None,
        cores_bps: None,
        sessions_max: 1,
        sessions: Vec::new(),
        rate_bps: 0,
    }
}

impl App for World {
    fn caller(&self, digest: &TokenDigest) -> Option<Caller> {
        let all: Vec<_> = TOKENS.iter().map(|name| (token_digest(name), *name)).collect();
        let name = find_constant_time(digest, all.iter().map(|(digest, name)| (digest, *name)))?;
        Some(Caller { name: name.to_owned(), role: role(name) })
    }

    fn events(&self) -> &EventHub {
        &self.hub
    }

    fn health(&self) -> Answer<()> {
        Ok(())
    }

    async fn metrics(&self) -> Answer<String> {
        Ok("# TYPE world gauge\nworld 1\n# EOF\n".to_owned())
    }

    async fn submit(
        &self,
        caller: &Caller,
        request: TransferRequest,
        key: Option<IdempotencyKey>,
    ) -> Answer<Submitted> {
        let mut transfers = self.transfers.lock().unwrap();
        let id = TransferId(transfers.len() as u64 + 1);
        if let Some(key) = key {
            let mut keys = self.keys.lock().unwrap();
            if let Some((known, id)) = keys.get(&(caller.name.clone(), key.clone())) {
                let same = *known == request;
                return if same { Ok(Submitted { id: *id }) } else { Err(Problem::new(Kind::KeyReused, "other")) };
            }
            keys.insert((caller.name.clone(), key), (request.clone(), id));
        }
        transfers.insert(id, view(id, caller, &request));
        Ok(Submitted { id })
    }

    async fn transfers(&self, _: &Caller, query: TransferQuery) -> Answer<Page<Transfer>> {
        self.say(format!("{query:?}"));
        Ok(Page::whole(self.transfers.lock().unwrap().values().rev().cloned().collect()))
    }

    async fn transfer(&self, _: &Caller, id: TransferId) -> Answer<Transfer> {
        let found = self.transfers.lock().unwrap().get(&id).cloned();
        found.ok_or_else(|| Problem::not_found(format!("transfer {id}")))
    }

    async fn files(&self, _: &Caller, id: TransferId, query: FilesQuery) -> Answer<Page<File>> {
        self.say(format!("{id} {query:?}"));
        Ok(Page::whole(Vec::new()))
    }

    async fn steer(&self, caller: &Caller, id: TransferId, how: Steer, reason: String) -> Answer<Transfer> {
        self.say(format!("{id} {how:?} {reason}"));
        self.transfer(caller, id).await
    }

    async fn patch(&self, caller: &Caller, id: TransferId, request: PatchRequest) -> Answer<Transfer> {
        self.say(format!("{id} {request:?}"));
        self.transfer(caller, id).await
    }

    async fn network(&self, _: &Caller) -> Answer<String> {
        Ok("# the network\n".to_owned())
    }

    async fn set_network(&self, _: &Caller, toml: String) -> Answer<Accepted> {
        self.say(format!("network of {} bytes", toml.len()));
        Ok(Accepted { version: 1, notes: Vec::new() })
    }

    async fn shares(&self, _: &Caller) -> Answer<String> {
        Ok("# the shares\n".to_owned())
    }

    async fn set_shares(&self, _: &Caller, _: String) -> Answer<Accepted> {
        Ok(Accepted { version: 1, notes: Vec::new() })
    }

    async fn bookings(&self, _: &Caller) -> Answer<String> {
        Ok("# the bookings\n".to_owned())
    }

    async fn set_bookings(&self, _: &Caller, toml: String) -> Answer<Accepted> {
        self.say(format!("bookings of {} bytes", toml.len()));
        Ok(Accepted { version: 1, notes: Vec::new() })
    }

    async fn classes(&self, _: &Caller) -> Answer<Vec<Class>> {
        Ok(Vec::new())
    }

    async fn links(&self, _: &Caller) -> Answer<Vec<Link>> {
        Ok(Vec::new())
    }

    async fn link(&self, _: &Caller, id: &str) -> Answer<Link> {
        Err(Problem::not_found(format!("link {id}")))
    }

    async fn paths(&self, _: &Caller) -> Answer<Vec<Path>> {
        Ok(Vec::new())
    }

    async fn path(&self, _: &Caller, id: &str) -> Answer<Path> {
        Ok(Path {
            id: id.to_owned(),
            name: None,
            from: "a".to_owned(),
            to: "b".to_owned(),
            links: vec!["ab:forward".to_owned()],
            from_address: None,
            to_address: None,
            dscp: Some(18),
            flow_label: None,
            state: api::rest::PathState::Unknown,
            sessions: 0,
            rtt_us: None,
            loss_ppm: None,
        })
    }

    async fn endpoints(&self, _: &Caller) -> Answer<Vec<Endpoint>> {
        Ok(Vec::new())
    }

    async fn endpoint(&self, _: &Caller, name: &str) -> Answer<Endpoint> {
        Err(Problem::not_found(format!("endpoint {name}")))
    }

    async fn set_endpoint(&self, _: &Caller, name: &str, request: EndpointRequest) -> Answer<Endpoint> {
        Ok(Endpoint { name: name.to_owned(), hosts: request.hosts, root: request.root, online: Vec::new() })
    }

    async fn remove_endpoint(&self, _: &Caller, _: &str) -> Answer<()> {
        Ok(())
    }

    async fn agents(&self, _: &Caller) -> Answer<Vec<Agent>> {
        Ok(vec![agent("dtn1", Mode::Active, String::new())])
    }

    async fn enrol(&self, _: &Caller, request: EnrolRequest) -> Answer<EnrolMade> {
        Ok(EnrolMade { host: request.host, token: "x".to_owned(), expires_at: NOW, fingerprint: String::new() })
    }

    async fn remove_agent(&self, _: &Caller, _: &str) -> Answer<()> {
        Ok(())
    }

    async fn set_mode(&self, _: &Caller, host: &str, mode: Mode, reason: String) -> Answer<Agent> {
        Ok(agent(host, mode, reason))
    }

    async fn limits(&self, _: &Caller) -> Answer<Vec<Limit>> {
        Ok(Vec::new())
    }

    async fn limit(&self, _: &Caller, resource: &str) -> Answer<Limit> {
        Err(Problem::not_found(format!("limit of {resource}")))
    }

    async fn set_limit(&self, caller: &Caller, resource: &str, request: LimitRequest) -> Answer<Limit> {
        let (resource, by) = (resource.to_owned(), caller.name.clone());
        Ok(Limit { resource, rate_bps: request.rate_bps, until: NOW, by, why: request.why })
    }

    async fn lift_limit(&self, _: &Caller, _: &str) -> Answer<()> {
        Ok(())
    }

    async fn count(&self, _: &Caller, _: Counters) -> Answer<()> {
        Ok(())
    }

    async fn history(&self, _: &Caller, query: HistoryQuery) -> Answer<History> {
        let [from, to] = query.window(NOW)?;
        let points = vec![Point { at: from, mean: 1.5, max: 2.0, count: 10 }];
        Ok(History { series: query.series, from, to, grain_ms: 10_000, points })
    }

    async fn series(&self, _: &Caller) -> Answer<Vec<Series>> {
        Ok(vec![Series { name: "link:ana:forward/measured_bps".to_owned(), at: Some(NOW), value: Some(2.0) }])
    }

    async fn explain(&self, _: &Caller, about: About, id: &str) -> Answer<Explanation> {
        Ok(Explanation {
            what: about,
            subject: id.to_owned(),
            text: "it has all that it asks for".to_owned(),
            rate_bps: None,
            resource: None,
            holders: Vec::new(),
            until: None,
            remedies: Vec::new(),
            assurance: Assurance::Edge,
        })
    }

    async fn tokens(&self, _: &Caller) -> Answer<Vec<ApiToken>> {
        Ok(Vec::new())
    }

    async fn make_token(&self, _: &Caller, request: TokenRequest) -> Answer<TokenMade> {
        Ok(TokenMade { name: request.name, token: "y".to_owned(), expires_at: None })
    }

    async fn remove_token(&self, _: &Caller, _: &str) -> Answer<()> {
        Ok(())
    }
}

/// A port that serves a world; it ends with this.
pub(crate) struct Site {
    pub(crate) world: Arc<World>,
    pub(crate) address: SocketAddr,
    /// Agents that came in.
    pub(crate) agents: mpsc::Receiver<Option<Fingerprint>>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) ended: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Site {
    pub(crate) fn new(change: impl FnOnce(&mut FaceOptions)) -> Site {
        let world = Arc::new(World {
            hub: EventHub::new(1),
            heard: Mutex::default(),
            transfers: Mutex::default(),
            keys: Mutex::default(),
        });
        // The tests ask faster than people do.
        let bounds = Bounds { requests: (10_000, 10_000), strangers: (10_000, 10_000), ..Bounds::default() };
        let mut options = FaceOptions { bounds, open_metrics: false };
        change(&mut options);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let (came, agents) = mpsc::channel(8);
        let agent = move |stream, fingerprint, _| {
            let came = came.clone();
            async move {
                came.send(fingerprint).await.unwrap();
                // Until the test is over.
                let _stream: tokio_rustls::TlsStream<tokio::net::TcpStream> = stream;
                std::future::pending::<()>().await;
            }
        };
        let port = Port { socket, identity: service::ephemeral("controller").unwrap() };
        let ended = tokio::spawn(serve(port, world.clone(), options, agent, stopped));
        Site { world, address, agents, stop, ended }
    }
}
