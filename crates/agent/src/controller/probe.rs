//! Questions over the paths that the controller named, and answers to those of other agents.
//!
//! One thread has all of it, and [`ports`] a socket for each address of this host that a path begins at, or its door has: bound to it, so that
//! questions and answers take the path. Each path is asked over each [`PROBE_EACH_MS`], spread over that time; [`answers`] says what follows from the answers.
//! A datagram that is not of a path that is known, from the other end of it, with its tag, is dropped; an answer is as long as its
//! question, and goes back only to the path's other end, at most one each [`ANSWER_EACH`]. What is asked and answered carries the marks of
//! the path. A host whose kernel would not answer a connection with them keeps silent on that path, as if a filter stood in the way.

mod answered;
mod answers;
mod ports;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use api::agent::{FromAgent, PROBE_EACH_MS, PROBES_MAX, PathNews, PathState, Probe};
use proto::door::Datagram as Arrived;
use proto::hello::SessionKey;
use proto::probe::Probe as Datagram;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Site, now};
use answers::{LOOK, Watch};
use ports::Ports;

/// Datagrams that wait to be looked at; further ones are dropped.
const ARRIVED_MAX: usize = 1024;
/// Looks at the clock in the time in which each path is asked over once; the paths are spread over them.
const SLOTS: u64 = PROBE_EACH_MS / LOOK.as_millis() as u64;
/// Between two answers on a path.
const ANSWER_EACH: Duration = Duration::from_millis(PROBE_EACH_MS / 4);
/// How each path goes is told so often, besides when it changes.
const TELL: Duration = Duration::from_secs(10);

/// A path.
struct Path {
    probe: Probe,
    key: SessionKey,
    watch: Watch,
    /// As last told.
    told: Option<PathState>,
    answered: Option<Duration>,
    /// This host's kernel does not answer connections with its marks: nothing is asked or answered.
    is_mute: bool,
}

/// The thread that asks and answers; it ends when this is dropped.
pub struct Probing {
    _end: oneshot::Sender<()>,
}

/// Begins to ask and answer over the paths that the site has. It has a thread of its own: what keeps the agent's other one busy (the begin of
/// a session for 0.1 to 0.2 s on a busy host) is no fault of a path.
///
/// # Errors
/// When there can be no thread.
pub(super) fn begin(site: &Arc<Site>) -> io::Result<Probing> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (end, ended) = oneshot::channel();
    let probing = run(site.clone(), site.probes.subscribe());
    let work = async move {
        tokio::select! {
            () = probing => {}
            _ = ended => {}
        }
    };
    std::thread::Builder::new().name("probes".to_owned()).spawn(move || runtime.block_on(work))?;
    Ok(Probing { _end: end })
}

/// Asks and answers over the paths that `lists` has last, for as long as there may be another. A new list has all states told anew.
async fn run(site: Arc<Site>, mut lists: watch::Receiver<Vec<Probe>>) {
    let (arrive, mut arrived) = mpsc::channel(ARRIVED_MAX);
    let ports = Ports::new(site.fixed.bound.port(), site.door.clone(), arrive);
    let mut prober = Prober { site, paths: BTreeMap::new(), ports, told: now() };
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
            Some(datagram) = arrived.recv() => prober.hear(&datagram),
            _ = look.tick(), if !prober.paths.is_empty() => {
                prober.look(slot);
                slot = (slot + 1) % SLOTS;
            }
        }
    }
}

struct Prober {
    site: Arc<Site>,
    paths: BTreeMap<u64, Path>,
    ports: Ports,
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
            let unanswered = answered::is_not_answered(probe.marks);
            let path = match before.remove(&probe.path).filter(|path| path.probe == probe) {
                Some(path) => Path { told: None, is_mute: unanswered.is_some(), ..path },
                None => {
                    if let Some(how) = unanswered {
                        tracing::warn!(here = %probe.here, there = %probe.there, marks = %probe.marks, "the kernel of this host does not answer connections with the marks of this path, so it is left for when there is no other: {how}");
                    }
                    let is_mute = unanswered.is_some();
                    Path { probe, key, watch: Watch::default(), told: None, answered: None, is_mute }
                }
            };
            self.paths.insert(path.probe.path, path);
        }
        let addresses = self.paths.values().map(|path| path.probe.here).collect();
        self.ports.keep_to(&addresses).await;
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
                if !path.is_mute {
                    let Probe { here, there, marks, .. } = path.probe;
                    self.ports.send(here, &question.encode(&path.key), there, marks);
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

    fn hear(&mut self, Arrived { here, there, bytes }: &Arrived) {
        let Some(path) = Datagram::path_of(bytes).and_then(|path| self.paths.get_mut(&path)) else { return };
        if path.probe.here != *here || path.probe.there.ip() != there.ip() {
            return;
        }
        let Some(heard) = Datagram::decode(bytes, &path.key) else { return };
        let now = now();
        match (heard.is_answer, path.probe.asks) {
            (true, true) => path.watch.answer(heard.number, Duration::from_micros(heard.sent_us), now),
            (false, false) => {
                let is_soon = path.answered.is_some_and(|last| now.saturating_sub(last) < ANSWER_EACH);
                if !is_soon && !path.is_mute {
                    path.answered = Some(now);
                    self.ports.send(*here, &heard.answer().encode(&path.key), *there, path.probe.marks);
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
