//! What `bench/load` does, short and without a clock: agents over TLS that move no bytes, submissions, a controller that is stopped and
//! started in the middle. Every file is counted once.

#[path = "../../examples/load/agent.rs"]
mod agent;
#[path = "../../examples/load/client.rs"]
mod client;
#[path = "../../examples/load/dataset.rs"]
mod dataset;
#[path = "../common/postgres.rs"]
mod server;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use agent::{Fleet, Host, MAX};
use client::{Client, Target};
use controller::{Config, Overrides};
use serde_json::{Value, json};
use service::{Environment, Stop};
use tokio::sync::watch;

const ENDPOINTS: u64 = 15;
const HOSTS: u64 = 2 * ENDPOINTS;
/// Requests of 200 files; one of 10,000 comes on top.
const REQUESTS: u64 = 50;
const FILES: u64 = REQUESTS * 200 + 10_000;
/// Nothing that is waited for takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test]
async fn every_file_is_counted_once() {
    let directory = tempfile::tempdir().unwrap();
    count_once(directory.path(), &directory.path().join("store").display().to_string()).await;
}

#[tokio::test]
async fn every_file_is_counted_once_over_postgresql() {
    let Some(server) = tokio::task::spawn_blocking(server::Server::start).await.unwrap() else { return };
    let server = Arc::new(server);
    let of = server.clone();
    let store = tokio::task::spawn_blocking(move || of.database()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    count_once(directory.path(), &store).await;
}

async fn count_once(directory: &Path, store: &str) {
    std::fs::write(directory.join("network.toml"), network()).unwrap();
    std::fs::write(directory.join("shares.toml"), shares()).unwrap();
    let (controller, target) = Controller::start(directory, store, "127.0.0.1:0").await;
    let mut client = Client::connect(&target).await.unwrap();
    let fleet = enrol(&mut client, &target).await;
    for number in 0..REQUESTS {
        let body = dataset::request(number, 200, ENDPOINTS).to_string();
        assert_eq!(client.ask("POST", "/api/v1/transfers", body.into(), None).await.unwrap().status, 201);
    }
    let body = dataset::request(REQUESTS, 10_000, ENDPOINTS).to_string();
    for _ in 0..2 {
        // The same again is the same transfer.
        let reply = client.ask("POST", "/api/v1/transfers", body.clone().into(), Some("long")).await.unwrap();
        assert_eq!((reply.status, reply.json()["id"].clone()), (201, json!(format!("t{REQUESTS}"))));
    }
    fleet.pace.store(FILES / 4, Ordering::Relaxed);
    let before = until(&mut client, "a quarter of the files", |done| done >= FILES / 4).await;
    drop(client);
    controller.stop().await;
    let (controller, target) = Controller::start(directory, store, &target.address.to_string()).await;
    let mut client = Client::connect(&target).await.unwrap();
    assert!(done(&mut client).await >= before, "what was counted stays so");
    fleet.pace.store(MAX, Ordering::Relaxed);
    until(&mut client, "all files", |done| done == FILES).await;
    let page = client.get("/api/v1/transfers?limit=1000").await.unwrap().json();
    let transfers = page["items"].as_array().unwrap();
    assert_eq!(transfers.len() as u64, REQUESTS + 1);
    for transfer in transfers {
        let files = |key: &str| transfer[key].as_u64().unwrap();
        assert_eq!((files("files_done"), files("files_failed")), (files("files_total"), 0), "{transfer}");
    }
    let tally = fleet.tally.told();
    assert!(tally["files"].as_u64().unwrap() >= FILES, "{tally}");
    controller.stop().await;
}

/// A router at each endpoint with two hosts, all at one core.
fn network() -> String {
    let link = |one: &str, other: &str| {
        format!("[[link]]\nname = \"{one}-{other}\"\nends = [\"{one}\", \"{other}\"]\nrate = \"100 Gb/s\"\n")
    };
    let mut text = "name = \"load\"\n[[router]]\nname = \"core\"\n".to_owned();
    for number in 0..ENDPOINTS {
        text += &format!("[[router]]\nname = \"r{number}\"\n{}", link(&format!("r{number}"), "core"));
    }
    for number in 0..HOSTS {
        text += &format!(
            "[[host]]\nname = \"h{number}\"\n{}",
            link(&format!("h{number}"), &format!("r{}", number % ENDPOINTS))
        );
    }
    text
}

fn shares() -> String {
    ["cms", "atlas", "ligo"].map(|name| format!("[[class]]\nname = \"{name}\"\n")).concat()
}

/// Endpoints, tokens, and the agents.
async fn enrol(client: &mut Client, target: &Target) -> Arc<Fleet> {
    for number in 0..ENDPOINTS {
        let body = json!({ "hosts": [format!("h{number}"), format!("h{}", number + ENDPOINTS)], "root": "/data" });
        let reply =
            client.ask("PUT", &format!("/api/v1/endpoints/s{number}"), body.to_string().into(), None).await.unwrap();
        assert_eq!(reply.status, 200);
    }
    let fleet = Arc::new(Fleet::new(target.address));
    for number in 0..HOSTS {
        let name = format!("h{number}");
        let body = json!({ "host": name }).to_string();
        let made = client.ask("POST", "/api/v1/agents/tokens", body.into(), None).await.unwrap().json();
        let token = made["token"].as_str().unwrap().to_owned();
        tokio::spawn(agent::run(fleet.clone(), Host { name, token }));
    }
    fleet
}

/// Files in place, as the metrics count them.
async fn done(client: &mut Client) -> u64 {
    let text = String::from_utf8(client.get("/metrics").await.unwrap().body.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("longhaul_controller_files{state=\"done\"} "));
    line.unwrap().parse().unwrap()
}

async fn until(client: &mut Client, what: &str, is_so: impl Fn(u64) -> bool) -> u64 {
    let begun = Instant::now();
    loop {
        let done = done(client).await;
        assert!(done <= FILES, "{done} files of {FILES} are done");
        if is_so(done) {
            return done;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {done} are done");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A controller on threads of its own.
struct Controller {
    stop: watch::Sender<Stop>,
    thread: std::thread::JoinHandle<()>,
}

impl Controller {
    async fn start(directory: &Path, store: &str, listen: &str) -> (Controller, Target) {
        let ready_file = directory.join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let over = Overrides {
            listen: Some(listen.to_owned()),
            store: Some(store.to_owned()),
            state_dir: Some(directory.join("state")),
            network: Some(directory.join("network.toml")),
            shares: Some(directory.join("shares.toml")),
            ready_file: Some(ready_file.clone()),
            ..Overrides::default()
        };
        let config = Config::load(None, over, &Environment::default()).unwrap();
        let (stop, stopping) = watch::channel(Stop::No);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(controller::run(config, stopping)).unwrap();
        });
        let begun = Instant::now();
        let ready: Value = loop {
            match serde_json::from_slice(&std::fs::read(&ready_file).unwrap_or_default()) {
                Ok(ready) => break ready,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
            assert!(begun.elapsed() < PATIENCE && !thread.is_finished(), "the controller is not ready");
        };
        let address: SocketAddr = ready["address"].as_str().unwrap().parse().unwrap();
        (Controller { stop, thread }, Target { address, token: ready["admin_token"].as_str().unwrap().to_owned() })
    }

    async fn stop(self) {
        self.stop.send_replace(Stop::Finish);
        tokio::task::spawn_blocking(move || self.thread.join()).await.unwrap().unwrap();
    }
}
