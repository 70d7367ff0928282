//! The bounds of a description, in one place.

use std::ops::RangeInclusive;
use std::time::Duration;

use units::{Bytes, Rate};

/// Characters of a name: `twin.NAME.NODE` of two such is far below the 255 of a file in `/run/netns`.
pub const NAME_MAX: usize = 32;
/// Bytes of a description's text; the largest allowed network takes a few MiB.
pub const TEXT_MAX: usize = 64 << 20;
/// Sites.
pub const SITES_MAX: usize = 4096;
/// Hosts and routers.
pub const NODES_MAX: usize = 4096;
/// Links, each member of a bundle counted.
pub const LINKS_MAX: usize = 16_384;
/// Paths with a name: each takes an address at both ends.
pub const PATHS_MAX: usize = 4096;
/// Parallel members of one link.
pub const MEMBERS_MAX: usize = 64;
/// Shared-risk groups of one link.
pub const RISKS_MAX: usize = 64;
/// Characters of the sentence about a network.
pub const ABOUT_MAX: usize = 1000;

/// Rate of a direction. A packet of 1500 bytes takes 12 s at the lowest.
pub const RATE: RangeInclusive<Rate> = Rate::from_bps(1_000)..=Rate::from_bps(100_000_000_000_000);
/// One-way delay, and jitter: to the Moon and back four times.
pub const DELAY_MAX: Duration = Duration::from_secs(10);
/// Bytes of the largest IP packet. 576 is what every IPv4 host takes (RFC 791); IPv6 needs [`MTU_IPV6`].
pub const MTU: RangeInclusive<u32> = 576..=65_535;
/// The least MTU over which IPv6 works (RFC 8200, section 5). A link below it carries IPv4 only.
pub const MTU_IPV6: u32 = 1280;
/// MTU of a link that names none: Ethernet's.
pub const MTU_DEFAULT: u32 = 1500;
/// Cost of a link that names none: the default metric of IS-IS (ISO/IEC 10589).
pub const COST_DEFAULT: u32 = 10;
/// Cost of a link. At the most, a path over every link still fits 64 bits.
pub const COST: RangeInclusive<u32> = 1..=16_777_215;
/// What may wait, as time at the rate.
pub const QUEUE_TIME_MAX: Duration = Duration::from_secs(10);
/// What may wait, in bytes.
pub const QUEUE_BYTES_MAX: Bytes = Bytes::gib(64);
/// What may wait, in packets.
pub const QUEUE_PACKETS_MAX: u32 = 1 << 24;
