//! Practice for idle times: a packet through a stack that belongs to nobody, so that the kernel is quick when one of a link comes. All times are
//! nanoseconds of one clock.

use std::io::{self, IoSlice};

use sys::tun::{Tun, VNET_HEADER};

use crate::ip::ip;

/// Between two rehearsals. On two cores of a Xeon in a virtual machine, with neighbours, a ping over a plain pair of devices took 6, 11, 200 and 300 µs in the
/// median 1, 20, 120 and 220 ms after the one before: until then others had filled the caches. With one of these each 20, 10 and 5 ms round
/// trips of 200 ms were 0.22, 0.17 and 0.13 ms too long, without 0.38; each takes 15 µs, or 0.3 % of two cores.
const EVERY: u64 = 5_000_000;
/// So long after the last packet there may be another one: the next ping comes within a second.
const AFTER: u64 = 1_000_000_000;
/// What is due sooner than this is not to wait for a rehearsal: the first one took 0.3 ms.
const TAKES_MAX: u64 = 700_000;
/// Reads in a row: the answer, and what the kernel says of itself when a device comes up.
const READS_MAX: usize = 8;
/// Longer than an answer.
const READ_BYTES: usize = 256;

const DEVICE: &str = "lh0";
/// Its address is 192.0.2.1 (TEST-NET-1, RFC 5737); there is no way to anywhere else.
const COMMANDS: &str = "addr add 192.0.2.1/24 dev lh0\nlink set lh0 up";
const IP_BYTES: usize = 20;
const ICMP_BYTES: usize = 64;
/// An ICMP echo from 192.0.2.2 without an offload.
const ECHO: [u8; VNET_HEADER + IP_BYTES + ICMP_BYTES] = {
    let mut echo = [0; VNET_HEADER + IP_BYTES + ICMP_BYTES];
    let (_, packet) = echo.split_at_mut(VNET_HEADER);
    let (head, rest) = packet.split_at_mut(IP_BYTES);
    head.copy_from_slice(&[0x45, 0, 0, 84, 0, 0, 0, 0, 64, 1, 0xf6, 0xa5, 192, 0, 2, 2, 192, 0, 2, 1]);
    let (icmp, _) = rest.split_at_mut(4);
    icmp.copy_from_slice(&[8, 0, 0xf7, 0xff]);
    echo
};

/// A host of one thread's own, in a network namespace without a name, that answers an echo.
pub(super) struct Rehearsal {
    tun: Tun,
    /// When the last one was.
    played: u64,
}

impl Rehearsal {
    /// # Errors
    /// When the namespace or the device cannot be made.
    pub(super) fn new() -> io::Result<Rehearsal> {
        let tun = sys::netns::unnamed(|| {
            let tun = Tun::create(DEVICE)?;
            ip(None, COMMANDS).map_err(io::Error::other)?;
            Ok(tun)
        })?;
        Ok(Rehearsal { tun, played: 0 })
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

    /// Has one at `now`: what a packet of a link goes through, from its write to the read of the answer. Whether there was an answer.
    pub(super) fn play(&mut self, now: u64) -> bool {
        self.played = now;
        let _ = self.tun.write(&[IoSlice::new(&ECHO)]);
        let mut space = [0; READ_BYTES];
        let reads = (0..READS_MAX).map_while(|_| self.tun.read(&mut space).ok());
        reads.filter(|&bytes| bytes == ECHO.len()).count() > 0
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
    fn the_kernel_answers_each_time() {
        let Some(mut rehearsal) = rehearsal() else { return };
        for n in 0..50 {
            assert!(rehearsal.play(n), "{n}");
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
