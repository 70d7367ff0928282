//! A controller that was stolen: it asks for everything, and gets what the grants say.

use std::path::{Path, PathBuf};

use api::Name;
use api::agent::{Cause, FromAgent, How, LeaseFor, List, Prepare, Role, ToAgent};

use units::Marks;

use super::mock::{Agent, Mock, Running, lease, name, order, soon};
use super::{FAST, names, tree};
use crate::Site;

/// Words that no answer and no place of another host may have.
const SECRET: &str = "the-secret-of-the-site";
/// Requests that are made up; each seed draws so many.
const REQUESTS: u64 = 400;
const SEEDS: u64 = 3;

/// Beside `data` for atlas: `in` may be read for cms, slowly, and written by another controller only.
fn more(site: &Site) -> String {
    format!(
        "hooks = false\n[[grant]]\ncontroller = \"*\"\ncollaboration = \"cms\"\nroot = \"{0}\"\nread = true\nrate = \"8 Mb/s\"\n\
         [[grant]]\ncontroller = \"sha256:{1}\"\ncollaboration = \"atlas\"\nroot = \"{0}\"\nread = true\nwrite = true\n",
        site.text("in"),
        "ab".repeat(32)
    )
}

/// A host with things that a controller would like to have.
fn treasure() -> Site {
    let site = Site::new();
    for file in ["in/secret", "outside/secret", "data-of-others/secret", "data/ok"] {
        let path = site.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, if file == "data/ok" { "ok" } else { SECRET }).unwrap();
    }
    for (to, link) in [("../outside", "data/out"), ("/", "data/top"), ("../outside/secret", "data/x/file")] {
        std::os::unix::fs::symlink(to, site.path(link)).unwrap();
    }
    site
}

/// What is outside of what may be written, to be compared: all but the agent's own state.
fn outside(site: &Site) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    ["in", "outside", "data-of-others"].map(|dir| tree::look(&site.path(dir))).into()
}

/// Whether anything beneath a directory has the words.
fn is_stolen(dir: &Path) -> bool {
    let has = |content: &[u8]| content.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    tree::look(dir).into_values().any(|(content, ..)| has(&content))
}

/// Two such hosts of one hostile controller; the first is asked, the other is where things would go to.
struct Hosts {
    _mock: Mock,
    one: Running,
    other: Running,
    from: Agent,
    to: Agent,
}

impl Hosts {
    async fn new() -> Hosts {
        let mock = Mock::new().await;
        let address = mock.address.to_string();
        let site = treasure();
        let grants = more(&site);
        let one = Running::start(site, &address, &grants);
        let (from, _) = mock.welcome().await;
        let other = Running::start(Site::new(), &address, "");
        let (to, _) = mock.welcome().await;
        Hosts { _mock: mock, one, other, from, to }
    }

    /// Has the second host fetch a path of the first with a token; how that ends.
    async fn fetch(&mut self, session: u64, from: &Path, token: &str, what: &[&str]) -> Option<Cause> {
        let there = self.other.site.path("data/booty");
        let way = (self.from.port(), token.to_owned());
        let run = order((session, Role::Destination), (&there, from), way, names(what), lease(1, FAST));
        self.to.send(run).await;
        self.to.end(session).await.1.cause
    }
}

/// Paths that lead out of `data`, or seem to.
fn ways_out(site: &Site) -> Vec<PathBuf> {
    let data = site.text("data");
    let mut ways: Vec<PathBuf> = [
        "/../in",
        "/../outside/secret",
        "/x/../../outside",
        "/./../in",
        "-of-others",
        "/out/secret",
        "/top/etc/passwd",
    ]
    .map(|end| PathBuf::from(format!("{data}{end}")))
    .into();
    for path in ["in", "in/secret", "outside", "outside/secret", "state", "state/key.pem", "enrol", ""] {
        ways.push(site.path(path));
    }
    let process = format!("/proc/{}/root{}", std::process::id(), site.text("outside/secret"));
    ways.extend(["/", "", "data", "../outside", "/etc/passwd", "/proc/self/environ", &process].map(PathBuf::from));
    ways.push(PathBuf::from(format!("/{}", "x/".repeat(3_000))));
    ways
}

#[tokio::test]
async fn no_path_leads_out_in_any_direction() {
    let mut hosts = Hosts::new().await;
    let before = outside(&hosts.one.site);
    let data = hosts.one.site.path("data");
    let mut number = 0;
    for way in ways_out(&hosts.one.site) {
        number += 10;
        let listed = hosts.from.list(number, &way).await;
        assert!(listed.is_err(), "{} was listed: {listed:?}", way.display());
        for (role, n) in [(Role::Source, 1), (Role::Destination, 2)] {
            let made = hosts.from.prepare(number + n, role, &way).await;
            assert!(made.is_err(), "a token for {} as {role:?}", way.display());
            // Nor does it drive itself, though the other host would have it: not begun, or ended with nothing.
            let session = number + 2 + n;
            let there = hosts.other.site.path("data/booty");
            let opposite = if role == Role::Source { Role::Destination } else { Role::Source };
            std::fs::create_dir_all(&there).unwrap();
            let token = hosts.to.prepare(session, opposite, &there).await.unwrap();
            let way_to = (hosts.to.port(), token);
            hosts.from.send(order((session, role), (&way, &there), way_to, names(&["secret"]), lease(1, FAST))).await;
            if hosts.from.begun(session).await.is_ok() {
                let came_of_it = hosts.from.until("it ends", |message| match message {
                    FromAgent::Ended(ended) if ended.session == session => Some((ended.cause, ended.files_done)),
                    FromAgent::Failed(failed) if failed.session == Some(session) => Some((Some(failed.cause), 0)),
                    _ => None,
                });
                let (cause, files) = came_of_it.await;
                assert!(cause.is_some() && files == 0, "a session at {} as {role:?}: {cause:?}", way.display());
            }
        }
    }
    // A link is seen as a link, and is no way in.
    let link = hosts.from.list(5, &data.join("out")).await.unwrap();
    assert!(link.len() == 1 && link[0].kind == api::agent::Kind::Symlink, "{link:?}");
    let token = hosts.from.prepare(6, Role::Source, &data).await.unwrap();
    hosts.fetch(6, &data, &token, &["out/secret", "top/etc/passwd", "x/file", "ok"]).await;
    assert_eq!(std::fs::read(hosts.other.site.path("data/booty/ok")).unwrap(), b"ok");
    assert!(!is_stolen(&hosts.other.site.path("data")), "a link was followed");
    assert_eq!(outside(&hosts.one.site), before);
    tokio::join!(hosts.one.stop(), hosts.other.stop());
}

#[tokio::test]
async fn grants_are_for_one_collaboration_direction_and_controller() {
    let mut hosts = Hosts::new().await;
    let (data, inside) = (hosts.one.site.path("data"), hosts.one.site.path("in"));
    let ask = |session, collaboration: &str, role, path: &Path| {
        let (collaboration, path) = (collaboration.to_owned(), name(path));
        ToAgent::Prepare(Prepare { session, collaboration, role, path, good_ms: u64::MAX })
    };
    let asked = [
        ("cms", Role::Source, &data),
        ("cms", Role::Destination, &data),
        ("cms", Role::Destination, &inside),
        ("atlas", Role::Source, &inside),
        ("atlas", Role::Destination, &inside),
        ("*", Role::Source, &data),
        ("", Role::Source, &data),
        ("ATLAS", Role::Source, &data),
        ("atlas\0", Role::Source, &data),
    ];
    for (session, (collaboration, role, path)) in (100..).zip(asked) {
        hosts.from.send(ask(session, collaboration, role, path)).await;
        let no = hosts.from.begun(session).await.unwrap_err();
        assert_eq!(no.cause, Cause::NotGranted, "{collaboration:?} {role:?} {}", path.display());
        assert!(!no.text.contains(SECRET));
    }
    // What is granted is granted at its rate, however much is asked for, first and later.
    hosts.from.send(ask(1, "cms", Role::Source, &inside)).await;
    let token = hosts.from.until("a token", |message| match message {
        FromAgent::Prepared(prepared) if prepared.session == 1 => Some(prepared.token),
        _ => None,
    });
    assert!(!token.await.is_empty());
    std::fs::write(inside.join("big"), vec![1; 30 << 20]).unwrap();
    let there = hosts.other.site.path("data/big");
    let token = hosts.to.prepare(2, Role::Destination, &there).await.unwrap();
    let way = (hosts.to.port(), token);
    let ToAgent::Run(mut run) = order((2, Role::Source), (&inside, &there), way, names(&["big"]), lease(1, u64::MAX))
    else {
        unreachable!("an order is to run")
    };
    run.collaboration = "cms".into();
    hosts.from.send(ToAgent::Run(run)).await;
    assert_eq!(hosts.from.begun(2).await.unwrap().rate_bps, 8_000_000);
    hosts.from.send(ToAgent::Lease(LeaseFor { session: 2, lease: lease(2, u64::MAX) })).await;
    assert_eq!(hosts.from.begun(2).await.unwrap().rate_bps, 8_000_000);
    hosts.from.send(ToAgent::Stop { session: 2 }).await;
    hosts.from.end(2).await;
    tokio::join!(hosts.one.stop(), hosts.other.stop());
}

#[tokio::test]
async fn tokens_that_are_forged_used_elsewhere_or_revoked_open_nothing() {
    let mut hosts = Hosts::new().await;
    let data = hosts.one.site.path("data");
    let good = hosts.from.prepare(1, Role::Source, &data.join("x")).await.unwrap();
    // The last character but for the case, and its own token of another kind.
    let mut forged = good.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'B' } else { 'A' });
    let writes = hosts.from.prepare(2, Role::Destination, &data.join("y")).await.unwrap();
    let of_other = hosts.to.prepare(3, Role::Source, &hosts.other.site.path("data")).await.unwrap();
    let tries = [
        (&forged, data.join("x")),
        (&good, data.clone()),
        (&good, data.join("y")),
        (&writes, data.join("y")),
        (&of_other, data.join("x")),
    ];
    for (session, (token, path)) in (10..).zip(tries) {
        let cause = hosts.fetch(session, &path, token, &["ok"]).await;
        assert!(cause.is_some(), "session {session} at {}", path.display());
    }
    for session in [1, 2, 99] {
        hosts.from.send(ToAgent::Revoke { session }).await;
    }
    hosts.from.list(20, &data).await.unwrap();
    assert!(hosts.fetch(21, &data.join("x"), &good, &["ok"]).await.is_some(), "it was revoked");
    assert!(!hosts.other.site.path("data/booty/ok").exists());
    tokio::join!(hosts.one.stop(), hosts.other.stop());
}

/// Numbers that look random and are the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    /// A path of words that lead in and out, as it comes.
    fn path(&mut self, site: &Site) -> Vec<u8> {
        let words = ["..", ".", "", "data", "in", "outside", "secret", "out", "top", "x", "state", "\0", "ok", "file"];
        let mut path = if self.below(4) == 0 { String::new() } else { site.text("") };
        if self.below(2) == 0 {
            path += "/data";
        }
        for _ in 0..self.below(6) {
            path += "/";
            path += self.of(&words);
        }
        path.into_bytes()
    }

    fn message(
        &mut self,
        session: u64,
        site: &Site,
        other: &Site,
        port: &(Vec<std::net::SocketAddr>, String),
    ) -> ToAgent {
        let collaboration = self.of(&["atlas", "cms", "*", "", "x"]).to_owned();
        let role = if self.below(2) == 0 { Role::Source } else { Role::Destination };
        let path = Name(self.path(site));
        match self.below(6) {
            0 => ToAgent::List(List { request: session, collaboration, path, after: None }),
            1 => ToAgent::Prepare(Prepare { session, collaboration, role, path, good_ms: self.0 }),
            2 => ToAgent::Stop { session: self.below(500) as u64 },
            3 => ToAgent::Lease(LeaseFor { session: self.below(500) as u64, lease: lease(self.0, self.0) }),
            _ => {
                let there = other.path("data/booty");
                let mut named = names(&["secret", "out/secret"]);
                for _ in 0..self.below(4) {
                    named.push(Name(self.path(site)));
                }
                let way = (port.clone(), self.of(&["", "lh1_x", "\u{1F600}"]).to_owned());
                let here = PathBuf::from(String::from_utf8(path.0).expect("made of text"));
                let order = order((session, role), (&here, &there), way, named, lease(1, FAST));
                let ToAgent::Run(mut run) = order else { unreachable!("an order is to run") };
                run.collaboration = collaboration;
                run.how = How {
                    protect: self.of(&["clear", "private", "none", ""]).to_owned(),
                    overwrite: self.of(&["always", "delete", ""]).to_owned(),
                    checksum: (self.below(3) == 0).then(|| self.of(&["md5", "; rm -rf /", ""]).to_owned()),
                    congestion: (self.below(3) == 0).then(|| self.of(&["cubic", "../../x", ""]).to_owned()),
                    streams: self.0 as u16,
                    streams_max: self.below(3) as u16,
                };
                if self.below(3) == 0 {
                    run.bind = vec!["192.0.2.1".parse().expect("an address"); self.below(40)];
                }
                if self.below(3) == 0 {
                    let marks = Marks { dscp: Some(self.below(256) as u8), flow_label: Some(self.0 as u32) };
                    (run.in_order, run.marks) = (self.below(2) == 0, vec![marks; self.below(3)]);
                }
                if self.below(4) == 0 {
                    run.addresses.clear();
                }
                ToAgent::Run(run)
            }
        }
    }
}

#[tokio::test]
async fn whatever_a_controller_makes_up_nothing_leaves_and_nothing_changes() {
    for seed in 1..=SEEDS {
        eprintln!("seed {seed}");
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut hosts = Hosts::new().await;
        let before = outside(&hosts.one.site);
        let port = hosts.to.port();
        for session in 1_000..1_000 + REQUESTS {
            let message = draw.message(session, &hosts.one.site, &hosts.other.site, &port);
            hosts.from.send(message).await;
        }
        // It has not ended, and still answers what it may.
        let data = hosts.one.site.path("data");
        let listed = soon("it answers", async {
            loop {
                match hosts.from.list(7, &data).await {
                    Ok(listed) => break listed,
                    // What was made up is still being looked at.
                    Err(failed) => assert_eq!(failed.cause, Cause::Busy, "seed {seed}: {failed:?}"),
                }
            }
        });
        assert!(listed.await.iter().any(|entry| entry.name == Name(b"ok".to_vec())), "seed {seed}");
        assert_eq!(outside(&hosts.one.site), before, "seed {seed}");
        let (_one, other) = tokio::join!(hosts.one.stop(), hosts.other.stop());
        assert!(!is_stolen(&other.path("data")), "seed {seed}");
    }
}
