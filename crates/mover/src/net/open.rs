//! Opening data streams: connecting, the three messages, the socket's options.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use proto::control::Settings;
use proto::hello::{Accepting, Connecting, FINISH, HELLO, HelloError, REPLY, SessionId, SessionKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Opened;
use super::ahead::Ahead;
use crate::control::tuner::is_far;
use crate::way::Way;
use sys::socket::Keepalive;

/// How long opening may take.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// A stream whose data are not acknowledged for this long is dead; its parcels go to others.
pub const DEAD_AFTER: Duration = Duration::from_secs(20);

/// What a stream over a far path may have in flight from the begin. With what the kernel begins with, eight streams over 100 ms
/// lost a round trip and a half while they grew to 1 Gb/s.
const FIRST_WINDOW: usize = 2 << 20;

/// A path that was dead and is alive again is found so within this time, where the kernel lets it be said.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The network says no.
    #[error("connecting to {0}")]
    Connect(SocketAddr, #[source] std::io::Error),
    /// The connection broke in the three messages.
    #[error("opening a data stream")]
    Io(#[from] std::io::Error),
    /// The other end says no or is not the one meant.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// It took too long.
    #[error("opening a data stream to {0} took too long")]
    Timeout(SocketAddr),
}

impl OpenError {
    /// What the operating system calls it.
    #[must_use]
    pub fn kind(&self) -> std::io::ErrorKind {
        match self {
            OpenError::Connect(_, error) | OpenError::Io(error) => error.kind(),
            OpenError::Hello(_) => std::io::ErrorKind::InvalidData,
            OpenError::Timeout(_) => std::io::ErrorKind::TimedOut,
        }
    }
}

/// Connects a TCP socket with the options that must be set before; `stream` numbers it for its flow label. Marks of the way go before
/// those of the settings.
///
/// # Errors
/// When the address cannot be reached within [`OPEN_TIMEOUT`] or an option is refused.
pub async fn connect(way: Way, settings: &Settings, stream: u16) -> Result<tokio::net::TcpStream, OpenError> {
    let Way { to, from, marks } = way;
    let failed = |e| OpenError::Connect(to, e);
    let socket =
        if to.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }.map_err(failed)?;
    if let Some(ip) = from.filter(|ip| ip.is_ipv4() == to.is_ipv4()) {
        socket.bind(SocketAddr::new(ip, 0)).map_err(failed)?;
    }
    if let Some(dscp) = marks.dscp.or(settings.dscp) {
        sys::socket::set_dscp(socket.as_fd(), dscp).map_err(failed)?;
    }
    let label = marks.flow_label.or_else(|| settings.flow_label.map(|label| label.of_stream(stream)));
    let labelled = match (to, label) {
        (SocketAddr::V6(mut to), Some(label)) => {
            sys::socket::set_flow_label(socket.as_fd(), to, label).map_err(failed)?;
            // This socket's address takes it as it stands in the packet, that of `sys` in host order.
            to.set_flowinfo(label.to_be());
            to.into()
        }
        _ => to,
    };
    match tokio::time::timeout(OPEN_TIMEOUT, socket.connect(labelled)).await {
        Ok(stream) => stream.map_err(failed),
        Err(_) => Err(OpenError::Timeout(to)),
    }
}

/// Opens a stream as the connecting end: the one that was opened ahead for it, if that has come to something.
///
/// # Errors
/// When the other end cannot be reached, refuses, or does not hold the key.
pub async fn dial(
    way: Way,
    settings: &Settings,
    session: SessionId,
    key: SessionKey,
    id: u16,
    ahead: Option<Ahead>,
) -> Result<Opened, OpenError> {
    if let Some(ahead) = ahead
        && let Some(opened) = ahead.opened().await
    {
        return Ok(opened);
    }
    shake(connect(way, settings, id).await?, way.to, session, key, id).await
}

/// The three messages, from the connecting end.
pub(super) async fn shake(
    mut stream: tokio::net::TcpStream,
    to: SocketAddr,
    session: SessionId,
    key: SessionKey,
    id: u16,
) -> Result<Opened, OpenError> {
    widen(stream.as_fd());
    let mut nonce = [0; 16];
    sys::random::fill(&mut nonce)?;
    let shake = async {
        let (state, hello) = Connecting::new(key, session, id, nonce);
        stream.write_all(&hello).await?;
        let mut reply = [0; REPLY];
        stream.read_exact(&mut reply).await?;
        let (finish, secrets) = state.reply(&reply)?;
        stream.write_all(&finish).await?;
        Ok::<_, OpenError>(secrets)
    };
    let secrets = tokio::time::timeout(OPEN_TIMEOUT, shake).await.map_err(|_| OpenError::Timeout(to))??;
    Ok(Opened { id, socket: Arc::new(ready(stream)?), secrets, connected: true, permit: None })
}

/// Finishes opening a stream as the accepting end; `hello` has been read and names this session.
///
/// # Errors
/// When the other end does not hold the key or plays back what it heard.
pub async fn accept(
    mut stream: tokio::net::TcpStream,
    hello: [u8; HELLO],
    key: SessionKey,
    id: u16,
    settings: &Settings,
) -> Result<Opened, OpenError> {
    let mut nonce = [0; 16];
    sys::random::fill(&mut nonce)?;
    let (state, reply) = Accepting::new(key, &hello, nonce)?;
    widen(stream.as_fd());
    stream.write_all(&reply).await?;
    let mut finish = [0; FINISH];
    stream.read_exact(&mut finish).await?;
    let secrets = state.finish(&finish)?;
    if let Some(dscp) = settings.dscp {
        sys::socket::set_dscp(stream.as_fd(), dscp)?;
    }
    Ok(Opened { id, socket: Arc::new(ready(stream)?), secrets, connected: false, permit: None })
}

/// Settings of a connection about which nothing is agreed yet.
#[must_use]
pub fn plain_settings() -> Settings {
    Settings {
        protection: proto::seal::Protection::Private,
        chunk_size: proto::limits::CHUNK_SIZE_DEFAULT,
        streams_max: 1,
        congestion: None,
        rate_bps: None,
        polite: false,
        dscp: None,
        flow_label: None,
    }
}

/// Round trip of a connection, if the kernel says it.
#[must_use]
pub fn rtt(fd: BorrowedFd<'_>) -> Option<Duration> {
    Some(Duration::from_micros(sys::socket::tcp_info(fd).ok()?.rtt_us.into()))
}

/// Has the kernel try again each second while nothing is acknowledged, or every four round trips on a very long path.
pub fn try_again_soon(fd: BorrowedFd<'_>) {
    if let Err(error) = sys::socket::set_rto_max(fd, TRY_AGAIN.max(4 * rtt(fd).unwrap_or_default())) {
        tracing::debug!(%error, "the longest time between two attempts is the kernel's");
    }
}

/// Lets the other end send more at the begin, if the path is far. Only receiving ends have use for it, and a sending end loses
/// nothing: it is a bound, not memory.
fn widen(fd: BorrowedFd<'_>) {
    if is_far(rtt(fd))
        && let Err(error) = sys::socket::widen_receive_window(fd, FIRST_WINDOW)
    {
        tracing::debug!(%error, "the receive window is what the kernel begins with");
    }
}

/// Takes the socket out of the async runtime and sets what every data stream has.
fn ready(stream: tokio::net::TcpStream) -> std::io::Result<TcpStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(true)?;
    sys::socket::set_nodelay(stream.as_fd(), true)?;
    sys::socket::set_user_timeout(stream.as_fd(), DEAD_AFTER)?;
    try_again_soon(stream.as_fd());
    let keepalive = Keepalive { idle: DEAD_AFTER / 2, interval: DEAD_AFTER / 8, count: 4 };
    sys::socket::set_keepalive(stream.as_fd(), Some(keepalive))?;
    Ok(stream)
}
