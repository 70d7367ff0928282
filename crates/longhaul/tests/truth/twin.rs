//! A twin of two hosts and one link, with a name of its own; it goes when it is dropped.

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use model::network::{Direction, Link, Network, Node, NodeKind};
use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_timeout};
use sys::netns::Namespace;
use sys::tun::Tun;
use twin::control;
use twin::place::Place;
use twin::stats::{Stats, UnplannedCounts};

/// Bytes of IPv4 and UDP headers.
pub(crate) const HEADERS: u32 = 28;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 128, 0, 1), Ipv4Addr::new(10, 128, 0, 2)];
const PORT: u16 = 4802;
/// All that a test sends fits: what the receiver does not get was lost on the link.
const BUFFER: usize = 64 << 20;
/// Nothing for so long, and nothing in the link either: that was all.
const SILENCE: Duration = Duration::from_millis(300);
/// The longest that a link here needs for all it was given, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(20);
/// Datagrams in a row, and the pause after them: 20,000 a second, which fits the device's queue many times.
const ROW: u64 = 40;
const PAUSE: Duration = Duration::from_millis(2);

/// One twin at a time: on two cores a second one would be in the way of the first.
static ALONE: Mutex<()> = Mutex::new(());

/// A twin that runs.
pub(crate) struct Twin {
    name: String,
    _alone: MutexGuard<'static, ()>,
}

/// A numbered datagram that came, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Of payload.
    pub(crate) bytes: usize,
    pub(crate) number: u64,
    pub(crate) at: Instant,
}

/// True, with a message, where a twin cannot be.
pub(crate) fn is_missing() -> bool {
    let uid = fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    let lacks = [
        (uid.is_ok_and(|uid| uid == 0), "only root can do this"),
        (fs::exists("/dev/net/tun").unwrap_or(false), "there is no /dev/net/tun"),
        (Command::new("ip").arg("-V").output().is_ok(), "there is no ip; scripts/bootstrap installs it"),
        (Command::new("ping").arg("-V").output().is_ok(), "there is no ping; scripts/bootstrap installs it"),
    ];
    let lack = lacks.iter().find(|(there, _)| !there);
    if let Some((_, why)) = lack {
        eprintln!("skipped: {why}");
    }
    lack.is_some()
}

impl Twin {
    /// Brings up hosts `a` and `b` with the link `ab`: `forward` from a to b, and back the same delay and nothing else.
    pub(crate) fn up(forward: &Direction, seed: u64) -> Twin {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("truth-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let node = |name: &str| Node { name: name.to_owned(), kind: NodeKind::Host, site: None };
        let link = Link {
            name: "ab".to_owned(),
            from: 0,
            to: 1,
            forward: forward.clone(),
            backward: Direction { delay: forward.delay, ..Direction::default() },
            mtu: 1500,
            risks: Vec::new(),
            cost: 1,
            high_water_ppm: None,
            bundle: None,
        };
        let nodes = vec![node("a"), node("b")];
        let network = Network { name: "truth".to_owned(), nodes, links: vec![link], ..Network::default() };
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        fs::write(file.path(), network.to_toml()).expect("it can be written");
        let path = file.path().to_str().expect("its path is text");
        let twin = Twin { name, _alone: alone };
        longhaul(&["twin", "up", path, "--name", &twin.name, "--seed", &seed.to_string()]);
        twin
    }

    /// `twin link ab …`.
    pub(crate) fn change(&self, options: &[&str]) {
        longhaul(&[&["twin", "link", "ab", "--twin", &self.name], options].concat());
    }

    /// Round trips of `count` pings from a to b, 10 ms apart, in milliseconds; all are answered.
    pub(crate) fn pings(&self, count: u64) -> Vec<f64> {
        let (to, count_text) = (ADDRESSES[1].to_string(), count.to_string());
        let ping = ["ping", "-n", "-c", &count_text, "-i", "0.01", &to];
        let said = longhaul(&[&["twin", "exec", "a", "--twin", &self.name, "--"], &ping[..]].concat());
        let times = said.lines().filter_map(|line| line.split_once("time=")?.1.strip_suffix(" ms"));
        let times: Vec<f64> = times.map(|time| time.parse().expect("a number")).collect();
        assert_eq!(times.len() as u64, count, "{said}");
        times
    }

    /// Sets `/proc/sys/net/ipv4/NAME` of a host (0: a, 1: b).
    pub(crate) fn set(&self, host: usize, name: &'static str, value: &'static str) {
        self.at(host, move || fs::write(format!("/proc/sys/net/ipv4/{name}"), value));
    }

    /// What the kernel of a host counts in `/proc/net/FILE` under `group`, such as `TcpExt`.
    pub(crate) fn kernel_counter(&self, host: usize, file: &'static str, group: &str, name: &str) -> u64 {
        let table = self.at(host, move || fs::read_to_string(format!("/proc/thread-self/net/{file}")));
        let mut lines = table.lines().filter_map(|line| line.split_once(": ")).filter(|(begin, _)| *begin == group);
        let (names, values) = (lines.next().expect("names").1, lines.next().expect("values").1);
        let place = names.split_whitespace().position(|known| known == name).expect("a counter that the kernel has");
        values.split_whitespace().nth(place).and_then(|value| value.parse().ok()).expect("a number")
    }

    /// Carries `bytes` by TCP from a to b.
    pub(crate) fn carry(&self, bytes: usize) {
        let listener = self.at(1, || TcpListener::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT)));
        let mut out = self.at(0, || TcpStream::connect(SocketAddrV4::new(ADDRESSES[1], PORT)));
        let (mut into, _) = listener.accept().expect("the kernel has connected them");
        for socket in [&out, &into] {
            socket.set_read_timeout(Some(PATIENCE)).expect("it can be set");
            socket.set_write_timeout(Some(PATIENCE)).expect("it can be set");
        }
        let receiver = spawn(move || io::copy(&mut into, &mut io::sink()));
        out.write_all(&vec![0; bytes]).expect("it is taken in time");
        drop(out);
        let came = receiver.join().expect("it does not panic").expect("all of it comes in time");
        assert_eq!(came, bytes as u64);
    }

    /// What happened so far from a to b; the books balance in both directions, and nothing went wrong beside the link.
    pub(crate) fn stats(&self) -> Stats {
        let place = Place::of(&self.name).expect("a name");
        let links = control::links(&place).expect("the emulator answers");
        let [forward, backward] = links.into_iter().next().flatten().expect("the link is emulated").stats;
        for stats in [&forward, &backward] {
            assert!(stats.conserved, "the books do not balance: {stats:?}");
            assert_eq!(stats.unplanned, UnplannedCounts::default());
        }
        forward
    }

    /// Sends `count` numbered datagrams of `payload` bytes from a to b, and waits for what arrives. With it, how long the
    /// sending took.
    pub(crate) fn send(&self, count: u64, payload: usize) -> (Vec<Arrival>, Duration) {
        self.send_each(count, move |_| payload)
    }

    /// The same, of as many bytes of payload as `payload` says of its number.
    pub(crate) fn send_each(
        &self,
        count: u64,
        payload: impl Fn(u64) -> usize + Send + 'static,
    ) -> (Vec<Arrival>, Duration) {
        let before = self.stats().arrived.packets;
        let into = self.at(1, || {
            let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT))?;
            set_socket_recv_buffer_size_force(&socket, BUFFER)?;
            set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(SILENCE))?;
            Ok(socket)
        });
        let receiver = receive(into);
        let took = self.at(0, move || {
            let out = UdpSocket::bind(SocketAddrV4::new(ADDRESSES[0], 0))?;
            out.connect(SocketAddrV4::new(ADDRESSES[1], PORT))?;
            let begin = Instant::now();
            for number in 0..count {
                out.send(&filled(number, payload(number)))?;
                if number % ROW == ROW - 1 {
                    sleep(PAUSE);
                }
            }
            Ok(begin.elapsed())
        });
        let until = Instant::now() + PATIENCE;
        let came = loop {
            let stats = self.stats();
            // A link that is empty is no answer: the emulator may not have run since, and all of it wait in the device.
            let came = stats.arrived.packets - before;
            if came >= count && stats.queued.packets + stats.in_flight.packets == 0 {
                break came;
            }
            assert!(Instant::now() < until, "{came} of {count} came to the link in {PATIENCE:?}: {stats:?}");
            sleep(Duration::from_millis(20));
        };
        assert_eq!(came, count, "all that was sent came to the link, and nothing else did");
        (receiver.stop(), took)
    }

    /// Whether the kernel takes datagrams that are still to be segmented (since Linux 6.2).
    pub(crate) fn segments_datagrams(&self) -> bool {
        self.at(1, || Ok(Tun::create("probe")?.segments_datagrams()))
    }

    fn at<T: Send + 'static>(&self, host: usize, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> T {
        let name = format!("twin.{}.{}", self.name, ["a", "b"][host]);
        Namespace::named(&name)
            .and_then(|namespace| namespace.run(work))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // It may never have come up.
        let down = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(["twin", "down", &self.name]).output();
        drop(down);
    }
}

/// The payload of a datagram: its number, again and again.
fn filled(number: u64, bytes: usize) -> Vec<u8> {
    let mut filled = number.to_be_bytes().repeat(bytes.div_ceil(8));
    filled.truncate(bytes);
    filled
}

/// Takes in what comes.
struct Receiver {
    stop: SyncSender<()>,
    thread: JoinHandle<Vec<Arrival>>,
}

fn receive(socket: UdpSocket) -> Receiver {
    let (stop, stopped) = sync_channel(1);
    let thread = spawn(move || {
        let (mut arrivals, mut datagram, mut is_last) = (Vec::new(), [0; 2048], false);
        loop {
            // Asked before the socket is: what came to it until then is still taken.
            is_last |= stopped.try_recv().is_ok();
            match socket.recv(&mut datagram) {
                Ok(bytes) => {
                    let number = u64::from_be_bytes(datagram[..8].try_into().expect("eight bytes"));
                    assert_eq!(datagram[..bytes], filled(number, bytes), "it is as it was sent");
                    arrivals.push(Arrival { number, bytes, at: Instant::now() });
                }
                Err(_) if is_last => return arrivals,
                Err(_) => {}
            }
        }
    });
    Receiver { stop, thread }
}

impl Receiver {
    fn stop(self) -> Vec<Arrival> {
        self.stop.send(()).expect("it listens until it is told to stop");
        self.thread.join().expect("it does not panic")
    }
}

#[track_caller]
fn longhaul(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul")).args(words).stdin(Stdio::null()).output();
    let output = output.expect("longhaul starts");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}
