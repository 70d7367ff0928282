//! Readers, by the clock: a request is due at its time, which is drawn, whether the one before was answered or not, and its time counts from then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Options;
use crate::client::Client;
use crate::times::Times;

/// What is asked in turn: what people and their programs look at, the one most often that they poll.
const TURN: [&str; 20] = [
    "transfer",
    "link",
    "transfer",
    "list",
    "transfer",
    "files",
    "transfer",
    "link",
    "transfer",
    "list",
    "transfer",
    "explain",
    "transfer",
    "link",
    "transfer",
    "queued",
    "transfer",
    "link",
    "agents",
    "explain link",
];
/// Of lists of people: one page.
const PAGE: u64 = 100;

pub(crate) async fn run(options: &Options) -> Value {
    let target = options.target();
    let (rate, seconds) = (options.number("rate"), options.number("seconds"));
    let connections = options.number("connections");
    let mut first = Client::connect(&target).await.expect("the controller takes a connection");
    let known = Arc::new(Known::look(&mut first).await);
    let begin = Instant::now() + Duration::from_millis(50);
    let mut workers = JoinSet::new();
    // Who waits for an explanation waits on connections of its own: what it waits for is no delay of the others.
    let (explained, looked): (Vec<u64>, Vec<u64>) =
        (0..rate * seconds).partition(|number| what(*number).starts_with("explain"));
    for worker in 0..2 * connections as usize {
        let mut client = Client::connect(&target).await.expect("the controller takes a connection");
        let known = known.clone();
        let numbers = if worker % 2 == 0 { &looked } else { &explained };
        let numbers: Vec<u64> = numbers.iter().skip(worker / 2).step_by(connections as usize).copied().collect();
        workers.spawn(async move {
            let mut times: BTreeMap<&str, Times> = BTreeMap::new();
            let mut refused = 0;
            for number in numbers {
                let due = begin + Duration::from_secs_f64(at(number) / rate as f64);
                tokio::time::sleep_until(due.into()).await;
                let reply = client.get(&known.path(what(number), number)).await.expect("the controller answers");
                // What ended long ago may be forgotten meanwhile; nothing else may go wrong.
                match reply.status {
                    200 => times.entry(what(number)).or_default().add(due.elapsed()),
                    _ => refused += 1,
                }
            }
            (times, refused)
        });
    }
    let (mut by_kind, mut all, mut refused): (BTreeMap<&str, Times>, Times, u64) = Default::default();
    for (times, some) in workers.join_all().await {
        refused += some;
        for (what, times) in times {
            by_kind.entry(what).or_default().extend(times);
        }
    }
    let mut with_explanations = Times::default();
    let told: BTreeMap<&str, Value> = by_kind
        .into_iter()
        .map(|(what, times)| {
            with_explanations.extend(times.clone());
            // Explanations ask the planner again, and are told apart.
            if !what.starts_with("explain") {
                all.extend(times.clone());
            }
            (what, times.told())
        })
        .collect();
    json!({
        "all": all.told(), "with_explanations": with_explanations.told(), "by_kind": told, "not_200": refused,
    })
}

/// When a read is due, in the time from one to the next: somewhere in a part of its own, as people come.
fn at(number: u64) -> f64 {
    // Multiples of the golden ratio are spread evenly, however many there are.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    number as f64 + (number as f64 * GOLDEN).fract()
}

/// What is asked for: each turn begins a place later than the one before, so that none keeps step with the controller.
fn what(number: u64) -> &'static str {
    let all = TURN.len() as u64;
    TURN[((number + number / all) % all) as usize]
}

/// What there is to ask for.
struct Known {
    transfers: Vec<String>,
    links: Vec<String>,
}

impl Known {
    async fn look(client: &mut Client) -> Known {
        let page = client.get("/api/v1/transfers?limit=1000").await.expect("the controller answers").json();
        let links = client.get("/api/v1/links").await.expect("the controller answers").json();
        let ids = |list: &Value| -> Vec<String> {
            let ids = list.as_array().expect("it is a list").iter().map(|one| one["id"].as_str());
            ids.map(|id| id.expect("each has one").to_owned()).collect()
        };
        let known = Known { transfers: ids(&page["items"]), links: ids(&links) };
        assert!(!known.transfers.is_empty() && !known.links.is_empty(), "there is something to read");
        known
    }

    fn path(&self, what: &str, number: u64) -> String {
        // A step without a common divisor: all are asked for in turn.
        let of = |list: &[String]| list[(number * 7_919 % list.len() as u64) as usize].clone();
        match what {
            "link" => format!("/api/v1/links/{}", of(&self.links)),
            "list" => format!("/api/v1/transfers?limit={PAGE}"),
            "queued" => format!("/api/v1/transfers?limit={PAGE}&state=queued"),
            "files" => format!("/api/v1/transfers/{}/files?limit={PAGE}", of(&self.transfers)),
            "agents" => "/api/v1/agents".to_owned(),
            "explain" => format!("/api/v1/explain/transfer/{}", of(&self.transfers)),
            "explain link" => format!("/api/v1/explain/link/{}", of(&self.links)),
            _ => format!("/api/v1/transfers/{}", of(&self.transfers)),
        }
    }
}
