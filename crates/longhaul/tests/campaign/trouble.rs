//! What happens in a story.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::client::{Books, Wanted, each};
use crate::Draw;
use crate::fleet::{Fleet, site_of};
use crate::rest::{Reply, Rest};
use crate::volatile::Disk;

/// Disks of a story, by where they are mounted in the world.
pub(super) const STORE: &str = "store";
pub(super) const EAST: &str = "east";
/// The file that fills a disk.
const BALLAST: &str = "ballast";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// SIGKILL.
    KillController,
    /// Its machine loses its power.
    CutController,
    /// SIGSTOP.
    StopController,
    /// Its disk is full.
    FillStore,
    /// SIGKILL.
    KillAgent(String),
    /// The machines of the east and their storage lose their power.
    CutEast,
    /// Connections of these agents to the controller end, and none is to be had.
    CutWires(Vec<String>),
    /// Nothing of these agents arrives, and nobody is told.
    HoldWires(Vec<String>),
}

/// What two troubles at once must not share.
#[derive(PartialEq, Eq)]
pub(super) enum Subject {
    Controller,
    Agents,
    Wires,
}

impl Trouble {
    /// Any of those that this fleet can have, or of the kind that `LOOP_ONLY` names.
    pub(super) fn draw(draw: &mut Draw, fleet: &Fleet, disks: bool) -> Trouble {
        const TRIES: usize = 1_000;
        let Ok(only) = std::env::var("LOOP_ONLY") else { return Trouble::any(draw, fleet, disks) };
        let wanted = |trouble: &Trouble| format!("{trouble:?}").starts_with(&only);
        let found = (0..TRIES).map(|_| Trouble::any(draw, fleet, disks)).find(wanted);
        found.unwrap_or_else(|| panic!("LOOP_ONLY={only}: there is no such trouble here"))
    }

    fn any(draw: &mut Draw, fleet: &Fleet, disks: bool) -> Trouble {
        let hosts = fleet.hosts();
        let some = |draw: &mut Draw| -> Vec<String> {
            let all = draw.below(2) == 0;
            let one = draw.below(hosts.len() as u64) as usize;
            hosts.iter().enumerate().filter(|(n, _)| all || *n == one).map(|(_, host)| host.clone()).collect()
        };
        match draw.below(8) {
            1 if disks => Trouble::CutController,
            2 => Trouble::StopController,
            3 if disks => Trouble::FillStore,
            4 => Trouble::KillAgent(some(draw).remove(0)),
            5 if disks => Trouble::CutEast,
            6 => Trouble::CutWires(some(draw)),
            7 => Trouble::HoldWires(some(draw)),
            _ => Trouble::KillController,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        match self {
            Trouble::KillController | Trouble::CutController | Trouble::StopController | Trouble::FillStore => {
                Subject::Controller
            }
            Trouble::KillAgent(_) | Trouble::CutEast => Subject::Agents,
            Trouble::CutWires(_) | Trouble::HoldWires(_) => Subject::Wires,
        }
    }

    pub(super) fn begin(&self, fleet: &mut Fleet, rest: &Rest, draw: &mut Draw) -> Begun {
        match self {
            Trouble::KillController => fleet.kill_controller(),
            Trouble::CutController => {
                fleet.ground.disks[STORE].cut(draw);
                fleet.kill_controller();
            }
            Trouble::StopController => fleet.controller().signal("STOP"),
            Trouble::FillStore => fill(&fleet.world.path(STORE).join(BALLAST)),
            Trouble::KillAgent(host) => fleet.kill_agent(host),
            Trouble::CutEast => {
                let told = Begun { told: files_told(rest) };
                fleet.ground.disks[EAST].cut(draw);
                for host in fleet.hosts().iter().filter(|host| site_of(host) == EAST) {
                    fleet.kill_agent(host);
                }
                return told;
            }
            Trouble::CutWires(hosts) => hosts.iter().for_each(|host| fleet.wire(host).down(true)),
            Trouble::HoldWires(hosts) => hosts.iter().for_each(|host| fleet.wire(host).stall(true)),
        }
        Begun::default()
    }

    pub(super) fn end(&self, fleet: &mut Fleet, rest: &Rest, begun: &Begun, books: &Books) {
        match self {
            Trouble::KillController => fleet.start_controller(),
            Trouble::CutController => {
                power_is_back(fleet, STORE);
                fleet.start_controller();
            }
            Trouble::StopController => fleet.controller().signal("CONT"),
            Trouble::FillStore => {
                fs::remove_file(fleet.world.path(STORE).join(BALLAST)).expect("the ballast is ours");
                fleet.must_run();
            }
            Trouble::KillAgent(host) => fleet.launch_agent(host),
            Trouble::CutEast => {
                power_is_back(fleet, EAST);
                each(books, |wanted| begun.check(wanted));
                fleet.launch_missing();
            }
            Trouble::CutWires(hosts) => hosts.iter().for_each(|host| fleet.wire(host).down(false)),
            Trouble::HoldWires(hosts) => hosts.iter().for_each(|host| fleet.wire(host).stall(false)),
        }
        rest.moved(&fleet.address);
    }
}

/// What was told before a trouble began.
#[derive(Default)]
pub(super) struct Begun {
    /// Names of transfers with files that are in place.
    told: Vec<(String, Vec<PathBuf>)>,
}

impl Begun {
    /// What was said to be in place is there after the power was cut, and nothing is there that is wrong.
    fn check(&self, wanted: &Wanted) {
        published(wanted);
        for (_, files) in self.told.iter().filter(|(name, _)| *name == wanted.name) {
            for file in files {
                // Of a source that is one file the name is empty.
                let at = |dir: &Path| if file.as_os_str().is_empty() { dir.to_owned() } else { dir.join(file) };
                let (is, was) = (at(&wanted.to), at(&wanted.from));
                let same = if was.is_dir() { is.is_dir() } else { fs::read(&is).ok() == fs::read(&was).ok() };
                assert!(same, "{} was said to be in place, and is not", is.display());
            }
        }
    }
}

/// What has its name at a destination is what is at the source.
pub(super) fn published(wanted: &Wanted) {
    if !wanted.to.exists() {
        return;
    }
    for (name, entry) in crate::tree::entries(&wanted.to) {
        let is_ours = name.to_string_lossy().contains(".longhaul");
        let at = |dir: &Path| if name.is_empty() { dir.to_owned() } else { dir.join(&name) };
        let (is, source) = (at(&wanted.to), at(&wanted.from));
        if !is_ours && is.is_file() {
            let wanted = fs::read(&source).unwrap_or_else(|error| panic!("{} is no file of it: {error}", is.display()));
            assert!(entry.content == wanted, "{} has wrong content", is.display());
        }
    }
}

/// Files that the controller says are in place; none if it says nothing.
fn files_told(rest: &Rest) -> Vec<(String, Vec<PathBuf>)> {
    let Reply::Said(200, told) = rest.get("/transfers?limit=100") else { return Vec::new() };
    let files = |transfer: &serde_json::Value| {
        let (id, name) = (transfer["id"].as_str()?, transfer["name"].as_str()?);
        let Reply::Said(200, page) = rest.get(&format!("/transfers/{id}/files?state=done&limit=1000")) else {
            return None;
        };
        let names = page["items"].as_array()?.iter().filter_map(|file| Some(PathBuf::from(file["name"].as_str()?)));
        Some((name.to_owned(), names.collect()))
    };
    told["items"].as_array().expect("a page has items").iter().filter_map(files).collect()
}

/// A disk with what its medium has.
fn power_is_back(fleet: &mut Fleet, name: &str) {
    let image = fleet.ground.disks.remove(name).expect("it is there").remove();
    let disk = Disk::mount(image, &fleet.world.path(name), OPTIONS);
    fleet.ground.disks.insert(name.to_owned(), disk);
}

/// Ordered data would hide a sync that is missing, and so would what ext4 does for those who rename without one.
pub(super) const OPTIONS: &str = "data=writeback,noauto_da_alloc";

/// Writes until nothing more fits.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).expect("a file can be made");
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}
