//! How long what is read of a device may have waited there. All times are nanoseconds of one clock.

use crate::plan::TUN_QUEUE;

/// What is known of a device's queue without a call for each packet: since when what is in it can be there.
///
/// The machine takes packets for those that came at the last look, so what had waited since an earlier one is late without being
/// counted so. The kernel tells no times; what can be said is a bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ring {
    /// Nothing that is in it came earlier.
    since: u64,
    /// A later time, and how many have been read since: once that is all that it can hold, what was there then is out.
    mark: u64,
    read: u32,
}

impl Ring {
    /// It was empty, and is not any more: nothing came before `earliest`.
    pub(super) fn fills(&mut self, earliest: u64) {
        *self = Ring { since: earliest, mark: earliest, read: 0 };
    }

    /// `count` packets are read and taken for having come at `came`. How much earlier they came at most.
    pub(super) fn read(&mut self, count: u32, came: u64) -> u64 {
        let most = came.saturating_sub(self.since);
        self.read += count;
        if self.read >= TUN_QUEUE {
            *self = Ring { since: self.mark, mark: came, read: 0 };
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_read_at_once_has_not_waited() {
        let mut ring = Ring::default();
        ring.fills(5 * MS);
        assert_eq!(ring.read(8, 5 * MS), 0);
        assert_eq!(ring.read(8, 7 * MS), 2 * MS, "the rest may have been there all the time");
        ring.fills(20 * MS);
        assert_eq!(ring.read(8, 20 * MS + 7), 7);
    }

    #[test]
    fn one_that_is_never_empty_holds_no_more_than_it_can() {
        let mut ring = Ring::default();
        ring.fills(0);
        // A packet each µs, in eights.
        let bounds: Vec<u64> = (8..100_000).step_by(8).map(|packets| ring.read(8, packets * 1000)).collect();
        let most = bounds.iter().max().copied();
        let all = u64::from(TUN_QUEUE) * 1000;
        assert!(most > Some(all) && most <= Some(2 * all), "{most:?}");
        assert!(bounds[bounds.len() - 1] >= all, "what waits for all others waits as long as they take");
    }
}
