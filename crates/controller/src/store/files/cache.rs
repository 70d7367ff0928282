//! Pages in memory, as many as a bound of bytes has room for. What is in it is also in the database: dropping a page loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::PageId;
use super::page::{Names, States};

/// Beside its bytes an entry takes about so much.
const ENTRY_BYTES: usize = 160;
/// When it is full it is emptied to so many eighths, so that looking for the oldest is rare.
const EIGHTHS_KEPT: usize = 6;

/// What is kept, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Names(u64, u32),
    States(PageId),
}

#[derive(Clone, Debug)]
enum Kept {
    Names(Arc<Names>),
    States(States),
}

pub(super) struct Cache {
    most_bytes: usize,
    bytes: usize,
    /// Rises with each use.
    turn: u64,
    entries: BTreeMap<Key, (u64, usize, Kept)>,
}

impl Cache {
    pub(super) fn new(most_bytes: usize) -> Cache {
        Cache { most_bytes, bytes: 0, turn: 0, entries: BTreeMap::new() }
    }

    pub(super) fn names(&mut self, transfer: u64, page: u32) -> Option<Arc<Names>> {
        match self.get(Key::Names(transfer, page))? {
            Kept::Names(names) => Some(Arc::clone(names)),
            Kept::States(_) => None,
        }
    }

    pub(super) fn states(&mut self, page: PageId) -> Option<States> {
        match self.get(Key::States(page))? {
            Kept::States(states) => Some(states.clone()),
            Kept::Names(_) => None,
        }
    }

    pub(super) fn put_names(&mut self, transfer: u64, page: u32, names: Arc<Names>) {
        let bytes = names.memory() + ENTRY_BYTES;
        self.put(Key::Names(transfer, page), bytes, Kept::Names(names));
    }

    pub(super) fn put_states(&mut self, page: PageId, states: States) {
        let bytes = states.bits().len() + ENTRY_BYTES;
        self.put(Key::States(page), bytes, Kept::States(states));
    }

    pub(super) fn drop_transfer(&mut self, transfer: u64) {
        self.entries.retain(|key, (_, bytes, _)| {
            let (Key::Names(of, _) | Key::States(PageId { transfer: of, .. })) = key;
            let stays = *of != transfer;
            self.bytes -= if stays { 0 } else { *bytes };
            stays
        });
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn get(&mut self, key: Key) -> Option<&Kept> {
        self.turn += 1;
        let (used, _, kept) = self.entries.get_mut(&key)?;
        *used = self.turn;
        Some(kept)
    }

    fn put(&mut self, key: Key, bytes: usize, kept: Kept) {
        if let Some((_, old, _)) = self.entries.remove(&key) {
            self.bytes -= old;
        }
        if bytes > self.most_bytes {
            return;
        }
        if self.bytes + bytes > self.most_bytes {
            self.make_room(bytes);
        }
        self.turn += 1;
        self.bytes += bytes;
        self.entries.insert(key, (self.turn, bytes, kept));
    }

    /// Drops what was not used for longest.
    fn make_room(&mut self, bytes: usize) {
        let goal = (self.most_bytes / 8 * EIGHTHS_KEPT).min(self.most_bytes - bytes);
        let mut by_use: Vec<(u64, Key)> = self.entries.iter().map(|(key, (used, ..))| (*used, *key)).collect();
        by_use.sort_unstable();
        for (_, key) in by_use {
            if self.bytes <= goal {
                return;
            }
            if let Some((_, freed, _)) = self.entries.remove(&key) {
                self.bytes -= freed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NewFile;
    use super::*;

    fn names(length: usize) -> Arc<Names> {
        Arc::new(Names::new(&[NewFile { name: vec![b'x'; length], size_bytes: 1 }]))
    }

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let mut cache = Cache::new(10_000);
        cache.put_names(0, 0, names(500));
        for page in 1..100 {
            cache.put_names(1, page, names(500));
            assert!(cache.names(0, 0).is_some(), "it is used all the time");
            assert!(cache.bytes() <= 10_000);
            let counted: usize = cache.entries.values().map(|(_, bytes, _)| bytes).sum();
            assert_eq!(cache.bytes(), counted);
        }
        assert!(cache.names(1, 99).is_some());
        assert!(cache.names(1, 1).is_none());
        cache.put_names(2, 0, names(20_000));
        assert!(cache.names(2, 0).is_none(), "what is longer than the cache is not kept");
        cache.drop_transfer(1);
        assert!(cache.names(1, 99).is_none() && cache.names(0, 0).is_some());
        cache.put_names(0, 0, names(1));
        assert_eq!(cache.bytes(), names(1).memory() + ENTRY_BYTES, "the old one is not counted");
        cache.clear();
        assert_eq!(cache.bytes(), 0);
    }
}
