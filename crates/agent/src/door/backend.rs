//! The connection to one instance.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::door::{Datagram, FromDoor, FromInstance, MESSAGE_MAX};
use sys::socket;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

use super::config::Instance;
use super::probes::Probes;

/// Between two attempts to reach an instance that is away.
const AGAIN: Duration = Duration::from_millis(500);
/// What an instance has not taken yet, bytes as the kernel counts them: a few hundred connections.
const UNTAKEN_BYTES_MAX: usize = 256 << 10;

/// Why an instance does not get a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is not there.
    Away,
    /// It has not taken those that it was handed before.
    Full,
}

/// An instance, and the connection to it while it is there.
pub(crate) struct Backend {
    instance: Instance,
    connection: Mutex<Option<Arc<UnixStream>>>,
    handed: AtomicU64,
}

impl Backend {
    /// One that is away.
    pub(crate) fn new(instance: Instance) -> Backend {
        Backend { instance, connection: Mutex::default(), handed: AtomicU64::new(0) }
    }

    /// What the door's file calls it.
    pub(crate) fn name(&self) -> &str {
        &self.instance.name
    }

    /// Of its certificate.
    pub(crate) fn fingerprint(&self) -> &[u8; 32] {
        &self.instance.fingerprint.0
    }

    /// Connections that it was handed since the start.
    pub(crate) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Relaxed)
    }

    /// Whether it is there.
    pub(crate) fn is_here(&self) -> bool {
        self.lock().is_some()
    }

    /// Hands a connection over; one that is refused is closed.
    pub(crate) fn hand(&self, stream: TcpStream) -> Result<(), Refused> {
        let stream = stream.into_std().map_err(|_| Refused::Full)?;
        self.send(&FromDoor::Connection, Some(&stream))?;
        self.handed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Hands a probe over.
    pub(crate) fn hand_probe(&self, datagram: Datagram) -> Result<(), Refused> {
        self.send(&FromDoor::Arrived(datagram), None)
    }

    fn send(&self, message: &FromDoor, handed: Option<&std::net::TcpStream>) -> Result<(), Refused> {
        let connection = self.lock().clone().ok_or(Refused::Away)?;
        socket::send_message(&*connection, &message.encode(), handed.map(AsFd::as_fd)).map_err(|error| {
            match error.kind() {
                // Whoever reads it sees that it has gone.
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
                    Refused::Away
                }
                _ => Refused::Full,
            }
        })
    }

    /// Tries to reach it now; says so if it cannot be told why that failed in an ordinary way.
    pub(crate) fn try_connect(&self) {
        let open = || -> io::Result<UnixStream> {
            let fd = socket::connect_local(&self.instance.socket)?;
            socket::set_send_buffer(&fd, UNTAKEN_BYTES_MAX)?;
            UnixStream::from_std(fd.into())
        };
        match open() {
            Ok(fd) => {
                tracing::info!(instance = self.name(), "the instance is here");
                *self.lock() = Some(Arc::new(fd));
            }
            Err(error) => {
                let (instance, socket) = (self.name(), self.instance.socket.display());
                match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        tracing::debug!(instance, %socket, %error, "the instance is away");
                    }
                    _ => tracing::warn!(instance, %socket, %error, "cannot reach the instance"),
                }
            }
        }
    }

    /// Keeps the connection, for ever: does what the instance asks, and tries again when it has gone.
    pub(crate) async fn keep(self: Arc<Backend>, number: usize, probes: Arc<Probes>) {
        loop {
            let connection = self.lock().clone();
            if let Some(connection) = connection {
                let error = loop {
                    match hear(&connection).await {
                        Ok(FromInstance::Wanted(addresses)) => probes.want(number, addresses).await,
                        Ok(FromInstance::Send(datagram, marks)) => probes.send(number, &datagram, marks),
                        Err(error) => break error,
                    }
                };
                tracing::warn!(instance = self.name(), %error, "the instance has gone");
                *self.lock() = None;
                probes.want(number, Vec::new()).await;
            }
            tokio::time::sleep(AGAIN).await;
            self.try_connect();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<UnixStream>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn hear(connection: &UnixStream) -> io::Result<FromInstance> {
    let mut bytes = [0; MESSAGE_MAX];
    let receive = || socket::recv_message(connection, &mut bytes);
    // A descriptor that comes with a message is closed: nothing is asked with one.
    let (length, _) = connection.async_io(Interest::READABLE, receive).await?;
    if length == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
    }
    FromInstance::decode(&bytes[..length]).ok_or_else(|| io::Error::other("it says what means nothing"))
}
