//! A door and what is behind it, in one process.

use std::net::SocketAddr;

use mover::request::Fingerprint;
use proto::hello::SessionKey;
use proto::probe::{BYTES, Probe};
use service::Stop;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use units::Marks;

use super::*;
use crate::door;
use crate::door::config::{Config, Overrides};

const PATIENCE: Duration = Duration::from_secs(60);
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes soon")
}

/// Instances behind a door, each with its number as all bytes of its fingerprint.
struct World {
    dir: tempfile::TempDir,
    stop: watch::Sender<Stop>,
    instances: Vec<(Arc<DoorProbes>, mpsc::Receiver<TcpStream>)>,
}

impl World {
    fn new(count: u8) -> World {
        let dir = tempfile::tempdir().unwrap();
        let start = |number| {
            let address = DoorAddress { socket: dir.path().join(number_of(number)), uid: sys::process::euid() };
            let (behind, handed) = listen(&address).unwrap();
            let probes = behind.probes();
            tokio::spawn(behind.run());
            (probes, handed)
        };
        let instances = (0..count).map(start).collect();
        World { dir, stop: watch::Sender::new(Stop::No), instances }
    }

    /// Opens a door, and says where it listens.
    async fn open(&self) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let instance = |number: usize| {
            let (socket, print) = (self.dir.path().join(number.to_string()), Fingerprint([number as u8; 32]));
            format!("i{number}={},{print}", socket.display())
        };
        let ready = self.dir.path().join("ready");
        let overrides = Overrides {
            listen: Some("127.0.0.1:0".to_owned()),
            instances: (0..self.instances.len()).map(instance).collect(),
            ready_file: Some(ready.clone()),
            ..Overrides::default()
        };
        let config = Config::load(None, &overrides).unwrap();
        let stop = self.stop.subscribe();
        let running = tokio::spawn(async move { door::run(config, stop).await.unwrap() });
        let text = soon(async {
            loop {
                match fs::read_to_string(&ready) {
                    Ok(text) => break text,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        let ready: serde_json::Value = serde_json::from_str(&text.await).unwrap();
        (ready["address"].as_str().unwrap().parse().unwrap(), running)
    }
}

fn number_of(number: u8) -> String {
    number.to_string()
}

fn probe(number: u64, is_answer: bool) -> [u8; BYTES] {
    Probe { is_answer, path: 7, number, sent_us: 1 }.encode(&SessionKey([3; 32]))
}

#[tokio::test]
async fn a_connection_is_handed_with_all_its_bytes_to_whom_it_means() {
    let mut world = World::new(2);
    let (address, _) = world.open().await;
    for number in [1_u8, 0] {
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let said = [b"LHD1\x01\0\0\0", &[number; 64][..]].concat();
        client.write_all(&said).await.unwrap();
        let handed = soon(world.instances[usize::from(number)].1.recv()).await.unwrap();
        assert_eq!(handed.peer_addr().unwrap(), client.local_addr().unwrap());
        let mut handed = tokio::net::TcpStream::from_std(handed).unwrap();
        let mut heard = vec![0; said.len()];
        soon(handed.read_exact(&mut heard)).await.unwrap();
        assert_eq!(heard, said);
        handed.write_all(b"yes").await.unwrap();
        let mut answer = [0; 3];
        soon(client.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"yes");
    }
    let mut nobody = tokio::net::TcpStream::connect(address).await.unwrap();
    nobody.write_all(&[b"LHD1\x01\0\0\0", &[9; 64][..]].concat()).await.unwrap();
    assert!(matches!(soon(nobody.read(&mut [0; 1])).await, Ok(0) | Err(_)));
    assert!(world.instances.iter_mut().all(|(_, handed)| handed.try_recv().is_err()));
}

#[tokio::test]
async fn probes_go_through_the_door_both_ways_also_after_it_was_opened_anew() {
    let world = World::new(2);
    let far = UdpSocket::bind((HERE, 0)).await.unwrap();
    let mut arriving = Vec::new();
    for (probes, _) in &world.instances {
        let (arrive, arrived) = mpsc::channel(8);
        probes.hand_to(arrive);
        arriving.push(arrived);
    }
    // One wants what arrives here, the other does not.
    world.instances[0].0.want(vec![HERE]);
    for round in 0..2 {
        let (address, running) = world.open().await;
        // What was named before the door was there is told when it is; until it is bound a question is lost, as on a path.
        let arrived = soon(async {
            loop {
                far.send_to(&probe(round, false), address).await.unwrap();
                if let Ok(arrived) = tokio::time::timeout(Duration::from_millis(50), arriving[0].recv()).await {
                    break arrived.unwrap();
                }
            }
        });
        let arrived = arrived.await;
        let expected = Datagram { here: HERE, there: far.local_addr().unwrap(), bytes: arrived.bytes };
        assert_eq!(arrived, expected);
        // The answer comes from the one port.
        world.instances[0].0.send(Datagram { bytes: probe(round, true), ..arrived }, Marks::NONE);
        let mut heard = [0; BYTES + 1];
        let (length, from) = soon(far.recv_from(&mut heard)).await.unwrap();
        assert_eq!((&heard[..length], from), (&probe(round, true)[..], address));
        // Who did not name the address neither hears nor sends there; what is no probe is neither handed on.
        world.instances[1].0.send(Datagram { bytes: probe(99, true), ..arrived }, Marks::NONE);
        far.send_to(&[0; BYTES], address).await.unwrap();
        far.send_to(&probe(50 + round, false), address).await.unwrap();
        let last = soon(async {
            loop {
                let arrived = arriving[0].recv().await.unwrap();
                if arrived.bytes == probe(50 + round, false) {
                    break;
                }
                assert_eq!(arrived.bytes, probe(round, false));
            }
        });
        last.await;
        assert!(arriving[1].try_recv().is_err());
        world.stop.send_replace(Stop::Finish);
        soon(running).await.unwrap();
        world.stop.send_replace(Stop::No);
    }
}

#[tokio::test]
async fn a_socket_that_is_in_use_is_not_taken_and_one_that_was_left_is() {
    let dir = tempfile::tempdir().unwrap();
    let address = DoorAddress { socket: dir.path().join("door"), uid: 0 };
    let first = listen(&address).unwrap();
    assert_eq!(listen(&address).err().unwrap().kind(), io::ErrorKind::AddrInUse);
    drop(first);
    assert!(!address.socket.exists(), "it was taken away");
    // As a kill leaves it.
    drop(socket::listen_local(&address.socket, 1).unwrap());
    drop(listen(&address).unwrap());
    fs::write(&address.socket, "somebody's").unwrap();
    assert_eq!(listen(&address).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&address.socket).unwrap(), b"somebody's");
}
