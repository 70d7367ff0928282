//! A client of the API that keeps its connection.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use service::Identity;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A controller, and what lets us in.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// A connection with a finished handshake. Whoever answers is taken: it is on this machine.
pub(crate) async fn connect(
    address: SocketAddr,
    protocol: &[u8],
    own: Option<&Identity>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = mover::tls::client(Arc::new(|_| Ok(())), Arc::default(), &[protocol], own);
    let config = config.map_err(std::io::Error::other)?;
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    TlsConnector::from(config).connect(mover::tls::server_name(None), tcp).await
}

/// A connection that requests go over, one at a time.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    bearer: String,
}

/// What came of a request.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the controller answers with JSON")
    }
}

impl Client {
    pub(crate) async fn connect(to: &Target) -> std::io::Result<Client> {
        let stream = connect(to.address, b"http/1.1", None).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        // Its end is heard with the next request.
        tokio::spawn(connection);
        Ok(Client { sender, bearer: format!("Bearer {}", to.token) })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Reply, hyper::Error> {
        self.ask("GET", path, Bytes::new(), None).await
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        json: Bytes,
        key: Option<&str>,
    ) -> Result<Reply, hyper::Error> {
        let mut request = Request::builder().method(method).uri(path).header("host", "controller");
        request = request.header("authorization", &self.bearer).header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::new(json)).expect("paths and keys are plain");
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok(Reply { status, body: response.into_body().collect().await?.to_bytes() })
    }
}
