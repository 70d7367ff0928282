//! What is done to the bytes of a packet: its shape is read, segments are cut out of it, marked, corrupted.
//!
//! A packet is what a TUN device with `IFF_VNET_HDR` and `IFF_NO_PI` gives and takes: a [`Vnet`] header and an IP packet.
//! The kernel leaves segmenting (GSO) and checksums to the reader, so one packet may be up to 64 KB of TCP or UDP with
//! only the pseudo-header summed. What leaves keeps to that as far as it can: pieces of a super-packet are super-packets,
//! and datagrams of one flow that leave together are one.
//!
//! Every packet is forwarded. What is not understood (fragments, tunnels, other protocols) is one segment that is all
//! header.

mod checksum;
mod cut;
mod join;
mod layout;
mod vnet;

#[cfg(test)]
mod tests;

pub use cut::{Cut, cut};
pub use join::Joined;
pub use vnet::Vnet;

use sim::link::Shape;

use layout::Layout;

/// Longest buffer that a TUN device gives or takes: the vnet header and the longest IP packet (IPv6 counts 65,535
/// bytes after its header of 40).
pub const MAX_LEN: usize = sys::tun::READ_MAX;

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No room for the vnet header and a byte of IP.
    #[error("packet of {0} bytes is shorter than its headers")]
    Short(usize),
    /// Longer than IP allows.
    #[error("packet of {0} bytes is longer than IP allows")]
    Long(usize),
    /// The checksum that is to be completed is not within the packet.
    #[error("checksum at {start} + {offset} is outside the packet")]
    Checksum {
        /// From where it is summed.
        start: u16,
        /// Where it is, from there.
        offset: u16,
    },
    /// The packet does not have these segments, or several were to be corrupted at once.
    #[error("no segments {first} to {first} + {count} in a packet of {segments}")]
    Segments {
        /// The first that was asked for.
        first: u16,
        /// How many were asked for.
        count: u16,
        /// How many there are.
        segments: usize,
    },
}

/// What the link machine is to know of the packet in `buf`, a vnet header and an IP packet.
///
/// It has `payload.div_ceil(segment)` segments, at least one. Takes tens of nanoseconds, whatever the size.
///
/// # Errors
/// If it is no packet at all; what is one, but is not understood, is one segment without payload.
pub fn shape(buf: &[u8]) -> Result<Shape, Malformed> {
    let layout = Layout::parse(buf)?;
    Ok(Shape {
        header: layout.headers as u32,
        payload: (layout.packet.len() - layout.headers) as u32,
        segment: layout.segment as u32,
        markable: layout.markable(),
    })
}
