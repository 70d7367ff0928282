//! The ledger in a simulated world: what a controller that does as it is told does to transfers.

use std::collections::BTreeSet;

use crate::common::{BEGIN, Faults, FileState, Random, World};
use ledger::{
    Cause, Event, Files, How, Location, Mode, Phase, State, Submission, TransferId, What, due, limits, standing, wish,
};

/// Storms of a run; `LEDGER_SEEDS` asks for others: `60`, `16..20`.
const SEEDS: u64 = 4;
const HOUR: u64 = 3_600;

fn submission(from: &[&str], to: &[&str], name: &str) -> Submission {
    let at =
        |endpoint: &&str, path: &str| Location { endpoint: (*endpoint).to_owned(), path: path.as_bytes().to_vec() };
    Submission {
        name: name.to_owned(),
        collaboration: "cms".to_owned(),
        class: "lhc".to_owned(),
        sources: from.iter().map(|from| at(from, "run")).collect(),
        destinations: to.iter().map(|to| at(to, "in")).collect(),
        files: Files::Path,
        urgency: 0,
        deadline: None,
        how: How::default(),
        after: BTreeSet::new(),
        by: "alice".to_owned(),
        key: None,
        promise: None,
    }
}

fn submit(world: &mut World, made: Submission, sizes: Vec<u64>) -> TransferId {
    let listed = made.files != Files::Path;
    let id = world.state.next_transfer;
    let pages: Vec<ledger::Page> = if listed {
        sizes.chunks(50).map(|sizes| ledger::Page { files: sizes.len() as u32, bytes: sizes.iter().sum() }).collect()
    } else {
        Vec::new()
    };
    let accepted = wish::submit(&world.state, world.now, made, &pages).expect("it may");
    let wish::Accepted::New { transfer, events } = accepted else { panic!("it is new") };
    assert_eq!(transfer, id);
    world.settle_in(&events);
    if listed {
        for (number, sizes) in (0..).zip(sizes.chunks(50)) {
            world.put(id, number, sizes);
        }
    }
    world.datasets.insert(id, sizes);
    id
}

fn phase(world: &World, id: TransferId) -> Phase {
    world.state.transfers[&id].phase()
}

fn until_ended(world: &mut World, id: TransferId, most_s: u64) -> Phase {
    world.until(most_s, |world| phase(world, id).is_end());
    phase(world, id)
}

fn reason(world: &World, id: TransferId) -> What {
    standing(&world.state, &world.seen, world.now, id).expect("it is there").1.what
}

/// How many sessions gave their places to others, as the log says.
fn stopped(world: &World) -> usize {
    let events = world.log.iter().map(|(_, bytes)| ledger::decode(bytes).expect("it was written"));
    let is_it =
        |event: &Event| matches!(event, Event::SessionEnded { outcome, .. } if outcome.cause == Some(Cause::GaveWay));
    events.filter(is_it).count()
}

/// Hosts that are full for days with work of a class, and then a transfer that comes: whether it moves within a minute.
fn comes_to_full_hosts(running: (&str, u8), comes: (&str, u8)) -> (World, TransferId, bool) {
    let of = |(class, urgency): (&str, u8), name: &str| Submission {
        class: class.to_owned(),
        urgency,
        ..submission(&["a"], &["b"], name)
    };
    let mut world = World::new(1, 2);
    for number in 0..8 {
        submit(&mut world, of(running, &format!("long {number}")), vec![40_000_000_000_000; 3]);
    }
    world.until(60, |world| world.state.sessions.len() == 6);
    (0..30).for_each(|_| world.second());
    let id = submit(&mut world, of(comes, "it"), vec![1_000_000_000; 4]);
    let moves = (0..60).any(|_| {
        world.second();
        !world.state.transfers[&id].legs[0].sessions.is_empty()
    });
    (world, id, moves)
}

#[test]
fn work_with_a_better_claim_gets_a_place_at_hosts_that_are_full() {
    for (running, comes) in
        [(("spare", 0), ("sky", 0)), (("sky", 0), ("lhc", 0)), (("lhc", 0), ("sky", 0)), (("lhc", 0), ("lhc", 1))]
    {
        let (mut world, id, moves) = comes_to_full_hosts(running, comes);
        assert!(moves, "{running:?} {comes:?}: {:?}", reason(&world, id));
        assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
        world.until(120, |world| world.state.sessions.len() == 6);
        let (others, stopped) = (world.state.sessions.len(), stopped(&world));
        assert_eq!(others, 6, "their places are theirs again");
        assert!((1..=4).contains(&stopped), "{running:?} {comes:?}: {stopped} were stopped for four files");
        let failed = |transfer: &ledger::Transfer| transfer.legs.iter().any(|leg| leg.retry.is_some());
        assert!(!world.state.transfers.values().any(failed), "to give way is no failure");
    }
}

#[test]
fn work_without_a_better_claim_waits() {
    for (running, comes) in [(("sky", 0), ("spare", 9)), (("lhc", 3), ("lhc", 3)), (("lhc", 3), ("lhc", 2))] {
        let (world, id, moves) = comes_to_full_hosts(running, comes);
        assert!(!moves && matches!(reason(&world, id), What::Full | What::Behind), "{running:?} {comes:?}");
        assert_eq!(stopped(&world), 0);
    }
}

#[test]
fn three_by_three_hosts_fill_what_no_pair_can() {
    let mut world = World::new(1, 8);
    let id = submit(&mut world, submission(&["a"], &["b"], "big"), vec![300_000_000; 600]);
    let begin = world.now;
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
    assert_eq!(world.pairs[&(id, 0)], 3, "three hosts read at once");
    // A pair moves 100 MB/s: three of them need 600 s for 180 GB, and little for the ends; now and then a second session of a host
    // begins before the first has ended, and the hosts of this world serve other drivers for nothing.
    let seconds = world.now.ms_since(begin) / 1_000;
    assert!((560..700).contains(&seconds), "{seconds} s");
    assert_eq!(world.state.usage["lhc"].total_bytes, 180_000_000_000);
}

#[test]
fn what_urgent_transfers_used_is_in_the_state_and_its_bytes() {
    let mut world = World::new(1, 2);
    let id = submit(&mut world, submission(&["a"], &["b"], "usual"), vec![300_000_000; 3]);
    until_ended(&mut world, id, HOUR);
    assert!(world.state.urgent.is_empty() && world.state.encode()[0] == 1, "as it was before there was any");
    let urgent = Submission { urgency: 5, ..submission(&["a"], &["b"], "urgent") };
    let id = submit(&mut world, urgent, vec![300_000_000; 2]);
    until_ended(&mut world, id, HOUR);
    let used = world.state.urgent["lhc"].of(u64::MAX).map(|(bytes, _)| bytes);
    assert_eq!((used, world.state.usage["lhc"].urgent_bytes), (Some(600_000_000), 600_000_000));
    let bytes = world.state.encode();
    assert_eq!((bytes[0], State::decode(&bytes).as_ref()), (2, Ok(&world.state)));
}

#[test]
fn a_dead_agents_files_go_to_the_others() {
    let mut world = World::new(2, 8);
    let id = submit(&mut world, submission(&["a"], &["b"], "big"), vec![300_000_000; 300]);
    world.until(60, |world| world.state.sessions.len() == 3);
    for host in ["a2", "b3"] {
        world.fleet.agents.get_mut(host).expect("it is there").die(100_000);
    }
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
    assert!(world.files.values().flatten().all(|file| *file == FileState::Done), "no file is lost");
    assert!(world.state.agents["a2"].away.is_some());
}

/// Nobody reaches these for so long, and they go on.
fn cut(world: &mut World, hosts: &[&str], seconds: u64) {
    for host in hosts {
        let agent = world.fleet.agents.get_mut(*host).expect("it is there");
        (agent.cut, agent.back_in) = (true, seconds);
    }
}

#[test]
fn a_driver_out_of_reach_is_ended_at_the_other_end() {
    let mut world = World::new(7, 8);
    let id = submit(&mut world, submission(&["a"], &["b"], "big"), vec![300_000_000; 300]);
    world.until(60, |world| world.state.sessions.len() == 3);
    let session = world.state.sessions.values().next().expect("one of them").clone();
    cut(&mut world, &[session.driver_host()], 10_000);
    // After the length of a lease, and not before.
    let seconds = world.until(60, |world| world.cut_off > 0);
    assert!((30..=32).contains(&seconds), "{seconds} s");
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
}

#[test]
fn what_runs_out_of_reach_keeps_its_files() {
    let mut world = World::new(8, 8);
    let id = submit(&mut world, submission(&["a"], &["b"], "big"), vec![300_000_000; 600]);
    world.until(60, |world| world.state.sessions.len() == 3);
    let (of, session) = world.state.sessions.iter().next().map(|(of, session)| (*of, session.clone())).expect("one");
    cut(&mut world, &[&session.from, &session.to], 300);
    for _ in 0..290 {
        world.second();
        assert!(world.state.sessions.contains_key(&of), "nobody knows whether it runs");
    }
    assert_eq!((world.cut_off, reason(&world, id)), (0, What::Moving), "others go on");
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
}

#[test]
fn what_always_fails_is_tried_so_often() {
    // What gives way does so because the controller asked for it: agents have no word for that.
    for cause in Cause::ALL.into_iter().filter(|cause| *cause != Cause::GaveWay) {
        let mut world = World::new(3, 8);
        world.fleet.cursed.insert(666, cause);
        let id = submit(&mut world, submission(&["c"], &["b"], "bad"), vec![666]);
        let phase = until_ended(&mut world, id, 200 * HOUR);
        let tries = world.started[&(id, 0)];
        let most = match cause.remedy() {
            ledger::Remedy::Nothing => 1,
            ledger::Remedy::Files => u64::from(limits::ATTEMPTS_FILE_MAX),
            // An agent that stops by itself fails.
            ledger::Remedy::Again | ledger::Remedy::Meant => u64::from(limits::ATTEMPTS_MAX),
            // A minute at first, half an hour at last, a day in all.
            ledger::Remedy::Room => 60,
        };
        assert_eq!(phase, Phase::Failed, "{cause:?}");
        assert!(tries <= most && (most == 60 || tries == most), "{cause:?}: {tries} tries");
    }
}

#[test]
fn one_bad_file_does_not_take_the_others_with_it() {
    let mut world = World::new(4, 8);
    world.fleet.cursed.insert(666, Cause::Changed);
    world.fleet.cursed.insert(667, Cause::Permission);
    let mut sizes = vec![10_000_000; 120];
    (sizes[3], sizes[77]) = (666, 667);
    let id = submit(&mut world, submission(&["a"], &["b"], "mixed"), sizes);
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Partly);
    let leg = &world.state.transfers[&id].legs[0];
    assert_eq!((leg.done, leg.failed), (118, 2));
}

#[test]
fn a_file_that_one_source_lacks_comes_from_the_other() {
    let mut world = World::new(5, 8);
    let id = submit(&mut world, submission(&["c", "a"], &["b"], "replicas"), vec![50_000_000; 40]);
    world.until(60, |world| !world.state.sessions.is_empty());
    let (session, of) =
        world.state.sessions.iter().find(|(_, of)| of.source == 0).map(|(id, of)| (*id, of.clone())).expect("one");
    assert_eq!(world.state.judge(session, Cause::NotFound), ledger::Verdict::Again);
    let settled =
        ledger::Settled { again: 1, again_cause: Some(Cause::NotFound), not_found: true, ..Default::default() };
    world.settle_in(&[Event::FilesSettled { session, settled }]);
    assert_eq!(world.state.transfers[&id].legs[0].pages[of.page as usize].missing, 1);
    world.until(60, |world| phase(world, id).is_end());
    assert_eq!(phase(&world, id), Phase::Done);
}

#[test]
fn transfers_wait_for_each_other_and_say_so() {
    let mut world = World::new(6, 8);
    let first = submit(&mut world, submission(&["a"], &["b"], "first"), vec![1_000_000; 10]);
    let after =
        |ids: &[TransferId]| Submission { after: ids.iter().copied().collect(), ..submission(&["a"], &["b"], "then") };
    let second = submit(&mut world, after(&[first]), vec![1_000_000; 10]);
    let third = submit(&mut world, after(&[second]), vec![1_000_000; 10]);
    world.second();
    assert_eq!((phase(&world, second), reason(&world, second)), (Phase::Waiting, What::Dependency));
    assert_eq!(until_ended(&mut world, second, HOUR), Phase::Done);
    let events = wish::cancel(&world.state, third, "bob", "no need").expect("it may");
    let fourth = submit(&mut world, after(&[third]), vec![1_000_000; 10]);
    world.settle_in(&events);
    assert_eq!(until_ended(&mut world, fourth, 60), Phase::Failed);
    assert_eq!(reason(&world, fourth), What::DependencyFailed);
    let refused =
        wish::submit(&world.state, world.now, after(&[third]), &[]).expect_err("it waits for what is cancelled");
    assert_eq!(refused.kind, wish::Kind::Conflict);
}

#[test]
fn what_waits_names_what_it_waits_for() {
    let mut world = World::new(7, 1);
    let id = submit(&mut world, submission(&["c"], &["b"], "waits"), vec![1_000_000_000; 50]);
    let agent = |world: &mut World, cut| world.fleet.agents.get_mut("c1").expect("it is there").cut = cut;
    agent(&mut world, true);
    world.second();
    assert_eq!((phase(&world, id), reason(&world, id)), (Phase::Listing, What::NoAgent));
    agent(&mut world, false);
    world.decide("c1", Mode::Draining);
    world.second();
    assert_eq!(reason(&world, id), What::NoActiveAgent);
    world.decide("c1", Mode::Active);
    world.until(60, |world| phase(world, id) == Phase::Moving);
    let other = submit(&mut world, submission(&["c"], &["b"], "behind"), vec![1_000_000; 50]);
    world.until(60, |world| world.state.transfers[&other].listing.complete);
    assert_eq!((phase(&world, other), reason(&world, other)), (Phase::Queued, What::Full));
    world.decide("c1", Mode::Paused);
    world.second();
    assert_eq!(reason(&world, id), What::HostPaused);
    world.decide("c1", Mode::Draining);
    world.until(60, |world| world.state.sessions.is_empty());
    assert_eq!((phase(&world, id), reason(&world, id)), (Phase::Queued, What::NoActiveAgent));
    world.decide("c1", Mode::Active);
    let events = wish::pause(&world.state, id, "bob", "not now").expect("it may");
    world.settle_in(&events);
    world.second();
    assert_eq!((phase(&world, id), reason(&world, id)), (Phase::Paused, What::PausedBy));
    assert_eq!(until_ended(&mut world, other, HOUR), Phase::Done);
    let events = wish::resume(&world.state, id).expect("it may");
    world.settle_in(&events);
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
}

#[test]
fn classes_take_turns_and_urgent_work_goes_first() {
    let mut world = World::new(8, 3);
    let of = |class: &str, urgency: u8, name: &str| Submission {
        class: class.to_owned(),
        urgency,
        ..submission(&["c"], &["b"], name)
    };
    for number in 0..12 {
        submit(&mut world, of("lhc", 0, &format!("l{number}")), vec![200_000_000; 20]);
        submit(&mut world, of("sky", 0, &format!("s{number}")), vec![200_000_000; 20]);
    }
    let urgent = submit(&mut world, of("lhc", 9, "urgent"), vec![200_000_000; 20]);
    world.until(60, |world| world.state.sessions.len() == 3);
    let classes = |world: &World| -> Vec<String> {
        let of = |session: &ledger::Session| world.state.transfers[&session.transfer].class.clone();
        world.state.sessions.values().map(of).collect()
    };
    world.until(10 * HOUR, |world| phase(world, urgent).is_end());
    let lhc = classes(&world).iter().filter(|class| *class == "lhc").count();
    assert!(lhc <= 2, "of three sessions two are of the class that weighs two");
    let done = |world: &World| world.state.transfers.values().filter(|of| of.phase() == Phase::Done).count();
    assert!(done(&world) <= 6, "{} went before what is urgent", done(&world));
}

/// Everything at once: agents die, are cut off, sessions and files fail, the controller is killed between any two events; then it calms.
#[test]
#[allow(clippy::disallowed_methods, reason = "a soak asks for more seeds")]
fn any_world_ends_well() {
    let asked = std::env::var("LEDGER_SEEDS").unwrap_or_default();
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    for seed in first.parse().unwrap_or(0)..end.parse().unwrap_or(SEEDS) {
        let end = std::panic::catch_unwind(|| storm(seed));
        if let Err(cause) = end {
            println!("seed {seed}");
            std::panic::resume_unwind(cause);
        }
    }
}

fn storm(seed: u64) {
    let mut world = World::new(seed, 1 + (seed % 5) as u32);
    world.faults = Faults { kill: 60, die: 300, cut: 300, session: 120, file: 60, listing: 3 };
    world.fleet.cursed.insert(666, Cause::Corrupt);
    world.fleet.cursed.insert(667, Cause::Exists);
    let mut dice = Random(seed ^ 0xdead_beef);
    let mut ids: Vec<TransferId> = Vec::new();
    for second in 0..1_500 {
        if second % 50 == 0 {
            ids.push(random_transfer(&mut world, &mut dice, &ids));
        }
        if second % 37 == 0 {
            steer(&mut world, &mut dice, &ids);
        }
        world.second();
    }
    world.faults = Faults { kill: 500, ..Faults::default() };
    for host in world.fleet.agents.keys().cloned().collect::<Vec<_>>() {
        for own in [true, false] {
            let events = wish::decide(&world.state, &host, own, Mode::Active, "calm").expect("it may");
            world.settle_in(&events);
        }
    }
    for id in &ids {
        if phase(&world, *id) == Phase::Paused {
            let events = wish::resume(&world.state, *id).expect("it is paused");
            world.settle_in(&events);
        }
    }
    world.until(30 * HOUR, |world| world.state.transfers.values().all(|transfer| transfer.ended.is_some()));
    world.until(HOUR, |world| world.state.sessions.is_empty());
    assert!(world.kills > 0, "a controller was killed");
    for (id, transfer) in &world.state.transfers {
        let cursed = world.datasets[id].iter().any(|size| *size == 666 || *size == 667);
        let states = world.files.iter().filter(|((other, ..), _)| other == id).flat_map(|(_, files)| files);
        if transfer.phase() == Phase::Done {
            assert!(!cursed && states.clone().all(|file| *file == FileState::Done), "seed {seed}: {id}");
        }
        assert!(!states.clone().any(|file| *file == FileState::Given), "seed {seed}: {id}");
    }
    world.restart();
}

fn random_transfer(world: &mut World, dice: &mut Random, ids: &[TransferId]) -> TransferId {
    let ends =
        *dice.pick(&[(&["a"][..], &["b"][..]), (&["b", "c"], &["a"]), (&["a"], &["b", "c"]), (&["c"], &["a", "b"])]);
    let live: Vec<TransferId> = ids.iter().copied().filter(|id| !phase(world, *id).is_end()).collect();
    let mut made = submission(ends.0, ends.1, "storm");
    made.class = (*dice.pick(&["lhc", "sky", "spare"])).to_owned();
    made.urgency = dice.below(10) as u8;
    if dice.one_in(3) && !live.is_empty() {
        made.after.insert(*dice.pick(&live));
    }
    if dice.one_in(3) {
        made.files = Files::List { sized: dice.one_in(2) };
    }
    let mut sizes: Vec<u64> = (0..1 + dice.below(130)).map(|_| 1_000 + dice.below(200_000_000)).collect();
    if dice.one_in(3) {
        sizes[0] = 666 + dice.below(2);
    }
    submit(world, made, sizes)
}

fn steer(world: &mut World, dice: &mut Random, ids: &[TransferId]) {
    let id = *dice.pick(ids);
    let events = match dice.below(6) {
        0 => wish::pause(&world.state, id, "bob", "storm"),
        1 | 2 => wish::resume(&world.state, id),
        3 if dice.one_in(3) => wish::cancel(&world.state, id, "bob", "storm"),
        4 => wish::set_urgency(&world.state, id, dice.below(10) as u8),
        5 => {
            let host = *dice.pick(&["a1", "b2", "c1"]);
            let mode = *dice.pick(&[Mode::Active, Mode::Active, Mode::Paused, Mode::Draining]);
            wish::decide(&world.state, host, dice.one_in(2), mode, "storm")
        }
        _ => wish::reclass(&world.state, id, "sky"),
    };
    // What may not be is refused, and that is all.
    if let Ok(events) = events {
        world.settle_in(&events);
    }
}

#[test]
fn a_path_that_nobody_grants_is_waited_for_and_named() {
    let mut world = World::new(9, 4);
    let id = submit(&mut world, submission(&["c"], &["b"], "granted"), vec![1_000_000; 10]);
    world.second();
    let grant = |whose: &str, root: &[u8], write| ledger::GrantSeen {
        collaboration: whose.to_owned(),
        root: root.to_vec(),
        read: true,
        write,
    };
    let others = [grant("atlas", b"/data", true), grant("cms", b"/dat", true), grant("*", b"/data/in", false)];
    for host in ["b1", "b2", "b3"] {
        world.seen.agents.get_mut(host).expect("it is connected").grants = Some(others.to_vec());
    }
    for _ in 0..20 {
        world.second();
    }
    assert_eq!((phase(&world, id), reason(&world, id)), (Phase::Queued, What::NoGrant));
    world.seen.agents.get_mut("b2").expect("it is connected").grants = Some(vec![grant("cms", b"/data/", true)]);
    assert_eq!(until_ended(&mut world, id, HOUR), Phase::Done);
    let kept = world.now.after_ms(limits::ENDED_KEPT_MS);
    let forgets = due(&world.state, &world.seen, kept);
    assert!(forgets.iter().any(|action| action.what == ledger::Do::Record(Event::Forgotten { transfer: id })));
    assert!(ledger::next_due(&world.state, world.now).is_some_and(|next| next <= kept));
}

#[test]
fn nothing_is_due_when_nothing_is_there() {
    let state = State::default();
    assert_eq!(due(&state, &ledger::Seen::default(), BEGIN), []);
    assert_eq!(ledger::next_due(&state, BEGIN), None);
}
