//! What a driver asks for, with the list of names that comes after it.

use std::sync::Arc;
use std::time::Duration;

use proto::RelPath;
use proto::control::{Code, Control, Open, Refusal};
use proto::limits::FRAME_MAX;
use proto::names::{Inbox, NamesError};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsStream;

use super::{ASK, busy};
use crate::link;

/// Memory for the lists of all sessions of an agent, KiB: one list of the greatest length.
pub(super) const NAMES_KIB: usize = proto::limits::NAMES_BYTES_MAX >> 10;
/// How long a list may take to come.
const LIST: Duration = Duration::from_secs(600);

/// A request, whole.
pub(super) struct Asked {
    pub(super) open: Open,
    pub(super) names: Names,
}

/// A list of names.
pub(super) struct Names {
    pub(super) list: Vec<RelPath>,
    /// Its share of the agent's memory for lists; kept while anything has the names.
    pub(super) memory: OwnedSemaphorePermit,
}

/// Reads what is asked for; memory for names is taken out of `memory`, in KiB.
///
/// # Errors
/// Says why it is refused; `None` if nothing sensible came, to which there is no answer.
pub(super) async fn read(stream: &mut TlsStream<TcpStream>, memory: &Arc<Semaphore>) -> Result<Asked, Option<Refusal>> {
    let asked = tokio::time::timeout(ASK, link::read(stream, FRAME_MAX)).await;
    let Ok(Ok(Control::Open(open))) = asked else { return Err(None) };
    let names = tokio::time::timeout(LIST, names(stream, open.names, memory)).await.map_err(|_| None)??;
    Ok(Asked { open, names })
}

async fn names(
    stream: &mut TlsStream<TcpStream>,
    count: u32,
    memory: &Arc<Semaphore>,
) -> Result<Names, Option<Refusal>> {
    let wrong = |error: NamesError| Some(Refusal { code: Code::Protocol, text: error.to_string() });
    let mut inbox = Inbox::new(count).map_err(wrong)?;
    let mut held = take(memory, 0);
    while inbox.is_open() {
        let page = tokio::time::timeout(ASK, link::read(stream, FRAME_MAX)).await;
        let Ok(Ok(Control::Names(page))) = page else { return Err(None) };
        inbox.take(page).map_err(wrong)?;
        held = held.and_then(|held| grown(memory, held, inbox.bytes().div_ceil(1 << 10)));
        if held.is_none() {
            // Who is still saying its list would not hear a refusal.
            inbox.drop_names();
        }
    }
    match (inbox.finish(), held) {
        (Some(list), Some(memory)) => Ok(Names { list, memory }),
        _ => Err(Some(busy("this agent has no memory left for a list of names as long as this"))),
    }
}

/// What is held, grown to so many KiB; all of it is given back if there is not so much.
fn grown(memory: &Arc<Semaphore>, mut held: OwnedSemaphorePermit, kib: usize) -> Option<OwnedSemaphorePermit> {
    held.merge(take(memory, kib.saturating_sub(held.num_permits()))?);
    Some(held)
}

fn take(memory: &Arc<Semaphore>, kib: usize) -> Option<OwnedSemaphorePermit> {
    memory.clone().try_acquire_many_owned(u32::try_from(kib).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_share_the_memory_and_give_it_back() {
        let memory = Arc::new(Semaphore::new(10));
        let first = grown(&memory, take(&memory, 0).unwrap(), 6).unwrap();
        let first = grown(&memory, first, 6).unwrap();
        assert_eq!((first.num_permits(), memory.available_permits()), (6, 4));
        let second = grown(&memory, take(&memory, 0).unwrap(), 4).unwrap();
        assert!(grown(&memory, second, 5).is_none());
        assert_eq!(memory.available_permits(), 4, "who gets no more gives back what it had");
        drop(first);
        assert_eq!(memory.available_permits(), 10);
    }
}
