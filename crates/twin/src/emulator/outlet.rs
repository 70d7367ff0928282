//! Where the packets of a direction leave.

use std::io::{self, IoSlice};
use std::sync::Arc;

use sys::tun::Tun;

use crate::packet::{Cut, Joined};

/// A device that packets are written to, in order. Where that is asked for, and the kernel takes it, datagrams of one flow are kept until another packet
/// comes, or until [`Outlet::flush`], and are written as one.
pub(super) struct Outlet {
    to: Arc<Tun>,
    joined: Joined,
    /// Packets that the device did not take (it is down).
    refused: u64,
}

impl Outlet {
    pub(super) fn new(to: Arc<Tun>) -> Outlet {
        Outlet { to, joined: Joined::default(), refused: 0 }
    }

    /// Writes a packet now, or with others at the latest at the next [`Outlet::flush`] if it `joins` them; whether it waits for that.
    pub(super) fn write(&mut self, cut: Cut<'_>, joins: bool) -> bool {
        let joins = joins && cut.payload.is_empty() && self.to.segments_datagrams();
        if joins && self.joined.push(cut.head) {
            return true;
        }
        self.flush();
        if joins && self.joined.push(cut.head) {
            return true;
        }
        let written = self.to.write(&[IoSlice::new(cut.head), IoSlice::new(cut.payload)]);
        self.count(written, 1);
        false
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) {
        let count = self.joined.count();
        if count > 0 {
            let written = self.to.write(&[IoSlice::new(self.joined.take())]);
            self.count(written, count as u64);
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    fn count(&mut self, written: io::Result<usize>, packets: u64) {
        if let Err(error) = written {
            tracing::debug!(%error, packets, "not written");
            self.refused += packets;
        }
    }
}
