//! Text: messages in JSON, and files that people or earlier runs wrote.

use std::path::Path;

use api::agent::{FromAgent, ToAgent};
use api::frame::{self, Decoder, KIND_MAX};
use api::rest::{
    Check, Counters, EndpointRequest, EnrolRequest, LimitRequest, ModeRequest, PatchRequest, TokenRequest,
    TransferRequest,
};
use driver::Wish;
use model::bookings::{self, Bookings};
use model::network::{Format, Network, Ratio};
use model::requirements::Requirements;
use model::scenario::{Driver, Scenario};
use model::shares::Shares;
use mover::known_paths;
use mover::relay::wire::{line, unpack};
use mover::request::Fingerprint;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::input::Input;

#[path = "../../crates/longhaul/src/known_hosts/text.rs"]
mod known_hosts;

use known_hosts::Said;

/// Events of a copy between two other hosts: what is taken of them holds nothing that a terminal would obey, and comes
/// back as it is.
pub fn relay(data: &[u8]) {
    let Ok(events) = std::str::from_utf8(data).map_err(drop).and_then(|text| unpack(text).map_err(drop)) else {
        return;
    };
    for event in events {
        let value = serde_json::to_value(&event).expect("events are plain fields");
        assert!(is_plain(&value), "{value}");
        let text = line(event);
        let again = unpack(&text).expect("what was taken is sound");
        // One that escapes made too long is left out.
        assert_eq!(again.len(), usize::from(!text.is_empty()));
    }
}

fn is_plain(value: &Value) -> bool {
    let plain = |text: &str| !text.contains(char::is_control);
    match value {
        Value::String(text) => plain(text),
        Value::Array(values) => values.iter().all(is_plain),
        Value::Object(fields) => fields.iter().all(|(name, value)| plain(name) && is_plain(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// What an agent and its controller say, as it arrives: a byte that says how it is cut and who listens, and the frames.
pub fn agent(data: &[u8]) {
    let Some((&first, bytes)) = data.split_first() else { return };
    let piece = usize::from(first / 2) + 1;
    if first.is_multiple_of(2) { said::<FromAgent>(bytes, piece) } else { said::<ToAgent>(bytes, piece) }
}

fn said<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8], piece: usize) {
    let whole = heard::<T>(bytes, bytes.len().max(1));
    assert_eq!(heard::<T>(bytes, piece), whole, "it matters how it is cut");
    for message in whole.0.into_iter().flatten() {
        let frame = frame::encode(&message).expect("it was short enough");
        assert_eq!(heard(&frame, piece), (vec![Ok(message)], true));
    }
}

/// The messages in `bytes`, those of another version by the name of their type; and whether more could follow.
fn heard<T: DeserializeOwned>(bytes: &[u8], piece: usize) -> (Vec<Result<T, String>>, bool) {
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next_message::<T>() {
                Ok(Some(message)) => messages.push(message.map_err(|unread| unread.kind)),
                Ok(None) => break,
                Err(_) => return (messages, false),
            }
            if let Some(Err(kind)) = messages.last() {
                assert!(kind.chars().count() <= KIND_MAX && !kind.contains(char::is_control), "{kind}");
            }
        }
    }
    (messages, true)
}

/// The body of a request to a controller, behind a byte that says of which.
pub fn request(data: &[u8]) {
    let Some((&which, body)) = data.split_first() else { return };
    match which % 8 {
        0 => asked::<TransferRequest>(body),
        1 => asked::<PatchRequest>(body),
        2 => asked::<EndpointRequest>(body),
        3 => asked::<LimitRequest>(body),
        4 => asked::<Counters>(body),
        5 => asked::<EnrolRequest>(body),
        6 => asked::<ModeRequest>(body),
        _ => asked::<TokenRequest>(body),
    }
}

fn asked<T: Check + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(body: &[u8]) {
    let Ok(request) = serde_json::from_slice::<T>(body) else { return };
    let can_be_meant = request.check();
    let written = serde_json::to_vec(&request).expect("requests are plain fields");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    assert_eq!((again.check(), again), (can_be_meant, request));
}

const FORMATS: [Format; 4] = [Format::Toml, Format::Containerlab, Format::GraphMl, Format::TopoHub];

/// A network, behind a byte that says in which format: what was read can be written in every one, and read again.
pub fn network(data: &[u8]) {
    let Some((&format, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let network = match Network::import(FORMATS[usize::from(format % 4)], text, "fuzzed") {
        Ok(imported) => imported.network,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(Network::from_toml(&network.to_toml(), "written").as_ref(), Ok(&network));
    for format in FORMATS {
        let written = network.export(format).text;
        let again = Network::import(format, &written, "written");
        assert!(again.is_ok(), "{format:?}: {}\n{written}", again.unwrap_err());
    }
}

/// A file about a network that is there, or about none, behind a byte that says of which kind.
pub fn plan(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let refused = match kind % 4 {
        0 => Scenario::from_toml(text, "fuzzed", |_| Ok(pair())).map(scenario).map_err(|error| error.to_string()),
        1 => Bookings::from_toml(text, "fuzzed", &pair()).map(|_| scaled(text)).map_err(|error| error.to_string()),
        2 => Shares::from_toml(text, "fuzzed", &pair()).map(drop).map_err(|error| error.to_string()),
        _ => Requirements::from_toml(text, "fuzzed").map(|of| requirements(&of)).map_err(|error| error.to_string()),
    };
    assert!(refused.err().is_none_or(|why| !why.is_empty()));
}

/// The network of the plans.
fn pair() -> Network {
    Network::from_toml(include_str!("../../topologies/pair.toml"), "pair").expect("it comes along")
}

fn scenario(scenario: Scenario) {
    let steps = scenario.steps();
    assert!(steps.is_sorted_by_key(|(at, _)| *at));
    [Driver::Own, Driver::Netem].into_iter().for_each(|driver| drop(scenario.check_driver(driver)));
}

/// Scaled bookings may be refused, for what is left of them may be too little; but they are TOML.
fn scaled(text: &str) {
    let third = Ratio::new(1, 3).expect("it is one");
    let text = bookings::scaled(text, third).expect("it was TOML before");
    let _ = Bookings::from_toml(&text, "scaled", &pair());
}

fn requirements(requirements: &Requirements) {
    for experiment in &requirements.experiments {
        assert!(experiment.mean().is_none_or(|mean| mean <= experiment.sum()));
    }
    let _ = plan::requirements::Needs::of(requirements);
}

/// A file of questions: its answers are those that are found when they stand in it already.
pub fn questions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(answered) = plan::answer::answer(text) else { return };
    let again = plan::answer::answer(&answered.to_string()).map_err(|error| error.to_string());
    assert_eq!(again, Ok(answered));
}

/// What the kernel is to hold to: what is accepted without links and paths of a controller comes to items.
pub fn wish(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let wish = match Wish::parse(text, Path::new("fuzzed")) {
        Ok(wish) => wish,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(wish.items().is_ok(), wish.links().is_empty() && wish.paths().is_empty());
    assert_eq!(wish.follows(), wish.items().is_err());
}

/// A file of pinned fingerprints, behind the agent's name (its length, then itself) and a byte of its fingerprint: the agent is
/// refused, or there, or is once it was added.
pub fn hosts(data: &[u8]) {
    let mut input = Input(data);
    let (name, found) = (input.block(), Fingerprint([input.byte(); 32]));
    let (Ok(name), Ok(text)) = (std::str::from_utf8(name), std::str::from_utf8(input.0)) else { return };
    // No address is written so.
    if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
        return;
    }
    match known_hosts::look_up(text, name, &found) {
        Said::Same => assert_eq!(known_hosts::pinned(text, name), Some(found)),
        Said::Other { pinned, line } => {
            assert!(pinned != found && (1..=text.lines().count()).contains(&line));
            assert_eq!(known_hosts::pinned(text, name), Some(pinned));
        }
        Said::Damaged { line } => assert!((1..=text.lines().count()).contains(&line)),
        Said::Nothing => {
            assert_eq!(known_hosts::pinned(text, name), None);
            let with = known_hosts::with(text, name, &found);
            assert_eq!(known_hosts::look_up(&with, name, &found), Said::Same);
            assert!(with.starts_with(text));
        }
    }
}

/// What earlier sessions found of paths.
pub fn paths(data: &[u8]) {
    let known = known_paths::parse(data);
    let written = serde_json::to_vec_pretty(&known).expect("they are plain fields");
    assert_eq!(known_paths::parse(&written), known);
}
