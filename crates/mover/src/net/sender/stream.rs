//! One stream of a sending thread: parcels become records, records go to the socket.

use std::io::{self, IoSlice};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::control::Begun;
use proto::limits::RECORD_PAYLOAD_MAX;
use proto::record::{FILE_END, HEADER, HEADER_COVERED, Header, Kind, LAST, REST};
use proto::seal::{PayloadCheck, Protection, Sealer};

use super::{Shared, Turn};
use crate::accept::Permit;
use crate::frame::{Frame, Part};
use crate::net::test_data::TestData;
use crate::net::{NetEvent, NetStats, Opened};

/// The parcel that a stream carries.
enum Load {
    None,
    /// One of a copy.
    Frame(Frame),
    /// One of a test, by its number.
    Made(u64),
}

/// A record on its way to the socket.
struct Record {
    head: [u8; HEADER],
    /// Where its payload begins in the frame; `None` if it is in `own`.
    start: Option<usize>,
    len: usize,
    /// Payload that was sealed or made for this record. As long as a record may be, or empty if never needed.
    own: Vec<u8>,
    /// The last of its parcel.
    last: bool,
    /// The end of the stream.
    end: bool,
}

impl Record {
    fn new(own: Vec<u8>) -> Record {
        Record { head: [0; HEADER], start: None, len: 0, own, last: false, end: false }
    }

    fn payload<'a>(&'a self, load: &'a Load) -> &'a [u8] {
        match (self.start, load) {
            (Some(start), Load::Frame(frame)) => &frame.buf[start..start + self.len],
            _ => &self.own[..self.len],
        }
    }
}

/// A stream that sends.
pub(super) struct Stream {
    pub(super) socket: Arc<TcpStream>,
    /// Its place in the agent's budget, until it is gone.
    _permit: Option<Permit>,
    /// The socket may have room.
    pub(super) writable: bool,
    /// It is to end after the parcel that it carries.
    pub(super) ending: bool,
    sealer: Sealer,
    /// The parcel that is being sent, the part and the byte in it where the record to be made next begins.
    load: Load,
    part: usize,
    at: u32,
    /// Where the rest begins that the parcel is, if it is one and that has not been said.
    after: Option<Begun>,
    /// The record that is being sent and the next of the same parcel, if it is made already: its header goes with the
    /// payload of the one before, so that a receiver need not ask for a header alone.
    now: Record,
    next: Record,
    made: u8,
    /// Bytes sent of the record that is being sent and of the header after it.
    sent: usize,
    /// A test's data before they are sealed (private protection only).
    plain: Vec<u8>,
}

impl Stream {
    pub(super) fn new(opened: Opened, shared: &Shared) -> Stream {
        let secret = if opened.connected { &opened.secrets.forward } else { &opened.secrets.backward };
        let (private, test) = (shared.protection == Protection::Private, shared.test.is_some());
        let own = || match (private, test) {
            (true, _) => vec![0; RECORD_PAYLOAD_MAX],
            (false, true) => TestData::buffer(),
            (false, false) => Vec::new(),
        };
        Stream {
            sealer: Sealer::new(shared.protection, secret),
            socket: opened.socket,
            _permit: opened.permit,
            writable: true,
            ending: false,
            load: Load::None,
            part: 0,
            at: 0,
            after: None,
            now: Record::new(own()),
            next: Record::new(own()),
            made: 0,
            sent: 0,
            plain: if private && test { TestData::buffer() } else { Vec::new() },
        }
    }

    /// The frame that the stream carried, when it is lost.
    pub(super) fn into_frame(self) -> Option<Frame> {
        match self.load {
            Load::Frame(frame) => Some(frame),
            Load::None | Load::Made(_) => None,
        }
    }

    /// Sends what the socket takes of one record.
    pub(super) fn turn(&mut self, id: u16, shared: &Shared) -> Turn {
        if self.made == 0
            && let Err(turn) = self.make(id, shared)
        {
            return turn;
        }
        // While a set point is in force nothing is made, and so booked, before it may be sent.
        if self.made == 1 && !self.now.last && !self.now.end && shared.gate.is_open() {
            std::mem::swap(&mut self.now, &mut self.next);
            let result = self.make(id, shared);
            std::mem::swap(&mut self.now, &mut self.next);
            if let Err(turn) = result {
                return turn;
            }
        }
        let payload = self.now.payload(&self.load);
        let after: &[u8] = if self.made == 2 { &self.next.head } else { &[] };
        let total = HEADER + payload.len();
        let fd = self.socket.as_fd();
        let result = if self.sent < HEADER {
            let head = IoSlice::new(&self.now.head[self.sent..]);
            sys::socket::sendv(fd, &[head, IoSlice::new(payload), IoSlice::new(after)], false)
        } else if self.sent < total {
            sys::socket::sendv(fd, &[IoSlice::new(&payload[self.sent - HEADER..]), IoSlice::new(after)], false)
        } else {
            sys::socket::send(fd, &after[self.sent - total..], false)
        };
        match result {
            Ok(n) => self.sent += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Turn::Full,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Turn::More,
            Err(e) => return Turn::Closed(Some(e)),
        }
        match self.sent.checked_sub(total) {
            Some(sent) => self.sent_record(sent, shared),
            None => Turn::More,
        }
    }

    /// The record is with the kernel, and `sent` bytes of the header after it.
    fn sent_record(&mut self, sent: usize, shared: &Shared) -> Turn {
        if self.now.end {
            return Turn::Closed(None);
        }
        if self.now.last {
            NetStats::add(&shared.stats.parcels, 1);
            if let Load::Frame(frame) = std::mem::replace(&mut self.load, Load::None) {
                shared.pool.give(frame);
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
        self.made -= 1;
        self.sent = sent;
        Turn::More
    }

    /// Makes a record in `now`, from the parcel at hand or the next one of the queue.
    fn make(&mut self, id: u16, shared: &Shared) -> Result<(), Turn> {
        if matches!(self.load, Load::None) && !self.load(id, shared)? {
            let end = Header { kind: Kind::End, flags: LAST, generation: 0, len: 0, parcel: 0, file: 0, offset: 0 };
            (self.now.start, self.now.end) = (None, true);
            self.seal(&end, None);
            return Ok(());
        }
        if let (Load::Frame(Frame { kind, parts, .. }), Some(Begun { parcel, file, offset })) = (&self.load, self.after)
        {
            let generation = parts.first().map_or(0, |part| part.generation);
            let place = Header { kind: *kind, flags: REST, generation, len: 0, parcel, file, offset };
            (self.after, self.now.start, self.now.last) = (None, None, false);
            self.seal(&place, None);
            NetStats::add(&shared.stats.records, 1);
            return Ok(());
        }
        let (kind, parcel, parts, part) = match (&self.load, &shared.test) {
            (Load::Frame(frame), _) => (frame.kind, frame.parcel, frame.parts.len(), frame.parts[self.part]),
            (&Load::Made(parcel), Some(test)) => {
                let len = test.parcel_bytes();
                (Kind::Memory, parcel, 1, Part { file: 0, generation: 0, offset: 0, start: 0, len, file_end: false })
            }
            _ => unreachable!("a parcel was loaded, and only tests make theirs"),
        };
        let len = (part.len - self.at).min(shared.gate.record_bytes());
        let bytes = u64::from(len) + HEADER as u64;
        if !shared.gate.pass(bytes) {
            if let Some(refill) = shared.refill.get() {
                refill(&shared.gate);
            }
            if !shared.gate.pass(bytes) {
                return Err(Turn::Gated);
            }
        }
        // A test that is over ends with the record at hand, not when all streams are done with their parcels.
        let is_over = shared.test.is_some() && shared.finish.load(Ordering::Relaxed);
        let part_done = self.at + len == part.len || is_over;
        self.now.last = part_done && self.part + 1 == parts;
        let flags = if self.now.last { LAST } else { 0 } | if part_done && part.file_end { FILE_END } else { 0 };
        let offset = part.offset + u64::from(self.at);
        let header = Header { kind, flags, generation: part.generation, len, parcel, file: part.file, offset };
        let checked = shared.test.as_ref().and_then(|test| {
            let mut checked = (shared.protection == Protection::Clear).then(PayloadCheck::default);
            let out = if self.plain.is_empty() { &mut self.now.own } else { &mut self.plain };
            test.fill(parcel, self.at, &mut out[..len as usize], checked.as_mut());
            checked
        });
        self.now.start = shared.test.is_none().then_some((part.start + self.at) as usize);
        self.seal(&header, checked);
        if part_done {
            self.part += 1;
            self.at = 0;
        } else {
            self.at += len;
        }
        NetStats::add(&shared.stats.bytes, u64::from(len));
        NetStats::add(&shared.stats.records, 1);
        Ok(())
    }

    /// Takes the next parcel; false when there will be none.
    fn load(&mut self, id: u16, shared: &Shared) -> Result<bool, Turn> {
        // Read before the queue: what was queued before it was set is seen.
        let finish = shared.finish.load(Ordering::Acquire);
        if self.ending || (shared.test.is_some() && finish) {
            return Ok(false);
        }
        (self.part, self.at) = (0, 0);
        if let Some(test) = &shared.test {
            self.load = Load::Made(test.take());
            return Ok(true);
        }
        if !shared.may_take(id) {
            return Err(Turn::Empty);
        }
        let Ok(frame) = shared.ready.try_recv() else {
            return if finish { Ok(false) } else { Err(Turn::Empty) };
        };
        let bytes = frame.payload_bytes();
        if shared.events.blocking_send(NetEvent::Sending { parcel: frame.parcel, stream: id, bytes }).is_err() {
            shared.pool.give(frame);
            return Err(Turn::Closed(Some(io::Error::other("the session is gone"))));
        }
        self.after = frame.after;
        self.load = Load::Frame(frame);
        Ok(true)
    }

    /// Checks or seals the record whose payload was found or made.
    fn seal(&mut self, header: &Header, checked: Option<PayloadCheck>) {
        let covered = header.encode();
        let record = &mut self.now;
        record.len = header.len as usize;
        let check = match (checked, &self.load, record.start) {
            (Some(checked), ..) => self.sealer.seal_checked(&covered, checked),
            (_, Load::Frame(frame), Some(start)) => {
                self.sealer.seal(&covered, &frame.buf[start..start + record.len], &mut record.own)
            }
            _ if self.plain.is_empty() => self.sealer.seal(&covered, &record.own[..record.len], &mut []),
            _ => self.sealer.seal(&covered, &self.plain[..record.len], &mut record.own),
        };
        if !record.own.is_empty() {
            record.start = None;
        }
        record.head[..HEADER_COVERED].copy_from_slice(&covered);
        record.head[HEADER_COVERED..].copy_from_slice(&check);
        self.made += 1;
    }
}
