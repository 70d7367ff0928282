//! Sending and receiving.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};

/// Most slices one [`sendv`] or [`recvv`] looks at: the kernel's UIO_MAXIOV.
const SLICES_MAX: usize = 1024;

/// Sends what fits now; `more` says that more follows at once, so a last short segment may wait.
///
/// # Errors
///
/// `WouldBlock` when the socket is full; `BrokenPipe`, `ConnectionReset`, `TimedOut`.
pub fn send(fd: impl AsFd, bytes: &[u8], more: bool) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(retry_on_intr(|| rustix::net::send(fd, bytes, send_flags(more)))?)
}

/// Sends what fits now of several slices in turn (the first 1024).
///
/// # Errors
///
/// As [`send`].
pub fn sendv(fd: impl AsFd, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let fd = fd.as_fd();
    let slices = &slices[..slices.len().min(SLICES_MAX)];
    Ok(retry_on_intr(|| rustix::net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), send_flags(more)))?)
}

fn send_flags(more: bool) -> SendFlags {
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    flags.set(SendFlags::MORE, more);
    flags
}

/// Receives what is there; 0 is the end of the stream (or an empty `buf`).
///
/// # Errors
///
/// `WouldBlock` when nothing is there; `ConnectionReset`, `TimedOut`.
pub fn recv(fd: impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
    receive(fd, buf, RecvFlags::DONTWAIT)
}

/// As [`recv`], leaving what it returns to be received again.
///
/// # Errors
///
/// As [`recv`].
pub fn peek(fd: impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
    receive(fd, buf, RecvFlags::DONTWAIT | RecvFlags::PEEK)
}

fn receive(fd: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let fd = fd.as_fd();
    let (received, _) = retry_on_intr(|| rustix::net::recv(fd, &mut *buf, flags))?;
    Ok(received)
}

/// Receives what is there into several slices in turn (the first 1024).
///
/// # Errors
///
/// As [`recv`].
pub fn recvv(fd: impl AsFd, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let fd = fd.as_fd();
    let count = slices.len().min(SLICES_MAX);
    let slices = &mut slices[..count];
    let message =
        retry_on_intr(|| rustix::net::recvmsg(fd, slices, &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT))?;
    Ok(message.bytes)
}

/// How many bytes were sent and not acknowledged yet, including those not sent for the first time
/// (SIOCOUTQ).
///
/// # Errors
///
/// `InvalidInput` on a listener.
pub fn outq(fd: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SIOCOUTQ has the number of TIOCOUTQ. SAFETY: the kernel writes one int, live for the call.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ as _, &mut bytes) };
    if result == 0 { Ok(bytes.max(0) as u64) } else { Err(io::Error::last_os_error()) }
}

/// How many bytes were received and not read yet.
///
/// # Errors
///
/// `InvalidInput` on a listener.
pub fn inq(fd: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(fd)?)
}
