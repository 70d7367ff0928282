//! What ssh and the far end write to standard error: handed on as it comes, and the last line kept.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Bytes that are kept: the last ones.
const KEPT_BYTES_MAX: usize = 4 << 10;
/// Characters of the line that goes into a message.
const LINE_CHARS_MAX: usize = 300;
/// How long it may take to read what an ended ssh wrote; others may still hold its standard error open.
const LAST_TIME_MAX: Duration = Duration::from_millis(500);

/// A standard error that is listened to.
pub(super) struct Said {
    kept: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Said {
    /// Begins to listen, and to hand on.
    pub(super) fn hear(from: impl AsyncRead + Send + Unpin + 'static) -> Said {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(hand_on(from, kept.clone()));
        Said { kept, task }
    }

    /// The last line that is not empty, fit to be shown, once all was written or enough was waited.
    pub(super) async fn last(self) -> Option<String> {
        let _ = timeout(LAST_TIME_MAX, self.task).await;
        last_line(&self.kept.lock().expect("no panic under the lock"))
    }
}

async fn hand_on(mut from: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut part = vec![0; KEPT_BYTES_MAX];
    while let Ok(read @ 1..) = from.read(&mut part).await {
        // Not to be lost if nobody reads our own standard error.
        let _ = std::io::stderr().write_all(&part[..read]);
        keep(&mut kept.lock().expect("no panic under the lock"), &part[..read]);
    }
}

fn keep(kept: &mut Vec<u8>, part: &[u8]) {
    kept.extend_from_slice(part);
    let surplus = kept.len().saturating_sub(KEPT_BYTES_MAX);
    kept.drain(..surplus);
}

fn last_line(kept: &[u8]) -> Option<String> {
    let line = kept.rsplit(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty())?;
    let shown = String::from_utf8_lossy(line);
    Some(shown.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(LINE_CHARS_MAX).collect())
}

#[test]
fn the_last_line_is_kept() {
    assert_eq!(last_line(b"Warning: x\r\nConnection \x1b[1mclosed\r\n\r\n").unwrap(), "Connection \u{fffd}[1mclosed");
    assert_eq!(last_line(b"\n \n"), None);
    let mut kept = Vec::new();
    for _ in 0..100 {
        keep(&mut kept, &[b'x'; KEPT_BYTES_MAX / 10]);
    }
    keep(&mut kept, b"\nthe end\n");
    assert_eq!((kept.len(), last_line(&kept).as_deref()), (KEPT_BYTES_MAX, Some("the end")));
}
