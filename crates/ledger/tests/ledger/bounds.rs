//! Encodings, bounds, what is for a time only, what operators may wish, and what `due` costs.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::common::{BEGIN, World};
use ledger::{
    Action, AgentSeen, Cause, DecodeError, Digest, Do, Endpoint, Event, Files, How, Limit, Location, Moment, Page,
    Resource, Role, Seen, State, Submission, TransferId, decode, due, encode, limits, next_due, wish,
};
use proptest::prelude::*;
use wish::{Accepted, Kind};

fn at(endpoint: &str) -> Location {
    Location { endpoint: endpoint.to_owned(), path: b"x".to_vec() }
}

fn submission(key: Option<(String, Digest)>) -> Submission {
    Submission {
        name: "n".into(),
        collaboration: "cms".into(),
        class: "sky".into(),
        sources: vec![at("a")],
        destinations: vec![at("b")],
        files: Files::List { sized: true },
        urgency: 1,
        deadline: None,
        how: How::default(),
        after: BTreeSet::new(),
        by: "alice".into(),
        key,
        promise: None,
    }
}

fn submit(state: &mut State, now: Moment, made: Submission, pages: &[Page]) -> TransferId {
    match wish::submit(state, now, made, pages).expect("it may") {
        Accepted::New { transfer, events } => {
            apply(state, now, &events);
            transfer
        }
        Accepted::Before { transfer } => transfer,
    }
}

fn apply(state: &mut State, now: Moment, events: &[Event]) {
    events.iter().for_each(|event| state.apply(now, event).expect("a wish that is granted fits"));
}

/// Applies what a wish gives.
fn granted(state: &mut State, now: Moment, wish: impl FnOnce(&State) -> Vec<Event>) {
    let events = wish(state);
    apply(state, now, &events);
}

const PAGE: Page = Page { files: 10_000, bytes: 1_000_000_000_000 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
        let _ = State::decode(&bytes);
    }

    #[test]
    fn damaged_states_and_events_do_no_harm(at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut world = World::new(1, 2);
        submit(&mut world.state, BEGIN, submission(None), &[PAGE]);
        let mut bytes = world.state.encode();
        let place = at.index(bytes.len());
        bytes[place] = to;
        for bytes in [&bytes[..], &bytes[..cut.index(bytes.len())]] {
            if let Ok(state) = State::decode(bytes) {
                let seen = Seen { agents: [("a1".to_owned(), AgentSeen::default())].into(), ..Seen::default() };
                let _ = (due(&state, &seen, BEGIN), next_due(&state, BEGIN), state.encode());
            }
        }
        for (_, event) in &world.log {
            let mut event = event.clone();
            let place = at.index(event.len());
            event[place] = to;
            if let Ok(event) = decode(&event) {
                let _ = world.state.apply(BEGIN, &event);
                world.state.check().expect("accepted or not, the counts agree");
            }
        }
    }
}

/// What is in a log stays readable: if one of these changes, the version has to.
#[test]
fn encodings_stay() {
    let lifted = |resource| Event::LimitLifted { resource };
    let events: [(Event, &[u8]); 8] = [
        (Event::AgentBack { host: "h".into() }, &[1, 7, 1, b'h']),
        (Event::GenerationsReserved { below: 300 }, &[1, 19, 0xac, 0x02]),
        (Event::Woken { transfer: TransferId(3), leg: Some(2) }, &[1, 30, 3, 1, 2]),
        (Event::KeyExpired { by: "b".into(), key: "k".into() }, &[1, 37, 1, b'b', 1, b'k']),
        (Event::Restored {}, &[1, 40]),
        (lifted(Resource::Host("h".into())), &[1, 14, 2, 1, b'h']),
        (lifted(Resource::Way { link: "l".into(), forward: true }), &[1, 14, 3, 1, b'l', 1]),
        (lifted(Resource::Class("c".into())), &[1, 14, 4, 1, b'c']),
    ];
    for (event, bytes) in events {
        assert_eq!(encode(&event), bytes, "{event:?}");
        assert_eq!(decode(bytes), Ok(event));
    }
    assert!(matches!(decode(&[]), Err(DecodeError::Empty { .. })));
    assert!(matches!(decode(&[2, 0]), Err(DecodeError::Version { version: 2, known: 1, .. })));
    assert!(matches!(decode(&[1, 7, 1, b'h', 0]), Err(DecodeError::Damaged { .. })));
}

#[test]
fn after_a_restore_no_number_is_given_again() {
    let backup = World::new(1, 2).state;
    let block = limits::GENERATION_BLOCK;
    let (mut given, mut below) = (backup.next_session, backup.generations_below);
    // The same backup, twice: each time what was given since the last is lost.
    for day in 1..=2 {
        let mut state = backup.clone();
        state.apply(BEGIN.after_ms(day * 86_400_000), &Event::Restored {}).expect("it may be at any time");
        assert!(state.next_session > given && state.generations_below > below, "day {day}");
        // A session in each ms of a day, and a thousand leases.
        given = ledger::SessionId(state.next_session.0 + 86_399_999);
        below = state.generations_below + 86_399_999_000 - block;
    }
    // A clock that stands at its begin is no reason to go back.
    let mut state = backup.clone();
    state.apply(Moment(0), &Event::Restored {}).expect("it may be at any time");
    assert!(state.next_session > backup.next_session && state.generations_below > backup.generations_below);
}

#[test]
fn an_event_that_contradicts_changes_nothing() {
    let mut world = World::new(1, 2);
    let before = world.state.encode();
    let wrong = [
        Event::AgentAway { host: "a1".into() },
        Event::Woken { transfer: TransferId(9), leg: None },
        Event::SessionEnded { session: ledger::SessionId(1), outcome: Default::default() },
        Event::LinkUp { link: "ocean".into() },
        Event::Submitted { transfer: TransferId(5), submission: Box::new(submission(None)) },
        Event::TokenGone { name: "none".into() },
    ];
    for event in &wrong {
        let rejected = world.state.apply(BEGIN, event).expect_err("it contradicts");
        assert!(rejected.to_string().starts_with(&format!("apply {}: ", event.kind())), "{rejected}");
        assert_eq!(world.state.encode(), before, "{event:?}");
    }
}

#[test]
fn a_link_is_held_down_longer_with_each_flap() {
    let World { mut state, .. } = World::new(1, 2);
    let seen = Seen::default();
    let usable = |state: &State, now| {
        let is = |action: &Action| matches!(&action.what, Do::Record(Event::LinkUsable { .. }));
        due(state, &seen, now).iter().any(is)
    };
    let mut now = BEGIN;
    for flap in 0..10_u32 {
        granted(&mut state, now, |state| {
            wish::link_down(state, "ocean", "3 probes of 4 paths", limits::HOLD_MS).expect("it is known")
        });
        assert_eq!(wish::link_down(&state, "ocean", "again", limits::HOLD_MS), Ok(vec![]), "it is known");
        now = now.after_ms(5_000);
        granted(&mut state, now, |state| wish::link_up(state, "ocean"));
        let hold = (60_000_u64 << flap.min(20)).min(limits::HOLD_MAX_MS);
        assert!(!usable(&state, now.after_ms(hold - 1)), "flap {flap}");
        assert!(usable(&state, now.after_ms(hold)), "flap {flap}");
        assert_eq!(next_due(&state, now), Some(now.after_ms(hold)));
        now = now.after_ms(1_000);
    }
    now = now.after_ms(limits::HOLD_MAX_MS);
    state.apply(now, &Event::LinkUsable { link: "ocean".into() }).expect("it is held down");
    let forgotten = due(&state, &seen, now.after_ms(limits::FLAPS_KEPT_MS));
    assert!(forgotten.iter().any(|action| matches!(&action.what, Do::Record(Event::LinkForgotten { .. }))));
}

#[test]
fn a_lower_limit_of_somebody_else_is_not_replaced_while_it_is_in_force() {
    let World { mut state, .. } = World::new(1, 2);
    let link = Resource::Link("ocean".into());
    let limit = |by: &str, gbps: u64, seconds: u64| Limit {
        rate_bps: gbps * 1_000_000_000,
        until: Some(BEGIN.after_ms(seconds * 1_000)),
        by: by.into(),
        why: "works".into(),
    };
    let set = |state: &State, now, limit| wish::set_limit(state, now, link.clone(), limit);
    let first = set(&state, BEGIN, limit("noc", 10, 3_600)).expect("there is none");
    apply(&mut state, BEGIN, &first);
    let refused = set(&state, BEGIN, limit("ops", 40, 60)).expect_err("it is higher");
    assert_eq!(refused.kind, Kind::Conflict);
    for part in ["limited to 10 Gb/s by `noc` until ", "`longhaul limit lift link:ocean`"] {
        assert!(refused.text.contains(part), "{part} in {}", refused.text);
    }
    for (by, gbps) in [("noc", 40), ("ops", 10), ("ops", 5)] {
        set(&state, BEGIN, limit(by, gbps, 60)).expect("its own, or not higher");
    }
    set(&state, BEGIN.after_ms(3_600_000), limit("ops", 40, 7_200)).expect("it is over");
    let class = Resource::Class("lhc".into());
    wish::set_limit(&state, BEGIN, class, limit("ops", 1, 60)).expect("there is such a class");
    let none = wish::set_limit(&state, BEGIN, Resource::Class("ocean".into()), limit("ops", 1, 60));
    assert_eq!(none.expect_err("there is none").kind, Kind::Unknown);
}

#[test]
fn what_is_for_a_time_expires() {
    let World { mut state, .. } = World::new(1, 2);
    let until = BEGIN.after_ms(5_000);
    let limit = Limit { rate_bps: 1, until: Some(until), by: "noc".into(), why: "works".into() };
    let link = Resource::Link("ocean".into());
    granted(&mut state, BEGIN, |state| wish::set_limit(state, BEGIN, link.clone(), limit.clone()).expect("it may"));
    let one_way = |link: &str| Resource::Way { link: link.into(), forward: true };
    granted(&mut state, BEGIN, |state| {
        wish::set_limit(state, BEGIN, one_way("ocean"), limit.clone()).expect("it may, beside that on both ways")
    });
    let unknown = wish::set_limit(&state, BEGIN, one_way("river"), limit.clone()).expect_err("no link");
    assert!(unknown.kind == Kind::Unknown && unknown.text.contains("link `river:forward`"), "{}", unknown.text);
    let unknown = wish::set_limit(&state, BEGIN, Resource::Mark("ocean".into()), limit).expect_err("no mark");
    assert_eq!(unknown.kind, Kind::Unknown);
    let role = Role::Submitter { collaboration: "cms".into() };
    let made = wish::make_token(&state, BEGIN, "alice", Digest([1; 32]), role, Some(until), "root").expect("it may");
    apply(&mut state, BEGIN, &made);
    assert!(state.token(Digest([1; 32]), BEGIN).is_some() && state.token(Digest([1; 32]), until).is_none());
    let made = wish::make_enrolment(&state, BEGIN, Digest([9; 32]), "a1", until, "root").expect("it may");
    apply(&mut state, BEGIN, &made);
    assert!(wish::enrol(&state, until, Digest([9; 32]), Digest([8; 32])).is_err(), "it is expired");
    assert_eq!(next_due(&state, BEGIN), Some(until));
    let seen = Seen::default();
    assert_eq!(due(&state, &seen, until.after_ms(0)).len(), 4);
    for action in due(&state, &seen, until) {
        let Do::Record(event) = action.what else { panic!("it is to be logged") };
        state.apply(until, &event).expect("it fits");
    }
    assert!(due(&state, &seen, until).is_empty() && state.limits.is_empty());
    assert_eq!(wish::lift_limit(&state, &link).expect_err("it is lifted").kind, Kind::Unknown);
}

#[test]
fn an_enrolment_token_opens_once() {
    let World { mut state, .. } = World::new(1, 2);
    let until = BEGIN.after_ms(5_000);
    granted(&mut state, BEGIN, |state| {
        wish::make_enrolment(state, BEGIN, Digest([9; 32]), "a1", until, "root").expect("may")
    });
    let stolen = Digest([102; 32]);
    assert_eq!(wish::enrol(&state, BEGIN, Digest([9; 32]), stolen).expect_err("a key of a2").kind, Kind::Conflict);
    let (host, events) = wish::enrol(&state, BEGIN, Digest([9; 32]), Digest([8; 32])).expect("it may");
    apply(&mut state, BEGIN, &events);
    assert_eq!((host.as_str(), state.agents["a1"].fingerprint), ("a1", Digest([8; 32])), "a new key");
    assert_eq!(
        wish::enrol(&state, BEGIN, Digest([9; 32]), Digest([7; 32])).expect_err("it was used").kind,
        Kind::Unknown
    );
    assert!(state.apply(BEGIN, &events[0]).is_err(), "nor by a replayed event");
}

#[test]
fn the_same_request_makes_one_transfer() {
    let World { mut state, .. } = World::new(1, 2);
    let key = |number: u8| Some(("k".to_owned(), Digest([number; 32])));
    let first = submit(&mut state, BEGIN, submission(key(1)), &[PAGE]);
    assert_eq!(submit(&mut state, BEGIN, submission(key(1)), &[PAGE]), first);
    let other = wish::submit(&state, BEGIN, submission(key(2)), &[PAGE]).expect_err("another request");
    assert_eq!(other.kind, Kind::Conflict);
    let later = BEGIN.after_ms(limits::KEY_KEPT_MS);
    let expired = due(&state, &Seen::default(), later);
    let event = Event::KeyExpired { by: "alice".into(), key: "k".into() };
    assert!(expired.iter().any(|action| action.what == Do::Record(event.clone())));
    apply(&mut state, later, &[event]);
    assert_ne!(submit(&mut state, later, submission(key(1)), &[PAGE]), first);
}

#[test]
fn what_may_not_be_is_refused() {
    let World { state, .. } = World::new(1, 2);
    let refused = |change: &dyn Fn(&mut Submission), kind| {
        let mut made = submission(None);
        change(&mut made);
        let refusal = wish::submit(&state, BEGIN, made, &[PAGE]).expect_err("it may not");
        assert_eq!(refusal.kind, kind, "{refusal}");
    };
    refused(&|made| made.class = "lch".into(), Kind::Unknown);
    refused(&|made| made.urgency = limits::URGENCY_MAX + 1, Kind::Bad);
    refused(&|made| made.sources[0].endpoint = "z".into(), Kind::Unknown);
    refused(&|made| made.destinations = vec![at("b"); limits::LEGS_MAX + 1], Kind::Bad);
    refused(&|made| made.destinations = vec![at("a")], Kind::Bad);
    refused(&|made| made.files = Files::Path, Kind::Bad);
    refused(&|made| made.after = [TransferId(7)].into(), Kind::Unknown);
    refused(&|made| made.name = "x".repeat(limits::NAME_MAX + 1), Kind::Bad);
    for path in ["../x", "/x", "x/../y", "a//b", "x/.", "x\0"] {
        refused(&|made| made.sources[0].path = path.as_bytes().to_vec(), Kind::Bad);
    }
    let endpoint = |host: &str| Endpoint { hosts: [host.to_owned()].into(), root: b"/d".to_vec() };
    assert_eq!(wish::set_endpoint(&state, "e", endpoint("r1")).expect_err("a router").kind, Kind::Unknown);
    let small = "name = \"small\"\nhosts = [\"a1\", \"b1\"]\n[[link]]\nname = \"l\"\nends = [\"a1\", \"b1\"]\n";
    assert_eq!(wish::set_network(&state, small, "op").expect_err("hosts of endpoints lack").kind, Kind::Conflict);
    assert_eq!(wish::set_network(&state, "nonsense", "op").expect_err("no TOML").kind, Kind::Bad);
}

#[test]
fn classes_and_endpoints_in_use_stay() {
    let World { mut state, .. } = World::new(1, 2);
    let id = submit(&mut state, BEGIN, submission(None), &[PAGE]);
    let refusal = wish::set_shares(&state, "[[class]]\nname = \"lhc\"\n", "op").expect_err("`sky` is in use");
    assert!(refusal.text.contains("`sky`") && refusal.text.contains(&id.to_string()), "{refusal}");
    assert_eq!(wish::remove_endpoint(&state, "a").expect_err("it is in use").kind, Kind::Conflict);
    granted(&mut state, BEGIN, |state| wish::cancel(state, id, "bob", "").expect("it may"));
    granted(&mut state, BEGIN, |state| wish::remove_endpoint(state, "a").expect("it is not in use"));
    assert_eq!(wish::pause(&state, id, "bob", "").expect_err("it is cancelled").kind, Kind::Conflict);
}

#[test]
fn generations_rise_over_restarts() {
    let mut state = State::default();
    let (first, events) = wish::reserve_generations(&state);
    apply(&mut state, BEGIN, &events);
    let state = State::decode(&state.encode()).expect("it comes back");
    let (second, _) = wish::reserve_generations(&state);
    assert!(first.start > 0 && first.end == second.start && second.start < second.end);
}

#[test]
fn a_cause_of_a_listing_moves_on_to_the_next_source() {
    let World { mut state, .. } = World::new(1, 2);
    let made = Submission { sources: vec![at("a"), at("c")], files: Files::Path, ..submission(None) };
    let id = submit(&mut state, BEGIN, made, &[]);
    let seen = Seen {
        agents: ["a1", "c1"]
            .map(|host| (host.to_owned(), AgentSeen { sessions_max: 2, streams_max: 8, grants: None }))
            .into(),
        ..Seen::default()
    };
    let listed = |state: &State| {
        due(state, &seen, BEGIN).into_iter().find_map(|action| match action.what {
            Do::List { source, .. } => Some(source),
            _ => None,
        })
    };
    assert_eq!(listed(&state), Some(0));
    let failed = |source| Event::ListingFailed { transfer: id, source, cause: Cause::NotFound, text: String::new() };
    apply(&mut state, BEGIN, &[failed(0)]);
    assert_eq!(listed(&state), Some(1), "the other source may have it");
    apply(&mut state, BEGIN, &[failed(1)]);
    let ends = due(&state, &seen, BEGIN);
    let end =
        ends.iter().any(|action| matches!(action.what, Do::Record(Event::Ended { transfer, .. }) if transfer == id));
    assert!(end, "no source has it");
}

/// Ten thousand transfers of a page each, of which most wait for hosts: `due` looks at few. The bound is loose, as machines are busy.
#[test]
#[allow(clippy::disallowed_methods, reason = "what it costs is measured")]
fn ten_thousand_transfers_cost_little() {
    let World { mut state, .. } = World::new(1, 2);
    for _ in 0..10_000 {
        submit(&mut state, BEGIN, submission(None), &[PAGE]);
    }
    let hosts = ["a1", "a2", "a3", "b1", "b2", "b3"];
    let agent = AgentSeen { sessions_max: 64, streams_max: 512, grants: None };
    let seen = Seen { agents: hosts.map(|host| (host.to_owned(), agent.clone())).into(), ..Seen::default() };
    for host in hosts {
        state.apply(BEGIN, &Event::AgentBack { host: host.to_owned() }).expect("it was away");
    }
    let began = Instant::now();
    let actions = due(&state, &seen, BEGIN);
    let took = began.elapsed();
    let starts = actions.iter().filter(|action| matches!(action.what, Do::Start(_))).count();
    println!("{starts} sessions of 10,000 transfers in {took:?}; the state has {} bytes", state.encode().len());
    assert_eq!(starts, 3 * limits::LEGS_AT_ONCE, "some legs at once, three sessions each");
    assert!(took.as_millis() < 500, "{took:?}");
    assert!(state.encode().len() < 10_000 * 200, "a transfer of a page is small");
}

#[test]
fn a_page_takes_tens_of_bytes() {
    let World { mut state, .. } = World::new(1, 2);
    let before = state.encode().len();
    submit(&mut state, BEGIN, submission(None), &[PAGE; 1_000]);
    let each = (state.encode().len() - before) / 1_000;
    assert!(each < 40, "{each} bytes for a page of ten thousand files");
}

#[test]
fn at_its_bounds_a_state_refuses_or_forgets_the_oldest() {
    let World { mut state, .. } = World::new(1, 2);
    let keyed = |number: u64| ledger::Keyed { transfer: TransferId(0), request: Digest([0; 32]), at: Moment(number) };
    state.keys = (0..limits::KEYS_MAX as u64).map(|at| (("alice".to_owned(), format!("k{at}")), keyed(at))).collect();
    let limit = Limit { rate_bps: 1, until: None, by: "noc".into(), why: String::new() };
    state.limits = (0..limits::LIMITS_MAX).map(|of| (Resource::Link(format!("l{of}")), limit.clone())).collect();
    let endpoint = state.endpoints["a"].clone();
    let more = limits::ENDPOINTS_MAX - state.endpoints.len();
    state.endpoints.extend((0..more).map(|of| (format!("e{of}"), endpoint.clone())));
    let mut state = State::decode(&state.encode()).expect("it is whole");
    submit(&mut state, BEGIN, submission(Some(("new".to_owned(), Digest([1; 32])))), &[PAGE]);
    assert_eq!(state.keys.len(), limits::KEYS_MAX);
    assert!(!state.keys.contains_key(&("alice".to_owned(), "k0".to_owned())), "the oldest went");
    let ocean = Resource::Link("ocean".into());
    assert_eq!(wish::set_limit(&state, BEGIN, ocean.clone(), limit.clone()).expect_err("too many").kind, Kind::Full);
    assert!(state.apply(BEGIN, &Event::LimitSet { resource: ocean, limit }).is_err());
    assert_eq!(wish::set_endpoint(&state, "one-more", endpoint).expect_err("too many").kind, Kind::Full);
}

/// Files of a session by number, as its pick has them.
fn pick(numbers: std::ops::Range<usize>) -> Vec<u8> {
    let mut bits = vec![0; numbers.end.div_ceil(8)];
    numbers.for_each(|number| bits[number / 8] |= 1 << (number % 8));
    bits
}

#[test]
fn what_sessions_named_that_ended_early_is_kept_for_the_next() {
    let mut world = World::new(1, 2);
    let (now, state) = (BEGIN, &mut world.state);
    let id = submit(state, now, submission(None), &[Page { files: 100, bytes: 100 }, Page { files: 100, bytes: 100 }]);
    let start = |state: &mut State, page, files: std::ops::Range<usize>| {
        let session = state.next_session;
        let event = Event::SessionStarted {
            session,
            transfer: id,
            leg: 0,
            page,
            source: 0,
            from: "a1".into(),
            to: "b1".into(),
            driver: ledger::End::Source,
            files: files.len() as u32,
            bytes: 1,
            pick: pick(files),
            streams: 1,
        };
        state.apply(now, &event).expect("files are open");
        session
    };
    let end = |state: &mut State, session, cause| {
        let outcome = ledger::Outcome { cause, ..ledger::Outcome::default() };
        state.apply(now, &Event::SessionEnded { session, outcome }).expect("it runs");
    };
    let known = |state: &State, page| -> Vec<Vec<u8>> {
        let again = State::decode(&state.encode()).expect("a state");
        again.unfinished_of(id, 0, page).map(|of| of.pick.clone()).collect()
    };
    let (first, second) = (start(state, 0, 0..10), start(state, 0, 10..20));
    let third = start(state, 1, 0..10);
    assert!(known(state, 0).is_empty());
    end(state, second, Some(Cause::Network));
    end(state, first, Some(Cause::Leaving));
    end(state, third, Some(Cause::Stopped));
    assert_eq!(known(state, 0), [pick(10..20), pick(0..10)], "the oldest first, also after a restart");
    assert_eq!(known(state, 1), [pick(0..10)]);
    // One that comes to its end leaves nothing, and who names a file of another takes that up.
    let fourth = start(state, 0, 10..20);
    assert_eq!(known(state, 0), [pick(0..10)]);
    let settled = ledger::Settled { done: 10, ..ledger::Settled::default() };
    state.apply(now, &Event::FilesSettled { session: fourth, settled }).expect("it has them");
    end(state, fourth, None);
    assert_eq!(known(state, 0), [pick(0..10)]);
    let fifth = start(state, 0, 9..10);
    assert!(known(state, 0).is_empty());
    end(state, fifth, Some(Cause::Network));
    // Nothing follows for a transfer that is over, also where a session ends after it.
    let sixth = start(state, 1, 20..30);
    granted(state, now, |state| wish::cancel(state, id, "alice", "").expect("it may"));
    assert!(known(state, 0).is_empty() && known(state, 1).is_empty());
    end(state, sixth, Some(Cause::Stopped));
    assert!(known(state, 1).is_empty());
}

#[test]
fn of_sessions_that_ended_early_only_so_many_are_remembered() {
    let mut world = World::new(1, 2);
    let state = &mut world.state;
    let id = submit(state, BEGIN, submission(None), &[PAGE]);
    for number in 0..limits::UNFINISHED_MAX + 3 {
        let session = state.next_session;
        let event = Event::SessionStarted {
            session,
            transfer: id,
            leg: 0,
            page: 0,
            source: 0,
            from: "a1".into(),
            to: "b1".into(),
            driver: ledger::End::Source,
            files: 1,
            bytes: 1,
            pick: pick(number..number + 1),
            streams: 1,
        };
        state.apply(BEGIN, &event).expect("files are open");
        let outcome = ledger::Outcome { cause: Some(Cause::Network), ..ledger::Outcome::default() };
        state.apply(BEGIN, &Event::SessionEnded { session, outcome }).expect("it runs");
    }
    assert_eq!(state.unfinished.len(), limits::UNFINISHED_MAX);
    assert_eq!(state.unfinished[0].pick, pick(3..4), "the oldest went");
    assert!(State::decode(&state.encode()).is_ok());
}
