//! The packets of which something is in the machine.

use super::Shape;

/// What is kept of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) key: u64,
    pub(super) shape: Shape,
    segments: u16,
    /// Segments of it in the machine, copies too, and one hold of whoever is still handing them in.
    held: u32,
}

impl Packet {
    /// Bytes on the wire of `count` segments from `first` on.
    pub(super) fn bytes(&self, first: u16, count: u16) -> u64 {
        let shape = &self.shape;
        let header = u64::from(count) * u64::from(shape.header);
        if first + count < self.segments {
            return header + u64::from(count) * u64::from(shape.segment);
        }
        header + u64::from(shape.payload) - u64::from(first) * u64::from(shape.segment)
    }
}

/// Packets by slot. A slot is free again as soon as nothing of its packet is left, so there are never more slots than
/// there were segments in the machine at once: the queue and the delay line bound them.
#[derive(Clone, Debug, Default)]
pub(super) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    /// Takes in a packet, held once for each of its segments and once by the caller.
    pub(super) fn insert(&mut self, key: u64, shape: Shape) -> u32 {
        let segments = shape.segments();
        let packet = Packet { key, shape, segments, held: u32::from(segments) + 1 };
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = packet;
            return slot;
        }
        self.slots.push(packet);
        u32::try_from(self.slots.len() - 1).expect("the queue and the delay line hold far fewer packets")
    }

    pub(super) fn get(&self, slot: u32) -> &Packet {
        &self.slots[slot as usize]
    }

    /// A copy of a segment was made.
    pub(super) fn hold(&mut self, slot: u32) {
        self.slots[slot as usize].held += 1;
    }

    /// `count` holds are gone. True if these were the last ones; the slot is then free.
    pub(super) fn release(&mut self, slot: u32, count: u32) -> bool {
        let packet = &mut self.slots[slot as usize];
        packet.held -= count;
        let last = packet.held == 0;
        if last {
            self.free.push(slot);
        }
        last
    }

    /// What [`Packets::release`] would say. It touches what that touches, but nothing changes.
    pub(super) fn preview_release(&mut self, slot: u32, count: u32) -> bool {
        self.free.push(std::hint::black_box(slot));
        self.free.pop();
        self.slots[slot as usize].held == count
    }

    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Lets go of all packets, and says their keys.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = u64> {
        self.free.clear();
        self.slots.drain(..).filter(|packet| packet.held > 0).map(|packet| packet.key)
    }
}
