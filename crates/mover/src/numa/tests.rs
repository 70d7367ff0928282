use std::fs;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use proto::seal::Protection;
use sys::poll::Waker;
use tokio::sync::mpsc;

use super::*;
use crate::frame::Pool;
use crate::net::gate::Gate;
use crate::net::kept::Kept;
use crate::net::{NetStats, receiver, sender};
use crate::session::receiving::wakers;

/// A machine with two nodes, processors 0 to 3 and 4 to 7, and a card on each.
fn two_nodes() -> tempfile::TempDir {
    let sys = tempfile::tempdir().unwrap();
    let write = |path: String, text: &str| {
        let path = sys.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("devices/system/node/online".to_owned(), "0-1\n");
    for (node, cpus) in [(0, "0-3\n"), (1, "4-7\n")] {
        write(format!("devices/system/node/node{node}/cpulist"), cpus);
        write(format!("class/net/eth{node}/device/numa_node"), &format!("{node}\n"));
    }
    sys
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

#[test]
fn a_session_is_placed_where_all_its_addresses_are() {
    let sys = two_nodes();
    let interfaces = [("eth0", 1), ("eth0", 2), ("eth1", 3)].map(|(name, last)| (name.to_owned(), address(last)));
    let near = |addresses: &[u8], allowed: &[usize]| {
        let addresses: Vec<IpAddr> = addresses.iter().map(|&last| address(last)).collect();
        Placement::near(sys.path(), &addresses, &interfaces, allowed)
    };
    let all: Vec<usize> = (0..8).collect();
    let placed = |addresses: &[u8], allowed: &[usize]| {
        let placement = near(addresses, allowed);
        placement.node().map(|node| (node, placement.cores()))
    };
    assert_eq!(placed(&[3], &all), Some((1, 4)));
    assert_eq!(placed(&[1, 2], &all), Some((0, 4)));
    assert_eq!(placed(&[1], &[2, 3, 4]), Some((0, 2)));
    assert_eq!(placed(&[1, 3], &all), None, "on both nodes");
    assert_eq!(placed(&[1, 9], &all), None, "the second is another host's");
    assert_eq!(placed(&[], &all), None);
    assert_eq!(placed(&[1], &[4, 5]), None, "kept off the node");
    assert_eq!(placed(&[1], &[0, 1]), None, "kept on the node");
}

#[test]
fn the_addresses_of_a_session_are_those_that_its_streams_may_use() {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let bound = Way { from: Some(address(7)), ..Way::to(here) };
    let dial = |to: Vec<Way>| Ways::Dial { to, ahead: Vec::new(), in_order: false };
    let control = || Ok(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped(), 4810)));
    // The kernel chooses, or the user; nothing goes to everybody over TCP.
    let to = vec![Way::to(here), bound, bound, Way::to((Ipv4Addr::BROADCAST, 9).into())];
    assert_eq!(local(control(), &dial(to), &[]).unwrap(), [here.ip(), address(7)]);
    let wait = || Ways::Wait(mpsc::channel(1).1);
    let announced = ["192.0.2.5:4810", "nonsense", "192.0.2.1:1"].map(str::to_owned);
    assert_eq!(local(control(), &wait(), &announced).unwrap(), [address(1), address(5)]);
    assert!(local(Err(io::ErrorKind::NotConnected.into()), &wait(), &announced).is_err());
    let many = |n: usize| local(control(), &dial(vec![bound; n]), &[]);
    assert_eq!(many(ADDRESSES_MAX).unwrap(), [address(7)]);
    assert!(many(ADDRESSES_MAX + 1).is_err());
}

#[test]
fn a_thread_is_bound_if_it_is_placed_and_runs_in_any_case() {
    let allowed = sys::cpu::allowed_cpus().unwrap();
    let on = |placement: Placement| {
        let (tell, told) = bounded(1);
        let thread = placement.spawn("lh-placed".to_owned(), move || tell.send(sys::cpu::allowed_cpus()).unwrap());
        thread.unwrap().join().unwrap();
        told.recv().unwrap().unwrap()
    };
    for &cpu in &allowed {
        assert_eq!(on(Placement::on(0, &[cpu])), [cpu]);
    }
    assert_eq!(on(Placement::default()), allowed);
    assert_eq!(Placement::default().cores(), allowed.len());
    // No machine has this processor.
    assert_eq!(on(Placement::on(0, &[1023])), allowed);
}

/// The processors that the thread of this name may run on, as the kernel lists them, once they are what is expected.
pub(crate) fn expect_bound(name: &str, cpu: usize) {
    let until = Instant::now() + Duration::from_secs(10);
    let mut seen = None;
    while seen.as_deref() != Some(&*cpu.to_string()) {
        assert!(Instant::now() < until, "{name} may run on {seen:?}, not on {cpu} alone");
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        let of_name = |status: &String| status.lines().next().is_some_and(|line| line == format!("Name:\t{name}"));
        let list = |line: &str| line.strip_prefix("Cpus_allowed_list:\t").map(str::to_owned);
        seen = status.filter(of_name).find_map(|status| status.lines().find_map(list));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn network_threads_run_and_frames_lie_where_the_session_is_placed() {
    for cpu in sys::cpu::allowed_cpus().unwrap() {
        let placement = Placement::on(0, &[cpu]);
        assert_eq!(wakers(&placement).unwrap().len(), 1, "one core, one thread");
        let pool = Pool::new(2, 4096, Vec::new(), placement).unwrap();
        let (events, _news) = mpsc::channel(1);
        let (_ready, queue) = bounded(2);
        let shared = sender::Shared {
            ready: queue,
            pool: pool.clone(),
            test: None,
            gate: Gate::default(),
            refill: OnceLock::new(),
            stats: NetStats::default(),
            protection: Protection::Clear,
            events: events.clone(),
            finish: AtomicBool::new(false),
            only: std::sync::atomic::AtomicU32::new(sender::ANY),
        };
        let _sends = sender::SendThread::start(&format!("placed-send-{cpu}"), Arc::new(shared)).unwrap();
        expect_bound(&format!("placed-send-{cpu}"), cpu);
        let shared = receiver::Shared {
            pool: pool.clone(),
            chunks: bounded(0).0,
            batches: bounded(0).0,
            backlog: None,
            kept: Kept::new(&pool),
            chunk_size: 4096,
            stats: NetStats::default(),
            protection: Protection::Clear,
            events,
        };
        let waker = Waker::new().unwrap();
        let _receives = receiver::RecvThread::start(&format!("placed-recv-{cpu}"), Arc::new(shared), waker).unwrap();
        expect_bound(&format!("placed-recv-{cpu}"), cpu);
        expect_preferred(&pool);
    }
}

/// The kernel has been told to prefer node 0 for the frames. Every kernel with nodes has that one.
fn expect_preferred(pool: &Pool) {
    // Without nodes there is no such file.
    let Ok(maps) = fs::read_to_string("/proc/self/numa_maps") else { return };
    let frame = pool.try_take().unwrap().buf.as_ptr() as usize;
    let start = |line: &str| usize::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let line = maps.lines().take_while(|line| start(line) <= frame).last().unwrap();
    assert_eq!(line.split(' ').nth(1), Some("prefer:0"), "{line}");
}
