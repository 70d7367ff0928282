//! Load for a controller: agents that speak the real protocol and move no bytes, and clients. `bench/load` starts it, in several processes, so
//! that what each side costs is seen apart; nothing of it is in the program.
//!
//! ```text
//! load agents --controller ADDR --hosts FILE            one agent for each host; commands on standard input
//! load submit --controller ADDR --files N --requests N --endpoints N --connections N [--first N] [--every-ms N]
//! load read   --controller ADDR --seconds N --rate N --connections N
//! load shake  --controller ADDR --seconds N --connections N
//! ```
//!
//! The API's token is in `LONGHAUL_TOKEN`. Each prints one line of JSON for each thing that it was asked.

mod agent;
mod client;
mod dataset;
mod fleet;
mod read;
mod submit;
mod times;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

fn main() {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let options = Options::of(words);
    // One thread: several processes share the processors.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let told = match what.as_str() {
            "agents" => return fleet::run(options.controller(), options.text("hosts")).await,
            "submit" => submit::run(&options).await,
            "read" => read::run(&options).await,
            "shake" => shake(&options).await,
            _ => options.wrong("the first word is agents, submit, read or shake"),
        };
        println!("{told}");
    });
}

/// `--name value` each.
struct Options(BTreeMap<String, String>);

impl Options {
    fn of(mut words: impl Iterator<Item = String>) -> Options {
        let mut options = Options(BTreeMap::new());
        while let Some(word) = words.next() {
            match (word.strip_prefix("--"), words.next()) {
                (Some(name), Some(value)) => options.0.insert(name.to_owned(), value),
                _ => options.wrong(&format!("`{word}` is no option with a value")),
            };
        }
        options
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| self.wrong(&format!("--{name} is missing")))
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_else(|_| self.wrong(&format!("--{name} is no number")))
    }

    fn number_or(&self, name: &str, usual: u64) -> u64 {
        if self.0.contains_key(name) { self.number(name) } else { usual }
    }

    fn controller(&self) -> SocketAddr {
        self.text("controller").parse().unwrap_or_else(|_| self.wrong("--controller is no address"))
    }

    fn target(&self) -> client::Target {
        let token = std::env::var("LONGHAUL_TOKEN").unwrap_or_else(|_| self.wrong("LONGHAUL_TOKEN is not set"));
        client::Target { address: self.controller(), token }
    }

    fn wrong(&self, why: &str) -> ! {
        eprintln!("load: {why}");
        std::process::exit(2)
    }
}

/// TLS handshakes that the machine does, both ends on it: what enrolling and coming back is bounded by.
async fn shake(options: &Options) -> serde_json::Value {
    let (target, begun) = (options.target(), Instant::now());
    let until = begun + Duration::from_secs(options.number("seconds"));
    let mut workers = JoinSet::new();
    for _ in 0..options.number("connections") {
        let target = target.clone();
        workers.spawn(async move {
            let mut done = 0_u64;
            while Instant::now() < until {
                client::connect(target.address, b"http/1.1", None).await.expect("the controller takes a connection");
                done += 1;
            }
            done
        });
    }
    let done: u64 = workers.join_all().await.into_iter().sum();
    serde_json::json!({ "per_s": done as f64 / begun.elapsed().as_secs_f64() })
}
