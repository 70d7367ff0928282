//! Metrics over HTTP, as a scraper sees them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent::Stop;
use agent::metrics::{CONNECTIONS_MAX, Metrics, serve};
use mover::server::{Counters, ServeLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::at;

/// Status line, head and body of one page.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

const BOUNDS: ServeLimits =
    ServeLimits { sessions: 64, streams: 256, handshakes: 64, memory_bytes: 512 << 20, rate_bps: None };

async fn start(counters: Arc<Counters>) -> (SocketAddr, watch::Sender<Stop>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopping) = watch::channel(Stop::No);
    tokio::spawn(serve(listener, Arc::new(Metrics::new(counters, BOUNDS, at(0))), stopping));
    (address, stop)
}

#[tokio::test]
async fn numbers_arrive_as_prometheus_reads_them() {
    let counters = Arc::new(Counters::default());
    for (n, counter) in [
        &counters.sessions,
        &counters.sessions_active,
        &counters.streams_active,
        &counters.refused,
        &counters.bytes_in,
        &counters.bytes_out,
        &counters.files_placed,
        &counters.files_failed,
        &counters.corrupt,
        &counters.retransmits,
        &counters.relays,
    ]
    .into_iter()
    .enumerate()
    {
        counter.store(100 + n as u64, Ordering::Relaxed);
    }
    counters.bytes_in.store(9_007_199_254_740_993, Ordering::Relaxed);
    let (address, _stop) = start(counters).await;
    let (head, body) = get(address, "/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    // What the machine is doing changes; that it is told does not.
    let body = body.lines().map(|line| match line.split_once(' ') {
        Some((name @ ("process_cpu_seconds_total" | "process_resident_memory_bytes"), value)) => {
            assert!(value.parse::<f64>().unwrap() > 0.0, "{line}");
            format!("{name} N\n")
        }
        _ => format!("{line}\n"),
    });
    assert_eq!(body.collect::<String>().replace(env!("CARGO_PKG_VERSION"), "VERSION"), include_str!("metrics.txt"));
}

#[test]
fn every_metric_is_in_the_manual() {
    let manual = include_str!("../../../../docs/operating.md");
    for line in include_str!("metrics.txt").lines().filter(|line| !line.starts_with('#')) {
        let name = line.split([' ', '{']).next().unwrap();
        assert!(manual.contains(&format!("`{name}`")), "{name}");
    }
}

#[tokio::test]
async fn health_tells_when_the_agent_is_stopping() {
    let (address, stop) = start(Arc::default()).await;
    let (head, body) = get(address, "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && body == "ok\n", "{head}");
    stop.send_replace(Stop::Finish);
    let (head, body) = get(address, "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 503 ") && body == "stopping\n", "{head}");
    assert!(get(address, "/").await.0.starts_with("HTTP/1.1 404 "));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_until_one_goes() {
    let (address, _stop) = start(Arc::default()).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut waiting = tokio::spawn(get(address, "/healthz"));
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "there is no place for it");
    idle.pop();
    let (head, _) = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}
