//! The model of what lies between: data streams that carry parcels, and what the source's end hears of them.

use std::collections::{BTreeMap, VecDeque};

use proto::control::{Arrived, Begun};

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
    /// It is the rest of one that was begun, from here on.
    pub(crate) after: Option<Begun>,
    /// What of it has arrived over the stream that it is on.
    pub(crate) came: Vec<Part>,
}

/// What network threads tell the session of the source, in order.
#[derive(Debug)]
pub(crate) enum Event {
    Sending(u64, u16),
    /// With what came over it, as the destination tells it.
    Closed(u16, Arrived),
}

impl Parcel {
    fn is_batch(&self) -> bool {
        self.parts.iter().chain(&self.came).any(|part| part.file_end)
    }
}

#[derive(Default)]
pub(crate) struct Net {
    /// Read, and not yet on any stream.
    pub(crate) ready: VecDeque<Parcel>,
    pub(crate) streams: BTreeMap<u16, VecDeque<Parcel>>,
    pub(crate) events: VecDeque<Event>,
    /// Parcels that have arrived whole and sound, by stream.
    pub(crate) arrived: BTreeMap<u16, Vec<u64>>,
    /// What the destination keeps of parcels whose streams have ended, by parcel.
    pub(crate) kept: BTreeMap<u64, (Begun, Vec<Part>)>,
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

    /// A stream dies with all that it carries. The destination may keep what came of the parcel at its head.
    pub(crate) fn kill(&mut self, stream: u16, rng: &mut Rng) {
        let head = self.streams.remove(&stream).and_then(|mut parcels| parcels.pop_front());
        let whole = self.arrived.remove(&stream).unwrap_or_default();
        let begun = head.filter(|_| rng.one_in(2)).and_then(|head| self.keep(head, rng));
        self.events.push_back(Event::Closed(stream, Arrived { whole, begun }));
    }

    fn keep(&mut self, head: Parcel, rng: &mut Rng) -> Option<Begun> {
        // The rest of another one, of which nothing has come.
        if head.corrupt || head.after.is_some() || self.kept.contains_key(&head.id) {
            return None;
        }
        let (file, offset, came) = if head.is_batch() {
            (head.came.last()?.index, 0, head.came)
        } else {
            let mut part = head.parts.front()?.clone();
            part.bytes.truncate(rng.at(part.bytes.len().max(1)));
            if part.bytes.is_empty() {
                return None;
            }
            (part.index, part.offset + part.bytes.len() as u64, vec![part])
        };
        let begun = Begun { parcel: head.id, file, offset };
        self.kept.insert(head.id, (begun, came));
        Some(begun)
    }

    /// A parcel begins to arrive on a stream: what is kept of it goes before it, if it is its rest.
    pub(crate) fn begin(&mut self, stream: u16) {
        let Some(parcel) = self.streams.get_mut(&stream).and_then(VecDeque::front_mut) else { return };
        let kept = self.kept.remove(&parcel.id);
        let Some(after) = parcel.after.take() else { return };
        match kept.filter(|(begun, _)| *begun == after) {
            // What it continues is not here: it is asked for again.
            None => parcel.corrupt = true,
            Some((_, kept)) if parcel.is_batch() => {
                kept.into_iter().rev().for_each(|part| parcel.parts.push_front(part))
            }
            Some((_, mut kept)) => {
                let rest = parcel.parts.pop_front().expect("a chunk has one part");
                assert_eq!(kept[0].offset + kept[0].bytes.len() as u64, rest.offset, "a gap in a chunk");
                kept[0].bytes.extend(rest.bytes);
                parcel.parts.extend(kept);
            }
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.events.is_empty() && self.streams.values().all(VecDeque::is_empty)
    }
}
