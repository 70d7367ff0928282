//! Where a service listens, and the socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Connections that wait to be accepted.
pub const BACKLOG: u16 = 1024;

/// Where a service listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// Address and port; port 0 picks a free one.
    pub address: SocketAddr,
    /// Nobody asked for this address: without IPv6 it is 0.0.0.0 instead.
    pub by_default: bool,
}

/// Listens; where nobody named an address and the kernel has no IPv6, at 0.0.0.0.
///
/// # Errors
/// When the address cannot be had.
pub fn bind(listen: Listen) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = match bind_to(listen.address) {
        // A port that is taken is taken over IPv4 too. Any other failure at "all addresses" is a kernel or a
        // sandbox without IPv6, whose error differs.
        Err(e) if listen.by_default && e.kind() != io::ErrorKind::AddrInUse => {
            bind_to((Ipv4Addr::UNSPECIFIED, listen.address.port()).into())?
        }
        bound => bound?,
    };
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

/// Listens at one address.
///
/// # Errors
/// When it cannot be had.
pub fn bind_to(address: SocketAddr) -> io::Result<TcpListener> {
    // Not blocking; an IPv6 one takes IPv4 too.
    Ok(sys::socket::listen(address, BACKLOG, |_| Ok(()))?.into())
}
