//! Through the face, over a core with a store of its own; no HTTP, no agents but those that a test makes up.

mod explain;
mod history;
mod lost;
mod paths;
mod replay;
mod shared;
mod site;
mod transfers;
mod undone;

use std::sync::Arc;

use api::agent::{FromAgent, Granted, Hello, Inventory, PROTOCOL, ToAgent};
use api::rest::{EndpointRequest, EnrolRequest, Kind, Location, Problem, Role, Submitted, TransferId, TransferRequest};
use mover::request::Fingerprint;
use tokio::sync::{mpsc, watch};

use super::{Core, Face};
use crate::app::{App, Caller, IdempotencyKey};
use crate::core::queues;
use crate::hub::Heard;
use crate::store::Place;

/// Two sites with a router each, 10 Gb/s at the ends, 8 Gb/s between them.
const NETWORK: &str = r#"
name = "sea"
[[host]]
name = "a1"
[[host]]
name = "b1"
[[router]]
name = "ra"
[[router]]
name = "rb"
[[link]]
name = "ea"
ends = ["a1", "ra"]
rate = "10 Gb/s"
[[link]]
name = "ocean"
ends = ["ra", "rb"]
rate = "8 Gb/s"
[[link]]
name = "eb"
ends = ["rb", "b1"]
rate = "10 Gb/s"
"#;

const SHARES: &str = r#"
[[class]]
name = "cms"
weight = 2
[[class]]
name = "atlas"
[[mark]]
name = "sea"
class = "cms"
links = ["ocean"]
rate = "4 Gb/s"
"#;

/// A controller that runs.
struct World {
    face: Face,
    heard: mpsc::Sender<Heard>,
    me: Caller,
    stop: watch::Sender<bool>,
    runs: tokio::task::JoinHandle<()>,
    directory: tempfile::TempDir,
}

impl World {
    /// With nothing in it.
    fn empty() -> World {
        World::at(tempfile::tempdir().expect("a directory"))
    }

    /// Over the store of that directory.
    fn at(directory: tempfile::TempDir) -> World {
        let core = crate::core::open(&Place::Directory(directory.path().join("store")), crate::store::Keep::All)
            .expect("a store");
        let (doors, queues) = queues();
        let heard = doors.heard.clone();
        let (stop, stops) = watch::channel(false);
        let face = Face::new(doors, Arc::clone(&core.shared), "f1".repeat(32));
        let runs = tokio::spawn(core.run(queues, stops));
        let me = Caller { name: "me".to_owned(), role: Role::Admin };
        World { face, heard, me, stop, runs, directory }
    }

    /// With a network, classes, and an endpoint at each end.
    async fn set_up() -> World {
        let world = World::empty();
        world.face.set_network(&world.me, NETWORK.to_owned()).await.expect("a network");
        world.face.set_shares(&world.me, SHARES.to_owned()).await.expect("shares");
        for (name, host) in [("a", "a1"), ("b", "b1")] {
            let request = EndpointRequest { hosts: vec![host.to_owned()], root: api::Name(b"/data".to_vec()) };
            world.face.set_endpoint(&world.me, name, request).await.expect("an endpoint");
        }
        world
    }

    /// Ends it, and begins it anew over the same store.
    async fn again(self) -> World {
        self.stop.send(true).expect("it runs");
        self.runs.await.expect("it ends in good order");
        World::at(self.directory)
    }

    async fn submit(&self, request: TransferRequest) -> Result<TransferId, Problem> {
        self.submit_with(request, None).await
    }

    async fn submit_with(&self, request: TransferRequest, key: Option<&str>) -> Result<TransferId, Problem> {
        let key = key.map(|key| IdempotencyKey(key.to_owned()));
        self.face.submit(&self.me, request, key).await.map(|Submitted { id }| id)
    }

    /// Lets the agent of a host in. It says nothing more; what it is told comes out of the channel.
    async fn agent(&self, host: &str, number: u8) -> Agent {
        let request = EnrolRequest { host: host.to_owned(), good_seconds: None };
        let made = self.face.enrol(&self.me, request).await.expect("a token");
        assert_eq!(made.fingerprint, "f1".repeat(32));
        self.connect(host, number, Some(made.token), 1).await
    }

    /// The same of one that is known, or has a token; `process` says whether it began anew.
    async fn connect(&self, host: &str, number: u8, enrol: Option<String>, process: u64) -> Agent {
        self.connect_with(host, number, enrol, process, Vec::new()).await
    }

    /// The same with sessions that it drives.
    async fn connect_with(
        &self,
        host: &str,
        number: u8,
        enrol: Option<String>,
        process: u64,
        sessions: Vec<api::agent::Held>,
    ) -> Agent {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let fingerprint = Fingerprint([number; 32]);
        let from = "127.0.0.1:1".parse().expect("an address");
        tokio::spawn(crate::hub::serve(theirs, Some(fingerprint), from, self.heard.clone()));
        let mut agent = Agent { stream: ours, decoder: api::frame::Decoder::default() };
        let inventory = inventory();
        let hello = Hello {
            protocol: PROTOCOL,
            version: "1.2.3".to_owned(),
            enrol,
            process,
            sessions,
            inventory,
            mode: api::agent::Mode::Active,
        };
        agent.say(&FromAgent::Hello(hello)).await;
        assert!(matches!(agent.hears().await, ToAgent::Welcome(welcome) if welcome.host == host));
        agent
    }

    /// Something on the core's thread.
    async fn on_core<T: Send + 'static>(&self, f: impl FnOnce(&mut Core) -> T + Send + 'static) -> T {
        self.face.ask(move |core| Ok(f(core))).await.expect("the core runs")
    }
}

/// The end of an agent.
struct Agent {
    stream: tokio::io::DuplexStream,
    decoder: api::frame::Decoder,
}

impl Agent {
    async fn say(&mut self, message: &FromAgent) {
        use tokio::io::AsyncWriteExt;
        let frame = api::frame::encode(message).expect("a message");
        self.stream.write_all(&frame).await.expect("it listens");
    }

    /// The next thing that it is told, but for pings.
    async fn hears(&mut self) -> ToAgent {
        use tokio::io::AsyncReadExt;
        loop {
            match self.decoder.next_message::<ToAgent>().expect("frames") {
                Some(Ok(ToAgent::Ping)) => {}
                Some(message) => return message.expect("a known message"),
                None => {
                    let mut bytes = [0; 4096];
                    let count = self.stream.read(&mut bytes).await.expect("it talks");
                    assert!(count > 0, "the controller ended the connection");
                    self.decoder.push(&bytes[..count]);
                }
            }
        }
    }
}

/// What each host has: all beneath `/data` is granted.
fn inventory() -> Inventory {
    let grant = Granted {
        collaboration: "*".to_owned(),
        root: api::Name(b"/data".to_vec()),
        read: true,
        write: true,
        rate_bps: None,
        free_bytes: None,
    };
    Inventory { sessions_max: 8, streams_max: 64, grants: vec![grant], ..Inventory::default() }
}

fn place(text: &str) -> Location {
    text.parse().expect("a place")
}

/// From one end to the other.
fn request() -> TransferRequest {
    TransferRequest {
        collaboration: Some("cms".to_owned()),
        class: "cms".to_owned(),
        sources: vec![place("a:/data/run7/")],
        destination: Some(place("b:/data/in/")),
        ..TransferRequest::default()
    }
}

fn kind<T: std::fmt::Debug>(answer: Result<T, Problem>) -> Kind {
    answer.expect_err("it is refused").kind
}
