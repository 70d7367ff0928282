//! An agent within this process, for a copy from one place of this host to another: the same engine, over the
//! loopback interface.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mover::request::{Fingerprint, Reach, Remote};
use mover::server::{Counters, Listener, Port, ServeOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::grant::OneKey;
use super::{OneshotOptions, only};
use crate::config::Listen;
use crate::error::AgentError;
use crate::run::{limits, serve};
use service::listen::bind;
use service::stop::Stop;

/// A running agent that only this process knows the key of. It may do what this user may.
pub struct LocalAgent {
    remote: Remote,
    ask: watch::Sender<Stop>,
    serving: JoinHandle<Result<(), AgentError>>,
}

impl LocalAgent {
    /// Starts it; `key` opens it.
    ///
    /// # Errors
    /// When no port of the loopback interface, or no identity, can be had.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(options: &OneshotOptions, key: String) -> Result<LocalAgent, AgentError> {
        let identity = service::ephemeral(&sys::process::hostname())?;
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let (socket, bound) =
            bind(Listen { address, by_default: false }).map_err(|source| AgentError::Listen { address, source })?;
        let serving = ServeOptions {
            policy: Arc::new(OneKey::new(&key, options.start.clone())),
            bounds: options.bounds,
            limits: limits(options.bounds, options.io),
            counters: Arc::new(Counters::default()),
            addresses: Vec::new(),
        };
        let fingerprint = Fingerprint::of(&identity.certificate);
        let remote = Remote {
            reach: Reach::Connect(vec![bound]),
            expected: Some(fingerprint),
            judge: only(fingerprint),
            token: key,
            label: "this host".into(),
            gone: None,
        };
        let (ask, asked) = watch::channel(Stop::No);
        let serving = tokio::spawn(serve(Listener { port: Port::Own(socket), identity }, serving, asked));
        Ok(LocalAgent { remote, ask, serving })
    }

    /// How it is reached.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Lets it finish and waits for that.
    pub async fn end(self) {
        self.ask.send_replace(Stop::Finish);
        // How it ended was told by its session.
        let _ = self.serving.await;
    }
}
