//! The gate between a session's set point and its senders: how many bytes may have been taken so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// A running total that senders may not pass. Without a set point it is open.
#[derive(Debug)]
pub struct Gate {
    allowed: AtomicU64,
    taken: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { allowed: AtomicU64::new(u64::MAX), taken: AtomicU64::new(0) }
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

    /// Sets how much may be taken beyond what was; `None` opens the gate.
    pub fn allow(&self, beyond: Option<u64>) {
        let total = beyond.map_or(u64::MAX, |b| self.taken().saturating_add(b).min(u64::MAX - 1));
        self.allowed.store(total, Ordering::Relaxed);
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
        gate.allow(Some(100));
        assert!(gate.pass(60));
        assert!(!gate.pass(60));
        assert!(gate.pass(40));
        gate.allow(None);
        assert!(gate.pass(1 << 40));
    }
}
