//! IPv6 flow labels.

use std::io;
use std::net::SocketAddrV6;
use std::os::fd::AsFd;

use super::raw::{set_bytes, set_int};

/// From `linux/in6.h`; not in `libc` for every target.
const IPV6_FLOWLABEL_MGR: i32 = 32;
const IPV6_FLOWINFO_SEND: i32 = 33;
const IPV6_FL_A_GET: u8 = 0;
const IPV6_FL_F_CREATE: u16 = 1;
const IPV6_FL_S_ANY: u8 = 255;

/// The label's width in the header.
const LABEL_MAX: u32 = 0xF_FFFF;

/// Has everything this socket sends carry `label` (20 bits), and returns the address to connect to
/// with [`start_connect`](super::start_connect): `remote` with the label as its flow information.
/// Sockets may share a label.
///
/// [`connect`](super::connect) does this by itself for an address that has flow information.
///
/// # Errors
///
/// `InvalidInput` for 0 and for more than 20 bits; `ERANGE` for labels from 0x80000 up while
/// `net.ipv6.flowlabel_state_ranges` is on, as it is by default; `PermissionDenied` when somebody
/// else holds the label exclusively; `ENOBUFS` when the process has too many.
pub fn set_flow_label(fd: impl AsFd, remote: SocketAddrV6, label: u32) -> io::Result<SocketAddrV6> {
    let fd = fd.as_fd();
    if label == 0 || label > LABEL_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "flow label is not 1 to 0xfffff"));
    }
    let request = lease(remote, label);
    set_bytes(fd, libc::IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &request)?;
    set_int(fd, libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)?;
    let mut labelled = remote;
    // In host order: `rustix` turns it round, unlike the standard library.
    labelled.set_flowinfo(label);
    Ok(labelled)
}

/// A `struct in6_flowlabel_req`: 32 bytes, label in network order.
fn lease(remote: SocketAddrV6, label: u32) -> [u8; 32] {
    let mut request = [0; 32];
    request[..16].copy_from_slice(&remote.ip().octets());
    request[16..20].copy_from_slice(&label.to_be_bytes());
    request[20] = IPV6_FL_A_GET;
    request[21] = IPV6_FL_S_ANY;
    request[22..24].copy_from_slice(&IPV6_FL_F_CREATE.to_ne_bytes());
    // expires, linger and padding stay 0: the label lives as long as the socket.
    request
}
