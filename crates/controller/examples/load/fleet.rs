//! The agents of one process, and what is asked of them on standard input: `pace N` (files/s of all together, or `max`) and `tally`.
//! They end with standard input.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::agent::{Fleet, Host, MAX, run as agent};

pub(crate) async fn run(controller: SocketAddr, hosts: &str) {
    let text = std::fs::read_to_string(hosts).expect("the file of hosts can be read");
    let hosts: Vec<Host> = serde_json::from_str(&text).expect("the file of hosts is a list");
    let fleet = Arc::new(Fleet::new(controller));
    for host in hosts {
        tokio::spawn(agent(fleet.clone(), host));
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("tally", _) => println!("{}", fleet.tally.told()),
            ("pace", "max") => fleet.pace.store(MAX, Ordering::Relaxed),
            ("pace", number) => fleet.pace.store(number.parse().expect("a pace is a number"), Ordering::Relaxed),
            _ => panic!("`{line}` is no command"),
        }
    }
}
