//! A controller for tests: real TLS, real frames, and no mind of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agent::{Config, Overrides, Stop, run};
use api::Name;
use api::agent::{
    ALPN, Entry, FromAgent, Hello, How, Lease, List, MESSAGE_MAX, PAGES_AHEAD, Prepare, Role, Run, Step, ToAgent,
    Turned, Welcome,
};
use mover::request::Fingerprint;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::Site;

/// Messages that a test has not looked at; at this number the agent is read no further.
const UNREAD_MAX: usize = 10_000;
/// Nothing that is waited for takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("it took too long: {what}"))
}

pub(super) struct Mock {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pub(super) address: SocketAddr,
    pub(super) fingerprint: Fingerprint,
}

impl Mock {
    pub(super) async fn new() -> Mock {
        Mock::at("127.0.0.1:0").await
    }

    pub(super) async fn at(address: &str) -> Mock {
        let identity = service::ephemeral("controller").unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from(identity.certificate.clone())];
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(Arc::new(Anybody))
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(identity.key.clone().into()))
            .unwrap();
        config.alpn_protocols = vec![ALPN.to_vec()];
        let listener = TcpListener::bind(address).await.unwrap();
        Mock {
            address: listener.local_addr().unwrap(),
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            fingerprint: Fingerprint::of(&identity.certificate),
        }
    }

    /// The next agent that finishes a handshake, and what it says first.
    pub(super) async fn accept(&self) -> (Agent, Hello) {
        soon("an agent connects", async {
            loop {
                let (tcp, _) = self.listener.accept().await.unwrap();
                let Ok(stream) = self.acceptor.accept(tcp).await else { continue };
                let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
                let mut agent = Agent::new(stream, Fingerprint::of(&shown));
                match agent.heard.recv().await {
                    Some(FromAgent::Hello(hello)) => return (agent, hello),
                    other => panic!("an agent began with {other:?}"),
                }
            }
        })
        .await
    }

    /// The next agent, welcome and with all its sessions.
    pub(super) async fn welcome(&self) -> (Agent, Hello) {
        let (mut agent, hello) = self.accept().await;
        let keep = hello.sessions.iter().map(|held| held.session).collect();
        agent.welcome(keep).await;
        agent.inventory = Some(hello.inventory.clone());
        (agent, hello)
    }

    /// True if somebody connects before `wait` is over, handshake or not.
    pub(super) async fn is_tried(&self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.listener.accept()).await.is_ok()
    }
}

/// An agent as its controller sees it.
pub(super) struct Agent {
    pub(super) fingerprint: Fingerprint,
    pub(super) inventory: Option<api::agent::Inventory>,
    heard: mpsc::Receiver<FromAgent>,
    write: Arc<Mutex<WriteHalf<TlsStream<TcpStream>>>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|task| task.abort());
    }
}

impl Agent {
    fn new(stream: TlsStream<TcpStream>, fingerprint: Fingerprint) -> Agent {
        let (read, write) = tokio::io::split(stream);
        let (tell, heard) = mpsc::channel(UNREAD_MAX);
        let write = Arc::new(Mutex::new(write));
        let pinging = write.clone();
        let ping = async move {
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                send(&pinging, &serde_json::to_vec(&ToAgent::Ping).unwrap()).await;
            }
        };
        let tasks = vec![tokio::spawn(read_all(read, tell)), tokio::spawn(ping)];
        Agent { fingerprint, inventory: None, heard, write, tasks }
    }

    pub(super) async fn send(&self, message: ToAgent) {
        send(&self.write, &serde_json::to_vec(&message).unwrap()).await;
    }

    pub(super) async fn send_raw(&self, bytes: &[u8]) {
        let _ = self.write.lock().await.write_all(bytes).await;
        let _ = self.write.lock().await.flush().await;
    }

    pub(super) async fn welcome(&mut self, keep: Vec<u64>) {
        self.send(ToAgent::Welcome(Welcome { host: "dtn1".into(), protocol: 1, keep })).await;
    }

    pub(super) async fn turn_away(&self, again: bool) {
        self.send(ToAgent::Turned(Turned { reason: "enrol first".into(), again })).await;
    }

    /// The next message that `pick` wants; others are skipped.
    pub(super) async fn until<T>(&mut self, what: &str, mut pick: impl FnMut(FromAgent) -> Option<T>) -> T {
        soon(what, async {
            loop {
                let message = self.heard.recv().await.unwrap_or_else(|| panic!("the agent is gone: {what}"));
                if let Some(picked) = pick(message) {
                    return picked;
                }
            }
        })
        .await
    }

    pub(super) async fn gone(&mut self) {
        soon("the agent hangs up", async { while self.heard.recv().await.is_some() {} }).await;
    }

    /// Where its data port is.
    pub(super) fn port(&self) -> (Vec<SocketAddr>, String) {
        let inventory = self.inventory.as_ref().unwrap();
        (inventory.addresses.clone(), inventory.fingerprint.clone())
    }

    pub(super) async fn list(
        &mut self,
        request: u64,
        path: &std::path::Path,
    ) -> Result<Vec<Entry>, api::agent::Failed> {
        let list = List { request, collaboration: "atlas".into(), path: name(path), after: None };
        self.send(ToAgent::List(list)).await;
        let mut entries = Vec::new();
        let mut next = 0;
        loop {
            let page = self
                .until("a page", |message| match message {
                    FromAgent::Listed(page) if page.request == request => Some(Ok(page)),
                    FromAgent::Failed(failed) if failed.request == Some(request) => Some(Err(failed)),
                    _ => None,
                })
                .await?;
            assert_eq!(page.page, next);
            next += 1;
            entries.extend(page.entries);
            if page.last {
                return Ok(entries);
            }
            assert!(next <= PAGES_AHEAD || page.page < next);
            self.send(ToAgent::Taken { request, page: page.page }).await;
        }
    }

    pub(super) async fn prepare(
        &mut self,
        session: u64,
        role: Role,
        path: &std::path::Path,
    ) -> Result<String, api::agent::Failed> {
        let prepare = Prepare { session, collaboration: "atlas".into(), role, path: name(path), good_ms: 60_000 };
        self.send(ToAgent::Prepare(prepare)).await;
        self.until("a token", |message| match message {
            FromAgent::Prepared(prepared) if prepared.session == session => Some(Ok(prepared.token)),
            FromAgent::Failed(failed) if failed.session == Some(session) => Some(Err(failed)),
            _ => None,
        })
        .await
    }

    /// How a session that was asked for begins.
    pub(super) async fn begun(&mut self, session: u64) -> Result<api::agent::Acknowledged, api::agent::Failed> {
        self.until("a session begins", |message| match message {
            FromAgent::Acknowledged(told) if told.session == session => Some(Ok(told)),
            FromAgent::Failed(failed) if failed.session == Some(session) => Some(Err(failed)),
            _ => None,
        })
        .await
    }

    /// What became of the files of a session, by their numbers, and its end.
    pub(super) async fn end(&mut self, session: u64) -> (Vec<api::agent::FileDone>, api::agent::Ended) {
        let mut files = std::collections::BTreeMap::new();
        let ended = self
            .until("a session ends", |message| match message {
                FromAgent::Files(told) if told.session == session => {
                    files.extend(told.files.into_iter().map(|file| (file.number, file)));
                    None
                }
                FromAgent::Ended(ended) if ended.session == session => Some(ended),
                _ => None,
            })
            .await;
        (files.into_values().collect(), ended)
    }
}

async fn send(write: &Mutex<WriteHalf<TlsStream<TcpStream>>>, json: &[u8]) {
    let frame = [&(json.len() as u32).to_be_bytes()[..], json].concat();
    let mut write = write.lock().await;
    // An agent that is gone is found when it is read from.
    let _ = write.write_all(&frame).await;
    let _ = write.flush().await;
}

async fn read_all(mut read: ReadHalf<TlsStream<TcpStream>>, tell: mpsc::Sender<FromAgent>) {
    while let Ok(length) = read.read_u32().await {
        assert!(length as usize <= MESSAGE_MAX);
        let mut json = vec![0; length as usize];
        if read.read_exact(&mut json).await.is_err() {
            return;
        }
        let message = serde_json::from_slice(&json).expect("an agent says what it may");
        if tell.send(message).await.is_err() {
            return;
        }
    }
}

pub(super) fn name(path: &std::path::Path) -> Name {
    Name(path.as_os_str().as_encoded_bytes().to_vec())
}

/// One rate for an hour.
pub(super) fn lease(generation: u64, rate_bps: u64) -> Lease {
    Lease { generation, rates: vec![Step { after_ms: 0, rate_bps }], length_ms: 3_600_000, fall_back_bps: 0 }
}

/// An order for a host, to go with a token of the other.
pub(super) fn order(
    (session, role): (u64, Role),
    (here, there): (&std::path::Path, &std::path::Path),
    ((addresses, fingerprint), token): ((Vec<SocketAddr>, String), String),
    names: Vec<Name>,
    lease: Lease,
) -> ToAgent {
    ToAgent::Run(Box::new(Run {
        session,
        collaboration: "atlas".into(),
        role,
        here: name(here),
        there: name(there),
        addresses,
        fingerprint,
        token,
        other: "the other host".into(),
        bind: Vec::new(),
        in_order: false,
        marks: Vec::new(),
        names,
        how: How { protect: "integrity".into(), overwrite: "changed".into(), ..How::default() },
        lease,
    }))
}

/// A running agent, in a runtime and a thread of its own: a test's runtime waits for the threads of its movers when it is dropped,
/// so that a failed assertion would hang as long as a session does.
pub(super) struct Running {
    pub(super) site: Site,
    stop: watch::Sender<Stop>,
    ended: oneshot::Receiver<Result<(), agent::AgentError>>,
}

impl Running {
    /// One whose controller is at this address; `in` and `data` may be read and written for atlas.
    pub(super) fn start(site: Site, controller: &str, more: &str) -> Running {
        let text = format!(
            r#"
            listen = "127.0.0.1:0"
            state_dir = "{0}/state"
            [controller]
            address = "{controller}"
            enrol_token_file = "{0}/enrol"
            [[grant]]
            controller = "*"
            collaboration = "atlas"
            root = "{0}/data"
            read = true
            write = true
            {more}
            "#,
            site.text(""),
        );
        std::fs::write(site.path("enrol"), "token-1\n").unwrap();
        let path = std::path::Path::new("serve.toml");
        let overrides = Overrides { ready_file: Some(site.path("ready.json")), ..Overrides::default() };
        let config = Config::parse(path, &text, &overrides, &site.environment()).unwrap();
        let (stop, stopping) = watch::channel(Stop::No);
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            // Nobody listens any more after a failed assertion.
            let _ = end.send(runtime.block_on(run(config, stopping)));
        });
        Running { site, stop, ended }
    }

    /// Asks it to end, and waits for that.
    pub(super) async fn stop(self) -> Site {
        self.stop.send_replace(Stop::Finish);
        soon("an agent ends", self.ended).await.unwrap().unwrap();
        self.site
    }

    pub(super) async fn ask(&self, question: agent::controller::host::Question) -> agent::controller::host::Status {
        let dir = self.site.path("state");
        let asked = tokio::task::spawn_blocking(move || agent::controller::host::ask(&dir, &question));
        asked.await.unwrap().unwrap()
    }
}

/// Takes any certificate: agents are known by their fingerprints.
#[derive(Debug)]
struct Anybody;

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
