//! Practice for idle times: packets through a host that belongs to nobody, so that the kernel is quick when one of a link comes. All times are
//! nanoseconds of one clock.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::network::Direction;
use sim::link::{Departure, Link, Output};
use sys::tun::{Tun, VNET_HEADER};

use super::lane::Half;
use super::outlet::Outlet;
use crate::ip::ip;
use crate::packet;

/// Between two rehearsals. On a virtual machine whose host takes memory away that was not used for a while, a ping over a plain pair of devices took 6, 11,
/// 200 and 300 µs in the median 1, 20, 120 and 220 ms after the one before: each 2 MB that nobody used for 0.2 s are gone by one in ten, and take 0.13 ms
/// to come back. With one of these each 20, 10 and 5 ms round trips of 200 ms were 0.22, 0.17 and 0.13 ms too long, without 0.38.
const EVERY: u64 = 5_000_000;
/// So long after the last packet there may be another one: the next ping comes within a second.
const AFTER: u64 = 1_000_000_000;
/// What is due sooner than this is not to wait for a rehearsal: the first one after 1.5 s took up to 1.5 ms on that machine, others 18 µs in the median.
const TAKES_MAX: u64 = 2_000_000;
/// Reads of the device, or of the socket, for one packet: between them is what the kernel says of itself when a device comes up.
const READS_MAX: usize = 8;
/// Longer than an echo.
const READ_BYTES: usize = 256;

const DEVICE: &str = "lh0";
/// The host is 192.0.2.1 (TEST-NET-1, RFC 5737) and 2001:db8::1 (RFC 3849); there is no way to anywhere else.
const COMMANDS: &str = "addr add 192.0.2.1/24 dev lh0\nlink set lh0 up";
const COMMANDS_V6: &str = "addr add 2001:db8::1/64 dev lh0 nodad";
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const PEER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));

/// Type, code and checksum of an echo; the kernel sums that of ICMPv6 itself.
const ECHO: [u8; 4] = [8, 0, 0xf7, 0xff];
const ECHO_V6: [u8; 4] = [128, 0, 0, 0];
/// As long as that of ping.
const ECHO_BYTES: usize = 64;

/// A host of one thread's own, in a network namespace without a name, with a program that sends echoes and a peer that does.
pub(super) struct Rehearsal {
    stage: Stage,
    ways: Vec<Way>,
    /// When the last one was.
    played: u64,
}

/// A link of no delay from the host to itself.
struct Stage {
    half: Half,
    /// Headers of a piece.
    scratch: Vec<u8>,
}

impl Stage {
    fn new(tun: Tun) -> Stage {
        let from = Arc::new(tun);
        let half = Half { to: Outlet::new(Arc::clone(&from)), from, link: Link::new(&Direction::default(), 0) };
        Stage { half, scratch: Vec::new() }
    }

    /// Carries a packet that came at `now`, as the links of a lane do.
    fn carry(&mut self, now: u64, packet: &[u8]) {
        let Ok(shape) = packet::shape(packet) else { return };
        self.half.link.handle_packet(now, 0, shape);
        if let Some(Output::Departure(Departure { first, count, fate, .. })) = self.half.link.poll(now)
            && let Ok(cut) = packet::cut(packet, first, count, fate, &mut self.scratch)
        {
            self.half.to.write(cut, false);
        }
    }
}

/// What belongs to one family of addresses.
struct Way {
    /// The program's end, connected to the peer.
    pipe: OwnedFd,
    echo: [u8; ECHO_BYTES],
    /// Bytes of the IP header, where the two addresses begin in it, and how long one is.
    header: usize,
    addresses: usize,
    address: usize,
}

impl Way {
    fn new(peer: IpAddr) -> io::Result<Way> {
        let (kind, header, addresses, address) = match peer {
            IpAddr::V4(_) => (ECHO, 20, 12, 4),
            IpAddr::V6(_) => (ECHO_V6, 40, 8, 16),
        };
        let mut echo = [0; ECHO_BYTES];
        echo[..kind.len()].copy_from_slice(&kind);
        Ok(Way { pipe: sys::socket::open_icmp(peer)?, echo, header, addresses, address })
    }

    /// The program sends an echo, and the peer returns it to its sender as one of its own, which the kernel answers. Whether there was an answer.
    fn play(&self, now: u64, stage: &mut Stage) -> bool {
        let mut space = [0; READ_BYTES];
        let _ = sys::socket::send(&self.pipe, &self.echo, false);
        let Some(packet) = self.read(&stage.half.from, &mut space) else { return false };
        let both = &mut packet[VNET_HEADER + self.addresses..][..2 * self.address];
        // No checksum changes with that.
        both.rotate_left(self.address);
        stage.carry(now, packet);
        let is_answered = self.read(&stage.half.from, &mut space).is_some();
        // The program is shown the peer's echo, too.
        (0..READS_MAX).take_while(|_| sys::socket::recv(&self.pipe, &mut space).is_ok()).count();
        is_answered
    }

    /// The next packet out of the device that is as long as an echo.
    fn read<'a>(&self, tun: &Tun, space: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let wanted = VNET_HEADER + self.header + ECHO_BYTES;
        let mut reads = (0..READS_MAX).map_while(|_| tun.read(space).ok());
        reads.any(|bytes| bytes == wanted).then(|| &mut space[..wanted])
    }
}

impl Rehearsal {
    /// # Errors
    /// When the namespace, the device or the socket cannot be made. That there is no IPv6 is no error.
    pub(super) fn new() -> io::Result<Rehearsal> {
        sys::netns::unnamed(|| {
            let tun = Tun::create(DEVICE)?;
            ip(None, COMMANDS).map_err(io::Error::other)?;
            let mut ways = vec![Way::new(PEER)?];
            if ip(None, COMMANDS_V6).is_ok() {
                ways.extend(Way::new(PEER_V6));
            }
            Ok(Rehearsal { stage: Stage::new(tun), ways, played: 0 })
        })
    }

    /// When the next one is to be, as seen at `now`: a packet was released at `released` for the last time, and the next is to be at `due`. Traffic is practice
    /// enough, and who has had none for long needs no practice.
    pub(super) fn next(&self, now: u64, released: u64, due: Option<u64>) -> Option<u64> {
        let next = self.played.max(released).saturating_add(EVERY).max(now);
        match due {
            Some(due) => (next.saturating_add(TAKES_MAX) <= due).then_some(next),
            None => (next <= released.saturating_add(AFTER)).then_some(next),
        }
    }

    /// Has one at `now`: what a packet of a link goes through, from a program's call to the device, through a link, and from the write to the read of the answer. How many
    /// families of addresses answered.
    pub(super) fn play(&mut self, now: u64) -> usize {
        self.played = now;
        self.ways.iter().filter(|way| way.play(now, &mut self.stage)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rehearsal() -> Option<Rehearsal> {
        if sys::process::euid() != 0 {
            eprintln!("skipped: namespaces need root");
            return None;
        }
        Some(Rehearsal::new().unwrap())
    }

    #[test]
    fn the_kernel_answers_each_time_over_each_family() {
        let Some(mut rehearsal) = rehearsal() else { return };
        let families = rehearsal.ways.len();
        assert!(families >= 1);
        for n in 0..50 {
            assert_eq!(rehearsal.play(n), families, "{n}");
        }
    }

    #[test]
    fn nothing_is_left_to_be_read() {
        let Some(mut rehearsal) = rehearsal() else { return };
        (0..50).map(|n| rehearsal.play(n)).sum::<usize>();
        let mut space = [0; READ_BYTES];
        for way in &rehearsal.ways {
            assert!(sys::socket::recv(&way.pipe, &mut space).is_err());
            assert!(way.read(&rehearsal.stage.half.from, &mut space).is_none());
        }
    }

    #[test]
    fn its_device_is_not_among_those_of_its_maker() {
        let Some(_rehearsal) = rehearsal() else { return };
        assert!(!std::fs::read_to_string("/proc/thread-self/net/dev").unwrap().contains(DEVICE));
    }

    #[test]
    fn it_is_for_idle_links_that_were_used_a_while_ago() {
        let Some(mut rehearsal) = rehearsal() else { return };
        let next = |r: &Rehearsal, now, released, due| r.next(now * MS, released * MS, due);
        assert_eq!(next(&rehearsal, 101, 100, None), Some(105 * MS), "traffic is practice");
        assert_eq!(next(&rehearsal, 300, 100, None), Some(300 * MS));
        assert_eq!(next(&rehearsal, 1200, 100, None), None, "the last packet was more than a second ago");
        assert_eq!(next(&rehearsal, 1200, 100, Some(1210 * MS)), Some(1200 * MS), "but one is under way");
        assert_eq!(next(&rehearsal, 1200, 100, Some(1200 * MS + TAKES_MAX - 1)), None, "not just before it leaves");
        rehearsal.play(1200 * MS);
        assert_eq!(next(&rehearsal, 1201, 100, Some(1210 * MS)), Some(1205 * MS));
        assert_eq!(next(&rehearsal, 1201, 100, Some(1205 * MS)), None);
    }
}
