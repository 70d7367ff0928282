//! Local sockets over which messages go whole, and open sockets with them (`AF_UNIX`, `SOCK_SEQPACKET`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

/// Listens at a path, which must be free; others may connect as far as its mode and its directory let them. Nonblocking; it is accepted from as from any
/// local listener.
///
/// # Errors
///
/// `AddrInUse` when something is at the path; `InvalidInput` or `ENAMETOOLONG` for a path of more than 107 bytes; those of the directory.
pub fn listen_local(path: &Path, backlog: u16) -> io::Result<OwnedFd> {
    let fd = local()?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&fd, i32::from(backlog))?;
    Ok(fd)
}

/// Connects to a listener of [`listen_local`], without waiting: nonblocking.
///
/// # Errors
///
/// `NotFound` and `ConnectionRefused` when nobody listens there; `PermissionDenied`; `WouldBlock` when too many wait to be accepted.
pub fn connect_local(path: &Path) -> io::Result<OwnedFd> {
    let fd = local()?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

fn local() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends one message, and a descriptor with it; whole or not at all.
///
/// # Errors
///
/// `WouldBlock` when the other end has not taken what fits; `BrokenPipe` and `ConnectionReset` when it has gone; `ETOOMANYREFS` when more
/// descriptors are on their way than this process may have open.
pub fn send_message(fd: impl AsFd, bytes: &[u8], handed: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let fd = fd.as_fd();
    let fds = handed.as_slice();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        // There is room for one.
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| rustix::net::sendmsg(fd, &[IoSlice::new(bytes)], &mut ancillary, flags))?;
    Ok(())
}

/// Receives one message with the descriptor that came with it, if one did: closed on exec. 0 bytes are the end of the connection, or an empty
/// message.
///
/// # Errors
///
/// `WouldBlock` when nothing is there; `ConnectionReset`; `InvalidData` for a message that is longer than `buf`, or came with more descriptors than
/// one or than this process may have: it is gone then, and they are closed.
pub fn recv_message(fd: impl AsFd, buf: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let fd = fd.as_fd();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = retry_on_intr(|| rustix::net::recvmsg(fd, &mut [IoSliceMut::new(buf)], &mut ancillary, flags))?;
    let handed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message or what came with it is too long"));
    }
    Ok((received.bytes, handed))
}

/// A listener for TCP that was open when this process began, as a service manager hands it over: a further descriptor of it, nonblocking.
///
/// # Errors
///
/// `EBADF` when nothing is open by this number; `InvalidInput` when it does not listen for TCP.
pub fn inherited_listener(number: i32) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is borrowed for this call alone, which fails if nothing is open by the number.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    let fd = rustix::io::fcntl_dupfd_cloexec(borrowed, 3)?;
    let is_tcp = sockopt::socket_type(&fd)? == SocketType::STREAM && super::local_addr(&fd).is_ok();
    if !is_tcp || !sockopt::socket_acceptconn(&fd)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no socket that listens for TCP"));
    }
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Both ends of a connection: what connected, what was accepted.
    fn pair() -> (OwnedFd, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = listen_local(&path, 4).unwrap();
        let near = connect_local(&path).unwrap();
        let (far, _) = UnixListener::from(listener).accept().unwrap();
        (near, far.into())
    }

    #[test]
    fn a_socket_goes_with_its_message_from_its_first_byte_on() {
        let (near, far) = pair();
        let nothing = |_: BorrowedFd<'_>| Ok(());
        let listener = crate::socket::listen(([127, 0, 0, 1], 0).into(), 4, nothing).unwrap();
        let address = crate::socket::local_addr(&listener).unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        io::Write::write_all(&mut client, b"hello").unwrap();
        let (accepted, _) = crate::socket::accept(&listener).unwrap();
        let mut seen = [0; 16];
        while crate::socket::peek(&accepted, &mut seen).ok() != Some(5) {
            std::thread::yield_now();
        }
        send_message(&near, b"yours", Some(accepted.as_fd())).unwrap();
        send_message(&near, b"more", None).unwrap();
        drop(accepted);
        let mut buf = [0; 64];
        let (length, handed) = recv_message(&far, &mut buf).unwrap();
        assert_eq!(&buf[..length], b"yours");
        assert_eq!(crate::socket::recv(handed.unwrap(), &mut buf).unwrap(), 5);
        assert_eq!(&buf[..5], b"hello");
        let (length, handed) = recv_message(&far, &mut buf).unwrap();
        assert_eq!((&buf[..length], handed.is_none()), (&b"more"[..], true));
        assert_eq!(recv_message(&far, &mut buf).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(near);
        assert_eq!(recv_message(&far, &mut buf).unwrap().0, 0);
    }

    #[test]
    fn what_is_not_taken_is_refused_at_a_bound() {
        let (near, far) = pair();
        let mut sent = 0;
        let refused = loop {
            match send_message(&near, &[7; 100], None) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
            assert!(sent < 1_000_000, "there is no bound");
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        let mut buf = [0; 99];
        assert_eq!(recv_message(&far, &mut buf).unwrap_err().kind(), io::ErrorKind::InvalidData, "it was cut");
        drop(far);
        let gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        assert!(gone.contains(&send_message(&near, b"x", None).unwrap_err().kind()));
    }

    #[test]
    fn only_a_listener_for_tcp_is_inherited() {
        use std::os::fd::AsRawFd;
        let (near, _far) = pair();
        assert_eq!(inherited_listener(near.as_raw_fd()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(inherited_listener(-1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let again = inherited_listener(tcp.as_raw_fd()).unwrap();
        assert_eq!(crate::socket::local_addr(again).unwrap(), tcp.local_addr().unwrap());
    }
}
