//! Memory does not grow with the dataset: not with the number of files, and not with the size of one.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::world::{World, events, wait_for};

/// The most that an end may ever have resident by default, its program and its stacks with it.
const RESIDENT_MAX: u64 = 512 << 20;
/// Files in one directory of the source.
const FILES_PER_DIR: usize = 1000;
/// Bytes of a file.
const CONTENT: [u8; 100] = [b'x'; 100];
/// The longest that one copy of the long form may take.
const LONG_TIME_MAX: Duration = Duration::from_secs(3600);

fn make_files(world: &World, files: usize) {
    for dir in 0..files.div_ceil(FILES_PER_DIR) {
        let dir_path = world.path(&format!("source/{dir}"));
        fs::create_dir_all(&dir_path).expect("a directory can be made");
        for file in dir * FILES_PER_DIR..files.min((dir + 1) * FILES_PER_DIR) {
            fs::write(dir_path.join(file.to_string()), CONTENT).expect("a file can be written");
        }
    }
}

/// False, with a message, where the file system knows no file of that size.
fn make_sparse(world: &World, name: &str, size: u64) -> bool {
    let path = world.path(name);
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory can be made");
    let file = File::create(path).expect("a file can be made");
    let made = file.set_len(size);
    if let Err(error) = &made {
        eprintln!("skipped: no file of {size} bytes can be made here: {error}");
    }
    made.is_ok()
}

/// Copies what is in `source` there, with bounded memory at both ends; gives the summary.
fn copy(world: &World, options: &str, to: &str) -> Value {
    let command = world.copy_command(options, &world.here("source/"), &world.there(to));
    let summary = world.start(command).end_within(LONG_TIME_MAX).expect_code(0).summary();
    let [source, destination] =
        ["source", "destination"].map(|end| summary["peak_rss_bytes"][end].as_u64().expect("both ends tell"));
    eprintln!(
        "{to} {options}: at most {} MiB at the source, {} MiB at the destination, {} s",
        source >> 20,
        destination >> 20,
        summary["seconds"]
    );
    assert!(source.max(destination) < RESIDENT_MAX, "{summary}");
    summary
}

fn many_files(files: usize) {
    let world = World::new();
    make_files(&world, files);
    for (options, to) in [("", "rw/default"), ("--memory 64MiB", "rw/little")] {
        let summary = copy(&world, options, to);
        assert_eq!(summary["files_placed"], files);
    }
}

fn huge_file(size: u64) {
    let world = World::new();
    if !make_sparse(&world, "source/huge", size) {
        return;
    }
    // Data at both ends and in the middle.
    let file = File::options().write(true).open(world.path("source/huge")).expect("it can be opened");
    let places = [0, size / 2 + 4097, size - 5];
    for at in places {
        std::os::unix::fs::FileExt::write_all_at(&file, b"data!", at).expect("it can be written");
    }
    for (options, to) in [("", "rw/default"), ("--memory 64MiB", "rw/little")] {
        let summary = copy(&world, options, to);
        assert_eq!(summary["bytes"], size);
        let copy = world.path(to).join("huge");
        let (file, meta) = (File::open(&copy).expect("it is there"), fs::metadata(&copy).expect("it is there"));
        assert_eq!(meta.len(), size);
        let allocated = std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
        assert!(allocated < 1 << 20, "{allocated} bytes are allocated");
        for at in places {
            let mut data = [0; 5];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut data, at).expect("it can be read");
            assert_eq!(&data, b"data!");
        }
    }
}

/// What a pipe keeps, to send it again or because it came early, is of the memory that the end was given too.
#[test]
fn a_pipe_takes_no_more_memory_than_asked() {
    const MEMORY: u64 = 96 << 20;
    let world = World::new();
    let long = world.write("rw/long", 256 << 20);
    let report = world.path("report.json");
    let peak = |end: &str| {
        let report: Value = serde_json::from_slice(&fs::read(&report).expect("it was written")).expect("it is JSON");
        report["summary"]["peak_rss_bytes"][end].as_u64().expect("both ends tell")
    };
    let run = |from: &std::ffi::OsStr, to: &std::ffi::OsStr, input, output| {
        let mut command = world.command("copy", "--quiet --memory 96MiB --protect clear");
        command.args(["--fingerprint", world.fingerprint(), "--report"]).arg(&report).args([from, to]);
        world.spawn_with(&mut command, input, Some(output)).end().expect_code(0);
    };
    run("-".as_ref(), &world.there("rw/in"), File::open(&long).unwrap().into(), Stdio::null());
    let source = peak("source");
    run(&world.there("rw/in"), "-".as_ref(), Stdio::null(), Stdio::null());
    let destination = peak("destination");
    eprintln!("at most {} MiB of input, {} MiB of output", source >> 20, destination >> 20);
    assert!(source.max(destination) < MEMORY, "{source} {destination}");
}

/// Over a path at hand readers leave the processors to the streams: they do not fill the memory at once. Without a bound a copy held to a low
/// rate has 280 MB resident after a second, with it 100 MB, most of which readers have at hand.
#[test]
fn readers_are_little_ahead_of_a_path_at_hand() {
    const RESIDENT_MAX: u64 = 160 << 20;
    let world = World::new();
    world.write("source/big", 320 << 20);
    let mut copy = world.start(world.copy_command("--rate 20Mb/s", &world.here("source/"), &world.there("rw/tree")));
    // What readers may have is read long before the first chunk is there; the end is not waited for.
    wait_for("the first chunk", || {
        assert!(!copy.has_ended(), "it ended early: {}{}", copy.out(), copy.err());
        let has_come = |event: &Value| event["event"] == "progress" && event["bytes_done"].as_u64() > Some(0);
        events(&copy.out()).iter().any(has_come).then_some(())
    });
    let status = fs::read_to_string(format!("/proc/{}/status", copy.id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("it is a number of KiB");
    assert!(peak << 10 < RESIDENT_MAX, "{peak} KiB were resident");
}

#[test]
fn many_files_take_little_memory() {
    many_files(10_000);
}

#[test]
fn a_huge_file_takes_little_memory_and_time() {
    huge_file(1 << 40);
}

#[test]
#[ignore = "takes minutes and a million inodes, twice; make soak runs it"]
fn a_million_files_take_little_memory() {
    many_files(1_000_000);
}

#[test]
#[ignore = "takes a file system that knows files of 10 TiB; make soak runs it"]
fn ten_tebibytes_take_little_memory_and_time() {
    huge_file(10 << 40);
}
