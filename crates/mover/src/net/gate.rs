//! The gate between a session's set point and its senders: how many bytes may have been taken so far.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use proto::limits::RECORD_PAYLOAD_MAX;

/// A running total that senders may not pass. Without a set point it is open.
#[derive(Debug)]
pub struct Gate {
    allowed: AtomicU64,
    taken: AtomicU64,
    record: AtomicU32,
}

impl Default for Gate {
    fn default() -> Self {
        Gate {
            allowed: AtomicU64::new(u64::MAX),
            taken: AtomicU64::new(0),
            record: AtomicU32::new(RECORD_PAYLOAD_MAX as u32),
        }
    }
}

impl Gate {
    /// Takes leave to send `bytes`; false if the set point does not allow it yet.
    pub fn pass(&self, bytes: u64) -> bool {
        let allowed = self.allowed.load(Ordering::Relaxed);
        if allowed == u64::MAX {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
            return true;
        }
        let take = |taken: u64| (taken + bytes <= allowed).then_some(taken + bytes);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Sets the running total that may be taken; `None` opens the gate.
    pub fn allow(&self, total: Option<u64>) {
        self.allowed.store(total.map_or(u64::MAX, |t| t.min(u64::MAX - 1)), Ordering::Relaxed);
    }

    /// True if no set point is in force.
    pub fn is_open(&self) -> bool {
        self.allowed.load(Ordering::Relaxed) == u64::MAX
    }

    /// Sets how long the payload of a record may be, so that a record is short against the set point.
    pub fn fit(&self, record_bytes: usize) {
        self.record.store(record_bytes.min(RECORD_PAYLOAD_MAX) as u32, Ordering::Relaxed);
    }

    /// Payload of a record at most, bytes.
    pub fn record_bytes(&self) -> u32 {
        self.record.load(Ordering::Relaxed)
    }

    /// Bytes taken so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_what_is_allowed() {
        let gate = Gate::default();
        assert!(gate.pass(1000));
        gate.allow(Some(1100));
        assert!(gate.pass(60));
        assert!(!gate.pass(60));
        assert!(gate.pass(40));
        gate.allow(None);
        assert!(gate.pass(1 << 40));
    }
}
