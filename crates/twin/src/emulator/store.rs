//! Where the bytes of packets are while their link carries them.
//!
//! A packet is read straight into the end of a block, and stays there. A block is used again when its last packet has
//! left; nothing is copied, and nothing is allocated once there are blocks enough.

use sys::buffer::{Buffer, Slab};
use sys::tun::READ_MAX;

/// Bytes of a block: many super-packets, so that the space lost at its end is small; and a huge page, because what is in
/// flight is far more than the processor has small pages at hand for.
const BLOCK: usize = 2 << 20;
/// Blocks that are asked of the system at once; memory that is not used is not taken.
const BLOCKS_AT_ONCE: usize = 16;
/// Most bytes of packets that one thread holds; what is above is dropped, and counted as unplanned.
pub(super) const STORE_MAX: usize = 2 << 30;

/// Packets by their keys.
#[derive(Debug, Default)]
pub(super) struct Store {
    blocks: Vec<Block>,
    empty: Vec<u32>,
    /// The block that is being filled, and how far.
    current: Option<u32>,
    tail: usize,
    packets: Vec<Packet>,
    unused: Vec<u32>,
}

#[derive(Debug)]
struct Block {
    bytes: Buffer,
    packets: u32,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    block: u32,
    start: u32,
    len: u32,
}

impl Store {
    /// Space for the next packet: [`READ_MAX`] bytes. `None` when all that may be held is held.
    pub(super) fn space(&mut self) -> Option<&mut [u8]> {
        if self.current.is_none() || self.tail + READ_MAX > BLOCK {
            self.next_block()?;
        }
        let block = &mut self.blocks[self.current? as usize];
        Some(&mut block.bytes[self.tail..self.tail + READ_MAX])
    }

    fn next_block(&mut self) -> Option<()> {
        if let Some(full) = self.current.take()
            && self.blocks[full as usize].packets == 0
        {
            self.empty.push(full);
        }
        let next = match self.empty.pop() {
            Some(next) => next,
            None => self.more_blocks()?,
        };
        (self.current, self.tail) = (Some(next), 0);
        Some(())
    }

    /// Asks the system for blocks; one of them is given.
    fn more_blocks(&mut self) -> Option<u32> {
        let first = self.blocks.len();
        let count = BLOCKS_AT_ONCE.min(STORE_MAX / BLOCK - first);
        // No room (`count` is 0) and no memory are the same to the packet.
        let (_, buffers) = Slab::new(count, BLOCK).ok()?;
        self.blocks.extend(buffers.into_iter().map(|bytes| Block { bytes, packets: 0 }));
        // The last one is taken first.
        self.empty.extend((first as u32 + 1..self.blocks.len() as u32).rev());
        Some(first as u32)
    }

    /// Bytes of a packet that was read into [`Store::space`] and is not kept yet.
    #[must_use]
    pub(super) fn fresh(&self, len: usize) -> &[u8] {
        match self.current {
            Some(block) => &self.blocks[block as usize].bytes[self.tail..self.tail + len],
            None => &[],
        }
    }

    /// Keeps the packet of `len` bytes that was read into [`Store::space`], under the key that is given.
    pub(super) fn keep(&mut self, len: usize) -> u64 {
        let block = self.current.expect("space was asked for");
        let packet = Packet { block, start: self.tail as u32, len: len as u32 };
        self.blocks[block as usize].packets += 1;
        // The next packet begins in a cache line of its own.
        self.tail += len.next_multiple_of(64);
        let key = match self.unused.pop() {
            Some(key) => {
                self.packets[key as usize] = packet;
                key
            }
            None => {
                self.packets.push(packet);
                (self.packets.len() - 1) as u32
            }
        };
        u64::from(key)
    }

    /// The bytes of a packet.
    #[must_use]
    pub(super) fn get(&self, key: u64) -> &[u8] {
        let Packet { block, start, len } = self.packets[key as usize];
        &self.blocks[block as usize].bytes[start as usize..(start + len) as usize]
    }

    /// Forgets a packet.
    pub(super) fn forget(&mut self, key: u64) {
        let block = self.packets[key as usize].block;
        self.unused.push(key as u32);
        let left = &mut self.blocks[block as usize].packets;
        *left -= 1;
        if *left == 0 {
            if self.current == Some(block) {
                self.tail = 0;
            } else {
                self.empty.push(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Store, byte: u8, len: usize) -> u64 {
        store.space().unwrap()[..len].fill(byte);
        assert_eq!(store.fresh(len), vec![byte; len]);
        store.keep(len)
    }

    #[test]
    fn packets_keep_their_bytes_until_forgotten() {
        let mut store = Store::default();
        let keys: Vec<u64> = (0..200u8).map(|n| put(&mut store, n, 20_000 + usize::from(n))).collect();
        for (n, &key) in keys.iter().enumerate() {
            assert_eq!(store.get(key), vec![n as u8; 20_000 + n]);
            store.forget(key);
        }
    }

    #[test]
    fn blocks_and_keys_are_used_again() {
        let mut store = Store::default();
        for _ in 0..100 {
            let keys: Vec<u64> = (0..100u8).map(|n| put(&mut store, n, 65_000)).collect();
            for key in keys.into_iter().rev() {
                store.forget(key);
            }
        }
        assert!(store.blocks.len() <= BLOCKS_AT_ONCE, "{} blocks", store.blocks.len());
        assert_eq!(store.packets.len(), 100);
    }

    #[test]
    fn one_packet_at_a_time_stays_in_one_block() {
        let mut store = Store::default();
        for n in 0..1000 {
            let key = put(&mut store, n as u8, 64);
            store.forget(key);
        }
        assert_eq!(store.empty.len(), BLOCKS_AT_ONCE - 1);
        assert_eq!(store.tail, 0);
    }
}
