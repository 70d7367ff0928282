//! Connecting again to an agent that has a session of ours, over whichever of its addresses answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proto::control::Settings;
use proto::hello::SessionId;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsStream;

use crate::connect::{STAGGER, tls_client};
use crate::link::lasting::{AGAIN, Bound, Renewal};
use crate::net::open::{OpenError, connect};
use crate::request::Remote;
use crate::way::Way;

/// Addresses that are tried; further ones carry data streams only.
const ADDRESSES_MAX: usize = 16;
/// Attempts under way at once; no round begins that would exceed it.
const ATTEMPTS_MAX: usize = 4 * ADDRESSES_MAX;
/// How long an attempt may take on a short path: the kernel sends its first packet again after one second, and one that is
/// sent after the path has healed is answered.
const PATIENCE: Duration = Duration::from_millis(2500);
/// Round trips that an attempt may take on a long one: it needs two, and each packet may be lost once.
const PATIENCE_RTTS: u32 = 6;

/// How to come back to an agent.
pub(crate) struct Redial {
    remote: Remote,
    /// The ways to it.
    ways: Vec<Way>,
    settings: Settings,
    session: SessionId,
    patience: Duration,
    /// The address in use, which is dead if another one is asked for.
    last: AtomicUsize,
}

/// What came of one attempt, by the place of its address.
type Attempt = (usize, io::Result<TlsStream<TcpStream>>);

impl Redial {
    /// The ways to an agent, the one in use first; `rtt` is the round trip of the connection that there was.
    pub(crate) fn new(
        remote: Remote,
        ways: &[Way],
        settings: Settings,
        session: SessionId,
        rtt: Option<Duration>,
    ) -> Redial {
        let ways = ways.iter().take(ADDRESSES_MAX).copied().collect();
        let patience = PATIENCE.max(rtt.unwrap_or_default() * PATIENCE_RTTS);
        Redial { remote, ways, settings, session, patience, last: AtomicUsize::new(0) }
    }

    /// The same, for a link.
    pub(crate) fn renewal(self) -> Renewal {
        let redial = Arc::new(self);
        Renewal::Dial(Box::new(move |first| {
            let redial = redial.clone();
            Box::pin(async move { redial.dial(first).await })
        }))
    }

    /// Tries all addresses, each a little after the one before it and the one that was in use last, and again each second,
    /// until one answers; `first` goes before all, if it is one of them.
    ///
    /// # Errors
    /// When every address says that nobody listens there: the agent has gone, and the session with it.
    async fn dial(self: Arc<Redial>, first: Option<Way>) -> io::Result<Bound> {
        let count = self.ways.len();
        let step = STAGGER.min(AGAIN / count.max(1) as u32);
        let mut attempts = JoinSet::new();
        let mut refused = vec![false; count];
        let mut round = tokio::time::interval(AGAIN);
        loop {
            tokio::select! {
                _ = round.tick() => {
                    if attempts.len() + count > ATTEMPTS_MAX {
                        continue;
                    }
                    let first = first.and_then(|first| self.ways.iter().position(|way| way.is(&first)));
                    let begin = first.unwrap_or_else(|| self.last.load(Ordering::Relaxed) + 1);
                    for turn in 0..count {
                        let n = (begin + turn) % count;
                        let redial = self.clone();
                        attempts.spawn(async move { redial.attempt(n, step * turn as u32).await });
                    }
                }
                Some(attempt) = attempts.join_next() => {
                    // Attempts are called off with their set only, and do not panic.
                    let Ok((n, result)) = attempt else { continue };
                    match result {
                        Ok(stream) => {
                            self.last.store(n, Ordering::Relaxed);
                            let binding = crate::tls::binding(&stream, &self.session).map_err(io::Error::other)?;
                            return Ok((Box::new(stream), binding));
                        }
                        Err(error) => {
                            tracing::debug!(to = %self.ways[n].to, %error, "connecting again");
                            refused[n] = error.kind() == io::ErrorKind::ConnectionRefused;
                            if refused.iter().all(|refused| *refused) {
                                return Err(error);
                            }
                        }
                    }
                }
            }
        }
    }

    async fn attempt(&self, n: usize, after: Duration) -> Attempt {
        tokio::time::sleep(after).await;
        let way = self.ways[n];
        let open = async {
            let tcp = connect(way, &self.settings, 0).await.map_err(|error| match error {
                OpenError::Connect(_, error) => error,
                other => io::Error::new(other.kind(), other),
            })?;
            let shaken = tls_client(tcp, &self.remote, self.patience).await;
            shaken.map_err(|error| io::Error::other(crate::session::chain(&error)))
        };
        let result = tokio::time::timeout(self.patience, open).await;
        (n, result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
    }
}
