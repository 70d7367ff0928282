//! One direction of a link as a machine: packets in, time in, departures out.

/// What the machine knows of a packet: its sizes, not its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of IP and transport headers; each segment carries them.
    pub header: u32,
    /// Bytes of payload of the whole packet.
    pub payload: u32,
    /// Payload bytes of each segment but the last; `payload` or more for a packet that is one segment.
    pub segment: u32,
    /// May be marked instead of dropped (ECN-capable transport).
    pub markable: bool,
}

/// What befell the segments of a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Whole,
    /// To be marked: congestion experienced (CE).
    Marked,
    /// One bit of the payload is to be changed: this one, modulo the bits of the payload. Always a single segment.
    Corrupt(u32),
}

/// Neighbouring segments of one packet that leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The caller's key of the packet.
    pub key: u64,
    /// The first segment.
    pub first: u16,
    /// How many, at least one.
    pub count: u16,
    /// What befell them, all alike.
    pub fate: Fate,
    /// When the first was due, nanoseconds.
    pub due: u64,
    /// Nothing of this packet is left in the machine: the caller may forget its bytes after this departure.
    pub last: bool,
}
