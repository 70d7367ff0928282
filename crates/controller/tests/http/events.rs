//! What happens is told as it happens, and again to who comes back.

use std::time::Duration;

use api::rest::Event;
use controller::events::{EVENTS_AHEAD, EVENTS_KEPT};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::client::{ask, connect, soon};
use crate::world::{NOW, Site};

/// A client of the events.
struct Listener {
    stream: TlsStream<TcpStream>,
    text: String,
}

impl Listener {
    async fn new(site: &Site, last: Option<&str>) -> Listener {
        let mut stream = connect(site.address).await;
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer viewer\r\n{last}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut listener = Listener { stream, text: String::new() };
        listener.until("retry: ").await;
        listener
    }

    /// Reads until there is this; false at the end.
    async fn until(&mut self, what: &str) -> bool {
        let mut from = 0;
        let mut bytes = vec![0; 64 << 10];
        while !self.text[from..].contains(what) {
            from = self.text.len().saturating_sub(what.len());
            match soon(self.stream.read(&mut bytes)).await {
                Ok(0) | Err(_) => return false,
                Ok(n) => self.text += std::str::from_utf8(&bytes[..n]).unwrap(),
            }
        }
        true
    }

    fn ids(&self) -> Vec<u64> {
        self.text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
    }
}

#[tokio::test]
async fn who_comes_back_misses_nothing() {
    let site = Site::new(|_| {});
    let publish = |subject: &str| site.world.hub.publish(NOW, "transfer_done", subject, "it is done");
    publish("t1");
    let mut first = Listener::new(&site, None).await;
    publish("t2");
    assert!(first.until("\"subject\":\"t2\"").await);
    assert_eq!(first.ids(), [2], "what was before is not told");
    let data = first.text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let event: Event = serde_json::from_str(data).unwrap();
    assert_eq!((event.id, event.kind.as_str(), event.at), (2, "transfer_done", NOW));
    assert!(first.text.contains("event: transfer_done\n"));
    drop(first);
    publish("t3");
    let mut back = Listener::new(&site, Some("2")).await;
    publish("t4");
    assert!(back.until("\"subject\":\"t4\"").await);
    assert_eq!(back.ids(), [3, 4]);
}

#[tokio::test]
async fn what_is_not_kept_is_a_gap_and_what_is_no_number_is_refused() {
    let site = Site::new(|_| {});
    for _ in 0..EVENTS_KEPT + 10 {
        site.world.hub.publish(NOW, "x", "", "");
    }
    let mut late = Listener::new(&site, Some("3")).await;
    assert!(late.until("event: gap\n").await);
    assert!(late.until(&format!("id: {}\n", EVENTS_KEPT + 10)).await);
    assert_eq!(late.ids()[..2], [10, 11]);
    let bad = ask("GET", "/api/v1/events").token("viewer").field("Last-Event-ID", "x").of(site.address).await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn who_is_too_slow_is_let_go() {
    let site = Site::new(|options| options.bounds.write_time = Duration::from_millis(500));
    let mut slow = Listener::new(&site, None).await;
    // More than the sockets' buffers hold, and than a listener may be behind.
    let text = "x".repeat(8000);
    for _ in 0..4 * EVENTS_AHEAD {
        site.world.hub.publish(NOW, "x", "", text.clone());
        tokio::task::yield_now().await;
    }
    let gone = async {
        loop {
            let metrics = ask("GET", "/metrics").token("viewer").of(site.address).await.body;
            if metrics.contains("longhaul_http_listeners 0\n") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon(gone).await;
    assert!(!slow.until("never said").await, "the connection is closed");
    let last = slow.ids().last().copied().unwrap_or(0);
    let mut back = Listener::new(&site, Some(&last.to_string())).await;
    assert!(back.until(&format!("id: {}\n", 4 * EVENTS_AHEAD)).await);
    assert_eq!(back.ids()[0], last + 1);
}

#[tokio::test]
async fn listeners_at_once_are_bounded() {
    let site = Site::new(|options| options.bounds.listeners = 1);
    let first = Listener::new(&site, None).await;
    let second = ask("GET", "/api/v1/events").token("viewer").of(site.address).await;
    assert_eq!((second.status, second.json()["type"].as_str()), (429, Some("too_many")));
    drop(first);
    // Its place is free when its end was seen.
    let again = async {
        loop {
            let mut stream = connect(site.address).await;
            let head = "GET /api/v1/events HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer viewer\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.unwrap();
            if status.ends_with(b"200") {
                return;
            }
        }
    };
    soon(again).await;
}
