//! A socket of this host from which paths are asked over, and what its kernel must do for those with marks.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use proto::probe::BYTES;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use units::Marks;

use super::{Arrived, LOOK};

/// The kernel answers a connection with the code point that it began with (Linux 5.10; IPv6 as well).
const REFLECT_DSCP: &str = "net/ipv4/tcp_reflect_tos";
/// The same of flow labels, for sockets made after it was set: bit 0.
const REFLECT_LABEL: &str = "net/ipv6/flowlabel_reflect";

/// A socket, and who reads it.
pub(super) struct Port {
    socket: Arc<UdpSocket>,
    reader: JoinHandle<()>,
    /// The code point of what it sends.
    dscp: u8,
    /// Flow labels that it may send with.
    labels: BTreeSet<u32>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Port {
    /// A socket at an address, with a task that reads it.
    ///
    /// # Errors
    /// What the kernel says of the address and the port.
    pub(super) async fn open(ip: IpAddr, port: u16, arrive: mpsc::Sender<Arrived>) -> io::Result<Port> {
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
        Ok(Port { socket, reader, dscp: 0, labels: BTreeSet::new() })
    }

    /// Sends a datagram with these marks, if the kernel takes it now: paths between the same addresses share the socket.
    ///
    /// # Errors
    /// What the kernel says: of a flow label, also that another user has it, or that there are too many.
    pub(super) fn send(&mut self, bytes: &[u8; BYTES], mut to: SocketAddr, marks: Marks) -> io::Result<()> {
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

/// What this host's kernel must be told before it answers connections with these marks; `None` if it does. Without it the answers of a
/// session would take another path than its questions.
pub(super) fn is_not_answered(marks: Marks) -> Option<&'static str> {
    unanswered(Path::new("/proc/sys"), marks)
}

fn unanswered(settings: &Path, marks: Marks) -> Option<&'static str> {
    let is_on = |file: &str| {
        let value = std::fs::read_to_string(settings.join(file)).unwrap_or_default();
        value.trim().parse::<u32>().is_ok_and(|value| value & 1 == 1)
    };
    match marks {
        Marks { dscp: Some(_), .. } if !is_on(REFLECT_DSCP) => Some("sysctl -w net.ipv4.tcp_reflect_tos=1"),
        Marks { flow_label: Some(_), .. } if !is_on(REFLECT_LABEL) => {
            Some("sysctl -w net.ipv6.flowlabel_reflect=1, then start the agent again")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn marks_are_answered_where_the_kernel_is_told_to() {
        let settings = tempfile::tempdir().expect("a directory");
        let (point, label) =
            (Marks { dscp: Some(18), flow_label: None }, Marks { dscp: None, flow_label: Some(0x12345) });
        let both = Marks { dscp: Some(18), flow_label: Some(1) };
        assert_eq!(unanswered(settings.path(), Marks::NONE), None);
        assert!(unanswered(settings.path(), point).is_some(), "an old kernel has no such file");
        for (file, value) in [(REFLECT_DSCP, "1\n"), (REFLECT_LABEL, "6\n")] {
            let file = settings.path().join(file);
            std::fs::create_dir_all(file.parent().expect("it has one")).expect("a directory");
            std::fs::write(file, value).expect("a file");
        }
        assert_eq!(unanswered(settings.path(), point), None);
        assert!(unanswered(settings.path(), label).is_some_and(|how| how.contains("flowlabel_reflect")));
        assert!(unanswered(settings.path(), both).is_some());
        std::fs::write(settings.path().join(REFLECT_LABEL), "3\n").expect("a file");
        assert_eq!(unanswered(settings.path(), both), None);
    }

    #[tokio::test]
    async fn a_socket_sends_with_one_mark_and_another() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let listener = UdpSocket::bind((here, 0)).await.expect("a socket");
        let to = listener.local_addr().expect("it has one");
        let (arrive, _arrived) = mpsc::channel(1);
        let mut port = Port::open(here, 0, arrive).await.expect("a socket");
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
