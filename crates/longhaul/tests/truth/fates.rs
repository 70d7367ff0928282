//! What befalls packets on their way: marks, changed bits, copies, and delays that vary.

use std::collections::BTreeMap;
use std::time::Duration;

use ::twin::emulator::seed_of;
use model::network::{Direction, Jitter, QueueLimit};
use sim::link::{Link, Output, Shape};
use units::{Bytes, Rate};

use crate::twin::{HEADERS, Twin, is_missing};
use crate::{DELAY, SEED, line, missing, p};

const MS: u64 = 1_000_000;

/// When each packet of `payload` bytes leaves the machine after it came, nanoseconds, if one comes every `period`; copies too.
fn in_simulation(direction: &Direction, count: u64, payload: u32, period: u64) -> BTreeMap<u64, Vec<u64>> {
    let mut link = Link::new(direction, seed_of(SEED, 0, 0));
    let mut left: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut drain = |link: &mut Link, until| {
        while let Some(due) = link.poll_timeout().filter(|due| *due <= until) {
            while let Some(output) = link.poll(due) {
                if let Output::Departure(departure) = output {
                    left.entry(departure.key).or_default().push(due - departure.key * period);
                }
            }
        }
    };
    for number in 0..count {
        drain(&mut link, number * period);
        link.handle_packet(number * period, number, Shape::single(HEADERS, payload));
    }
    drain(&mut link, u64::MAX);
    left
}

#[test]
fn marks_are_heard_of_by_both_ends_and_only_by_flows_that_ask() {
    if is_missing() {
        return;
    }
    const BYTES: usize = 3_000_000;
    let queue = Some(QueueLimit::Bytes(Bytes::mib(4)));
    let ecn = Some(QueueLimit::Bytes(Bytes::kib(30)));
    let twin = Twin::up(&Direction { rate: Some(Rate::mbps(20)), queue, ecn, ..line() }, SEED);
    for host in [0, 1] {
        twin.set(host, "tcp_ecn", "1");
    }
    twin.carry(BYTES);
    let (stats, seen) = (twin.stats(), twin.kernel_counter(1, "netstat", "IpExt", "InCEPkts"));
    let marked = stats.marked.packets;
    assert!(marked > 100 && stats.dropped.total() == 0, "{stats:?}");
    // Neighbours that leave together, as when the emulator is late, are one packet to the receiver.
    assert!(seen <= marked && seen >= marked - marked / 10, "{seen} of {marked} marks have arrived");
    // The receiver says so until it hears that the sender slows down: not once for each mark.
    assert!(twin.kernel_counter(0, "netstat", "TcpExt", "TCPDeliveredCE") > 0, "the sender hears of it");

    for host in [0, 1] {
        twin.set(host, "tcp_ecn", "0");
    }
    twin.carry(BYTES);
    let after = twin.stats();
    assert!(after.queue_bytes.max > 30 << 10 && after.departed.bytes - stats.departed.bytes > BYTES as u64);
    assert_eq!(after.marked, stats.marked, "who does not ask is not marked");
}

#[test]
fn a_changed_bit_is_seen_by_the_receivers_checksum() {
    if is_missing() {
        return;
    }
    const COUNT: u64 = 4_000;
    let twin = Twin::up(&Direction { corrupt: p(0.05), ..line() }, SEED);
    let (came, _) = twin.send(COUNT, 200);
    let (lost, stats) = (missing(&came, COUNT), twin.stats());
    let sums = twin.kernel_counter(1, "snmp", "Udp", "InCsumErrors");
    let counted = lost.len() as u64;
    assert_eq!([stats.corrupted.packets, sums, stats.departed.packets], [counted, counted, COUNT]);
    let sigma = (COUNT as f64 * 0.05 * 0.95).sqrt();
    assert!((counted as f64 - COUNT as f64 * 0.05).abs() <= 2.576 * sigma, "{counted} of {COUNT}");
}

#[test]
fn copies_are_those_of_the_simulation() {
    if is_missing() {
        return;
    }
    const COUNT: u64 = 4_000;
    let direction = Direction { duplicate: p(0.05), ..line() };
    let twin = Twin::up(&direction, SEED);
    let (came, _) = twin.send(COUNT, 200);
    let mut times = vec![0; COUNT as usize];
    came.iter().for_each(|arrival| times[arrival.number as usize] += 1);
    let simulated = in_simulation(&direction, COUNT, 200, 50_000);
    assert_eq!(times, simulated.values().map(Vec::len).collect::<Vec<_>>());
    let stats = twin.stats();
    let twice = times.iter().filter(|times| **times == 2).count() as u64;
    assert!(twice > 100, "{twice}");
    assert_eq!((stats.duplicated.packets, stats.departed.packets), (twice, COUNT + twice));
}

#[test]
fn delays_vary_as_in_the_simulation() {
    if is_missing() {
        return;
    }
    // Pings are further apart than delays differ: the order of answers is that of questions either way.
    const COUNT: u64 = 100;
    for reorder in [false, true] {
        let jitter = Jitter { amount: Duration::from_millis(8), reorder };
        let direction = Direction { jitter, ..line() };
        let twin = Twin::up(&direction, SEED);
        let times = twin.pings(COUNT);
        let simulated = in_simulation(&direction, COUNT, 64, 10 * MS);
        let back = DELAY.as_secs_f64() * 1e3;
        let mut off: Vec<f64> =
            times.iter().zip(simulated.values()).map(|(time, left)| time - (left[0] as f64 / 1e6 + back)).collect();
        off.sort_by(f64::total_cmp);
        // On a machine with other work some come later, and none before its time but by what waking up is reckoned to take.
        assert!(off[0] > -0.2 && off[off.len() / 2] < 0.3, "{off:?} ms off");
        let spread = times.iter().copied().fold(f64::MIN, f64::max) - times.iter().copied().fold(f64::MAX, f64::min);
        assert!(spread > 6.0, "{spread} ms from the shortest to the longest of {COUNT} within 8");
    }
}

/// Those of one flow that leave together are one packet for the kernel, and datagrams again for their receiver.
#[test]
fn datagrams_arrive_as_they_were_sent() {
    if is_missing() {
        return;
    }
    const COUNT: u64 = 5_000;
    let twin = Twin::up(&line(), SEED);
    let size = |number: u64| match number % 40 {
        0..20 => 64,
        20 => 9,
        21..30 => 1000,
        _ => 30 + number as usize % 7,
    };
    let (came, _) = twin.send_each(COUNT, size);
    let came: Vec<_> = came.iter().map(|one| (one.number, one.bytes)).collect();
    assert_eq!(came, (0..COUNT).map(|number| (number, size(number))).collect::<Vec<_>>());
    let packets = twin.kernel_counter(1, "snmp", "Ip", "InReceives");
    if twin.segments_datagrams() {
        assert!(packets < COUNT, "none were joined");
    }
}

#[test]
fn packets_overtake_each_other_only_where_they_may() {
    if is_missing() {
        return;
    }
    const COUNT: u64 = 2_000;
    for reorder in [false, true] {
        let jitter = Jitter { amount: Duration::from_millis(5), reorder };
        let twin = Twin::up(&Direction { jitter, ..line() }, SEED);
        let (came, _) = twin.send(COUNT, 200);
        assert_eq!(missing(&came, COUNT).len(), 0);
        let overtaken = came.windows(2).filter(|two| two[1].number < two[0].number).count() as u64;
        if reorder {
            // Of two neighbours the second is as likely to be the faster one.
            assert!(overtaken > COUNT / 4, "{overtaken} of {COUNT} came after a later one");
        } else {
            assert_eq!(overtaken, 0);
        }
    }
}
