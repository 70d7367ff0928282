//! Two agents and their controller: what it asks is done, within the grants, whatever happens to the connection.

mod hostile;
mod mock;
mod tree;

use std::time::Duration;

use agent::controller::host::Question;
use api::Name;
use api::agent::{Cause, FromAgent, LeaseFor, Mode, Role, ToAgent};

use crate::Site;
use mock::{Agent, Mock, Running, lease, order, soon};

const FAST: u64 = 10_000_000_000;

/// Two agents of one controller.
struct Pair {
    mock: Mock,
    one: Running,
    other: Running,
    from: Agent,
    to: Agent,
}

impl Pair {
    async fn new() -> Pair {
        Pair::with("").await
    }

    /// The first with more in its configuration.
    async fn with(more: &str) -> Pair {
        let mock = Mock::new().await;
        let address = mock.address.to_string();
        let one = Running::start(Site::new(), &address, more);
        let (from, hello) = mock.welcome().await;
        assert_eq!((hello.enrol.as_deref(), hello.mode), (Some("token-1"), Mode::Active));
        assert_eq!(hello.inventory.fingerprint.parse(), Ok(from.fingerprint));
        let other = Running::start(Site::new(), &address, "");
        let (to, _) = mock.welcome().await;
        Pair { mock, one, other, from, to }
    }

    /// Has the first push names to `to` at the other.
    async fn push(&mut self, session: u64, names: Vec<Name>, rate_bps: u64) -> api::agent::Acknowledged {
        let (here, there) = (self.one.site.path("data"), self.other.site.path("data/copy"));
        let token = self.to.prepare(session, Role::Destination, &there).await.unwrap();
        let order = order((session, Role::Source), (&here, &there), (self.to.port(), token), names, lease(1, rate_bps));
        self.from.send(order).await;
        self.from.begun(session).await.unwrap()
    }

    async fn stop(self) -> (Site, Site) {
        tokio::join!(self.one.stop(), self.other.stop())
    }
}

/// How an agent stands once it has heard its welcome.
async fn connected(running: &Running) -> agent::controller::host::Status {
    soon("it is connected", async {
        loop {
            let status = running.ask(Question::Status).await;
            if status.connected {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

fn names(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| Name(name.as_bytes().to_vec())).collect()
}

#[tokio::test]
async fn a_tree_arrives_as_it_is_by_sessions_of_both_roles_at_once() {
    let mut pair = Pair::new().await;
    let (here, there) = (pair.one.site.path("data"), pair.other.site.path("data/copy"));
    tree::make(&here);
    let entries = pair.from.list(1, &here).await.unwrap();
    assert!(entries.len() > 320, "{}", entries.len());
    let all: Vec<Name> = entries.into_iter().map(|entry| entry.name).collect();
    // Every other name, so that both write into the same directories.
    let parts: [Vec<Name>; 2] = [0, 1].map(|n| all.iter().skip(n).step_by(2).cloned().collect());

    let token = pair.to.prepare(1, Role::Destination, &there).await.unwrap();
    let port = pair.to.port();
    let push = order((1, Role::Source), (&here, &there), (port, token), parts[0].clone(), lease(1, FAST));
    let token = pair.from.prepare(2, Role::Source, &here).await.unwrap();
    let port = pair.from.port();
    let pull = order((2, Role::Destination), (&there, &here), (port, token), parts[1].clone(), lease(1, FAST));
    pair.from.send(push).await;
    pair.to.send(pull).await;
    let begun = pair.from.begun(1).await.unwrap();
    assert_eq!((begun.accepted, begun.generation, begun.rate_bps), (true, 1, FAST));
    let ((pushed, first), (pulled, second)) = tokio::join!(pair.from.end(1), pair.to.end(2));
    for (files, ended, part) in [(pushed, first, &parts[0]), (pulled, second, &parts[1])] {
        assert_eq!((ended.cause, ended.text.as_str()), (None, ""));
        let numbers: Vec<usize> = files.iter().map(|file| file.number as usize).collect();
        assert_eq!(numbers, (0..part.len()).collect::<Vec<_>>(), "each name is told of");
        assert!(files.iter().all(|file| file.cause.is_none()), "{files:?}");
        assert!(ended.files_done > 100 && ended.bytes_done > 100_000, "{ended:?}");
    }
    assert_eq!(tree::look(&there), tree::look(&here));
    pair.stop().await;
}

#[tokio::test]
async fn one_file_gets_its_new_name_and_its_digest() {
    let mut pair = Pair::new().await;
    let (here, there) = (pair.one.site.path("data/x/one"), pair.other.site.path("data/y/two"));
    std::fs::write(&here, "content").unwrap();
    let token = pair.to.prepare(7, Role::Destination, &there).await.unwrap();
    let mut order = order((7, Role::Source), (&here, &there), (pair.to.port(), token), Vec::new(), lease(1, FAST));
    if let ToAgent::Run(run) = &mut order {
        run.how.checksum = Some("md5".into());
    }
    pair.from.send(order).await;
    let (files, ended) = pair.from.end(7).await;
    assert_eq!(ended.cause, None, "{}", ended.text);
    assert_eq!(files.len(), 1);
    assert_eq!((files[0].number, files[0].digest.as_deref()), (0, Some("9a0364b9e99bb480dd25e1f0284c8555")));
    assert_eq!(std::fs::read(&there).unwrap(), b"content");
    let listed = pair.to.list(1, &there).await.unwrap();
    assert_eq!((listed.len(), listed[0].size_bytes), (1, 7));
    pair.stop().await;
}

#[tokio::test]
async fn a_session_follows_its_lease_and_stands_still_at_zero() {
    let mut pair = Pair::with("rate = \"60 Mb/s\"").await;
    std::fs::write(pair.one.site.path("data/big"), vec![1; 100 << 20]).unwrap();
    pair.push(1, names(&["big"]), 0).await;
    let progress = |message| match message {
        FromAgent::Progress(progress) => Some(progress),
        _ => None,
    };
    for _ in 0..3 {
        let now = pair.from.until("progress", progress).await;
        assert_eq!((now.set_bps, now.bytes_done, now.rate_bps), (0, 0, 0), "{now:?}");
    }
    // More than is granted is cut to the grant.
    pair.from.send(ToAgent::Lease(LeaseFor { session: 1, lease: lease(2, FAST) })).await;
    let told = pair.from.begun(1).await.unwrap();
    assert_eq!((told.accepted, told.generation, told.rate_bps), (true, 2, 60_000_000));
    let moving = |message| match message {
        FromAgent::Progress(progress) if progress.rate_bps > 40_000_000 => Some(progress),
        _ => None,
    };
    let now = pair.from.until("it moves", moving).await;
    assert!(now.rate_bps < 70_000_000 && now.goodput_bps < now.rate_bps, "{now:?}");
    // An older one is refused, and the same again is acknowledged.
    for (generation, accepted) in [(1, false), (2, true)] {
        pair.from.send(ToAgent::Lease(LeaseFor { session: 1, lease: lease(generation, 1) })).await;
        let told = pair.from.begun(1).await.unwrap();
        assert_eq!((told.generation, told.accepted, told.rate_bps), (generation, accepted, 60_000_000));
    }
    // The operator goes before the lease.
    pair.one.ask(Question::Pause { reason: "a fan".into() }).await;
    let mode = |message| match message {
        FromAgent::Mode(mode) => Some(mode),
        _ => None,
    };
    let told = pair.from.until("the mode", mode).await;
    assert_eq!((told.mode, told.reason.as_str()), (Mode::Paused, "a fan"));
    let still = |message| match message {
        FromAgent::Progress(progress) if progress.rate_bps == 0 => Some(progress),
        _ => None,
    };
    let before = pair.from.until("it stands still", still).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let status = pair.one.ask(Question::Resume).await;
    assert_eq!((status.mode, status.connected, status.host.as_str()), (Mode::Active, true, "dtn1"));
    let [session] = status.sessions.as_slice() else { panic!("{status:?}") };
    assert_eq!((session.session, session.set_bps), (1, 60_000_000));
    assert!(session.bytes_done <= before.bytes_done + (4 << 20), "{session:?} {before:?}");
    pair.from.send(ToAgent::Stop { session: 1 }).await;
    let (files, ended) = pair.from.end(1).await;
    assert_eq!((ended.cause, files.len()), (Some(Cause::Stopped), 0));
    assert!(ended.bytes_done < 100 << 20, "{ended:?}");
    // The same again goes on where it was.
    pair.push(2, names(&["big"]), FAST).await;
    let (files, again) = pair.from.end(2).await;
    assert_eq!((again.cause, files.len()), (None, 1));
    assert!(again.bytes_sent < 100 << 20, "{again:?}");
    pair.stop().await;
}

#[tokio::test]
async fn without_the_controller_the_fall_back_holds_and_nothing_is_lost() {
    let mut pair = Pair::new().await;
    std::fs::write(pair.one.site.path("data/a"), "a").unwrap();
    std::fs::write(pair.one.site.path("data/big"), vec![1; 12 << 20]).unwrap();
    let there = pair.other.site.path("data/copy");
    let token = pair.to.prepare(1, Role::Destination, &there).await.unwrap();
    let mut short = lease(1, 1_000_000);
    (short.length_ms, short.fall_back_bps) = (1500, 60_000_000);
    let here = pair.one.site.path("data");
    let names = names(&["a", "big"]);
    pair.from.send(order((1, Role::Source), (&here, &there), (pair.to.port(), token), names, short)).await;
    pair.from.begun(1).await.unwrap();
    // The connection breaks in the middle.
    let first = pair.from.fingerprint;
    pair.from = {
        drop(pair.from);
        let (mut again, hello) = pair.mock.accept().await;
        assert_eq!((again.fingerprint, hello.enrol), (first, None), "a token is used once");
        assert_eq!(hello.sessions.iter().map(|held| held.session).collect::<Vec<_>>(), [1]);
        again.welcome(vec![1]).await;
        again
    };
    let fallen = |message| match message {
        FromAgent::Progress(progress) if progress.fallen_back => Some(progress),
        _ => None,
    };
    let now = pair.from.until("the fall-back", fallen).await;
    assert_eq!((now.set_bps, now.generation), (60_000_000, 1));
    // It breaks again, and the session ends meanwhile.
    drop(pair.from);
    soon("the copy is there", async {
        while !std::fs::metadata(there.join("big")).is_ok_and(|meta| meta.len() == 12 << 20) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let (mut again, _) = pair.mock.welcome().await;
    let (files, ended) = again.end(1).await;
    assert_eq!((ended.cause, files.len(), ended.files_done), (None, 2, 2));
    // Once more: the end may not have arrived.
    drop(again);
    let (mut again, hello) = pair.mock.welcome().await;
    assert_eq!(hello.sessions.iter().map(|held| held.session).collect::<Vec<_>>(), [1]);
    let (files, told) = again.end(1).await;
    assert_eq!((files.len(), &told), (2, &ended));
    pair.from = again;
    pair.stop().await;
}

#[tokio::test]
async fn what_a_controller_does_not_want_ends() {
    let mut pair = Pair::new().await;
    std::fs::write(pair.one.site.path("data/big"), vec![1; 12 << 20]).unwrap();
    pair.push(1, names(&["big"]), 1_000_000).await;
    drop(pair.from);
    let (mut again, _) = pair.mock.accept().await;
    again.welcome(Vec::new()).await;
    assert_eq!(again.end(1).await.1.cause, Some(Cause::Stopped));
    pair.from = again;
    pair.stop().await;
}

#[tokio::test]
async fn a_session_ends_at_the_end_that_listens() {
    let mut pair = Pair::new().await;
    std::fs::write(pair.one.site.path("data/big"), vec![1; 12 << 20]).unwrap();
    pair.push(1, names(&["big"]), 1_000_000).await;
    let moves = |m| matches!(m, FromAgent::Progress(p) if p.session == 1 && p.rate_bps > 0).then_some(());
    pair.from.until("it moves", moves).await;
    // Its token opens nothing any more, and it goes on.
    pair.to.send(ToAgent::Revoke { session: 1 }).await;
    pair.from.until("it moves", moves).await;
    pair.from.until("it moves", moves).await;
    let over = |m| if let FromAgent::Failed(failed) = m { Some((failed.session, failed.cause)) } else { None };
    // Asked twice it is told once, when nothing of it runs.
    pair.to.send(ToAgent::Stop { session: 1 }).await;
    pair.to.send(ToAgent::Stop { session: 1 }).await;
    assert_eq!(pair.to.until("it is over", over).await, (Some(1), Cause::Stopped));
    let (files, ended) = pair.from.end(1).await;
    assert!(files.is_empty() && ended.cause.is_some(), "{ended:?}");
    // One that never was is over, and one that was driven here is told by its end alone.
    pair.to.send(ToAgent::Stop { session: 2 }).await;
    assert_eq!(pair.to.until("it is over", over).await, (Some(2), Cause::Stopped));
    pair.from.send(ToAgent::Stop { session: 1 }).await;
    pair.from.send(ToAgent::Stop { session: 3 }).await;
    assert_eq!(pair.from.until("it is over", over).await, (Some(3), Cause::Stopped));
    pair.stop().await;
}

#[tokio::test]
async fn a_number_is_not_taken_again_while_its_end_is_told() {
    let mut pair = Pair::new().await;
    std::fs::write(pair.one.site.path("data/big"), vec![1; 12 << 20]).unwrap();
    pair.push(1, names(&["big"]), 1_000_000).await;
    // As of a controller that begins anew with a store of before.
    let run = |pair: &Pair| {
        let (here, there) = (pair.one.site.path("data"), pair.other.site.path("data/other"));
        let token = (pair.to.port(), "lh1_x".to_owned());
        order((1, Role::Source), (&here, &there), token, names(&["small"]), lease(2, FAST))
    };
    pair.from.send(ToAgent::Stop { session: 1 }).await;
    let again = run(&pair);
    pair.from.send(again.clone()).await;
    // In whichever order they come.
    let (mut refused, mut ended) = (None, None);
    let both = |message| {
        match message {
            FromAgent::Failed(failed) => refused = Some(failed.cause),
            FromAgent::Ended(told) => ended = told.cause,
            _ => {}
        }
        refused.zip(ended)
    };
    assert_eq!(pair.from.until("both", both).await, (Cause::Busy, Cause::Stopped));
    pair.from.send(again).await;
    assert_eq!(pair.from.begun(1).await.unwrap_err().cause, Cause::Busy);
    pair.stop().await;
}

#[tokio::test]
async fn nothing_goes_beyond_the_grants() {
    let mut pair = Pair::new().await;
    let (inside, outside) = (pair.one.site.path("data"), pair.one.site.path("in"));
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::write(inside.join("ok"), "ok").unwrap();
    std::os::unix::fs::symlink("../in", inside.join("out")).unwrap();
    assert_eq!(pair.from.list(1, &outside).await.unwrap_err().cause, Cause::NotGranted);
    assert_eq!(pair.from.list(2, &pair.one.site.path("state")).await.unwrap_err().cause, Cause::NotGranted);
    let failed = pair.from.prepare(3, Role::Source, &outside.join("secret")).await.unwrap_err();
    assert_eq!(failed.cause, Cause::NotGranted);
    assert!(
        failed.text.contains("what can be read for atlas is beneath") && failed.text.contains("data"),
        "{}",
        failed.text
    );
    assert!(pair.from.prepare(4, Role::Source, &inside.join("out/secret")).await.is_err(), "a link leads out");
    assert_eq!(pair.from.prepare(5, Role::Source, &inside.join("none")).await.unwrap_err().cause, Cause::NotFound);

    // A token is for one path and one direction.
    let token = pair.from.prepare(6, Role::Source, &inside.join("x")).await.unwrap();
    let there = pair.other.site.path("data/copy");
    let pull = |session, from: &std::path::Path, token: &str, port| {
        order((session, Role::Destination), (&there, from), (port, token.to_owned()), names(&["ok"]), lease(1, FAST))
    };
    pair.to.send(pull(7, &inside, &token, pair.from.port())).await;
    let (files, ended) = pair.to.end(7).await;
    assert_eq!((files.len(), ended.cause), (0, Some(Cause::Refused)), "{}", ended.text);
    // Revoked, it opens nothing.
    let token = pair.from.prepare(8, Role::Source, &inside).await.unwrap();
    pair.from.send(ToAgent::Revoke { session: 8 }).await;
    // Answers come in order, so this one says that the other was done.
    pair.from.list(9, &inside).await.unwrap();
    pair.to.send(pull(8, &inside, &token, pair.from.port())).await;
    assert_eq!(pair.to.end(8).await.1.cause, Some(Cause::Refused));

    // Nor do names lead out, nor links in them.
    for (session, bad) in [(10, "../in/secret"), (11, "/etc/passwd"), (12, "a/./b")] {
        let order = order(
            (session, Role::Source),
            (&inside, &there),
            (pair.to.port(), "lh1_x".into()),
            names(&[bad]),
            lease(1, FAST),
        );
        pair.from.send(order).await;
        assert_eq!(pair.from.begun(session).await.unwrap_err().cause, Cause::Other, "{bad}");
    }
    pair.push(13, names(&["out/secret", "ok", "missing"]), FAST).await;
    let (files, ended) = pair.from.end(13).await;
    assert_eq!(ended.cause, None);
    let causes: Vec<Option<Cause>> = files.iter().map(|file| file.cause).collect();
    assert!(causes.len() == 3 && causes[0].is_some() && causes[1].is_none(), "{files:?}");
    assert_eq!(causes[2], Some(Cause::NotFound));
    assert!(!pair.other.site.path("data/copy/out/secret").exists());

    // Another host in the place of the one that is meant is not talked to.
    let token = pair.to.prepare(14, Role::Destination, &there).await.unwrap();
    let (addresses, _) = pair.to.port();
    let wrong = (addresses, "00".repeat(32));
    pair.from.send(order((14, Role::Source), (&inside, &there), (wrong, token), names(&["ok"]), lease(1, FAST))).await;
    assert!(pair.from.end(14).await.1.text.contains("fingerprint"));
    pair.stop().await;
}

#[tokio::test]
async fn garbage_ends_a_connection_and_not_the_agent() {
    let mock = Mock::new().await;
    let running = Running::start(Site::new(), &mock.address.to_string(), "");
    let (mut agent, _) = mock.welcome().await;
    // What it does not know it says so, and goes on.
    agent.send_raw(&[&13_u32.to_be_bytes()[..], br#"{"type":"xy"}"#].concat()).await;
    let failed = agent.until("a word", |m| if let FromAgent::Failed(f) = m { Some(f) } else { None }).await;
    assert!(failed.text.contains("`xy`"), "{}", failed.text);
    for garbage in [&[0xff; 64][..], &[0, 0, 0, 4, 1, 2, 3, 4], b"\0\0\0\x02[]"] {
        agent.send_raw(garbage).await;
        agent.gone().await;
        (agent, _) = mock.welcome().await;
    }
    running.stop().await;
}

#[tokio::test]
async fn the_operator_drains_and_that_lasts() {
    let mut pair = Pair::new().await;
    std::fs::write(pair.one.site.path("data/big"), vec![1; 4 << 20]).unwrap();
    pair.push(1, names(&["big"]), 8_000_000).await;
    let status = pair.one.ask(Question::Drain { reason: "new disks".into() }).await;
    assert_eq!((status.mode, status.sessions.len()), (Mode::Draining, 1));
    assert_eq!(
        pair.from.prepare(2, Role::Source, &pair.one.site.path("data")).await.unwrap_err().cause,
        Cause::Leaving
    );
    pair.from.send(ToAgent::Lease(LeaseFor { session: 1, lease: lease(2, FAST) })).await;
    let (files, ended) = pair.from.end(1).await;
    assert_eq!((files.len(), ended.cause), (1, None), "what runs ends as it should");
    let address = pair.mock.address.to_string();
    let mock = pair.mock;
    let site = pair.one.stop().await;
    pair.other.stop().await;
    assert!(!site.path("state/agent.sock").exists());
    let again = Running::start(site, &address, "");
    let (mut agent, hello) = mock.welcome().await;
    assert_eq!((hello.mode, hello.sessions.len()), (Mode::Draining, 0));
    let told = agent.until("the mode", |m| if let FromAgent::Mode(mode) = m { Some(mode) } else { None }).await;
    assert_eq!(told.reason, "new disks");
    again.stop().await;
}

#[tokio::test]
async fn a_dropped_controller_gets_nothing_until_the_host_is_enrolled_again() {
    let mut pair = Pair::new().await;
    std::fs::write(pair.one.site.path("data/big"), vec![1; 12 << 20]).unwrap();
    let here = pair.one.site.path("data");
    let token = pair.from.prepare(9, Role::Source, &here).await.unwrap();
    let port = pair.from.port();
    pair.push(1, names(&["big"]), 1_000_000).await;
    let status = pair.one.ask(Question::Forget).await;
    assert!(status.forgotten, "{status:?}");
    pair.from.gone().await;
    soon("its sessions end", async {
        while !pair.one.ask(Question::Status).await.sessions.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(!pair.mock.is_tried(Duration::from_secs(3)).await, "it does not come back");
    let there = pair.other.site.path("data/copy");
    pair.to.send(order((9, Role::Destination), (&there, &here), (port, token), names(&["big"]), lease(1, FAST))).await;
    assert_eq!(pair.to.end(9).await.1.cause, Some(Cause::Refused), "its token is dead");
    let status = pair.one.ask(Question::Status).await;
    assert!(!status.connected && status.fingerprint.is_none() && status.problem.is_some(), "{status:?}");
    std::fs::write(pair.one.site.path("enrol"), "token-2").unwrap();
    let (_agent, hello) = pair.mock.welcome().await;
    assert_eq!((hello.enrol.as_deref(), hello.sessions.len()), (Some("token-2"), 0));
    assert!(!connected(&pair.one).await.forgotten);
    pair.stop().await;
}

#[tokio::test]
async fn another_controller_at_the_address_is_refused() {
    let mock = Mock::new().await;
    let address = mock.address.to_string();
    let running = Running::start(Site::new(), &address, "");
    let (agent, _) = mock.welcome().await;
    connected(&running).await;
    let pinned = mock.fingerprint.to_string();
    drop((agent, mock));
    let impostor = Mock::at(&address).await;
    let status = soon("it is refused", async {
        let trying = impostor.accept();
        tokio::pin!(trying);
        loop {
            tokio::select! {
                (_, hello) = &mut trying => panic!("it said {hello:?} to an impostor"),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            let status = running.ask(Question::Status).await;
            if status.problem.as_ref().is_some_and(|text| text.contains("has changed")) {
                return status;
            }
        }
    })
    .await;
    let problem = status.problem.unwrap();
    assert!(problem.contains(&pinned) && problem.contains("longhaul agent forget"), "{problem}");
    assert_eq!(status.fingerprint, Some(pinned));
    running.stop().await;
}

#[tokio::test]
async fn who_is_turned_away_for_good_does_not_knock_again() {
    let mock = Mock::new().await;
    let running = Running::start(Site::new(), &mock.address.to_string(), "");
    let (agent, _) = mock.accept().await;
    agent.turn_away(true).await;
    let (agent, hello) = mock.accept().await;
    assert_eq!(hello.enrol.as_deref(), Some("token-1"), "it was not used");
    agent.turn_away(false).await;
    assert!(!mock.is_tried(Duration::from_secs(4)).await);
    let status = running.ask(Question::Status).await;
    assert!(status.problem.unwrap().contains("enrol first"));
    running.stop().await;
}

#[tokio::test]
async fn what_interfaces_carry_is_told_again_and_again_and_on_each_connection() {
    let mock = Mock::new().await;
    let more = |interface: &str, link: &str| {
        format!("[[counter]]\ninterface = \"{interface}\"\nlink = \"{link}\"\nsends = \"backward\"\n")
    };
    let two = [more("lo", "ocean"), more("no-such", "sea")].concat();
    let running = Running::start(Site::new(), &mock.address.to_string(), &two);
    let (mut agent, _) = mock.welcome().await;
    let counts = async |agent: &mut Agent| {
        let pick = |message| if let FromAgent::Counted { counts } = message { Some(counts) } else { None };
        agent.until("counts", pick).await
    };
    let first = counts(&mut agent).await;
    assert_eq!((first.len(), first[0].link.as_str(), first[0].sends), (1, "ocean", api::agent::Way::Backward));
    let reason = "it is not there".to_owned();
    agent.send(ToAgent::Uncounted(api::agent::Uncounted { link: "ocean".to_owned(), reason })).await;
    let second = counts(&mut agent).await;
    assert!(second[0].read_ms > first[0].read_ms, "{first:?} {second:?}");
    assert!(second[0].sent_bytes >= first[0].sent_bytes && second[0].received_bytes >= first[0].received_bytes);
    drop(agent);
    let (mut agent, _) = mock.welcome().await;
    assert!(counts(&mut agent).await[0].read_ms > second[0].read_ms);
    drop(agent);
    running.stop().await;
}
