//! Whether every transfer moves, or says what it waits for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::setting;
use crate::rest::{Reply, Rest};

/// Seconds in which a transfer that can run moves bytes or names what it waits for; `LOOP_WINDOW` is another number of them.
const WINDOW_SECONDS: u64 = 60;
const LOOK: Duration = Duration::from_millis(250);
/// A controller that was not heard for so long was away: a window begins when it is back.
const GAP: Duration = Duration::from_secs(2);

/// Since when a transfer stands as it does without a word.
struct Stands {
    since: Instant,
    progress: (u64, u64),
}

/// Looks until it is enough.
///
/// # Panics
/// If a transfer stands still for a window and nothing is named that it waits for.
pub(super) fn look(rest: &Rest, enough: &AtomicBool) {
    let window = Duration::from_secs(setting("LOOP_WINDOW", WINDOW_SECONDS));
    let mut known: BTreeMap<String, Stands> = BTreeMap::new();
    let mut heard = Instant::now();
    while !enough.load(Ordering::Relaxed) {
        sleep(LOOK);
        let Reply::Said(200, told) = rest.get("/transfers?limit=100") else { continue };
        if heard.elapsed() > GAP {
            known.clear();
        }
        heard = Instant::now();
        for transfer in told["items"].as_array().expect("a page has items") {
            let id = transfer["id"].as_str().expect("it has a number").to_owned();
            let number = |key: &str| transfer[key].as_u64().expect("a number");
            let progress = (number("bytes_done"), number("files_done"));
            let stands = known.entry(id).or_insert_with(|| Stands { since: heard, progress });
            if stands.progress != progress || names_something(transfer) {
                *stands = Stands { since: heard, progress };
            }
            assert!(stands.since.elapsed() < window, "for {window:?} without a word: {transfer:#}");
        }
    }
}

/// Whether it has ended, or its reason says on what or until when it waits. That sessions move it, or that it is next, says nothing.
fn names_something(transfer: &Value) -> bool {
    let reason = transfer["reason"].as_str().expect("there is always one");
    let state = transfer["state"].as_str().expect("it has one");
    match state {
        "done" | "partly" | "failed" | "cancelled" | "paused" => true,
        "moving" => !reason.contains("sessions move"),
        "listing" => !reason.contains("being listed") && !reason.contains("is next"),
        "queued" => !reason.contains("is next"),
        _ => !transfer["until"].is_null() || !transfer["waits_for"].is_null(),
    }
}
