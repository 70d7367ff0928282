//! Slow, greedy and malicious clients.

use std::time::{Duration, Instant};

use controller::http::Bounds;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{answer, ask, connect, connect_as, soon};
use crate::world::Site;

const SHORT: Duration = Duration::from_millis(300);

fn site(change: impl FnOnce(&mut Bounds)) -> Site {
    Site::new(|options| change(&mut options.bounds))
}

/// Waits until the other end has closed it.
async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) {
    let mut bytes = Vec::new();
    let _ = soon(stream.read_to_end(&mut bytes)).await;
}

async fn works(site: &Site) {
    assert_eq!(ask("GET", "/api/v1/agents").token("viewer").of(site.address).await.status, 200);
}

#[tokio::test]
async fn who_does_not_shake_hands_is_closed() {
    let site = site(|bounds| bounds.handshake_time = SHORT);
    let mut silent = TcpStream::connect(site.address).await.unwrap();
    let mut noisy = TcpStream::connect(site.address).await.unwrap();
    noisy.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    closed(&mut noisy).await;
    closed(&mut silent).await;
    let metrics = ask("GET", "/metrics").token("viewer").of(site.address).await.body;
    assert!(metrics.contains("longhaul_http_unshaken_total 2\n"), "{metrics}");
}

#[tokio::test]
async fn handshakes_at_once_are_bounded() {
    let site = site(|bounds| bounds.handshakes = 2);
    let _waiting = [TcpStream::connect(site.address).await.unwrap(), TcpStream::connect(site.address).await.unwrap()];
    // Both have their places when a further one, accepted after them, has none.
    closed(&mut TcpStream::connect(site.address).await.unwrap()).await;
    drop(_waiting);
    // They end when the port has read so.
    while connect_as(site.address, b"http/1.1", None).await.is_err() {}
    works(&site).await;
}

#[tokio::test]
async fn a_head_that_comes_drop_by_drop_is_not_waited_for() {
    let site = site(|bounds| bounds.header_time = SHORT);
    let mut slow = connect(site.address).await;
    let begin = Instant::now();
    let dripping = async {
        for byte in b"GET /api/v1/agents HTTP/1.1\r\nX: ".iter().chain(std::iter::repeat(&b'x')) {
            if slow.write_all(&[*byte]).await.is_err() || slow.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(dripping).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    works(&site).await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_answered_so() {
    let site = site(|_| {});
    let long = "x".repeat(controller::http::HEADER_BYTES_MAX);
    assert_eq!(ask("GET", "/api/v1/agents").token("viewer").field("X", &long).of(site.address).await.status, 431);
    let mut many = ask("GET", "/api/v1/agents").token("viewer");
    for n in 0..controller::http::HEADERS_MAX {
        many = many.field(&format!("X{n}"), "y");
    }
    assert_eq!(many.of(site.address).await.status, 431);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let site = site(|bounds| bounds.body_time = SHORT);
    let mut slow = connect(site.address).await;
    let head = "POST /api/v1/transfers HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer cms\r\nContent-Length: 9\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let reply = soon(answer(&mut slow)).await;
    assert_eq!((reply.status, reply.json()["type"].as_str()), (408, Some("timeout")));
}

#[tokio::test]
async fn a_body_without_a_length_is_cut_at_its_bound() {
    let site = site(|_| {});
    let mut stream = connect(site.address).await;
    let head = "POST /api/v1/counters HTTP/1.1\r\nHost: c\r\nConnection: close\r\nAuthorization: Bearer operator\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..5 {
        let _ = stream.write_all(chunk.as_bytes()).await;
    }
    let reply = soon(answer(&mut stream)).await;
    assert_eq!((reply.status, reply.json()["type"].as_str()), (413, Some("too_large")));
}

#[tokio::test]
async fn who_may_not_is_told_so_before_the_body() {
    let site = site(|bounds| bounds.body_time = Duration::from_secs(60));
    let mut stream = connect(site.address).await;
    let head = "PUT /api/v1/network HTTP/1.1\r\nHost: c\r\nConnection: close\r\nContent-Length: 8000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(soon(answer(&mut stream)).await.status, 401);
}

#[tokio::test]
async fn connections_of_all_and_of_one_address_are_bounded() {
    for change in [|b: &mut Bounds| b.connections = 2, |b: &mut Bounds| b.per_address = 2] {
        let site = site(change);
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut stream = connect(site.address).await;
            // It has its place when it is answered.
            stream.write_all(b"GET /health HTTP/1.1\r\nHost: c\r\n\r\n").await.unwrap();
            let mut first = [0; 12];
            soon(stream.read_exact(&mut first)).await.unwrap();
            assert_eq!(&first, b"HTTP/1.1 204");
            held.push(stream);
        }
        if let Ok(mut third) = connect_as(site.address, b"http/1.1", None).await {
            closed(&mut third).await;
        }
        held.pop();
        let again = async { while ask("GET", "/health").of(site.address).await.status != 204 {} };
        soon(again).await;
    }
}

#[tokio::test]
async fn agents_at_once_are_bounded_apart() {
    let mut site = site(|bounds| bounds.agents = 1);
    let _first = connect_as(site.address, api::agent::ALPN, None).await.unwrap();
    soon(site.agents.recv()).await;
    closed(&mut connect_as(site.address, api::agent::ALPN, None).await.unwrap()).await;
    assert!(site.agents.try_recv().is_err());
    works(&site).await;
}

#[tokio::test]
async fn a_token_and_an_address_without_one_may_not_ask_too_often() {
    let site = site(|bounds| (bounds.requests, bounds.strangers) = ((1, 3), (1, 2)));
    let mut statuses = Vec::new();
    for token in ["viewer", "viewer", "viewer", "viewer", "operator", "guess", "guess", "guess"] {
        let reply = ask("GET", "/api/v1/agents").token(token).of(site.address).await;
        if reply.status == 429 {
            assert!(reply.head.contains("retry-after: 1"), "{reply:?}");
        }
        statuses.push(reply.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 200, 401, 401, 429]);
    assert_eq!(ask("GET", "/health").of(site.address).await.status, 429, "open pages count too");
}

#[tokio::test]
async fn noise_ends_nothing() {
    let site = site(|_| {});
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for n in 0..200 {
        let noise: Vec<u8> = (0..random() % 400).map(|_| random() as u8).collect();
        let begins: [&[u8]; 4] = [b"", b"GET ", b"POST /api/v1/transfers HTTP/1.1\r\n", b"GET /api/v1/%"];
        let bytes = [begins[n % 4], &noise, b"\r\n\r\n"].concat();
        let mut stream = connect(site.address).await;
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        closed(&mut stream).await;
    }
    works(&site).await;
}

#[tokio::test]
async fn it_ends_when_it_is_asked_to() {
    let site = site(|_| {});
    let mut idle = connect(site.address).await;
    works(&site).await;
    site.stop.send_replace(true);
    closed(&mut idle).await;
    soon(site.ended).await.unwrap().unwrap();
    assert!(TcpStream::connect(site.address).await.is_err());
}
