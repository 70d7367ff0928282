//! Submissions: lists of files, as many at once as there are connections, each acknowledged before the next of its connection; or one each so
//! many milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Options;
use crate::client::{Client, Target};
use crate::dataset::request;
use crate::times::Times;

/// After an answer that says that it is too often.
const AGAIN: Duration = Duration::from_millis(20);
/// The controller ends a connection over which nothing is asked for twice as long.
const IDLE: Duration = Duration::from_secs(5);

pub(crate) async fn run(options: &Options) -> Value {
    let plan = Arc::new(Plan {
        target: options.target(),
        files: options.number("files"),
        requests: options.number("requests"),
        endpoints: options.number("endpoints"),
        first: options.number_or("first", 0),
        every: Duration::from_millis(options.number_or("every-ms", 0)),
        begin: Instant::now(),
        next: AtomicU64::new(0),
        again: AtomicU64::new(0),
    });
    let begun = plan.begin;
    let mut workers = JoinSet::new();
    for _ in 0..options.number("connections") {
        workers.spawn(worker(plan.clone()));
    }
    let mut times = Times::default();
    workers.join_all().await.into_iter().for_each(|some| times.extend(some));
    let (seconds, files) = (begun.elapsed().as_secs_f64(), plan.requests * plan.files);
    json!({
        "files": files, "files_each": plan.files, "seconds": seconds, "files_per_s": files as f64 / seconds,
        "again": plan.again.load(Ordering::Relaxed), "latency": times.told(),
    })
}

struct Plan {
    target: Target,
    files: u64,
    requests: u64,
    endpoints: u64,
    /// Number of the first: others were submitted before.
    first: u64,
    /// Between two of them; nothing for as fast as they are answered.
    every: Duration,
    begin: Instant,
    next: AtomicU64,
    again: AtomicU64,
}

async fn worker(plan: Arc<Plan>) -> Times {
    let mut client = Client::connect(&plan.target).await.expect("the controller takes a connection");
    let mut times = Times::default();
    loop {
        let number = plan.next.fetch_add(1, Ordering::Relaxed);
        if number >= plan.requests {
            return times;
        }
        let due = plan.begin + plan.every * u32::try_from(number).unwrap_or(u32::MAX);
        tokio::time::sleep_until(due.into()).await;
        // Not one that the controller may be ending just now.
        if plan.every >= IDLE {
            client = Client::connect(&plan.target).await.expect("the controller takes a connection");
        }
        let number = plan.first + number;
        let body = Bytes::from(request(number, plan.files, plan.endpoints).to_string());
        let key = format!("load-{}-{number}", plan.files);
        loop {
            let begun = Instant::now();
            let reply = client.ask("POST", "/api/v1/transfers", body.clone(), Some(&key)).await;
            let reply = reply.expect("the controller answers");
            match reply.status {
                201 => {
                    times.add(begun.elapsed());
                    break;
                }
                429 => {
                    plan.again.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(AGAIN).await;
                }
                status => panic!("a submission was answered {status}: {}", String::from_utf8_lossy(&reply.body)),
            }
        }
    }
}
