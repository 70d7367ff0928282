//! The log once more, from its first event or the oldest snapshot: does it give the state that was in force?

use ledger::{Moment, State};

use crate::core::StartError;
use crate::planning::Planning;
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
    /// Plannings that the planner of this program gives the same answer to, certified.
    pub plannings: usize,
    /// Those that it does not, in words.
    pub plannings_differ: Vec<String>,
    /// What a check of every row found, if one was asked for.
    pub report: Option<Report>,
}

/// Replays the log of a store that no controller has open; with `verify` also checks every page of files, and asks the planner again what is
/// kept of plannings.
///
/// # Errors
/// When the store cannot be used, or an event does not follow from those before it.
pub fn replay(place: &Place, verify: bool) -> Result<Replayed, StartError> {
    let store = crate::store::open(place)?;
    let report = if verify { Some(crate::store::verify(&*store)?) } else { None };
    let mut log = crate::store::LogReader::open(&*store)?;
    let first = log.first()?;
    // Of a log without its first events the oldest snapshot is where it begins.
    let (mut state, mut events) = if first > 1 { oldest(&mut log, first)? } else { (State::default(), 0) };
    let mut kept =
        if verify { crate::store::Archive::open(&*store)?.plannings()?.into_iter() } else { Vec::new().into_iter() }
            .peekable();
    let (mut plannings, mut plannings_differ) = (0, Vec::new());
    // What they rest on has gone.
    while kept.next_if(|(after, _)| *after <= events && first > 1).is_some() {}
    let mut snapshots = log.snapshots()?;
    snapshots.sort_unstable();
    let mut waiting = snapshots.into_iter().peekable();
    while waiting.next_if(|number| *number <= events).is_some() {}
    let (mut same, mut differ) = (0, Vec::new());
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
            while let Some((after, bytes)) = kept.next_if(|(after, _)| *after == number) {
                match asked_again(after, &bytes, &state) {
                    None => plannings += 1,
                    Some(differs) => plannings_differ.push(differs),
                }
            }
            if waiting.next_if_eq(&number).is_some() {
                if log.snapshot(number)?.bytes == state.encode() {
                    same += 1;
                } else {
                    differ.push(number);
                }
            }
        }
    }
    plannings_differ.extend(
        kept.map(|(after, _)| format!("a planning after event {after}, which the log has not: remove the archive")),
    );
    let digest = *blake3::hash(&state.encode()).as_bytes();
    let (transfers, sessions) = (state.transfers.len(), state.sessions.len());
    Ok(Replayed { events, snapshots: same, differ, transfers, sessions, digest, plannings, plannings_differ, report })
}

/// The oldest snapshot that no event is missing after, and the number of its last event.
fn oldest(log: &mut crate::store::LogReader, first: u64) -> Result<(State, u64), StartError> {
    let number = log.snapshots()?.into_iter().filter(|number| number + 1 >= first).min();
    let Some(number) = number else { return Err(StartError::Store(StoreError::Trimmed { from: 1, first })) };
    let state = State::decode(&log.snapshot(number)?.bytes);
    Ok((state.map_err(|source| StartError::Snapshot { number, source })?, number))
}

fn asked_again(after: u64, bytes: &[u8], state: &State) -> Option<String> {
    match serde_json::from_slice::<Planning>(bytes) {
        Ok(planning) if planning.after == after => planning.again(state),
        Ok(_) => Some(format!("the planning after event {after} is of another event")),
        Err(error) => Some(format!("the planning after event {after} cannot be read: {error}")),
    }
}
