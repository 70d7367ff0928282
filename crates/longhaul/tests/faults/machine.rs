//! What tests of faults need of the machine: numbers that look random, programs of the system, and to know what is missing.

use std::path::Path;
use std::process::{Command, Stdio};

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        // The first numbers of neighbouring seeds resemble each other.
        let mut draw = Draw((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..8 {
            draw.below(2);
        }
        draw
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }
}

/// The number of cases that are wanted, where `few` are enough for every day.
pub(crate) fn cases(few: u64) -> u64 {
    match std::env::var("FAULT_CASES") {
        Ok(text) => text.parse().expect("FAULT_CASES is a number"),
        Err(_) => few,
    }
}

/// True, with a message, if this machine lacks what a test needs.
pub(crate) fn is_missing(programs: &[&str], root: bool) -> bool {
    let runs = |program: &&str| {
        let found = |dir: std::path::PathBuf| dir.join(program).exists();
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(found))
    };
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    let missing = programs.iter().find(|program| !runs(program));
    if let Some(program) = missing {
        eprintln!("skipped: there is no {program}; scripts/bootstrap installs it");
    }
    if root && !is_root {
        eprintln!("skipped: only root can do this");
    }
    missing.is_some() || (root && !is_root)
}

/// Runs a program of the system that must succeed; gives what it printed.
#[track_caller]
pub(crate) fn run(line: &str, paths: &[&Path]) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a program is named");
    let output = Command::new(program).args(words).args(paths).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The same where it may fail: to clean up, or to try.
pub(crate) fn tried(line: &str, paths: &[&Path]) -> bool {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("a program is named"));
    command.args(words).args(paths).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
