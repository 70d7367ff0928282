//! When the kernel wakes a thread that waits for the rest of a record: not for every segment.

use std::os::fd::BorrowedFd;

/// Bytes that are waited for at most before looking at a socket again.
const WAKE_BYTES_MAX: usize = 128 << 10;
/// The kernel's receive buffer holds so many times what wakes the thread. The buffer grows by what is taken out of it in a
/// round trip less what waits in it (`tcp_rcv_space_adjust`): a thread that comes only when a window is full, and takes it
/// in two parts, holds it at the 64 KB of its start for ever.
const ROOM_PER_WAKE: usize = 4;

/// What one socket waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    /// Bytes that must have arrived before the kernel says so.
    bytes: usize,
    /// Bytes of the receive buffer when it was looked at last.
    room: usize,
}

impl Default for Wake {
    fn default() -> Wake {
        Wake { bytes: 1, room: 0 }
    }
}

impl Wake {
    /// The socket is to wake the thread when a good part of `missing` bytes has arrived. Where the kernel refuses it
    /// goes on as before.
    pub(super) fn wait_for(&mut self, socket: BorrowedFd<'_>, missing: usize) {
        if self.room < WAKE_BYTES_MAX * ROOM_PER_WAKE {
            self.room = sys::socket::receive_buffer(socket).unwrap_or(self.room);
        }
        let wanted = missing.min(WAKE_BYTES_MAX).min(self.room / ROOM_PER_WAKE).max(1);
        if wanted != self.bytes && sys::socket::set_rcvlowat(socket, wanted as u32).is_ok() {
            self.bytes = wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_small_buffer_is_not_waited_for_until_it_is_full() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (fd, mut wake) = (socket.as_fd(), Wake::default());
        let wakes_at = || sys::socket::rcvlowat(fd).unwrap() as usize;
        let small = sys::socket::set_receive_buffer(fd, 64 << 10).unwrap();
        wake.wait_for(fd, 1 << 20);
        assert_eq!(wakes_at(), small / ROOM_PER_WAKE);
        wake.wait_for(fd, 48);
        assert_eq!(wakes_at(), 48);
        // The kernel has let it grow.
        assert!(sys::socket::set_receive_buffer(fd, 4 << 20).unwrap() >= ROOM_PER_WAKE * WAKE_BYTES_MAX);
        wake.wait_for(fd, 1 << 20);
        assert_eq!(wakes_at(), WAKE_BYTES_MAX);
    }
}
