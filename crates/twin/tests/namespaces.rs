//! A plan carried out: namespaces, veth, and packets between them. Needs root and `ip`.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use model::network::{self, Direction, Link, Network, Node, NodeIndex, NodeKind};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use twin::plan::{NodePlan, Plan};

/// Where all nodes listen.
const PORT: u16 = 4810;
/// For a connection to be made.
const PATIENCE: Duration = Duration::from_secs(5);
/// Hosts of [`network`].
const A: NodeIndex = 0;
const B: NodeIndex = 3;

/// The namespaces of a plan, with its devices; removed when it goes.
struct Namespaces(Plan);

impl Namespaces {
    fn make(plan: Plan) -> Namespaces {
        let made = Namespaces(plan);
        let nodes = &made.0.nodes;
        for node in nodes {
            run(&["ip", "netns", "add", &node.namespace], "");
            let settings = node.sysctls.iter().map(|(file, value)| format!("echo {value} > /proc/sys/{file}\n"));
            made.inside(node, &["sh", "-e"], &settings.collect::<String>());
        }
        for link in &made.0.links {
            assert!(!link.emulated, "nothing here emulates {}", link.name);
            let [from, to] = &link.ends;
            let (here, there) = (&nodes[from.node].namespace, &nodes[to.node].namespace);
            let add = ["ip", "-n", here, "link", "add", &from.device, "type", "veth"];
            run(&[&add[..], &["peer", "name", &to.device, "netns", there]].concat(), "");
        }
        for node in nodes {
            run(&["ip", "-n", &node.namespace, "-batch", "-"], &(node.commands.join("\n") + "\n"));
        }
        made
    }

    fn inside(&self, node: &NodePlan, command: &[&str], input: &str) -> String {
        run(&[&["ip", "netns", "exec", &node.namespace], command].concat(), input)
    }

    /// What is done with the network of a node.
    fn at<T: Send>(&self, node: NodeIndex, what: impl FnOnce() -> io::Result<T> + Send) -> T {
        let node = &self.0.nodes[node];
        let enter = || {
            let namespace = File::open(Path::new("/run/netns").join(&node.namespace))?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            what()
        };
        // A thread of its own enters, and never comes back.
        let done = thread::scope(|scope| scope.spawn(enter).join().expect("it does not panic"));
        done.unwrap_or_else(|error| panic!("at {}: {error}", node.name))
    }

    fn listen(&self) -> Vec<TcpListener> {
        (0..self.0.nodes.len()).map(|node| self.at(node, || TcpListener::bind(("::", PORT)))).collect()
    }

    /// Packets that came to a node over a link.
    fn received(&self, node: &str, device: &str) -> u64 {
        let file = format!("/sys/class/net/{device}/statistics/rx_packets");
        let node = self.0.nodes.iter().find(|other| other.name == node).expect("a node of the plan");
        self.inside(node, &["cat", &file], "").trim().parse().unwrap()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in &self.0.nodes {
            let deleted = Command::new("ip").args(["netns", "del", &node.namespace]).stderr(Stdio::null()).status();
            drop(deleted);
        }
    }
}

fn run(command: &[&str], input: &str) -> String {
    let mut started = Command::new(command[0]);
    started.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = started.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{command:?}: {out}{err}\n{input}");
    out
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}

/// Two hosts at either end of two routers, with two members between those; the second is the dearer, with a path along it.
fn network() -> Network {
    let node = |name: &str, kind| Node { name: name.to_owned(), kind, site: None };
    let link = |name: &str, from, to, cost, mtu| Link {
        name: name.to_owned(),
        from,
        to,
        forward: Direction::default(),
        backward: Direction::default(),
        mtu,
        risks: Vec::new(),
        cost,
        high_water_ppm: None,
        bundle: None,
    };
    let (host, router) = (NodeKind::Host, NodeKind::Router);
    Network {
        name: "members".to_owned(),
        nodes: vec![node("a", host), node("r1", router), node("r2", router), node("b", host)],
        links: vec![
            link("a-r1", 0, 1, 10, 1500),
            link("m1", 1, 2, 10, 1400),
            link("m2", 1, 2, 20, 9000),
            link("a-link-of-a-long-name", 3, 2, 10, 1500),
            link("narrow", 0, 3, 1000, 576),
        ],
        paths: vec![network::Path {
            name: "second".to_owned(),
            from: 0,
            to: 3,
            links: vec![0, 2, 3],
            addresses: None,
            marks: units::Marks::NONE,
        }],
        ..Network::default()
    }
}

#[test]
fn nodes_reach_each_other() {
    if !is_root() || Command::new("ip").arg("-V").output().is_err() {
        eprintln!("skipped: it needs root and `ip`");
        return;
    }
    let name = format!("t{}", std::process::id());
    let twin = Namespaces::make(Plan::new(&network(), &name).unwrap());
    let listeners = twin.listen();
    let connect = |from: NodeIndex, to: NodeIndex, address: IpAddr| {
        let outgoing = twin.at(from, || TcpStream::connect_timeout(&(address, PORT).into(), PATIENCE));
        let (_, peer) = listeners[to].accept().unwrap();
        drop(outgoing);
        peer.ip().to_canonical()
    };
    let nodes = || twin.0.nodes.iter().enumerate();
    for (from, node) in nodes() {
        for (to, other) in nodes().filter(|(to, _)| *to != from) {
            for (address, source) in other.address.iter().zip(node.address.iter()) {
                assert_eq!(connect(from, to, address), source, "{} to {}, at {address}", node.name, other.name);
            }
        }
    }
    let ends = || twin.0.links.iter().flat_map(|link| &link.ends).filter(|end| [A, B].contains(&end.node));
    assert_eq!(ends().flat_map(|end| end.address.iter()).count(), 6, "the narrow link carries no IPv6");
    for end in ends() {
        let from = if end.node == A { B } else { A };
        for address in end.address.iter() {
            connect(from, end.node, address);
        }
    }
    let [near, far] = [A, B].map(|node| twin.0.nodes[node].path_addresses[0].address);
    let counted = || [("r2", "m1"), ("r1", "m1"), ("r2", "m2"), ("r1", "m2")].map(|(at, over)| twin.received(at, over));
    for (to, from) in far.iter().zip(near.iter()) {
        let before = counted();
        for _ in 0..20 {
            // By itself it comes from this end of the path: the answers go along the path, too.
            assert_eq!(connect(A, B, to), from);
        }
        let after = counted();
        let [m1, m1_back, m2, m2_back] = [0, 1, 2, 3].map(|at| after[at] - before[at]);
        assert!(m2 >= 40 && m2_back >= 20, "{to}: {m2} and {m2_back} packets along the path");
        assert!(m1 < 20 && m1_back < 20, "{to}: {m1} and {m1_back} packets beside the path");
    }
}
