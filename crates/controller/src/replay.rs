//! The log once more, from its first event: does it give the state that was in force?

use ledger::{Moment, State};

use crate::core::StartError;
use crate::store::{Place, Report, StoreError};

/// What a replay found.
#[derive(Debug)]
pub struct Replayed {
    /// Events of the log.
    pub events: u64,
    /// Snapshots that the replay came to, byte for byte.
    pub snapshots: u64,
    /// Snapshots that it did not come to: numbers of their last events.
    pub differ: Vec<u64>,
    /// Transfers of the state at the end.
    pub transfers: usize,
    /// Sessions that ran at the end.
    pub sessions: usize,
    /// BLAKE3 of the state at the end.
    pub digest: [u8; 32],
    /// What a check of every row found, if one was asked for.
    pub report: Option<Report>,
}

/// Replays the log of a store that no controller has open; with `verify` also checks every page of files.
///
/// # Errors
/// When the store cannot be used, or an event does not follow from those before it.
pub fn replay(place: &Place, verify: bool) -> Result<Replayed, StartError> {
    let store = crate::store::open(place)?;
    let report = if verify { Some(crate::store::verify(&*store)?) } else { None };
    let mut log = crate::store::LogReader::open(&*store)?;
    let first = log.first()?;
    if first > 1 {
        return Err(StartError::Store(StoreError::Trimmed { from: 1, first }));
    }
    let mut snapshots = log.snapshots()?;
    snapshots.sort_unstable();
    let mut waiting = snapshots.into_iter().peekable();
    let (mut state, mut events, mut same, mut differ) = (State::default(), 0, 0, Vec::new());
    loop {
        let read = log.read(events + 1, u32::MAX)?;
        if read.is_empty() {
            break;
        }
        for event in read {
            let number = event.number;
            let decoded = ledger::decode(&event.bytes).map_err(|source| StartError::Event { number, source })?;
            let applied = state.apply(Moment(event.at_ms), &decoded);
            applied.map_err(|source| StartError::Contradiction { number, source })?;
            events = number;
            if waiting.next_if_eq(&number).is_some() {
                if log.snapshot(number)?.bytes == state.encode() {
                    same += 1;
                } else {
                    differ.push(number);
                }
            }
        }
    }
    let digest = *blake3::hash(&state.encode()).as_bytes();
    let (transfers, sessions) = (state.transfers.len(), state.sessions.len());
    Ok(Replayed { events, snapshots: same, differ, transfers, sessions, digest, report })
}
