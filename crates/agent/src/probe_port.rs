//! A UDP socket that probes arrive at, and a task that reads it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use proto::door::Datagram;
use proto::probe::{BYTES, Probe};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// After what another host said of an earlier datagram: nobody is there now.
const PAUSE: Duration = Duration::from_millis(20);

/// The socket; it is closed when this is dropped.
pub(crate) struct ProbePort {
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
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
    ) -> std::io::Result<ProbePort> {
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
        Ok(ProbePort { socket, reader })
    }

    /// Sends a probe; one that cannot be sent is a question without an answer, and false.
    pub(crate) fn send(&self, bytes: &[u8; BYTES], there: SocketAddr) -> bool {
        self.socket.try_send_to(bytes, there).is_ok()
    }
}
