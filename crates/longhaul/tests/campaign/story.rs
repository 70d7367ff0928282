//! One story, from its seed to what must be so at its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Books, Sure, Wanted, answered, each, use_it};
use super::trouble::{EAST, OPTIONS, STORE, Trouble, published};
use super::{setting, watch};
use crate::fleet::{Fleet, Ground};
use crate::rest::Rest;
use crate::skew;
use crate::tree::{assert_same, left_behind};
use crate::volatile::{Disk, formatted_of};
use crate::world::{World, wait_for};
use crate::{Draw, is_missing};

/// The narrowest link, of which 80 % are given: a story's data take some seconds.
const RATE: &str = "60 Mb/s";
/// Users, and what each of them wants.
const USERS: usize = 2;
const WANTS: usize = 3;
/// Troubles in a row.
const TROUBLES: u64 = 3;
/// The longest of most troubles, and the longest pause before one.
const TROUBLE_MAX_MS: u64 = 2_500;
const PAUSE_MAX_MS: u64 = 1_500;
/// Of so many troubles one is long, where that is wanted.
const LONG_ONE_IN: u64 = 6;
/// How long everything may take to come to its end once there is peace.
const PEACE_MAX: Duration = Duration::from_secs(400);
/// Bytes of the disks.
const STORE_BYTES: usize = 48 << 20;
const EAST_BYTES: usize = 128 << 20;
/// How far clocks are off, s.
const OFF_SECONDS: i64 = 3_600;

pub(super) struct Story {
    fleet: Fleet,
    rest: Rest,
    draw: Draw,
    disks: bool,
    books: Vec<Mutex<Vec<Wanted>>>,
    seed: u64,
}

impl Story {
    /// Tells the story of a seed.
    pub(super) fn tell(seed: u64) {
        let mut story = Story::begin(seed);
        let (enough, peace) = (AtomicBool::new(false), AtomicBool::new(false));
        let Story { fleet, rest, draw, disks, books, .. } = &mut story;
        let (rest, books) = (&*rest, &*books);
        std::thread::scope(|scope| {
            // However it ends, those who work beside must not be waited for without end.
            let _ends = (Ends(&enough), Ends(&peace));
            let users: Vec<_> = books
                .iter()
                .map(|book| {
                    let (draw, enough) = (Draw::new(draw.below(1 << 40)), &enough);
                    scope.spawn(move || use_it(book, rest, draw, enough))
                })
                .collect();
            let watching = scope.spawn(|| watch::look(rest, &peace));
            for _ in 0..TROUBLES {
                let long = setting("LOOP_LONG", 0);
                trouble(seed, fleet, rest, draw, *disks, long, books);
            }
            enough.store(true, Ordering::Relaxed);
            let well = users.into_iter().all(|user| user.join().is_ok());
            assert!(well, "seed {seed}: a user was told what is not so");
            come_to_an_end(rest, books);
            peace.store(true, Ordering::Relaxed);
            assert!(watching.join().is_ok(), "seed {seed}: a transfer stood still without a word");
        });
        story.end();
    }

    fn begin(seed: u64) -> Story {
        let mut draw = Draw::new(seed);
        let world = World::still();
        let disks = !is_missing(&["mkfs.ext4", "losetup", "mount", "umount"], true)
            && ["/dev/fuse", "/dev/loop-control"].iter().all(|device| fs::exists(device).unwrap_or(false));
        let mut ground = Ground { wires: true, ..Ground::default() };
        for name in [STORE, EAST] {
            fs::create_dir(world.path(name)).expect("a directory can be made");
            if disks {
                let disk = Disk::mount(empty(&world, name), &world.path(name), OPTIONS);
                ground.disks.insert(name.to_owned(), disk);
            }
        }
        ground.controller = Some(world.path(STORE).join("controller"));
        ground.sites.insert(EAST.to_owned(), world.path(EAST));
        let mut hosts = vec!["w1", "e1"];
        hosts.extend(["w2", "e2"].into_iter().filter(|_| draw.below(2) == 0));
        let library = skew::library(&world.path("run"));
        for host in &hosts {
            let off = (draw.below(3) as i64 - 1) * OFF_SECONDS;
            if let Some(library) = library.as_ref().filter(|_| off != 0) {
                ground.environments.insert((*host).to_owned(), skew::environment(library, off));
            }
        }
        let clocks: Vec<&String> = ground.environments.values().flatten().map(|(_, value)| value).collect();
        eprintln!("seed {seed}: {hosts:?}, disks that forget: {disks}, clocks off: {clocks:?}");
        let fleet = Fleet::on(world, RATE, &hosts, ground);
        let rest = Rest::new(&fleet.address, &fleet.fingerprint, &fleet.token);
        let books = (0..USERS).map(|user| (0..WANTS).map(|n| wish(&fleet, &mut draw, user * WANTS + n)).collect());
        let books = books.map(Mutex::new).collect();
        Story { fleet, rest, draw, disks, books, seed }
    }

    /// What must be so when everything has ended.
    fn end(mut self) {
        let told = answered(&self.rest, "/transfers?limit=100");
        let names: Vec<&str> = told["items"]
            .as_array()
            .expect("a page has items")
            .iter()
            .filter_map(|item| item["name"].as_str())
            .collect();
        let once: BTreeSet<&&str> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "something was taken twice: {names:?}");
        let books: Vec<Wanted> =
            self.books.drain(..).flat_map(|book| book.into_inner().expect("no panic under the lock")).collect();
        assert_eq!(names.len(), books.len(), "{names:?}");
        for wanted in &books {
            wanted.check(&self.rest);
            published(wanted);
            let id = wanted.id.as_ref().expect("all were taken");
            let state = answered(&self.rest, &format!("/transfers/{id}"));
            if state["state"] == "done" {
                arrived(wanted);
            } else {
                assert!(state["state"] == "cancelled" && wanted.cancelled != Sure::No, "{state:#}");
            }
        }
        // What was cancelled may land what is in flight.
        wait_for("all sessions to end", || {
            let told = answered(&self.rest, "/agents");
            let agents = told.as_array().expect("a list");
            agents.iter().all(|agent| agent["sessions"].as_array().is_none_or(Vec::is_empty)).then_some(())
        });
        assert_eq!(self.fleet.stop_controller().code(), Some(0));
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .args(["controller", "replay", "--verify", "--json", "--state-dir"])
            .arg(self.fleet.state_of_controller());
        let told = self.fleet.world.run(command).expect_code(0);
        let told: Value = serde_json::from_str(&told.out).expect("one object");
        assert!(told["ok"] == true && told["sessions"] == 0, "seed {}: {told}", self.seed);
    }
}

/// Stops those who look at it.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An empty disk of its size; made once.
fn empty(world: &World, name: &str) -> Vec<u8> {
    static STORES: OnceLock<Vec<u8>> = OnceLock::new();
    static EASTS: OnceLock<Vec<u8>> = OnceLock::new();
    let (once, size) = if name == STORE { (&STORES, STORE_BYTES) } else { (&EASTS, EAST_BYTES) };
    once.get_or_init(|| formatted_of(&world.path("run"), size)).clone()
}

/// A random tree at the west, and the wish to have it at the east.
fn wish(fleet: &Fleet, draw: &mut Draw, number: usize) -> Wanted {
    let (from, to) = (format!("run{number}"), format!("copy{number}"));
    let count = 4 + draw.below(24) as usize;
    let mut files = Vec::new();
    for n in 0..count {
        let big = if draw.below(12) == 0 { 4 << 20 } else { 0 };
        let name = format!("{}/{n}", ["a", "b", "c/d"][draw.below(3) as usize]);
        fleet.world.write(&format!("west-data/{from}/{name}"), big + draw.below(300_000) as usize);
        files.push(name);
    }
    let class = ["cms", "atlas", "spare"][draw.below(3) as usize];
    let path = |site: &str, name: &str| fleet.data(site).join(name);
    let place = |site: &str, name: &str| json!(format!("{site}:{}", path(site, name).display()));
    let mut body = json!({
        "name": format!("wish{number}"), "class": class, "collaboration": class, "urgency": draw.below(2),
        "sources": [place("west", &from)], "destination": place("east", &to),
    });
    if draw.below(4) == 0 {
        body["checksum"] = json!("sha256");
    }
    let (mut from, mut to) = (path("west", &from), path("east", &to));
    let kind = draw.below(5);
    if kind == 0 {
        // One file of it, under another name.
        body["sources"] = json!([format!("west:{}", from.join(&files[0]).display())]);
        (from, to) = (from.join(&files[0]), to);
    } else if kind == 1 {
        files.truncate(count / 2);
        body["files"] = json!(files);
    }
    let listed = if kind == 1 { files } else { Vec::new() };
    Wanted::new(format!("wish{number}"), body, from, to, listed)
}

/// A trouble, perhaps with another one in the middle of it.
fn trouble(seed: u64, fleet: &mut Fleet, rest: &Rest, draw: &mut Draw, disks: bool, long: u64, books: &Books) {
    let nap = |draw: &mut Draw| {
        let most = if long > 0 && draw.below(LONG_ONE_IN) == 0 { long * 1_000 } else { TROUBLE_MAX_MS };
        sleep(Duration::from_millis(draw.below(most)));
    };
    sleep(Duration::from_millis(draw.below(PAUSE_MAX_MS)));
    let outer = Trouble::draw(draw, fleet, disks);
    let inner = Trouble::draw(draw, fleet, disks);
    let inner = Some(inner).filter(|inner| draw.below(3) == 0 && inner.subject() != outer.subject());
    eprintln!("seed {seed}: {outer:?}, in it {inner:?}");
    let begun = outer.begin(fleet, rest, draw);
    nap(draw);
    if let Some(inner) = &inner {
        let begun = inner.begin(fleet, rest, draw);
        nap(draw);
        inner.end(fleet, rest, &begun, books);
    }
    outer.end(fleet, rest, &begun, books);
    each(books, |wanted| wanted.check(rest));
}

/// All that was wanted is taken, goes on, and comes to its end.
fn come_to_an_end(rest: &Rest, books: &Books) {
    for book in books {
        book.lock().expect("no panic under the lock").iter_mut().for_each(|wanted| wanted.settle(rest));
    }
    let begin = Instant::now();
    loop {
        let told = answered(rest, "/transfers?limit=100");
        let open = |item: &&Value| !["done", "cancelled", "partly", "failed"].iter().any(|end| item["state"] == *end);
        let open: Vec<&Value> = told["items"].as_array().expect("a page has items").iter().filter(open).collect();
        if open.is_empty() {
            return;
        }
        assert!(begin.elapsed() < PEACE_MAX, "after {PEACE_MAX:?} of peace: {open:#?}");
        sleep(Duration::from_millis(200));
    }
}

/// Everything is there, and nothing else.
fn arrived(wanted: &Wanted) {
    if wanted.from.is_file() {
        let same = fs::read(&wanted.from).ok() == fs::read(&wanted.to).ok();
        assert!(same, "{} is not what {} is", wanted.to.display(), wanted.from.display());
        return;
    }
    if wanted.files.is_empty() {
        assert_same(&wanted.from, &wanted.to);
    }
    let at = |dir: &PathBuf, name: &String| fs::read(dir.join(name)).ok();
    for name in &wanted.files {
        assert!(at(&wanted.to, name) == at(&wanted.from, name), "{}/{name} is not there", wanted.to.display());
    }
    assert!(left_behind(&wanted.to).is_empty(), "{:?}", left_behind(&wanted.to));
}
