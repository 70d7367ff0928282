//! The campaign: stories of random troubles under load, each from a seed.
//!
//! In a story users submit, pause, resume and cancel transfers of random trees, with idempotency keys, and write down what they were
//! told. Meanwhile the controller and the agents are killed, lose their power with all that was not flushed ([`crate::volatile`]), are
//! stopped and woken, lose the network between them, or find the store's disk full; some agents' clocks are an hour off ([`crate::skew`]).
//! After each trouble of the controller all that was told must still be so, and at the end every file must be where it is to be.
//!
//! `LOOP_SEEDS` is the number of stories, `LOOP_SEED` is one to be told alone, `LOOP_AT_ONCE` how many are told at the same time, and
//! `LOOP_ONLY` a kind of trouble, `LOOP_LONG` the seconds that a long trouble takes at most (there is none without).
//!
//! It is a program of tests of its own: beside it nothing could be timed.
//!
//! What a power cut can and cannot show: the disk keeps what was flushed to it, and of the rest any part, in units of 4 KiB. Writes that
//! are torn within 4 KiB, or a disk that lies about a flush, are not played.

#[path = "../loop/fleet.rs"]
#[allow(dead_code, reason = "tests of the loop use the rest")]
mod fleet;
#[path = "../faults/machine.rs"]
#[allow(dead_code, reason = "tests of the mover use the rest")]
mod machine;
#[path = "../faults/proxy.rs"]
#[allow(dead_code, reason = "tests of the mover use the rest")]
mod proxy;
#[path = "../loop/rest.rs"]
mod rest;
#[path = "../e2e/tree.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod tree;
#[path = "../faults/volatile.rs"]
#[allow(dead_code, reason = "tests of the mover use the rest")]
mod volatile;
#[path = "../e2e/world.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod world;

mod client;
mod skew;
mod story;
mod trouble;
mod watch;

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub(crate) use machine::{Draw, is_missing, run, tried};
use story::Story;

/// Stories of every day.
const SEEDS: u64 = 10;
/// Stories that are told at the same time: most of a story is waiting.
const AT_ONCE: u64 = 5;

/// A number of the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => otherwise,
    }
}

/// Seeds are printed of stories that end well too: what `eprintln!` says then is kept by the harness.
fn said(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn nothing_told_is_lost_whatever_happens() {
    if std::env::var_os("LOOP_SEED").is_some() {
        return Story::tell(setting("LOOP_SEED", 0));
    }
    let seeds = setting("LOOP_SEEDS", SEEDS);
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let begin = Instant::now();
            let told = std::panic::catch_unwind(|| Story::tell(seed));
            said(&format!("seed {seed}: {} after {:?}", if told.is_ok() { "ok" } else { "FAILED" }, begin.elapsed()));
            if told.is_err() {
                failed.lock().expect("no panic under the lock").push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..setting("LOOP_AT_ONCE", AT_ONCE).clamp(1, seeds.max(1)) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("no panic under the lock");
    assert!(failed.is_empty(), "failed: {failed:?}; LOOP_SEED={} tells the first of them alone", failed[0]);
}
