//! Making connections.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::poll::timespec;

/// A TCP socket for the family of `addr`: nonblocking, closed on exec, not connected.
///
/// # Errors
///
/// `Unsupported` (EAFNOSUPPORT) where the family is turned off.
pub fn open(addr: SocketAddr) -> io::Result<OwnedFd> {
    let family = match addr {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

/// A socket that sends ICMP (ICMPv6) messages to `remote` and receives those of it, both from the ICMP header on over IPv6; over IPv4 what is received
/// begins with the IP header. Nonblocking, closed on exec.
///
/// # Errors
///
/// `PermissionDenied` without CAP_NET_RAW; `Unsupported` (EAFNOSUPPORT) where the family is turned off; `NetworkUnreachable`.
pub fn open_icmp(remote: IpAddr) -> io::Result<OwnedFd> {
    let (family, protocol) = match remote {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::RAW, flags, Some(protocol))?;
    rustix::net::connect(&fd, &SocketAddr::new(remote, 0))?;
    Ok(fd)
}

/// Connects to `remote` within `timeout`, from `local` if given (port 0: any).
///
/// `prepare` sets options that must be there before the handshake: buffer sizes, congestion
/// control, segment size. An IPv6 `remote` with flow information gets it as its
/// [flow label](super::set_flow_label).
///
/// # Errors
///
/// `TimedOut`, also the kernel's own; `ConnectionRefused`, `HostUnreachable`, `NetworkUnreachable`;
/// `AddrNotAvailable` for a `local` that is not this host's; those of the label; whatever
/// `prepare` returns.
pub fn connect(
    remote: SocketAddr,
    local: Option<SocketAddr>,
    timeout: Duration,
    prepare: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let fd = open(remote)?;
    prepare(fd.as_fd())?;
    if let SocketAddr::V6(v6) = remote
        && v6.flowinfo() != 0
    {
        super::set_flow_label(&fd, v6, v6.flowinfo())?;
    }
    if let Some(local) = local {
        bind(fd.as_fd(), local)?;
    }
    if !start_connect(&fd, remote)? {
        wait_writable(fd.as_fd(), timeout)?;
        finish_connect(&fd)?;
    }
    Ok(fd)
}

fn bind(fd: BorrowedFd<'_>, local: SocketAddr) -> io::Result<()> {
    if local.port() == 0 {
        // The port is then chosen at connect, where it need not be unique on this host.
        let _ = super::raw::set_int(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
    }
    Ok(rustix::net::bind(fd, &local)?)
}

fn wait_writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        match rustix::event::poll(&mut fds, Some(&timespec(left))) {
            Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Starts connecting a nonblocking socket; `true` if it is connected at once. Otherwise wait until
/// it is writable and call [`finish_connect`].
///
/// # Errors
///
/// As [`connect`].
pub fn start_connect(fd: impl AsFd, remote: SocketAddr) -> io::Result<bool> {
    match rustix::net::connect(fd, &remote) {
        Ok(()) => Ok(true),
        // Interrupted, it goes on by itself.
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// How the connecting that [`start_connect`] began has ended, once the socket is writable.
///
/// # Errors
///
/// As [`connect`].
pub fn finish_connect(fd: impl AsFd) -> io::Result<()> {
    match take_error(fd)? {
        None => Ok(()),
        Some(e) => Err(e),
    }
}

/// Takes the error that waits on the socket, if there is one.
///
/// # Errors
///
/// What the kernel says about asking.
pub fn take_error(fd: impl AsFd) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(fd)?.err().map(io::Error::from))
}

/// Listens at `addr` with room for `backlog` connections that wait to be accepted (the system's
/// `net.core.somaxconn` bounds it). The address may be taken over from old connections; an IPv6
/// listener takes IPv4 too, unless `prepare` sets [`set_v6only`](super::set_v6only).
///
/// # Errors
///
/// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied` (ports below 1024); whatever `prepare`
/// returns.
pub fn listen(
    addr: SocketAddr,
    backlog: u16,
    prepare: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let fd = open(addr)?;
    super::set_reuseaddr(&fd, true)?;
    if addr.is_ipv6() {
        super::set_v6only(&fd, false)?;
    }
    prepare(fd.as_fd())?;
    rustix::net::bind(&fd, &addr)?;
    rustix::net::listen(&fd, i32::from(backlog))?;
    Ok(fd)
}

/// Takes a connection from a listener, nonblocking, with the address of its peer.
///
/// # Errors
///
/// `WouldBlock` when none waits; `ConnectionAborted` when it broke while waiting, and network
/// errors of the connection itself: accept the next one. Others, such as no descriptor left, are
/// about this process.
pub fn accept(fd: impl AsFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let fd = fd.as_fd();
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = rustix::io::retry_on_intr(|| rustix::net::acceptfrom_with(fd, flags))?;
    Ok((socket, ip(peer)?))
}

/// The socket's own address.
///
/// # Errors
///
/// `InvalidData` when it is no IP socket.
pub fn local_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    ip(Some(rustix::net::getsockname(fd)?))
}

/// The address of ours that the kernel would reach `remote` from. Nothing is sent.
///
/// # Errors
///
/// `NetworkUnreachable` where there is no route; `Unsupported` where the family is turned off.
pub fn source_of(remote: SocketAddr) -> io::Result<IpAddr> {
    let family = match remote {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let asks = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&asks, &remote)?;
    Ok(local_addr(asks)?.ip())
}

/// The address of the peer.
///
/// # Errors
///
/// `NotConnected`; `InvalidData` when it is no IP socket.
pub fn peer_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    ip(rustix::net::getpeername(fd)?)
}

fn ip(addr: Option<rustix::net::SocketAddrAny>) -> io::Result<SocketAddr> {
    addr.and_then(|a| SocketAddr::try_from(a).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an IP address"))
}

/// Ends one or both directions; the peer reads the end of the stream.
///
/// # Errors
///
/// `NotConnected`.
pub fn shutdown(fd: impl AsFd, how: Shutdown) -> io::Result<()> {
    let how = match how {
        Shutdown::Read => rustix::net::Shutdown::Read,
        Shutdown::Write => rustix::net::Shutdown::Write,
        Shutdown::Both => rustix::net::Shutdown::Both,
    };
    Ok(rustix::net::shutdown(fd, how)?)
}
