//! A UDP socket that probes arrive at, and a task that reads it.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use proto::door::Datagram;
use proto::probe::{BYTES, Probe};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use units::Marks;

/// After what another host said of an earlier datagram: nobody is there now.
const PAUSE: Duration = Duration::from_millis(20);

/// The socket; it is closed when this is dropped.
pub(crate) struct ProbePort {
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
    /// The code point of what it sends.
    dscp: u8,
    /// Flow labels that it may send with.
    labels: BTreeSet<u32>,
}

impl Drop for ProbePort {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl ProbePort {
    /// Binds to an address of this host; what arrives there and has the form of a probe goes to `take`, which must not wait.
    ///
    /// # Errors
    /// When the address or the port cannot be had.
    pub(crate) async fn open(
        here: IpAddr,
        port: u16,
        take: impl Fn(Datagram) + Send + 'static,
    ) -> io::Result<ProbePort> {
        let socket = Arc::new(UdpSocket::bind(SocketAddr::new(here, port)).await?);
        let from = socket.clone();
        let reader = tokio::spawn(async move {
            // A byte more than a datagram of ours has, to tell longer ones.
            let mut bytes = [0; BYTES + 1];
            loop {
                match from.recv_from(&mut bytes).await {
                    Ok((BYTES, there)) if Probe::path_of(&bytes[..BYTES]).is_some() => {
                        let bytes = bytes[..BYTES].try_into().expect("it was cut to that");
                        take(Datagram { here, there, bytes });
                    }
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        });
        Ok(ProbePort { socket, reader, dscp: 0, labels: BTreeSet::new() })
    }

    /// Sends a datagram with these marks, if the kernel takes it now: paths between the same addresses share the socket.
    ///
    /// # Errors
    /// What the kernel says: of a flow label, also that another user has it, or that there are too many.
    pub(crate) fn send(&mut self, bytes: &[u8; BYTES], mut to: SocketAddr, marks: Marks) -> io::Result<()> {
        let dscp = marks.dscp.unwrap_or(0);
        if self.dscp != dscp {
            sys::socket::set_dscp(self.socket.as_fd(), dscp)?;
            self.dscp = dscp;
        }
        if let (SocketAddr::V6(to), Some(label)) = (&mut to, marks.flow_label) {
            // A label is leased once: again each time it would count again.
            if !self.labels.contains(&label) {
                sys::socket::set_flow_label(self.socket.as_fd(), *to, label)?;
                self.labels.insert(label);
            }
            // As it stands in the packet.
            to.set_flowinfo(label.to_be());
        }
        self.socket.try_send_to(bytes, to).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_sends_with_one_mark_and_another() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let listener = UdpSocket::bind((here, 0)).await.expect("a socket");
        let to = listener.local_addr().expect("it has one");
        let mut port = ProbePort::open(here, 0, drop).await.expect("a socket");
        for dscp in [Some(18), None, Some(1)] {
            listener.writable().await.expect("it is");
            port.send(&[7; BYTES], to, Marks { dscp, flow_label: None }).expect("it is sent");
            assert_eq!(sys::socket::dscp(port.socket.as_fd()).expect("it has one"), dscp.unwrap_or(0));
            let mut bytes = [0; BYTES];
            let heard = tokio::time::timeout(Duration::from_secs(60), listener.recv_from(&mut bytes)).await;
            assert_eq!(heard.expect("it comes").expect("it is read").0, BYTES);
        }
    }
}
