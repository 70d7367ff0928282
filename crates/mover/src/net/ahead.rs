//! Connections for data streams that are made while the session is still asked for: over a far path the round trip of the TCP
//! handshake passes while the agent answers.

use std::time::Duration;

use proto::control::Settings;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use units::Rate;

use super::open::{OpenError, connect};
use crate::control::tuner::{Conditions, is_far};
use crate::way::Way;

/// Connections made ahead at most: what a session over a long path has at least, and no more than are opened at once.
pub const AHEAD_MAX: u16 = 16;

/// One connection, for the stream and the way that it was made for. Given up when it is dropped.
pub struct Ahead {
    id: u16,
    way: Way,
    connecting: JoinSet<Result<TcpStream, OpenError>>,
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
            let mut connecting = JoinSet::new();
            connecting.spawn(async move { connect(way, &settings, id).await });
            Ahead { id, way, connecting }
        };
        (0..count).zip(ways.iter().cycle()).map(begin).collect()
    }

    /// Takes the connection that was made for a stream out of those there are.
    pub fn take(all: &mut Vec<Ahead>, id: u16, way: Way) -> Option<Ahead> {
        let n = all.iter().position(|one| (one.id, one.way) == (id, way))?;
        Some(all.swap_remove(n))
    }

    /// The connection, once there is one; `None` if there will be none.
    pub async fn connected(mut self) -> Option<TcpStream> {
        self.connecting.join_next().await?.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proto::hello::{HELLO, SessionKey};
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::net::open::{accept, dial, plain_settings};

    const FAR: Option<Duration> = Some(Duration::from_millis(100));

    #[tokio::test]
    async fn far_streams_are_dialled_over_their_addresses_in_turn() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = Way::to(listener.local_addr().unwrap());
        let nowhere = Way::to(SocketAddr::from(([127, 0, 0, 1], 1)));
        let settings = Settings { streams_max: 3, ..plain_settings() };
        let mut ahead = Ahead::dial(&[here, nowhere], &settings, FAR);
        assert_eq!(ahead.len(), 3, "no more than the session may have");
        assert!(Ahead::take(&mut ahead, 1, here).is_none(), "the second stream goes over the second address");
        let first = Ahead::take(&mut ahead, 0, here).unwrap().connected().await;
        assert_eq!(first.unwrap().peer_addr().unwrap(), here.to);
        assert!(Ahead::take(&mut ahead, 0, here).is_none(), "once");
        assert!(Ahead::take(&mut ahead, 1, nowhere).unwrap().connected().await.is_none());
        assert!(Ahead::take(&mut ahead, 2, here).is_some());
    }

    /// Opens stream 0 of a session over a connection made ahead, which the accepting end may have closed; gives how many
    /// connections it took.
    async fn opened_ahead(closed: bool) -> usize {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = Way::to(listener.local_addr().unwrap());
        let settings = Settings { streams_max: 1, ..plain_settings() };
        let mut ahead = Ahead::dial(&[here], &settings, FAR);
        let (mut made, mut connections) = (listener.accept().await.unwrap().0, 1);
        let (session, key) = ([3; 16], SessionKey([2; 32]));
        let ahead = Ahead::take(&mut ahead, 0, here);
        let dialling = dial(here, &settings, session, key.clone(), 0, ahead);
        let accepting = async {
            if closed {
                drop(made);
                (made, connections) = (listener.accept().await.unwrap().0, 2);
            }
            let mut hello = [0; HELLO];
            made.read_exact(&mut hello).await.unwrap();
            accept(made, hello, key.clone(), 0, &settings).await
        };
        let (dialled, accepted) = tokio::join!(dialling, accepting);
        assert_eq!(dialled.unwrap().secrets.forward, accepted.unwrap().secrets.forward);
        connections
    }

    #[tokio::test]
    async fn a_stream_is_opened_over_what_was_made_ahead_if_that_is_of_use() {
        assert_eq!(opened_ahead(false).await, 1);
        assert_eq!(opened_ahead(true).await, 2);
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
