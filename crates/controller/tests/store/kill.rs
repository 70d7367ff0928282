//! kill -9 in the middle of appends: a child appends and tells what was acknowledged; what it told is there.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use controller::store::{self, FileLedger, Keep, Log, Order, Place, Settlement, verify};

use super::files::done;
use super::{World, id, new_page};

const DIR: &str = "LONGHAUL_TEST_STORE";
const KILLS: u32 = 8;

/// Runs only as the child.
#[test]
#[ignore = "run by the test below as its child"]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = store::open(&Place::Directory(PathBuf::from(dir))).unwrap();
    let mut log = Log::open(&*store, Keep::All).unwrap();
    let mut next = log.next();
    let mut files = FileLedger::open(&*store).unwrap();
    for page in 0.. {
        for part in [1, 3, 1] {
            assert_eq!(log.append(&(next..next + part).map(told).collect::<Vec<_>>()).unwrap(), next);
            next += part;
        }
        say(&format!("event {}", next - 1));
        if page % 10 == 9 {
            log.snapshot(next - 1, vec![7; 50_000]).unwrap();
            say(&format!("snapshot {}", next - 1));
        }
        let number = next as u32;
        files.put(&[new_page(1, number, &[0], 20)]).unwrap();
        files.take(id(1, 0, number), 10, Order::Number).unwrap();
        files.settle(&[Settlement { page: id(1, 0, number), outcomes: done(0..5) }]).unwrap();
        say(&format!("page {number}"));
    }
}

fn told(number: u64) -> (u64, Vec<u8>) {
    (number, format!("event {number} {}", "x".repeat(number as usize % 3_000)).into_bytes())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "ack {line}").unwrap();
    out.flush().unwrap();
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let mut world = World::sqlite();
    let mut last = 0;
    for kill in 0..KILLS {
        world.store = None;
        let lines = run_and_kill(&world, Duration::from_millis(60 + u64::from(kill) * 37));
        world.again();
        let mut log = world.log();
        let mut files = world.files();
        let there = log.reader().last().unwrap();
        for line in &lines {
            let (what, number) = line.split_once(' ').unwrap();
            let number: u64 = number.parse().unwrap();
            match what {
                "event" => assert!(number <= there, "event {number} was acknowledged, {there} is the last"),
                "snapshot" => assert!(log.reader().newest().unwrap().snapshot.unwrap().number >= number),
                _ => {
                    let counts = files.reader().pages(1, 0, number as u32, 1).unwrap()[0].1;
                    assert_eq!((counts.given, counts.done, counts.open), (5, 5, 10), "page {number}");
                }
            }
        }
        assert!(!lines.is_empty() && there > last, "the child got on: {lines:?}");
        last = there;
        for event in log.reader().read(there.saturating_sub(200).max(1), 1_000).unwrap() {
            assert_eq!((event.at_ms, event.bytes), told(event.number));
        }
        assert!(verify(world.store()).unwrap().damaged.is_empty());
    }
    println!("{last} events after {KILLS} kills");
}

fn run_and_kill(world: &World, after: Duration) -> Vec<String> {
    let Place::Directory(dir) = &world.place else { unreachable!("it is one") };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // From the first acknowledgement on, it is killed anywhere.
    let is_ack = |line: &String| line.contains("ack ");
    let mut acknowledged: Vec<String> = lines.by_ref().find(is_ack).into_iter().collect();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(after);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    acknowledged.extend(lines.filter(is_ack));
    killer.join().unwrap();
    acknowledged.iter().map(|line| line.split_once("ack ").unwrap().1.to_owned()).collect()
}
