//! Twins through the program: they live, do what they are told, and go without a trace, whatever was killed before.
//!
//! All need root and namespaces; without they say so and pass. Names hold the id of this process, so that runs do not
//! meet, and what a failure leaves is taken down.

#[path = "../e2e/world.rs"]
#[allow(dead_code, reason = "e2e.rs uses the rest")]
mod world;

mod copy;
mod crash;
mod late;
mod life;
mod refused;
mod scenario;
mod throughput;
mod two_paths;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use world::{Ended, Running, World, wait_for};

/// Where a twin has its directory.
const ROOT: &str = "/run/longhaul/twin";

/// Twins of one test. What is left of them goes when this does.
pub(crate) struct Twins {
    pub(crate) world: World,
    topic: String,
    /// Whether there may be something to clean up.
    begun: Cell<bool>,
}

impl Twins {
    /// None, with a message, where twins cannot be made. `topic` keeps tests of one process apart.
    pub(crate) fn new(topic: &str) -> Option<Twins> {
        let is_root = fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
        if !is_root || !Command::new("ip").args(["netns", "list"]).output().is_ok_and(|output| output.status.success())
        {
            eprintln!("skipped: twins need root, network namespaces and iproute2");
            return None;
        }
        if Command::new("ping").arg("-V").output().is_err() {
            eprintln!("skipped: there is no ping; scripts/bootstrap installs it");
            return None;
        }
        let topic = format!("lh{}-{topic}", std::process::id());
        Some(Twins { world: World::still(), topic, begun: Cell::new(false) })
    }

    /// The name of a twin of this test.
    pub(crate) fn name(&self, twin: &str) -> String {
        format!("{}-{twin}", self.topic)
    }

    /// What all names of this test begin with.
    pub(crate) fn begin(&self) -> &str {
        &self.topic
    }

    /// What a program says on a host of a twin; words hold no spaces.
    pub(crate) fn on(&self, twin: &str, host: &str, words: &str) -> String {
        let inside = ["netns", "exec", &format!("twin.{twin}.{host}")];
        let output = Command::new("ip").args(inside).args(words.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether the kernel has bbr; false, with a message, where it has not.
    pub(crate) fn has_bbr(&self, twin: &str) -> bool {
        let available = self.on(twin, "a", "cat /proc/sys/net/ipv4/tcp_available_congestion_control");
        let has_bbr = available.split_whitespace().any(|name| name == "bbr");
        if !has_bbr {
            eprintln!("skipped: the kernel has no bbr (try: modprobe tcp_bbr)");
        }
        has_bbr
    }

    /// `longhaul twin`, with words that hold no spaces.
    pub(crate) fn command(&self, words: &str) -> Command {
        self.begun.set(true);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.arg("twin").args(words.split_whitespace()).env_remove("LONGHAUL_TWIN");
        command
    }

    pub(crate) fn start(&self, words: &str) -> Running {
        self.world.start(self.command(words))
    }

    pub(crate) fn run(&self, words: &str) -> Ended {
        self.start(words).end()
    }

    /// Runs what must succeed; gives its standard output.
    #[track_caller]
    pub(crate) fn done(&self, words: &str) -> String {
        self.run(words).expect_code(0).out
    }

    /// Runs what must be refused; gives why.
    #[track_caller]
    pub(crate) fn refused(&self, words: &str, code: i32) -> String {
        let ended = self.run(words).expect_code(code);
        assert_eq!(ended.err.lines().count(), 1, "one line says it: {}", ended.err);
        ended.err
    }

    /// The twin as `ls --json` has it.
    #[track_caller]
    pub(crate) fn listed(&self, name: &str) -> Option<Value> {
        let list: Value = serde_json::from_str(&self.done("ls --json")).expect("it is JSON");
        list["twins"].as_array().expect("a list").iter().find(|twin| twin["name"] == name).cloned()
    }

    /// A file of this test.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.world.path(name);
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// Starts a program on a host; gives its process once it runs there.
    pub(crate) fn program(&self, twin: &str, host: &str, script: &str) -> (Running, u32) {
        let mut command = self.command(&format!("exec --twin {twin} {host} -- sh -c"));
        command.arg(format!("echo here $$; {script}"));
        let running = self.world.start(command);
        let id = wait_for("the program to run", || running.out().strip_prefix("here ")?.trim().parse().ok());
        (running, id)
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        if self.begun.get() {
            let _ = self.command(&format!("down --all --begin {}", self.topic)).output();
        }
    }
}

/// Asserts that nothing whose name begins so is left: no directory, namespace, process or device.
#[track_caller]
pub(crate) fn assert_gone(begin: &str) {
    let in_directory = |directory: &str, prefix: &str| -> Vec<String> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&format!("{prefix}{begin}"))).collect()
    };
    assert_eq!(in_directory(ROOT, ""), [""; 0]);
    assert_eq!(in_directory("/run/netns", "twin."), [""; 0]);
    // A process that was killed is there until its parent, which may be init, has noticed.
    wait_for("the emulator to be gone", || emulators(begin).is_empty().then_some(()));
}

/// The emulators of twins whose names begin so.
pub(crate) fn emulators(begin: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("it can be read").flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_one = |id: &u32| {
        let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        words.get(2) == Some(&&b"emulate"[..]) && words.get(3).is_some_and(|name| name.starts_with(begin.as_bytes()))
    };
    ids.filter(is_one).collect()
}

/// Whether the process runs; one that has ended and was not waited for does not.
pub(crate) fn runs(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// SIGKILL to a process that this test began.
pub(crate) fn kill(id: u32) {
    signal(id, "KILL");
}

/// A signal to a process that this test began.
pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &id.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{id} could not be sent SIG{name}");
}

/// A file of the repository.
pub(crate) fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}
