//! Sizes of socket buffers.
//!
//! The kernel doubles what is asked, to leave room for its own bookkeeping, and reports the
//! doubled number. Here every number is what one asks for: half of the kernel's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;

use super::raw::set_int;

/// The kernel counts the doubled size in 32 bits.
const SIZE_BYTES_MAX: usize = (i32::MAX / 2) as usize;

/// Fixes the send buffer, ending its automatic growth, and returns what was got: up to
/// `net.core.wmem_max`, or all of it for a process with CAP_NET_ADMIN.
///
/// # Errors
///
/// What the kernel says; getting less is none.
pub fn set_send_buffer(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = fd.as_fd();
    let bytes = bytes.min(SIZE_BYTES_MAX);
    if sockopt::set_socket_send_buffer_size_force(fd, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    send_buffer(fd)
}

/// Fixes the receive buffer, ending its automatic growth, and returns what was got: up to
/// `net.core.rmem_max`, or all of it for a process with CAP_NET_ADMIN. Set it before connecting or
/// listening: the window scale is agreed then.
///
/// # Errors
///
/// What the kernel says; getting less is none.
pub fn set_receive_buffer(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = fd.as_fd();
    let bytes = bytes.min(SIZE_BYTES_MAX);
    if sockopt::set_socket_recv_buffer_size_force(fd, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    }
    receive_buffer(fd)
}

/// Begins the automatic growth of the receive buffer at what it takes to have `bytes` in flight, or at what the kernel would
/// let it grow to: what it begins with lets a sender have 64 KiB, and it is behind the sender's growth by a round trip
/// from there on. Does nothing to a buffer that was fixed.
///
/// # Errors
///
/// What the kernel says.
pub fn widen_receive_window(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    let fd = fd.as_fd();
    // The kernel makes room for what is waited for (SO_RCVLOWAT), and keeps it when nothing is waited for any more.
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes.min(SIZE_BYTES_MAX) as i32)?;
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1)
}

/// The send buffer now, in bytes.
///
/// # Errors
///
/// What the kernel says.
pub fn send_buffer(fd: impl AsFd) -> io::Result<usize> {
    halved(fd.as_fd(), |fd| sockopt::socket_send_buffer_size(fd))
}

/// The receive buffer now, in bytes.
///
/// # Errors
///
/// What the kernel says.
pub fn receive_buffer(fd: impl AsFd) -> io::Result<usize> {
    halved(fd.as_fd(), |fd| sockopt::socket_recv_buffer_size(fd))
}

fn halved(fd: BorrowedFd<'_>, get: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<usize>) -> io::Result<usize> {
    Ok(get(fd)? / 2)
}
