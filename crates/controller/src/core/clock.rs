//! Two clocks: the time of day for what is logged, and one that never goes back for leases.

use std::time::{SystemTime, UNIX_EPOCH};

use ledger::Moment;
use tokio::time::Instant;

/// Both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { begin: Instant::now() }
    }

    /// The time of day.
    pub(crate) fn now(self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since the controller began.
    pub(crate) fn steady_ms(self) -> u64 {
        u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
