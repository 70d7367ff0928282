//! The port: connections are accepted, shake hands, and go where their protocol says.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mover::request::Fingerprint;
use mover::tls::{self, AskClient};
use service::Identity;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::{TlsAcceptor, TlsStream};

use super::bounds::{HEADER_BYTES_MAX, HEADERS_MAX, STOP_GRACE};
use super::numbers::{Counted, Numbers};
use super::patient::Patient;
use super::places::{Origin, Place, Places};
use super::request::Peer;
use super::{Bounds, Face, FaceOptions, routes};
use crate::app::App;

/// HTTP in the TLS handshake (RFC 7301). A client that names nothing means it too.
const HTTP: &[u8] = b"http/1.1";
/// After an accept that failed: out of descriptors, or a connection that died in the queue.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound port with the identity it answers with.
pub struct Port {
    /// The socket.
    pub socket: std::net::TcpListener,
    /// Who we are.
    pub identity: Identity,
}

/// What is shared by all connections.
struct Door<D> {
    router: Router,
    agents: D,
    acceptor: TlsAcceptor,
    bounds: Bounds,
    numbers: Arc<Numbers>,
    handshakes: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    agent_places: Arc<Semaphore>,
    shaking: Arc<Places>,
    talking: Arc<Places>,
    stop: watch::Receiver<bool>,
}

/// Serves the app until `stop` turns true; then answers that have begun may take [`STOP_GRACE`]. A connection of an agent goes to
/// `agents`, with the fingerprint of the certificate whose key it proved to hold; its place is taken until that future ends.
///
/// # Errors
/// When the socket or the identity is of no use.
pub async fn serve<A, D, F>(
    port: Port,
    app: Arc<A>,
    options: FaceOptions,
    agents: D,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()>
where
    A: App,
    D: Fn(TlsStream<TcpStream>, Option<Fingerprint>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let config =
        tls::server(&port.identity, &[api::agent::ALPN, HTTP], AskClient::Optional).map_err(io::Error::other)?;
    port.socket.set_nonblocking(true)?;
    let listener = TcpListener::from_std(port.socket)?;
    let bounds = options.bounds.clone();
    let face = Arc::new(Face::new(app, options));
    let door = Arc::new(Door {
        agents,
        acceptor: TlsAcceptor::from(config),
        numbers: face.numbers.clone(),
        handshakes: Arc::new(Semaphore::new(bounds.handshakes)),
        connections: Arc::new(Semaphore::new(bounds.connections)),
        agent_places: Arc::new(Semaphore::new(bounds.agents)),
        shaking: Arc::default(),
        talking: Arc::default(),
        router: routes::router(face),
        bounds,
        stop: stop.clone(),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, from)) => door.enter(stream, from),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let all = u32::try_from(door.bounds.connections).unwrap_or(u32::MAX);
    // Those that do not end in time are dropped with their tasks.
    let _ = tokio::time::timeout(STOP_GRACE, door.connections.acquire_many(all)).await;
    Ok(())
}

/// Waits until the port is to stop; whoever could say so being gone is the same.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

impl<D, F> Door<D>
where
    D: Fn(TlsStream<TcpStream>, Option<Fingerprint>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    /// Lets a connection shake hands, if there is a place.
    fn enter(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let place = self.shaking.take(Origin::of(from.ip()), self.bounds.per_address);
        let (Ok(permit), Some(place)) = (self.handshakes.clone().try_acquire_owned(), place) else {
            self.numbers.refused.fetch_add(1, Relaxed);
            return;
        };
        let door = self.clone();
        tokio::spawn(async move {
            let Some(stream) = door.shake(stream, from).await else { return };
            // From here on it counts elsewhere.
            drop((permit, place));
            door.lead(stream, from).await;
        });
    }

    async fn shake(&self, stream: TcpStream, from: SocketAddr) -> Option<TlsStream<TcpStream>> {
        let _ = stream.set_nodelay(true);
        match tokio::time::timeout(self.bounds.handshake_time, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => return Some(TlsStream::Server(stream)),
            Ok(Err(error)) => tracing::debug!(%from, %error, "handshake failed"),
            Err(_) => tracing::debug!(%from, "handshake took too long"),
        }
        self.numbers.unshaken.fetch_add(1, Relaxed);
        None
    }

    async fn lead(&self, stream: TlsStream<TcpStream>, from: SocketAddr) {
        if stream.get_ref().1.alpn_protocol() == Some(api::agent::ALPN) {
            let Ok(_place) = self.agent_places.clone().try_acquire_owned() else {
                self.numbers.refused.fetch_add(1, Relaxed);
                return;
            };
            let _counted = Counted::new(&self.numbers, |numbers| &numbers.agents);
            let fingerprint = tls::peer(&stream);
            (self.agents)(stream, fingerprint, from).await;
            return;
        }
        let place = self.talking.take(Origin::of(from.ip()), self.bounds.per_address);
        let (Ok(permit), Some(place)) = (self.connections.clone().try_acquire_owned(), place) else {
            self.numbers.refused.fetch_add(1, Relaxed);
            return;
        };
        self.talk(stream, from, (permit, place)).await;
    }

    /// Serves HTTP on a connection to its end.
    async fn talk(&self, stream: TlsStream<TcpStream>, from: SocketAddr, _places: (OwnedSemaphorePermit, Place)) {
        let _counted = Counted::new(&self.numbers, |numbers| &numbers.connections);
        let router = TowerToHyperService::new(self.router.clone());
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Peer(from));
            router.call(request.map(Body::new))
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.bounds.header_time);
        builder.max_headers(HEADERS_MAX).max_header_size(HEADER_BYTES_MAX);
        let io = TokioIo::new(Patient::new(stream, self.bounds.write_time));
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(STOP_GRACE, connection).await {
                    Ok(ended) => ended,
                    Err(_) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%from, %error, "connection ended early");
        }
    }
}
