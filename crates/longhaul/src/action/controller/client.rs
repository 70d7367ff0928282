//! A small HTTPS client: one connection for each request, TLS 1.3, the controller known by its fingerprint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use api::rest::{Kind, MEDIA_TYPE, Problem};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mover::tls;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::action::Trust;
use crate::action::end::{known_hosts, token, token_in};
use crate::args::controller::ReachArgs;
use crate::args::location::{Agent, HostPort};
use crate::environment::Environment;
use crate::exit::{self, usage};
use crate::reach::address::{Families, of_agent};
use crate::reach::judge;

/// Port of a controller that names none.
const PORT_DEFAULT: u16 = 4811;
/// How long reaching it and its answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer; pages are far shorter, and a file of a network may be 8 MiB.
const ANSWER_MAX: usize = 64 << 20;

/// A controller, and what lets us in.
pub(in crate::action) struct Controller {
    at: Agent,
    token: String,
    trust: Trust,
    /// JSON on standard output.
    pub(in crate::action) json: bool,
}

/// Said where the token is none that the controller knows.
const UNAUTHENTICATED: &str = "the controller knows no such API token: give another by --token-file or LONGHAUL_TOKEN; an admin makes one \
     with `longhaul controller token new`";

/// The body of a request.
pub(in crate::action) enum Content {
    None,
    Json(Vec<u8>),
    Toml(Vec<u8>),
}

impl Content {
    pub(in crate::action) fn json(thing: &impl Serialize) -> Result<Content> {
        Ok(Content::Json(serde_json::to_vec(thing).context("cannot write the request as JSON")?))
    }
}

/// The connection was lost, or there was none: the same request may be sent again if that does no harm.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} the controller {name}")]
pub(crate) struct Lost {
    what: &'static str,
    name: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl Controller {
    /// From the options and the environment.
    ///
    /// # Errors
    /// When it is not named, or what lets us in is missing.
    pub(in crate::action) fn of(args: &ReachArgs, environment: &Environment) -> Result<Controller> {
        let url = args.controller.as_ref().or(environment.controller.as_ref()).ok_or_else(|| {
            usage("no controller is named: give --controller https://HOST, or set LONGHAUL_CONTROLLER")
        })?;
        let at = parse(url).map_err(|why| usage(format!("--controller {url}: {why}")))?;
        let token = match (&args.token_file, &environment.token) {
            (Some(path), _) => token_in(path)?,
            (None, Some(text)) => token(text, "LONGHAUL_TOKEN")?,
            (None, None) => {
                return Err(usage("no API token: give --token-file FILE, or set LONGHAUL_TOKEN"));
            }
        };
        let trust = match args.fingerprint.or(at.pin) {
            Some(pin) => Trust::Pinned(pin),
            None => Trust::KnownHosts(known_hosts(args.known_hosts.as_deref(), environment)?),
        };
        Ok(Controller { at, token, trust, json: args.json })
    }

    /// What a thing is.
    ///
    /// # Errors
    /// When the controller cannot be reached, or says no.
    pub(in crate::action) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.ask("GET", path, Content::None).await
    }

    /// Asks, and reads the answer as JSON.
    ///
    /// # Errors
    /// When the controller cannot be reached, or says no.
    pub(in crate::action) async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        content: Content,
    ) -> Result<T> {
        let bytes = self.bytes(method, path, content, None).await?;
        serde_json::from_slice(&bytes).context("the controller's answer cannot be read; it may be of another version")
    }

    /// Asks, with a key so that it is not done twice.
    ///
    /// # Errors
    /// When the controller cannot be reached, or says no.
    pub(in crate::action) async fn bytes(
        &self,
        method: &str,
        path: &str,
        content: Content,
        key: Option<&str>,
    ) -> Result<Bytes> {
        let asking = async {
            let response = self.send(method, path, content, key.map(|key| ("idempotency-key", key))).await?;
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
            Ok(body.map_err(|source| self.lost("hear", source))?.to_bytes())
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(answer) => answer,
            Err(late) => Err(self.lost("hear", late.into()).into()),
        }
    }

    /// Asks, and gives the answer once it begins, if it is no problem.
    ///
    /// # Errors
    /// When the controller cannot be reached, or says no.
    pub(in crate::action) async fn send(
        &self,
        method: &str,
        path: &str,
        content: Content,
        header: Option<(&'static str, &str)>,
    ) -> Result<Response<Incoming>> {
        let (media, bytes) = match content {
            Content::None => (None, Vec::new()),
            Content::Json(bytes) => (Some("application/json"), bytes),
            Content::Toml(bytes) => (Some("application/toml"), bytes),
        };
        let mut request = Request::builder().method(method).uri(path).header(HOST, "controller");
        request = request.header(AUTHORIZATION, format!("Bearer {}", self.token));
        if let Some(media) = media {
            request = request.header(CONTENT_TYPE, media);
        }
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(bytes))).context("cannot write the request")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(self.connect().await?))
            .await
            .map_err(|source| self.lost("talk to", source.into()))?;
        // It ends with the answer; what goes wrong is heard there.
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|source| self.lost("hear", source.into()))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refused(response).await)
    }

    async fn connect(&self) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let refusal = Arc::new(Mutex::new(None));
        let name = self.name();
        let judge = judge(self.trust.clone(), &self.at_text(), name, false);
        let config = tls::client(judge, refusal.clone(), &[b"http/1.1"], None).context("cannot set up TLS")?;
        let addresses = of_agent(&self.at, Families::of(&[])).await?;
        let connecting = TcpStream::connect(addresses.as_slice());
        let tcp = tokio::time::timeout(PATIENCE, connecting).await;
        let tcp = tcp.map_err(|late| self.lost("reach", late.into()))?.map_err(|e| self.lost("reach", e.into()))?;
        // Small requests would wait for acknowledgements.
        let _ = tcp.set_nodelay(true);
        let shaken =
            tokio::time::timeout(PATIENCE, TlsConnector::from(config).connect(tls::server_name(None), tcp)).await;
        match shaken.map_err(|late| self.lost("shake hands with", late.into()))? {
            Ok(stream) => Ok(stream),
            Err(error) => match refusal.lock().expect("nobody panics with it").take() {
                Some(text) => Err(anyhow!(text)),
                None => Err(self.lost("shake hands with", error.into()).into()),
            },
        }
    }

    /// What it is called in the file of pinned fingerprints.
    fn name(&self) -> String {
        self.at.hosts.first().map(ToString::to_string).unwrap_or_default()
    }

    fn at_text(&self) -> String {
        format!("https://{}", self.name())
    }

    fn lost(&self, what: &'static str, source: Box<dyn std::error::Error + Send + Sync>) -> Lost {
        Lost { what, name: self.at_text(), source }
    }
}

/// Whether an error is a connection that was lost.
pub(in crate::action) fn is_lost(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Lost>())
}

/// What the controller says instead of doing it.
async fn refused(response: Response<Incoming>) -> anyhow::Error {
    let status = response.status();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|media| media == MEDIA_TYPE);
    let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    match serde_json::from_slice::<Problem>(&bytes) {
        Ok(problem) if is_problem => exit::coded(code_of(problem.kind), text_of(&problem)),
        _ => anyhow!("the controller answers {status}; it may be of another version, or no controller"),
    }
}

/// What it says, to whoever has a command line: its advice on a token is for those who write requests.
fn text_of(problem: &Problem) -> String {
    match problem.kind {
        Kind::Unauthenticated => UNAUTHENTICATED.to_owned(),
        _ => problem.to_string(),
    }
}

fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::NoCapacity => exit::REFUSED,
        Kind::TooMany | Kind::Unavailable | Kind::StoreFull | Kind::Timeout => exit::AGAIN,
        Kind::Malformed | Kind::Invalid | Kind::KeyReused | Kind::TooLarge | Kind::UnsupportedMedia => exit::USAGE,
        Kind::Unauthenticated | Kind::Forbidden => exit::USAGE,
        Kind::NotFound | Kind::MethodNotAllowed | Kind::Conflict | Kind::Internal => exit::FAILED,
    }
}

/// `https://host[:port]`, with `#sha256:HEX` behind it if its fingerprint is known.
fn parse(url: &str) -> Result<Agent, String> {
    let (address, pin) = url.split_once('#').map_or((url, None), |(address, pin)| (address, Some(pin)));
    let pin =
        pin.map(|pin| pin.parse().map_err(|e: mover::fingerprint::FingerprintError| e.to_string())).transpose()?;
    let host = match address.split_once("://") {
        None => address,
        Some(("https", host)) => host,
        Some((scheme, _)) => return Err(format!("{scheme}:// is not spoken: write https://HOST[:PORT]")),
    };
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.contains('/') {
        return Err("nothing comes after the host: write https://HOST[:PORT]".to_owned());
    }
    let host = HostPort::parse(host, PORT_DEFAULT).map_err(|e| e.to_string())?;
    Ok(Agent { pin, hosts: vec![host] })
}

/// A word as a part of a path of a URL.
pub(in crate::action) fn part(word: &str) -> String {
    let mut part = String::with_capacity(word.len());
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            part.push(char::from(byte));
        } else {
            part += &format!("%{byte:02X}");
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_named_as_urls() {
        let at = |url: &str| parse(url).map(|at| (at.hosts[0].to_string(), at.pin.is_some()));
        for url in ["https://host", "https://host/", "host", "host:4811", "https://host:4811/"] {
            assert_eq!(at(url), Ok(("host:4811".to_owned(), false)), "{url}");
        }
        let pinned = format!("[::1]:9#sha256:{}", "0a".repeat(32));
        assert_eq!(at(&pinned), Ok(("[::1]:9".to_owned(), true)));
        for bad in ["", "http://host", "https://host/api", "host:0", "host#sha256:0", "https://"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_of_paths_are_escaped() {
        assert_eq!(part("ana:forward"), "ana:forward");
        assert_eq!(part("../a b/ü?"), "..%2Fa%20b%2F%C3%BC%3F");
    }

    #[test]
    fn problems_have_exit_codes() {
        assert_eq!(code_of(Kind::NoCapacity), exit::REFUSED);
        assert_eq!(code_of(Kind::StoreFull), exit::AGAIN);
        assert_eq!(code_of(Kind::Invalid), exit::USAGE);
        assert_eq!(code_of(Kind::NotFound), exit::FAILED);
    }
}
