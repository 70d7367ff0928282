//! The model of what lies between: data streams that carry parcels, and what the source's end hears of them.

use std::collections::{BTreeMap, VecDeque};

use crate::rng::Rng;

/// Bytes of one file in a parcel.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) index: u64,
    pub(crate) generation: u8,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) file_end: bool,
}

/// A parcel on its way.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    pub(crate) id: u64,
    pub(crate) parts: VecDeque<Part>,
    pub(crate) corrupt: bool,
}

/// What network threads tell the session of the source, in order.
#[derive(Debug)]
pub(crate) enum Event {
    Sending(u64, u16),
    /// With the parcels that came over it, as the destination tells them.
    Closed(u16, Vec<u64>),
}

#[derive(Default)]
pub(crate) struct Net {
    /// Read, and not yet on any stream.
    pub(crate) ready: VecDeque<Parcel>,
    pub(crate) streams: BTreeMap<u16, VecDeque<Parcel>>,
    pub(crate) events: VecDeque<Event>,
    /// Parcels that have arrived whole and sound, by stream.
    pub(crate) arrived: BTreeMap<u16, Vec<u64>>,
    opened: u16,
}

impl Net {
    pub(crate) fn open(&mut self) {
        self.streams.insert(self.opened, VecDeque::new());
        self.opened += 1;
    }

    pub(crate) fn pick(&self, rng: &mut Rng) -> u16 {
        *self.streams.keys().nth(rng.at(self.streams.len())).unwrap()
    }

    /// A stream takes the next parcel.
    pub(crate) fn take(&mut self, stream: u16, corrupt: bool) {
        let Some(parcel) = self.ready.pop_front() else { return };
        self.events.push_back(Event::Sending(parcel.id, stream));
        self.streams.get_mut(&stream).unwrap().push_back(Parcel { corrupt, ..parcel });
    }

    /// A stream dies with all that it carries.
    pub(crate) fn kill(&mut self, stream: u16) {
        self.streams.remove(&stream);
        let arrived = self.arrived.remove(&stream).unwrap_or_default();
        self.events.push_back(Event::Closed(stream, arrived));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.events.is_empty() && self.streams.values().all(VecDeque::is_empty)
    }
}
