//! A control link that outlives its connections: frames are numbered, kept until the other end has them, and sent again
//! over the next connection.
//!
//! Numbers are not sent. Each end counts the frames that it sends and those that it has handed to its session, from
//! 0, over all connections of the session; [`Control::Received`](crate::control::Control::Received) tells the second
//! number, and is not counted itself. A connection begins with both ends telling it
//! ([`Attach`](crate::attach::Attach)), so each sends what the other lacks, exactly once and in order.
//!
//! ```text
//!  SendBuffer   | taken by the other end | written, not acknowledged | not written on this connection |
//!               0                     first                     first + sent                first + kept
//! ```

use std::collections::VecDeque;

use crate::limits::UNACKNOWLEDGED_BYTES_MAX;

/// What a frame counts in memory beside its bytes.
const FRAME_COST: usize = 64;
/// Bytes that are taken without the sender being told: a part of what it may have outstanding, so that it never
/// waits for the word.
const UNTOLD_BYTES_MAX: usize = UNACKNOWLEDGED_BYTES_MAX / 8;

/// What the other end of a link cannot say or send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It says that it has frames that were not sent, or takes back what it said.
    #[error("{received} control frames are acknowledged, of {first} to {sent}")]
    Acknowledged {
        /// What it says.
        received: u64,
        /// What it said before.
        first: u64,
        /// What was sent.
        sent: u64,
    },
    /// It has more outstanding than a link may have.
    #[error("more control frames are sent than may be unacknowledged")]
    Overrun,
}

/// Frames on their way: those that the other end has not acknowledged.
#[derive(Debug, Default)]
pub struct SendBuffer {
    kept: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of the first that is kept.
    first: u64,
    /// How many of those kept are written on the connection in force.
    sent: usize,
}

impl SendBuffer {
    /// True if another frame may be sent.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.bytes < UNACKNOWLEDGED_BYTES_MAX
    }

    /// Takes the next frame, as it goes over the wire.
    ///
    /// # Panics
    /// If there is no room: whoever sends waits for it.
    pub fn push(&mut self, frame: Vec<u8>) {
        assert!(self.has_room(), "the sender waits for room");
        self.bytes += frame.len() + FRAME_COST;
        self.kept.push_back(frame);
    }

    /// The next frame to write on the connection in force.
    pub fn poll_frame(&mut self) -> Option<&[u8]> {
        let frame = self.kept.get(self.sent)?;
        self.sent += 1;
        Some(frame)
    }

    /// True if all that there is was written on the connection in force.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.sent == self.kept.len()
    }

    /// True if the other end has acknowledged all that there was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The other end has so many frames.
    ///
    /// # Errors
    /// When it cannot have them.
    pub fn handle_received(&mut self, received: u64) -> Result<(), ReplayError> {
        let (first, sent) = (self.first, self.first + self.sent as u64);
        if !(first..=sent).contains(&received) {
            return Err(ReplayError::Acknowledged { received, first, sent });
        }
        let taken = (received - first) as usize;
        self.bytes -= self.kept.drain(..taken).map(|frame| frame.len() + FRAME_COST).sum::<usize>();
        self.first = received;
        self.sent -= taken;
        Ok(())
    }

    /// Another connection is in force, over which the other end says that it has so many frames: the rest is to be
    /// written again.
    ///
    /// # Errors
    /// When it cannot have them.
    pub fn handle_attached(&mut self, received: u64) -> Result<(), ReplayError> {
        self.handle_received(received)?;
        self.sent = 0;
        Ok(())
    }
}

/// Messages that have arrived, until the session takes them. Only those are acknowledged: so an end that is slow to take
/// them has no more here than the other one may have outstanding.
#[derive(Debug)]
pub struct ReceiveBuffer<M> {
    waiting: VecDeque<(M, usize)>,
    bytes: usize,
    /// Frames taken.
    received: u64,
    /// What the other end was told of that.
    told: u64,
    untold_bytes: usize,
}

impl<M> Default for ReceiveBuffer<M> {
    fn default() -> Self {
        ReceiveBuffer { waiting: VecDeque::new(), bytes: 0, received: 0, told: 0, untold_bytes: 0 }
    }
}

impl<M> ReceiveBuffer<M> {
    /// A message arrived in a frame of so many bytes.
    ///
    /// # Errors
    /// When the other end may not have so much outstanding.
    pub fn handle_message(&mut self, message: M, frame_bytes: usize) -> Result<(), ReplayError> {
        if self.bytes >= UNACKNOWLEDGED_BYTES_MAX {
            return Err(ReplayError::Overrun);
        }
        self.bytes += frame_bytes + FRAME_COST;
        self.waiting.push_back((message, frame_bytes + FRAME_COST));
        Ok(())
    }

    /// The next message for the session, which is taken with this.
    pub fn poll_message(&mut self) -> Option<M> {
        let (message, cost) = self.waiting.pop_front()?;
        self.bytes -= cost;
        self.untold_bytes += cost;
        self.received += 1;
        Some(message)
    }

    /// True if nothing waits to be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The connection is gone: what was not taken comes again. Gives the number for the next one.
    pub fn detach(&mut self) -> u64 {
        self.waiting.clear();
        self.bytes = 0;
        self.tell()
    }

    /// True if something was taken that the other end does not know of.
    #[must_use]
    pub fn is_untold(&self) -> bool {
        self.told < self.received
    }

    /// True if the other end is to be told at once.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.untold_bytes >= UNTOLD_BYTES_MAX
    }

    /// How many frames were taken; the other end is told with this.
    pub fn tell(&mut self) -> u64 {
        self.told = self.received;
        self.untold_bytes = 0;
        self.received
    }
}

#[cfg(test)]
mod tests;
