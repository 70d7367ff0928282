//! Questions over the paths that the controller named, and answers to those of other agents.
//!
//! One task has all of it, and a socket for each address of this host that a path begins at: bound to it, so that questions and answers
//! take the path. Each path is asked over each [`PROBE_EACH_MS`], spread over that time; [`answers`] says what follows from the answers.
//! A datagram that is not of a path that is known, from the other end of it, with its tag, is dropped; an answer is as long as its
//! question, and goes back only to the path's other end, at most one each [`ANSWER_EACH`].

mod answers;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api::agent::{FromAgent, PROBE_EACH_MS, PROBES_MAX, PathNews, PathState, Probe};
use proto::hello::SessionKey;
use proto::probe::{BYTES, Probe as Datagram};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::{Site, now};
use answers::Watch;

/// Addresses of this host that paths begin at.
const SOCKETS_MAX: usize = 64;
/// Datagrams that wait to be looked at; further ones are dropped.
const ARRIVED_MAX: usize = 1024;
/// Between two looks at the clock; the paths that are asked over are spread over so many of them.
const LOOK: Duration = Duration::from_millis(20);
const SLOTS: u64 = PROBE_EACH_MS / 20;
/// Between two answers on a path.
const ANSWER_EACH: Duration = Duration::from_millis(PROBE_EACH_MS / 4);
/// How each path goes is told so often, besides when it changes.
const TELL: Duration = Duration::from_secs(10);

/// A datagram: at which of our addresses it came, from where, and what is in it.
type Arrived = (IpAddr, SocketAddr, [u8; BYTES]);

/// A path.
struct Path {
    probe: Probe,
    key: SessionKey,
    watch: Watch,
    /// As last told.
    told: Option<PathState>,
    answered: Option<Duration>,
}

/// A socket, and who reads it.
struct Port {
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Asks and answers over the paths that `lists` has last, for as long as there may be another. A new list has all states told anew.
pub(super) async fn run(site: Arc<Site>, mut lists: watch::Receiver<Vec<Probe>>) {
    let (arrive, mut arrived) = mpsc::channel(ARRIVED_MAX);
    let mut prober = Prober { site, port: 0, paths: BTreeMap::new(), ports: BTreeMap::new(), arrive, told: now() };
    prober.port = prober.site.fixed.bound.port();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut slot = 0;
    loop {
        tokio::select! {
            changed = lists.changed() => {
                if changed.is_err() {
                    return;
                }
                let list = lists.borrow_and_update().clone();
                prober.take(list).await;
            }
            Some((here, from, bytes)) = arrived.recv() => prober.hear(here, from, &bytes),
            _ = look.tick(), if !prober.paths.is_empty() => {
                prober.look(slot);
                slot = (slot + 1) % SLOTS;
            }
        }
    }
}

struct Prober {
    site: Arc<Site>,
    port: u16,
    paths: BTreeMap<u64, Path>,
    ports: BTreeMap<IpAddr, Port>,
    arrive: mpsc::Sender<Arrived>,
    told: Duration,
}

impl Prober {
    /// The paths are these from now on; of those that were known what was learnt is kept.
    async fn take(&mut self, list: Vec<Probe>) {
        let mut before = std::mem::take(&mut self.paths);
        for probe in list.into_iter().take(PROBES_MAX) {
            let Some(key) = key(&probe.key) else {
                tracing::warn!(?probe, "the controller named a path whose key is none");
                continue;
            };
            let path = match before.remove(&probe.path).filter(|path| path.probe == probe) {
                Some(path) => Path { told: None, ..path },
                None => Path { probe, key, watch: Watch::default(), told: None, answered: None },
            };
            self.paths.insert(path.probe.path, path);
        }
        let wanted = |ip: &IpAddr| self.paths.values().any(|path| path.probe.here == *ip);
        self.ports.retain(|ip, _| wanted(ip));
        let mut missing: Vec<IpAddr> = self.paths.values().map(|path| path.probe.here).collect();
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|ip| !self.ports.contains_key(ip));
        for ip in missing {
            if self.ports.len() >= SOCKETS_MAX {
                tracing::warn!(%ip, "paths begin at more than {SOCKETS_MAX} addresses of this host: nobody asks or answers at this one");
                continue;
            }
            match port(ip, self.port, self.arrive.clone()).await {
                Ok(port) => drop(self.ports.insert(ip, port)),
                Err(error) => {
                    tracing::warn!(%ip, port = self.port, %error, "cannot ask or answer over paths at this address: give it to this host, or take the paths from it out of the network");
                }
            }
        }
    }

    fn look(&mut self, slot: u64) {
        let now = now();
        let is_time = now.saturating_sub(self.told) >= TELL;
        if is_time {
            self.told = now;
        }
        let mut news = Vec::new();
        for path in self.paths.values_mut().filter(|path| path.probe.asks) {
            if path.probe.path % SLOTS == slot {
                let question = Datagram {
                    is_answer: false,
                    path: path.probe.path,
                    number: path.watch.ask(now),
                    sent_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
                };
                if let Some(port) = self.ports.get(&path.probe.here) {
                    // What cannot be sent is a question without an answer.
                    let _ = port.socket.try_send_to(&question.encode(&path.key), path.probe.there);
                }
            }
            path.watch.look(now);
            let state = path.watch.state();
            if let Some(state) = state.filter(|_| is_time || state != path.told) {
                if path.told.is_some_and(|told| told != state) {
                    tracing::info!(path = path.probe.path, here = %path.probe.here, there = %path.probe.there, ?state, "a path has changed");
                }
                path.told = Some(state);
                news.push(path.news(state));
            }
        }
        if !news.is_empty() {
            self.site.say(FromAgent::Paths { paths: news });
        }
    }

    fn hear(&mut self, here: IpAddr, from: SocketAddr, bytes: &[u8]) {
        let Some(path) = Datagram::path_of(bytes).and_then(|path| self.paths.get_mut(&path)) else { return };
        if path.probe.here != here || path.probe.there.ip() != from.ip() {
            return;
        }
        let Some(heard) = Datagram::decode(bytes, &path.key) else { return };
        let now = now();
        match (heard.is_answer, path.probe.asks) {
            (true, true) => path.watch.answer(heard.number, Duration::from_micros(heard.sent_us), now),
            (false, false) => {
                let is_soon = path.answered.is_some_and(|last| now.saturating_sub(last) < ANSWER_EACH);
                if let Some(port) = self.ports.get(&here).filter(|_| !is_soon) {
                    path.answered = Some(now);
                    let _ = port.socket.try_send_to(&heard.answer().encode(&path.key), from);
                }
            }
            _ => {}
        }
    }
}

impl Path {
    fn news(&mut self, state: PathState) -> PathNews {
        let (asked, answered) = self.watch.counts();
        let us = |rtt: Duration| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        let rtt_us = self.watch.rtt().map_or(0, us);
        let (rtt_low_us, rtt_high_us) = self.watch.take_range().map_or((0, 0), |(low, high)| (us(low), us(high)));
        PathNews { path: self.probe.path, state, rtt_us, rtt_low_us, rtt_high_us, asked, answered }
    }
}

/// A socket at an address, with a task that reads it.
async fn port(ip: IpAddr, port: u16, arrive: mpsc::Sender<Arrived>) -> std::io::Result<Port> {
    let socket = Arc::new(UdpSocket::bind(SocketAddr::new(ip, port)).await?);
    let from = socket.clone();
    let reader = tokio::spawn(async move {
        // A byte more than a datagram of ours has, to tell longer ones.
        let mut bytes = [0; BYTES + 1];
        loop {
            match from.recv_from(&mut bytes).await {
                Ok((BYTES, sender)) => {
                    let datagram = bytes[..BYTES].try_into().expect("it was cut to that");
                    // When more comes than is looked at, some of it is lost as on any path.
                    let _ = arrive.try_send((ip, sender, datagram));
                }
                Ok(_) => {}
                // What another host said of an earlier datagram: nobody is there now.
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    });
    Ok(Port { socket, reader })
}

/// A key of 64 hexadecimal digits.
fn key(text: &str) -> Option<SessionKey> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).map(|n| n as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect();
    Some(SessionKey(bytes.try_into().ok().filter(|_| digits.len() == 64)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        let text: String = (0..32).map(|n| format!("{n:02X}")).collect();
        assert_eq!(key(&text).map(|key| key.0[31]), Some(31));
        for bad in ["", "0", &text[1..], &format!("{text}00"), &"g".repeat(64), &"é".repeat(32)] {
            assert!(key(bad).is_none(), "{bad}");
        }
    }
}
