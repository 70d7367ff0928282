//! Clocks that are wrong: a library of a few lines, loaded before the C library, that moves the time of day of one program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The seconds are in the environment, so that one library serves all.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long off(void) { const char *text = getenv("CLOCK_OFF_SECONDS"); return text ? atol(text) : 0; }
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += off();
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec precise;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return failed;
}
time_t time(time_t *place) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (place) *place = precise.tv_sec;
    return precise.tv_sec;
}
"#;

/// The library, in that directory; `None`, with a message, if it cannot be made here or moves nothing.
pub(crate) fn library(dir: &Path) -> Option<PathBuf> {
    let (source, made) = (dir.join("skew.c"), dir.join("skew.so"));
    std::fs::write(&source, SOURCE).expect("a file can be written");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&made).arg(&source).stderr(Stdio::null());
    let works = command.status().is_ok_and(|status| status.success()) && moves(&made);
    if !works {
        eprintln!("clocks stay right: no C compiler, or the C library cannot be overridden");
    }
    works.then_some(made)
}

/// What an environment has for a clock that is off by so much.
pub(crate) fn environment(library: &Path, seconds: i64) -> Vec<(String, String)> {
    let library = library.display().to_string();
    vec![("LD_PRELOAD".to_owned(), library), ("CLOCK_OFF_SECONDS".to_owned(), seconds.to_string())]
}

/// Whether `date` believes it.
fn moves(library: &Path) -> bool {
    let read = |seconds| -> Option<i64> {
        let output = Command::new("date").arg("+%s").envs(environment(library, seconds)).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    matches!((read(0), read(3600)), (Some(now), Some(then)) if (then - now - 3600).abs() < 60)
}
