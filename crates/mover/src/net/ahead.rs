//! Data streams that are opened while the session is still asked for. Over a far path the round trip of their TCP handshakes passes while the
//! control connection begins, and that of their own handshakes while the agent answers.

use std::time::Duration;

use proto::control::Settings;
use proto::hello::{SessionId, SessionKey};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use units::Rate;

use super::Opened;
use super::open::{OpenError, connect, shake};
use crate::control::tuner::{Conditions, is_far};
use crate::way::Way;

/// Streams opened ahead at most: what a session over a long path has at least, and no more than are opened at once.
pub const AHEAD_MAX: u16 = 16;

/// One stream, for the number and the way that it was begun for. Given up when it is dropped.
pub struct Ahead {
    id: u16,
    way: Way,
    session: Option<oneshot::Sender<(SessionId, SessionKey)>>,
    opening: JoinSet<Option<Opened>>,
}

impl Ahead {
    /// Begins to connect for the first streams of a session that takes these ways in turn; for none over a short path,
    /// where nothing is won.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn dial(ways: &[Way], settings: &Settings, rtt: Option<Duration>) -> Vec<Ahead> {
        let conditions = Conditions { rtt, streams_max: settings.streams_max, is_polite: settings.polite };
        let least = conditions.bounds(settings.rate_bps.map(Rate::from_bps)).min;
        let count = if is_far(rtt) { least.min(AHEAD_MAX) } else { 0 };
        let begin = |(id, &way): (u16, &Way)| {
            let settings = settings.clone();
            let (session, known) = oneshot::channel();
            let mut opening = JoinSet::new();
            opening.spawn(async move {
                let opened = async {
                    let stream = connect(way, &settings, id).await?;
                    let Ok((session, key)) = known.await else { return Ok(None) };
                    shake(stream, way.to, session, key, id).await.map(Some)
                };
                opened.await.unwrap_or_else(|error: OpenError| {
                    // The other end closes a connection on which nothing was said for long, and refuses one that comes too early.
                    tracing::debug!(%error, "a stream was not opened ahead");
                    None
                })
            });
            Ahead { id, way, session: Some(session), opening }
        };
        (0..count).zip(ways.iter().cycle()).map(begin).collect()
    }

    /// The session is being asked for: the stream is opened as soon as it is connected. The first time counts.
    pub fn begin(&mut self, session: SessionId, key: &SessionKey) {
        if let Some(known) = self.session.take() {
            // It may have failed to connect.
            let _ = known.send((session, key.clone()));
        }
    }

    /// Takes the stream of this number and way out of those there are.
    pub fn take(all: &mut Vec<Ahead>, id: u16, way: Way) -> Option<Ahead> {
        let n = all.iter().position(|one| (one.id, one.way) == (id, way))?;
        Some(all.swap_remove(n))
    }

    /// The stream, once it is open; `None` if it will not be, or was not begun.
    pub async fn opened(mut self) -> Option<Opened> {
        drop(self.session.take());
        self.opening.join_next().await?.ok()?
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proto::hello::{HELLO, StreamSecrets, announced};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::net::open::{accept, dial, plain_settings};

    const FAR: Option<Duration> = Some(Duration::from_millis(100));

    const SESSION: SessionId = [3; 16];
    const KEY: SessionKey = SessionKey([2; 32]);

    /// The next stream that is opened there, unless it is `closed` instead; its number.
    async fn accepted(listener: &TcpListener, closed: bool) -> Option<(u16, StreamSecrets)> {
        let (mut stream, _) = listener.accept().await.unwrap();
        if closed {
            return None;
        }
        let mut hello = [0; HELLO];
        stream.read_exact(&mut hello).await.unwrap();
        let said = announced(&hello).unwrap();
        assert_eq!(said.session, SESSION);
        Some((said.stream, accept(stream, hello, KEY, said.stream, &plain_settings()).await.unwrap().secrets))
    }

    #[tokio::test]
    async fn far_streams_are_opened_over_their_addresses_in_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = Way::to(listener.local_addr().unwrap());
        let nowhere = Way::to(SocketAddr::from(([127, 0, 0, 1], 1)));
        let settings = Settings { streams_max: 3, ..plain_settings() };
        let mut ahead = Ahead::dial(&[here, nowhere], &settings, FAR);
        assert_eq!(ahead.len(), 3, "no more than the session may have");
        ahead.iter_mut().for_each(|one| one.begin(SESSION, &KEY));
        assert!(Ahead::take(&mut ahead, 1, here).is_none(), "the second stream goes over the second address");
        let there = [accepted(&listener, false).await.unwrap(), accepted(&listener, false).await.unwrap()];
        for id in [0, 2] {
            let opened = Ahead::take(&mut ahead, id, here).unwrap().opened().await.unwrap();
            assert!(opened.id == id && there.contains(&(id, opened.secrets)));
        }
        assert!(Ahead::take(&mut ahead, 0, here).is_none(), "once");
        assert!(Ahead::take(&mut ahead, 1, nowhere).unwrap().opened().await.is_none());
    }

    #[tokio::test]
    async fn nothing_is_said_for_a_session_that_is_not_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = Way::to(listener.local_addr().unwrap());
        let mut ahead = Ahead::dial(&[here], &plain_settings(), FAR);
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(Ahead::take(&mut ahead, 0, here).unwrap().opened().await.is_none());
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }

    /// How many connections it takes to open a stream of which the other end may have closed the one that was made ahead.
    async fn connections(closed: bool) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = Way::to(listener.local_addr().unwrap());
        let mut ahead = Ahead::dial(&[here], &plain_settings(), FAR);
        ahead.iter_mut().for_each(|one| one.begin(SESSION, &KEY));
        let first = accepted(&listener, closed).await;
        let settings = plain_settings();
        let dialling = dial(here, &settings, SESSION, KEY, 0, Ahead::take(&mut ahead, 0, here));
        let accepting = async {
            match first {
                Some(first) => (first, 1),
                None => (accepted(&listener, false).await.unwrap(), 2),
            }
        };
        let (dialled, ((_, secrets), connections)) = tokio::join!(dialling, accepting);
        assert_eq!(dialled.unwrap().secrets, secrets);
        connections
    }

    #[tokio::test]
    async fn a_stream_is_the_one_that_was_opened_ahead_if_that_came_to_something() {
        assert_eq!(connections(false).await, 1);
        assert_eq!(connections(true).await, 2);
    }

    #[tokio::test]
    async fn near_streams_and_those_without_an_address_are_not() {
        let settings = Settings { streams_max: 16, ..plain_settings() };
        let here = [Way::to(SocketAddr::from(([127, 0, 0, 1], 1)))];
        assert!(Ahead::dial(&here, &settings, Some(Duration::from_millis(1))).is_empty());
        assert!(Ahead::dial(&here, &settings, None).is_empty());
        assert!(Ahead::dial(&[], &settings, FAR).is_empty());
        assert_eq!(Ahead::dial(&here, &settings, FAR).len(), usize::from(AHEAD_MAX));
    }
}
