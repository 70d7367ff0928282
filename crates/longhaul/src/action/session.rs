//! `longhaul session`: asks the sessions that run here.

use anyhow::Result;
use serde_json::json;

use crate::args::session::SessionWhat;
use crate::environment::Environment;
use crate::exit;
use crate::output::human::ID_SHOWN;
use crate::output::name::{bytes, rate};
use crate::output::{COLUMNS_MAX, print};
use crate::session::client;
use crate::session::place::Place;
use crate::session::wire::{Request, Status};

/// What is asked of which.
pub(crate) struct Session {
    what: SessionWhat,
    place: Place,
}

impl Session {
    /// There is nothing to check that clap did not.
    pub(crate) fn of(what: SessionWhat, environment: &Environment) -> Session {
        Session { what, place: Place::of(environment) }
    }

    /// Asks.
    ///
    /// # Errors
    /// When there is no such session, or it refuses.
    pub(crate) fn run(self) -> Result<u8> {
        match self.what {
            SessionWhat::Ls { json } => list(&self.place, json)?,
            SessionWhat::Set(args) => {
                let rate = args
                    .rate
                    .map(|set_point| (Request::Rate { rate: set_point.to_string() }, format!("rate {set_point}")));
                let streams = args.streams.map(|n| (Request::Streams { n }, format!("{n} streams")));
                for (request, change) in rate.into_iter().chain(streams) {
                    let status = client::request(&self.place, &args.id, &request)?;
                    print(format!("session {}: {change}\n", short(&status)))?;
                }
            }
            SessionWhat::Stop { id } => {
                let status = client::request(&self.place, &id, &Request::Stop)?;
                print(format!("session {}: stopping; the same command continues where it was\n", short(&status)))?;
            }
        }
        Ok(exit::DONE)
    }
}

fn list(place: &Place, json: bool) -> Result<()> {
    let sessions = client::list(place)?;
    if json {
        return print(format!("{}\n", json!({ "sessions": sessions })));
    }
    let mut text = HEADER.to_owned();
    sessions.iter().for_each(|status| text.push_str(&row(status)));
    print(if sessions.is_empty() { "no session runs here\n".to_owned() } else { text })
}

fn short(status: &Status) -> &str {
    status.session.get(..ID_SHOWN).unwrap_or(&status.session)
}

const HEADER: &str = "ID        DONE      OF        RATE         LIMIT        N    WHAT\n";

fn row(status: &Status) -> String {
    let total = if status.bytes_total == 0 { "-".to_owned() } else { bytes(status.bytes_total) };
    let set_point = status.set_point_bps.map_or_else(|| "off".to_owned(), |bps| units::Rate::from_bps(bps).to_string());
    let line = format!(
        "{:<8}  {:<8}  {total:<8}  {:<11}  {set_point:<11}  {:<3}  {} {}",
        short(status),
        bytes(status.bytes_done),
        rate(status.rate_bps),
        status.streams,
        status.kind,
        status.what,
    );
    let line: String = line.chars().take(COLUMNS_MAX).collect();
    format!("{}\n", line.trim_end())
}

#[test]
fn columns_stand_under_their_heads() {
    let status = Status {
        session: "3f2a9c01d2e3".into(),
        kind: "copy".into(),
        what: format!("/data/run7 -> lh://dtn.example.org:4810/{}", "x".repeat(100)),
        bytes_done: 123_456_789_012,
        bytes_total: 987_654_321_000,
        rate_bps: 941_234_567_891,
        streams: 16,
        set_point_bps: Some(1_000_000_000_000),
        ..Status::default()
    };
    let row = row(&status);
    assert!(
        row.starts_with("3f2a9c01  123.5 GB  987.7 GB  941.2 Gb/s   1 Tb/s       16   copy /data/run7 ->"),
        "{row}"
    );
    assert_eq!(HEADER.find("WHAT"), row.find("copy"));
    assert_eq!(row.trim_end().len(), COLUMNS_MAX);
}
