//! The HTTP port: two pages, a bounded number of connections, none of which may idle for long.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep};

use super::{CONTENT_TYPE, Metrics};
use service::stop::Stop;

/// Connections at once; further ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 32;
/// A connection that neither sends nor takes a byte for this long is closed. Scrapers come every 10 to 60 s.
pub const IDLE_MAX: Duration = Duration::from_secs(90);

#[derive(Clone)]
struct Pages {
    metrics: Arc<Metrics>,
    stop: watch::Receiver<Stop>,
}

/// Serves the two pages until the future is dropped. While the agent is stopping, `/healthz` says so with
/// status 503, so that a load balancer sends nobody any more.
///
/// # Errors
/// When the socket fails.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, stop: watch::Receiver<Stop>) -> io::Result<()> {
    let pages = Router::new()
        .route("/metrics", get(numbers))
        .route("/healthz", get(health))
        .with_state(Pages { metrics, stop });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    axum::serve(Bounded { listener, places }, pages).await
}

async fn numbers(State(pages): State<Pages>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], pages.metrics.text())
}

async fn health(State(pages): State<Pages>) -> (StatusCode, &'static str) {
    match *pages.stop.borrow() {
        Stop::No => (StatusCode::OK, "ok\n"),
        Stop::Finish | Stop::Now => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
    }
}

/// Accepts only while there is a place.
struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = self.places.clone().acquire_owned().await.expect("the semaphore is never closed");
        // `axum`'s own implementation, which waits when descriptors are short.
        let (stream, from) = Listener::accept(&mut self.listener).await;
        let idle = Box::pin(tokio::time::sleep(IDLE_MAX));
        (Connection { stream, idle, _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends itself when nothing happens on it.
struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// What came of an operation, or the end of patience.
    fn patient<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_MAX);
            return done;
        }
        self.idle.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.patient(cx, done)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.patient(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.patient(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
