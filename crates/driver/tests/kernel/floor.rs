//! What it is for: traffic at large keeps its floor against senders that obey nobody.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use driver::difference::Items;

use crate::rig::{Space, spaces, wish};

/// What the line carries, whatever the driver does: 60 Mb/s, so that the machine is no part of it.
const LINE: &str = "60mbit";
/// The driver's rates: a little below the line, so that what waits, waits where it decides.
const WISH: &str = r#"
    [[interface]]
    name = "line"
    rate = "58Mb/s"
    at_large = "20Mb/s"
    [[interface.class]]
    name = "longhaul"
    match = [{ dscp = "le" }]
    floor = "38Mb/s"
    ceiling = "58Mb/s"
"#;
const FLOOR_BPS: f64 = 20e6;
/// Of a flow of 1448 bytes in packets of 1500 and 14 of Ethernet: what the kernel counts for what arrives.
const WIRE_PER_BYTE: f64 = 1514.0 / 1448.0;
const LE: u8 = 1;
const TCP_FLOWS: usize = 8;
/// 1400 bytes each millisecond eleven times: 123 Mb/s, twice the line.
const UDP_BURST: usize = 11;
const SETTLE: Duration = Duration::from_secs(2);
const MEASURE: Duration = Duration::from_secs(4);
/// Measurements with the driver, of which one must do.
const TRIES: u16 = 3;

/// Flows that go on until they are dropped.
#[derive(Default)]
struct Flows {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Flows {
    fn run(&mut self, space: &Space, work: impl FnOnce(Arc<AtomicBool>) -> io::Result<()> + Send + 'static) {
        let (namespace, stop) = (space.0.clone(), self.stop.clone());
        self.threads.push(thread::spawn(move || {
            // A flow that is cut off at the end of the test is no failure of it.
            let _ = namespace.run(move || work(stop));
        }));
    }

    /// Takes what comes to a port, and counts it.
    fn sink(&mut self, space: &Space, port: u16) -> Arc<AtomicU64> {
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let listener = space.inside(move || TcpListener::bind(("10.4.0.2", port)));
        self.run(space, move |stop| {
            listener.set_nonblocking(true)?;
            let mut streams: Vec<TcpStream> = Vec::new();
            let mut buffer = vec![0; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    streams.push(stream);
                }
                for stream in &mut streams {
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        counted.fetch_add(length as u64, Ordering::Relaxed);
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        count
    }

    /// Sends as much as TCP lets it.
    fn tcp(&mut self, space: &Space, port: u16, point: Option<u8>) {
        self.run(space, move |stop| {
            let mut stream = TcpStream::connect(("10.4.0.2", port))?;
            stream.set_write_timeout(Some(Duration::from_millis(200)))?;
            if let Some(point) = point {
                sys::socket::set_dscp(&stream, point)?;
            }
            let buffer = vec![7; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                match stream.write(&buffer) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        });
    }

    /// Sends more than the line carries, and hears nothing.
    fn udp(&mut self, space: &Space, point: u8) {
        self.run(space, move |stop| {
            let socket = UdpSocket::bind(("10.1.0.1", 0))?;
            sys::socket::set_dscp(&socket, point)?;
            let packet = [7; 1400];
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..UDP_BURST {
                    let _ = socket.send_to(&packet, ("10.4.0.2", 9));
                }
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
    }
}

/// Sender, router, the line, receiver.
fn path() -> Option<[Space; 4]> {
    let spaces = spaces::<4>("floor")?;
    let [sender, router, line, receiver] = &spaces;
    let hops =
        [(sender, "router", router, "sender"), (router, "line", line, "router"), (line, "far", receiver, "line")];
    for (number, (here, to, there, back)) in [1, 2, 4].into_iter().zip(hops) {
        here.veth(to, there, back);
        here.ip(&format!("addr add 10.{number}.0.1/24 dev {to}"));
        there.ip(&format!("addr add 10.{number}.0.2/24 dev {back}"));
    }
    sender.ip("route add default via 10.1.0.2");
    router.ip("route add default via 10.2.0.2");
    line.ip("route add default via 10.2.0.1");
    receiver.ip("route add default via 10.4.0.1");
    for forwards in [router, line] {
        forwards.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"));
    }
    line.tc(&format!("qdisc add dev far root handle 1: tbf rate {LINE} burst 32kb latency 50ms"));
    Some(spaces)
}

/// What one flow at large does that begins now, b/s as the kernel counts.
fn at_large(sender: &Space, receiver: &Space, port: u16) -> f64 {
    let mut flow = Flows::default();
    let counted = flow.sink(receiver, port);
    flow.tcp(sender, port, None);
    thread::sleep(SETTLE);
    let (begun, before) = (Instant::now(), counted.load(Ordering::Relaxed));
    thread::sleep(MEASURE);
    let bytes = counted.load(Ordering::Relaxed) - before;
    let bps = bytes as f64 * 8.0 * WIRE_PER_BYTE / begun.elapsed().as_secs_f64();
    println!("the flow to port {port} does {:.2} Mb/s", bps / 1e6);
    bps
}

#[test]
fn traffic_at_large_keeps_its_floor_against_senders_that_obey_nobody() {
    let Some([sender, router, _line, receiver]) = path() else { return };
    let mut flows = Flows::default();
    let _ = flows.sink(&receiver, 5002);
    for _ in 0..TCP_FLOWS {
        flows.tcp(&sender, 5002, Some(LE));
    }
    flows.udp(&sender, LE);

    let without = at_large(&sender, &receiver, 5003);
    router.apply(&wish(WISH)).unwrap_or_else(|error| panic!("{error:?}"));
    // A machine that stands still for a while is no fault of the driver's: each try is a flow that begins anew.
    let mut tries = (0..TRIES).map(|n| at_large(&sender, &receiver, 5010 + n));
    let with = tries.find(|with| *with >= FLOOR_BPS * 0.95).unwrap_or(0.0);
    let carried: Vec<_> = router.found().classes("line").collect();
    router.apply(&Items::new()).unwrap_or_else(|error| panic!("{error:?}"));
    let after = at_large(&sender, &receiver, 5004);
    println!(
        "at large, Mb/s of a floor of {:.0}: without {:.2}, with {:.2}, after {:.2}; {carried:?}",
        FLOOR_BPS / 1e6,
        without / 1e6,
        with / 1e6,
        after / 1e6
    );
    assert!(with > 0.0, "with the driver the flow at large has less than its floor in each of {TRIES} tries");
    assert!(
        without < FLOOR_BPS / 2.0 && after < FLOOR_BPS / 2.0,
        "without it the test shows nothing: {without:.0}, {after:.0}"
    );
}
