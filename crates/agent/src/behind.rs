//! An agent behind a door: it takes its connections, and its probes, from a local socket.
//!
//! The socket's directory lets only the door's group in, and whoever connects must be the door's user, as the kernel tells it. One door is listened
//! to: a later one takes the place of an earlier one, whose messages that were not taken yet are lost, as in a kernel's queue that is closed.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::door::{Datagram, FromDoor, FromInstance, MESSAGE_MAX};
use sys::socket;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use units::Marks;

use crate::config::DoorAddress;

/// Doors that wait to be accepted; there is one.
const BACKLOG: u16 = 8;
/// Connections that were handed over and not taken yet; further ones wait in the socket, and then at the door.
const HANDED_MAX: usize = 64;
/// Probes that wait to be sent; further ones are lost, as on any path.
const PROBES_MAX: usize = 256;
/// After an error of accepting, such as no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);
/// The door's user and the group of the directory may connect, if its directory lets them.
const MODE: u32 = 0o660;

/// The probes of an agent behind a door.
#[derive(Debug)]
pub struct DoorProbes {
    wanted: watch::Sender<Vec<IpAddr>>,
    out: mpsc::Sender<(Datagram, Marks)>,
    arrive: Mutex<Option<mpsc::Sender<Datagram>>>,
}

impl DoorProbes {
    /// What arrives goes there from now on.
    pub(crate) fn hand_to(&self, arrive: mpsc::Sender<Datagram>) {
        *self.arrive.lock().unwrap_or_else(PoisonError::into_inner) = Some(arrive);
    }

    /// Probes that arrive at these addresses are wanted from now on.
    pub(crate) fn want(&self, addresses: Vec<IpAddr>) {
        self.wanted.send_replace(addresses);
    }

    /// Has a probe sent; where too many wait it is lost.
    pub(crate) fn send(&self, datagram: Datagram, marks: Marks) {
        let _ = self.out.try_send((datagram, marks));
    }

    fn arrived(&self, datagram: Datagram) {
        if let Some(arrive) = &*self.arrive.lock().unwrap_or_else(PoisonError::into_inner) {
            // When more comes than is looked at, some of it is lost.
            let _ = arrive.try_send(datagram);
        }
    }
}

/// The socket at which a door is waited for; taken away when this is dropped.
pub(crate) struct Behind {
    uid: u32,
    listener: UnixListener,
    probes: Arc<DoorProbes>,
    wanted: watch::Receiver<Vec<IpAddr>>,
    out: mpsc::Receiver<(Datagram, Marks)>,
    connections: mpsc::Sender<TcpStream>,
    _path: Taken,
}

/// A path that is unlinked in the end.
struct Taken(PathBuf);

impl Drop for Taken {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens for the door; the connections that it hands over come out of the channel.
///
/// # Errors
/// When the socket cannot be made, or another agent has it.
pub(crate) fn listen(door: &DoorAddress) -> io::Result<(Behind, mpsc::Receiver<TcpStream>)> {
    clear(&door.socket)?;
    let listener = socket::listen_local(&door.socket, BACKLOG)?;
    let path = Taken(door.socket.clone());
    fs::set_permissions(&door.socket, Permissions::from_mode(MODE))?;
    let (connections, handed) = mpsc::channel(HANDED_MAX);
    let (out, outgoing) = mpsc::channel(PROBES_MAX);
    let (wanted, want) = watch::channel(Vec::new());
    let probes = Arc::new(DoorProbes { wanted, out, arrive: Mutex::default() });
    let listener = UnixListener::from_std(listener.into())?;
    let behind = Behind { uid: door.uid, listener, probes, wanted: want, out: outgoing, connections, _path: path };
    Ok((behind, handed))
}

/// Takes away the socket of an agent that was killed.
fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(meta) if !meta.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is something that is no socket"))
        }
        Ok(_) => match socket::connect_local(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Err(io::ErrorKind::AddrInUse.into()),
        },
    }
}

impl Behind {
    /// The probes that go through the door.
    pub(crate) fn probes(&self) -> Arc<DoorProbes> {
        self.probes.clone()
    }

    /// Listens to the door until nobody takes connections any more.
    pub(crate) async fn run(mut self) {
        let mut door = None;
        loop {
            tokio::select! {
                accepted = accept(&self.listener) => match accepted {
                    Ok((_, uid)) if uid != self.uid => {
                        tracing::warn!(uid, door = self.uid, "a process that is not of the door's user was turned away");
                    }
                    Ok((connection, _)) => {
                        tracing::info!("the door is here");
                        self.wanted.mark_changed();
                        door = Some(connection);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting the door");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                heard = hear(door.as_ref()) => match heard {
                    Ok(heard) => if self.take(heard).await.is_err() { return },
                    Err(error) => {
                        tracing::info!(%error, "the door has gone");
                        door = None;
                    }
                },
                Ok(()) = self.wanted.changed(), if door.is_some() => {
                    let addresses = self.wanted.borrow_and_update().clone();
                    if !say(door.as_ref(), &FromInstance::Wanted(addresses)).await {
                        // It will come again, and be told.
                        door = None;
                    }
                }
                Some((datagram, marks)) = self.out.recv() => {
                    if let Some(door) = &door {
                        // What the door does not take at once is a probe that was lost.
                        let _ = socket::send_message(door, &FromInstance::Send(datagram, marks).encode(), None);
                    }
                }
            }
        }
    }

    /// Fails when nobody takes connections any more.
    async fn take(&self, (said, handed): (FromDoor, Option<OwnedFd>)) -> Result<(), ()> {
        match (said, handed) {
            (FromDoor::Connection, Some(handed)) => self.connections.send(handed.into()).await.map_err(drop),
            // The kernel had no descriptor left for this process; the other end tries again.
            (FromDoor::Connection, None) => Ok(()),
            (FromDoor::Arrived(datagram), _) => {
                self.probes.arrived(datagram);
                Ok(())
            }
        }
    }
}

/// Whoever connects, and its user.
async fn accept(listener: &UnixListener) -> io::Result<(UnixStream, u32)> {
    let (connection, _) = listener.accept().await?;
    let uid = connection.peer_cred()?.uid();
    Ok((connection, uid))
}

/// The next message of the door; for ever while there is none.
async fn hear(door: Option<&UnixStream>) -> io::Result<(FromDoor, Option<OwnedFd>)> {
    let Some(door) = door else { return std::future::pending().await };
    let mut bytes = [0; MESSAGE_MAX];
    let (length, handed) = door.async_io(Interest::READABLE, || socket::recv_message(door, &mut bytes)).await?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let said = FromDoor::decode(&bytes[..length]);
    Ok((said.ok_or_else(|| io::Error::other("it says what means nothing"))?, handed))
}

/// Says something that must not be lost; false if the door has gone.
async fn say(door: Option<&UnixStream>, message: &FromInstance) -> bool {
    let Some(door) = door else { return false };
    let bytes = message.encode();
    door.async_io(Interest::WRITABLE, || socket::send_message(door, &bytes, None)).await.is_ok()
}

#[cfg(test)]
mod tests;
