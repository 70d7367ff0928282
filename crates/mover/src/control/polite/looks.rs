//! The queue as the last looks saw it.

use std::collections::VecDeque;

/// A queue is what the last looks saw at least: so many of them,
pub(super) const LEAST: u32 = 2;
/// more while they hold fewer acknowledgements than this: single ones may have been delayed by the receiver, for 40 ms
/// (Linux),
const ACKS: u32 = 8;
/// and never more than this.
const MOST: usize = 8;

/// The last looks that saw anything.
#[derive(Debug)]
pub(super) struct Looks {
    /// Delay above the base, µs, and acknowledgements; newest last, at most [`MOST`].
    seen: VecDeque<(u64, u32)>,
}

impl Looks {
    pub(super) fn new() -> Looks {
        Looks { seen: VecDeque::with_capacity(MOST + 1) }
    }

    /// The least delay above the base that they saw; µs.
    pub(super) fn queue_us(&self) -> u64 {
        self.seen.iter().map(|(queue_us, _)| *queue_us).min().unwrap_or(0)
    }

    /// Takes what a look saw, and forgets those that no longer count.
    pub(super) fn see(&mut self, queue_us: u64, acks: u32) {
        self.seen.push_back((queue_us, acks));
        while self.seen.len() > LEAST as usize {
            let later = self.seen.iter().skip(1).fold(0_u32, |sum, (_, acks)| sum.saturating_add(*acks));
            if later < ACKS && self.seen.len() <= MOST {
                break;
            }
            self.seen.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_with_enough_acknowledgements_suffice_of_others_more_count() {
        let mut looks = Looks::new();
        [5, 3, 9, 7].into_iter().for_each(|queue_us| looks.see(queue_us, ACKS));
        assert_eq!(looks.queue_us(), 7);
        looks.see(4, 1);
        (0..MOST - 1).for_each(|_| looks.see(8, 1));
        assert_eq!(looks.queue_us(), 4, "the rest has one acknowledgement each");
        looks.see(8, 1);
        assert_eq!(looks.queue_us(), 8, "but there is an end");
        assert_eq!(looks.seen.len(), MOST);
    }
}
