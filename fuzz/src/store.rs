//! What a controller keeps: events, and the state that they lead to.

use ledger::{Moment, State, decode, encode};

use crate::input::Input;

/// Events, each behind the time since the one before and its length, or (first byte odd) the bytes of a state: the state that
/// comes of them is read back as it was written.
pub fn ledger(data: &[u8]) {
    let mut input = Input(data);
    let state = if input.byte() % 2 == 0 { Some(told(&mut input)) } else { State::decode(input.0).ok() };
    let Some(state) = state else { return };
    let written = state.encode();
    assert_eq!(State::decode(&written), Ok(state));
}

fn told(input: &mut Input) -> State {
    let (mut state, mut now) = (State::default(), Moment(0));
    while !input.is_empty() {
        now = Moment(now.0 + u64::from(input.byte()) * 1000);
        let Ok(event) = decode(input.block()) else { continue };
        assert_eq!(decode(&encode(&event)).as_ref(), Ok(&event));
        let before = state.clone();
        if state.apply(now, &event).is_err() {
            assert_eq!(state, before, "what is refused changes nothing");
        }
    }
    state
}
