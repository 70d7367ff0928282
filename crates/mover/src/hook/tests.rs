//! Hooks are shell scripts here; the runner itself uses no shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::*;

static NEVER: AtomicBool = AtomicBool::new(false);

/// A script that is the hook before files.
fn script(dir: &TempDir, body: &str) -> Hooks {
    let path = dir.path().join("hook");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Hooks { before_file: Some(path.to_str().unwrap().to_owned()), ..Hooks::default() }
}

fn site(root: &Path) -> Site {
    Site { role: "source", session: "00ff".to_owned(), root: root.to_owned() }
}

fn go(hooks: &Hooks, occasion: &Occasion, stop: &AtomicBool, time_max: Duration) -> Result<Verdict, HookError> {
    run(hooks, Moment::BeforeFile, (&site(Path::new("/r")), occasion), stop, time_max)
}

/// What a script that is run to its end says, with its own path made short.
fn said(dir: &TempDir, body: &str) -> String {
    let hooks = script(dir, body);
    let error = go(&hooks, &Occasion::default(), &NEVER, TIME_MAX).unwrap_err();
    error.to_string().replace(hooks.before_file.as_deref().unwrap(), "HOOK")
}

/// Waits for a process to be gone or dead.
fn is_dead(pid: &str) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    })
}

#[test]
fn the_status_decides() {
    let dir = tempfile::tempdir().unwrap();
    let verdict = |body| go(&script(&dir, body), &Occasion::default(), &NEVER, TIME_MAX).unwrap();
    assert_eq!(verdict("exit 0"), Verdict::GoOn);
    assert_eq!(verdict("exit 10"), Verdict::LeaveOut);
    assert_eq!(said(&dir, "exit 3"), "hook before_file `HOOK` ended with status 3");
    assert_eq!(said(&dir, "kill -9 $$"), "hook before_file `HOOK` was ended by signal 9");
    let none = run(&Hooks::default(), Moment::AfterFile, (&site(dir.path()), &Occasion::default()), &NEVER, TIME_MAX);
    assert_eq!(none.unwrap(), Verdict::GoOn);
    let after = Hooks { after_file: script(&dir, "exit 10").before_file, ..Hooks::default() };
    let after = run(&after, Moment::AfterFile, (&site(dir.path()), &Occasion::default()), &NEVER, TIME_MAX);
    assert!(after.unwrap_err().to_string().ends_with("status 10"), "only a hook before a file is a filter");
}

#[test]
fn the_last_line_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let begin = "hook before_file `HOOK` ended with status 1";
    assert_eq!(said(&dir, "echo one; echo ' two ' >&2; echo; exit 1"), format!("{begin}: two"));
    assert_eq!(said(&dir, "printf 'a\\033[31m\\377'; exit 1"), format!("{begin}: a\u{fffd}[31m\u{fffd}"));
    // More than is kept, and more than a pipe holds: the hook does not block.
    let long = said(&dir, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end; exit 1");
    assert_eq!(long, format!("{begin}: end"));
    let line = said(&dir, "head -c 9000 /dev/zero | tr '\\0' x; exit 1");
    assert_eq!(line, format!("{begin}: {}", "x".repeat(LINE_CHARS_MAX)));
}

#[test]
fn what_cannot_be_run_says_why() {
    let hooks = |hook: &str| Hooks { before_file: Some(hook.to_owned()), ..Hooks::default() };
    let error = go(&hooks("/not/there -x"), &Occasion::default(), &NEVER, TIME_MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "hook before_file `/not/there -x` cannot be run (No such file or directory (os error 2)): name a program that this user may run"
    );
    assert_eq!(
        hooks(" ").check().unwrap_err().to_string(),
        "hook before_file names no program: give the path of one, and its arguments"
    );
    assert!(hooks("x").check().is_ok() && Hooks::default().check().is_ok());
}

/// Words are split at white space and no shell sees them; bytes that are no text arrive as they are.
#[test]
fn it_is_told_what_it_is_run_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut hooks = script(
        &dir,
        &format!(
            "{{ echo \"$#\" \"$1\" \"$2\"; env -0 | grep -az ^LONGHAUL_ | tr '\\0' ';'; cat; }} > {}",
            out.display()
        ),
    );
    hooks.before_file.as_mut().unwrap().push_str("  $HOME\t*");
    let path = b"d/\xff\n'x".to_vec();
    let occasion = Occasion { path: Some(path), size: Some(7), ..Occasion::default() };
    assert_eq!(go(&hooks, &occasion, &NEVER, TIME_MAX).unwrap(), Verdict::GoOn);
    let told = fs::read(&out).unwrap();
    let shown = told.escape_ascii().to_string();
    let expected = b"2 $HOME *\n";
    assert!(told.starts_with(expected), "{shown}");
    for part in [
        &b"LONGHAUL_HOOK=before_file;"[..],
        b"LONGHAUL_ROLE=source;",
        b"LONGHAUL_SESSION=00ff;",
        b"LONGHAUL_ROOT=/r;",
        b"LONGHAUL_PATH=d/\xff\n'x;",
        b"LONGHAUL_SIZE=7;",
    ] {
        assert!(told.windows(part.len()).any(|w| w == part), "{}: {shown}", part.escape_ascii());
    }
    for absent in [&b"LONGHAUL_OUTCOME"[..], b"LONGHAUL_FILES", b"LONGHAUL_TOKEN"] {
        assert!(!told.windows(absent.len()).any(|w| w == absent), "{shown}");
    }
}

#[test]
fn one_that_overruns_is_killed_with_what_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let hooks = script(&dir, &format!("sleep 60 & echo $! $$ > {}; echo waiting; wait", pids.display()));
    let begin = Instant::now();
    let error = go(&hooks, &Occasion::default(), &NEVER, Duration::from_secs(2)).unwrap_err();
    assert!(error.to_string().ends_with("took more than 2 s and was killed: waiting"), "{error}");
    assert!(!error.is_stopped() && begin.elapsed() < Duration::from_secs(20));
    let pids = fs::read_to_string(&pids).unwrap();
    assert_eq!(pids.split_whitespace().count(), 2);
    assert!(pids.split_whitespace().all(is_dead), "{pids}");
}

#[test]
fn one_whose_session_ends_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let hooks = script(&dir, "exec 1>&- 2>&-; sleep 60");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| go(&hooks, &Occasion::default(), &stop, TIME_MAX));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!running.is_finished(), "closing its output is not its end");
        stop.store(true, Ordering::Relaxed);
        assert!(running.join().unwrap().unwrap_err().is_stopped());
    });
}

#[test]
fn nobody_waits_for_what_a_hook_leaves_behind() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let hooks = script(&dir, &format!("sleep 60 & echo $! > {}; exit 0", pid.display()));
    let begin = Instant::now();
    assert_eq!(go(&hooks, &Occasion::default(), &NEVER, TIME_MAX).unwrap(), Verdict::GoOn);
    assert!(begin.elapsed() < Duration::from_secs(20));
    let pid = fs::read_to_string(&pid).unwrap();
    assert!(Path::new("/proc").join(pid.trim()).exists(), "it goes on");
    let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status().unwrap();
    assert!(killed.success());
}
