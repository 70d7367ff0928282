//! Puts the chunks of one file in order.

use std::collections::VecDeque;

/// Gives back in order what is offered in any order, within a window.
///
/// At most `window` items wait, the next one included: as many as there are readers, or buffers they may
/// hold. Whoever has an item beyond the window keeps it until the lane has moved on.
#[derive(Debug, Clone)]
pub struct Lane<T> {
    next: u64,
    /// Slot 0 is for `next`. Its length never exceeds its first capacity, so it does not allocate again.
    slots: VecDeque<Option<T>>,
    window: usize,
}

impl<T> Lane<T> {
    /// A lane that begins with number 0.
    ///
    /// # Panics
    /// With a window of 0, through which nothing would come.
    #[must_use]
    pub fn new(window: usize) -> Lane<T> {
        assert!(window > 0, "a lane has a window");
        Lane { next: 0, slots: VecDeque::with_capacity(window), window }
    }

    /// The number that comes out next; all before it have.
    #[must_use]
    pub fn next_no(&self) -> u64 {
        self.next
    }

    /// Takes item `no`; gives those that are now in order. What the caller leaves in the iterator comes with the
    /// next offer. An item that was offered before (a chunk that was read again) is dropped.
    ///
    /// # Errors
    /// The item itself, when it is beyond the window.
    pub fn offer(&mut self, no: u64, item: T) -> Result<impl Iterator<Item = T> + '_, T> {
        if let Some(ahead) = no.checked_sub(self.next) {
            if ahead >= self.window as u64 {
                return Err(item);
            }
            let at = ahead as usize;
            if self.slots.len() <= at {
                self.slots.resize_with(at + 1, || None);
            }
            self.slots[at].get_or_insert(item);
        }
        Ok(std::iter::from_fn(|| {
            let item = self.slots.front_mut()?.take()?;
            self.slots.pop_front();
            self.next += 1;
            Some(item)
        }))
    }
}
