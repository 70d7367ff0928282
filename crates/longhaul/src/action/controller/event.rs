//! `longhaul event`: follows what happens, over lost connections.

use std::time::Duration;

use anyhow::Result;
use api::rest::Event;
use http_body_util::BodyExt;

use super::client::{Content, Controller, is_lost};
use super::show;
use crate::args::controller::fleet::EventArgs;
use crate::output::{note, print};

/// A controller says something every 15 s; after so long without a byte the connection is lost.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Before the connection is made again.
const PAUSE: Duration = Duration::from_secs(1);
/// So often in turn a controller is not reached before it is given up: some ten minutes.
const ABSENCES_MAX: u32 = 600;
/// Bytes of an event; a longer one is none of ours.
const EVENT_MAX: usize = 1 << 20;

/// Prints events until it is interrupted.
///
/// # Errors
/// When the controller cannot be reached at the begin, says no, or is away for too long.
pub(super) async fn follow(args: &EventArgs, controller: &Controller) -> Result<u8> {
    let (mut last, mut met, mut absences) = (args.since, false, 0);
    loop {
        let header = last.map(|last| last.to_string());
        let header = header.as_deref().map(|last| ("last-event-id", last));
        match controller.send("GET", "/api/v1/events", Content::None, header).await {
            Ok(response) => {
                (met, absences) = (true, 0);
                listen(response.into_body(), controller.json, &mut last).await?;
            }
            Err(error) if is_lost(&error) && met && absences < ABSENCES_MAX => {
                if absences == 0 {
                    note(&format!("{}; trying again", crate::exit::one_line(&error)));
                }
                absences += 1;
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells what comes over one connection.
async fn listen(mut body: hyper::body::Incoming, json: bool, last: &mut Option<u64>) -> Result<()> {
    let mut lines = Lines::default();
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE_MAX, body.frame()).await {
        let Some(bytes) = frame.data_ref() else { continue };
        if !lines.add(bytes) {
            return Ok(());
        }
        while let Some(data) = lines.next_data() {
            let Ok(event) = serde_json::from_str::<Event>(&data) else { continue };
            *last = Some(event.id);
            print(if json { data + "\n" } else { line(&event) })?;
        }
    }
    Ok(())
}

fn line(event: &Event) -> String {
    let text = format!("{}  {}  {}  {}", show::seconds(event.at), event.kind, event.subject, event.text);
    show::plain(&text) + "\n"
}

/// The text of an answer, as far as it came.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// False if what came is no line any more.
    fn add(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= EVENT_MAX
    }

    /// The data of the next event whose line is whole. All of ours have one line of data.
    fn next_data(&mut self) -> Option<String> {
        loop {
            let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line[..end]);
            if let Some(data) = text.trim_end_matches('\r').strip_prefix("data:") {
                return Some(data.trim_start().to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_pieces() {
        let mut lines = Lines::default();
        assert!(lines.add(b"retry: 1000\n\nid: 4\nevent: x\nda"));
        assert_eq!(lines.next_data(), None);
        assert!(lines.add(b"ta: {\"a\":1}\n\n:\n\ndata:b\r\n"));
        assert_eq!(lines.next_data().as_deref(), Some("{\"a\":1}"));
        assert_eq!(lines.next_data().as_deref(), Some("b"));
        assert_eq!(lines.next_data(), None);
        assert!(!lines.add(&vec![b'x'; EVENT_MAX + 1]));
    }
}
