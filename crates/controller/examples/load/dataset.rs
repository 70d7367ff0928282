//! What is submitted.

use serde_json::{Value, json};

/// Classes of work.
const CLASSES: [&str; 3] = ["cms", "atlas", "ligo"];

/// A list of files as experiments name them, from one endpoint to another: of `ends` endpoints in turn each to each.
pub(crate) fn request(number: u64, files: u64, ends: u64) -> Value {
    let from = number % ends;
    let to = (from + 1 + number / ends % (ends - 1)) % ends;
    let name = |file: u64| {
        let (run, id) = (number % 97, (number * 10_007 + file).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        format!("Run2026B/{run:04}/{id:016X}-{:08X}-{file:06}.root", id >> 17 & 0xFFFF_FFFF)
    };
    json!({
        "name": format!("dataset {number}"),
        "collaboration": "load",
        "sources": [format!("s{from}:/data/store/")],
        "destination": format!("s{to}:/data/in/{number}/"),
        "files": (0..files).map(name).collect::<Vec<_>>(),
        "class": CLASSES[(number % 3) as usize],
    })
}
