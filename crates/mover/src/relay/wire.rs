//! Events of a relayed copy as text: JSON objects, one a line, several lines to a message.

use proto::limits::EVENTS_BYTES_MAX;
use tokio::sync::mpsc;

use crate::event::{ERRORS_MAX, Event, FileEvent, Summary};

/// Lines on their way into messages.
#[derive(Default)]
pub(crate) struct Lines {
    /// Did not fit into the last message.
    held: Option<String>,
}

impl Lines {
    /// The next message: what waits, at least one line. `None` when no further event can come. Cancel safe.
    pub(crate) async fn next(&mut self, events: &mut mpsc::Receiver<Event>) -> Option<String> {
        let mut text = match self.held.take() {
            Some(line) => line,
            None => line(events.recv().await?),
        };
        while let Ok(event) = events.try_recv() {
            let line = line(event);
            if text.len() + line.len() > EVENTS_BYTES_MAX {
                self.held = Some(line);
                break;
            }
            text.push_str(&line);
        }
        Some(text)
    }
}

/// One event with its newline, within the bound of a message. One that cannot be brought below it is left out.
///
/// # Panics
/// Never: events are plain fields.
#[must_use]
pub fn line(mut event: Event) -> String {
    loop {
        let mut line = serde_json::to_string(&event).expect("events are plain fields");
        line.push('\n');
        match &mut event {
            _ if line.len() <= EVENTS_BYTES_MAX => return line,
            Event::Summary(summary) if !summary.errors.is_empty() => {
                summary.errors.truncate(summary.errors.len() / 2);
            }
            _ => return String::new(),
        }
    }
}

/// The events of a message. What another host says is not trusted: words are those that are known, and text holds
/// nothing that would change a terminal or forge a line.
///
/// # Errors
/// When a line is no event; the text says what is wrong with it.
pub fn unpack(text: &str) -> Result<Vec<Event>, String> {
    if text.len() > EVENTS_BYTES_MAX {
        return Err(format!("a message of {} bytes of events", text.len()));
    }
    text.lines()
        .map(|line| {
            let mut event: Event = serde_json::from_str(line).map_err(|e| format!("an event that is none: {e}"))?;
            clean(&mut event)?;
            Ok(event)
        })
        .collect()
}

fn clean(event: &mut Event) -> Result<(), String> {
    match event {
        Event::Started(started) => {
            if started.session.is_empty() || !started.session.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err("a session with an impossible name".to_owned());
            }
            [&mut started.congestion, &mut started.congestion_reason].into_iter().flatten().for_each(plain);
        }
        Event::Progress(_) => {}
        Event::Interval(_) => return Err("an interval of a test in a copy".to_owned()),
        Event::File(file) => clean_file(file),
        Event::Warning { text } | Event::Reconnect { why: text, .. } => plain(text),
        Event::Summary(summary) => clean_summary(summary),
    }
    Ok(())
}

fn clean_file(file: &mut FileEvent) {
    plain(&mut file.path);
    [&mut file.why, &mut file.digest].into_iter().flatten().for_each(plain);
}

fn clean_summary(summary: &mut Summary) {
    summary.errors.truncate(ERRORS_MAX);
    summary.errors.iter_mut().for_each(clean_file);
    let limits = std::mem::take(&mut summary.limits).into_iter();
    summary.limits = limits
        .map(|(mut limit, share)| {
            plain(&mut limit);
            (limit, share)
        })
        .collect();
    [&mut summary.congestion, &mut summary.congestion_reason].into_iter().flatten().for_each(plain);
    summary.bytes_text = summary.bytes.to_string();
    // Where files are at the other host is nothing to be shown as a place here.
    summary.digests_file = None;
    (summary.ok, summary.exit_code) = match summary.exit_code {
        0 => (true, 0),
        code @ (5 | 6) => (false, code),
        _ => (false, 1),
    };
}

/// Escapes control characters, if there are any.
fn plain(text: &mut String) {
    if text.chars().any(char::is_control) {
        let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        *text = text.chars().map(escaped).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Progress, Started};

    fn failed(why: String) -> FileEvent {
        FileEvent { path: "a/b".into(), path_bytes: None, outcome: "failed", size: 1, why: Some(why), digest: None }
    }

    fn summary(errors: usize, why: &str) -> Event {
        let errors = vec![failed(why.to_owned()); errors];
        Event::Summary(Box::new(Summary { exit_code: 6, files_failed: 7, errors, ..Summary::default() }))
    }

    #[test]
    fn events_arrive_as_they_were_sent() {
        let started = Started {
            session: "3f2a".into(),
            protection: proto::seal::Protection::Integrity,
            congestion: Some("bbr".into()),
            congestion_reason: None,
        };
        let limit = crate::control::attribution::Limit::SourceDisk;
        let sent = [
            Event::Started(started),
            Event::Progress(Progress { seconds: 1.5, bytes_done: u64::MAX, limit, ..Progress::default() }),
            Event::File(FileEvent { path_bytes: Some(vec![255]), ..failed("no".into()) }),
            Event::Warning { text: "careful".into() },
            Event::Reconnect { attempt: 1, of: 5, why: "lost".into() },
            summary(3, "no"),
        ];
        let text: String = sent.iter().cloned().map(line).collect();
        let json = |event: &Event| {
            let mut value = serde_json::to_value(event).unwrap();
            // Told again from the number.
            value.as_object_mut().unwrap().remove("bytes_text");
            value
        };
        let got = unpack(&text).unwrap();
        assert_eq!(got.iter().map(json).collect::<Vec<_>>(), sent.iter().map(json).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn messages_are_full_and_not_fuller() {
        let (tell, mut events) = mpsc::channel(64);
        let big = || Event::Warning { text: "x".repeat(EVENTS_BYTES_MAX / 4) };
        for _ in 0..10 {
            tell.send(big()).await.unwrap();
        }
        tell.send(Event::Warning { text: "x".repeat(EVENTS_BYTES_MAX) }).await.unwrap();
        drop(tell);
        let (mut lines, mut counts) = (Lines::default(), Vec::new());
        while let Some(text) = lines.next(&mut events).await {
            assert!(text.len() <= EVENTS_BYTES_MAX);
            counts.push(unpack(&text).unwrap().len());
        }
        assert_eq!(counts, [3, 3, 3, 1], "the one that is too long is left out");
    }

    #[test]
    fn a_summary_always_arrives() {
        let text = line(summary(ERRORS_MAX, &"é\u{1b}".repeat(4096)));
        let got = unpack(&text).unwrap();
        let [Event::Summary(got)] = got.as_slice() else { panic!("{got:?}") };
        assert!(got.files_failed == 7 && got.errors.len() < ERRORS_MAX && !got.errors.is_empty());
    }

    #[test]
    fn nothing_forged_is_shown() {
        let text = line(Event::File(failed("a\u{1b}[2Jb\nlonghaul: all is well".into())));
        let [Event::File(file)] = &unpack(&text).unwrap()[..] else { panic!("{text}") };
        assert_eq!(file.why.as_deref(), Some("a\\u{1b}[2Jb\\nlonghaul: all is well"));
        let refused = [
            r#"{"event":"started","session":"../x","protection":"clear"}"#,
            r#"{"event":"file","path":"a","outcome":"excellent","size":1}"#,
            r#"{"event":"unknown"}"#,
            "[]",
            "{",
        ];
        for text in refused {
            assert!(unpack(text).is_err(), "{text}");
        }
        let forged = line(Event::Summary(Box::new(Summary { ok: true, exit_code: 75, ..Summary::default() })));
        let [Event::Summary(summary)] = &unpack(&forged).unwrap()[..] else { panic!("{forged}") };
        assert_eq!((summary.ok, summary.exit_code), (false, 1));
    }
}
