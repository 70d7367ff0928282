//! Tokens that a driver has made for another agent, so that its own need not leave its hands.
//!
//! Such a token opens one copy: the job, the direction, the paths, the names and the options that it was made
//! for. It is good while the connection that asked for it is open and for [`GRACE`] after that was lost, and never
//! longer than the token of who asked, which is admitted anew each time. It is nowhere but in memory.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use proto::control::{Code, Control, Delegated, Direction, Refusal, Work};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::asked::Asked;
use super::{Admitted, Server, busy, refuse};
use crate::link::{self, Link};
use crate::session::{SECOND, Wire, stopped};

/// Delegated tokens at once; those in their grace count too.
const DELEGATIONS_MAX: usize = 256;
/// How long a token outlasts a connection that was lost: the copy goes on and may have to connect again, for which
/// it takes its pauses (16 s) and some attempts that time out (10 s each).
pub(super) const GRACE: Duration = Duration::from_secs(120);
/// What every token begins with, so that leaked ones can be found by searching for it.
const PREFIX: &str = "lh1_d";

/// Digest of all that is asked for.
pub(super) type Terms = [u8; 32];

/// What a request asks for, if it can be delegated.
pub(super) fn terms(Asked { open, names }: &Asked) -> Option<Terms> {
    let (paths, options) = match &open.work {
        Work::Copy { paths, options, .. } | Work::Delegate { paths, options } => (paths, options),
        Work::Memory { .. } | Work::Relay(_) => return None,
    };
    let mut bytes = Vec::new();
    // It came in a frame, so it fits into one.
    proto::frame::encode(&(open.job, open.direction, paths, options), &mut bytes);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes);
    for name in &names.list {
        hasher.update(&(name.as_bytes().len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    Some(*hasher.finalize().as_bytes())
}

/// The answer to a delegated token that asks for something else.
pub(super) fn other_terms() -> Refusal {
    let text = "this token is for one copy, and something else was asked for: use a token of the agent's operator";
    Refusal { code: Code::Denied, text: text.to_owned() }
}

/// All tokens that are delegated now.
#[derive(Default)]
pub(super) struct Delegations {
    held: Mutex<Vec<Held>>,
}

struct Held {
    digest: [u8; 32],
    terms: Terms,
    /// The token of who asked.
    by: String,
    /// `None` while the connection is open.
    until: Option<Instant>,
}

/// Keeps a token good.
pub(super) struct Keep<'a> {
    delegations: &'a Delegations,
    digest: [u8; 32],
    revoked: bool,
}

impl Delegations {
    /// Makes a token for the copy of `terms`.
    pub(super) fn make(&self, by: String, terms: Terms, now: Instant) -> Result<(String, Keep<'_>), Refusal> {
        let mut secret = [0; 32];
        sys::random::fill(&mut secret).map_err(|e| Refusal { code: Code::Failed, text: e.to_string() })?;
        let token = secret.iter().fold(PREFIX.to_owned(), |text, byte| format!("{text}{byte:02x}"));
        let digest = sha256(&token);
        let mut held = self.held.lock().expect("no panic under the lock");
        held.retain(|one| one.until.is_none_or(|until| now < until));
        if held.len() >= DELEGATIONS_MAX {
            return Err(busy("this agent takes part in as many copies between agents as it may"));
        }
        held.push(Held { digest, terms, by, until: None });
        Ok((token, Keep { delegations: self, digest, revoked: false }))
    }

    /// The token of who delegated this one, and what it is for. All are compared, each in constant time.
    pub(super) fn find(&self, token: &str, now: Instant) -> Option<(String, Terms)> {
        let digest = sha256(token);
        let held = self.held.lock().expect("no panic under the lock");
        let mut found = None;
        for one in held.iter() {
            if verify_slices_are_equal(&one.digest, &digest).is_ok() {
                found = Some(one);
            }
        }
        let found = found.filter(|one| one.until.is_none_or(|until| now < until))?;
        Some((found.by.clone(), found.terms))
    }

    fn close(&self, digest: &[u8; 32], until: Option<Instant>) {
        let mut held = self.held.lock().expect("no panic under the lock");
        match until {
            None => held.retain(|one| one.digest != *digest),
            Some(_) => held.iter_mut().filter(|one| one.digest == *digest).for_each(|one| one.until = until),
        }
    }
}

impl Keep<'_> {
    /// The copy is over: the token is good for nothing any more.
    pub(super) fn revoke(mut self) {
        self.revoked = true;
    }

    fn lose(&self, now: Instant) {
        self.delegations.close(&self.digest, (!self.revoked).then(|| now + GRACE));
    }
}

impl Drop for Keep<'_> {
    fn drop(&mut self) {
        self.lose(Instant::now());
    }
}

fn sha256(text: &str) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().try_into().expect("32 bytes")
}

impl Server {
    /// Makes a token for whoever asks and keeps it while the connection is open.
    pub(super) async fn delegate(&self, mut stream: TlsStream<TcpStream>, asked: &Asked, admitted: Admitted) {
        let made = self.may_delegate(asked, &admitted).and_then(|terms| {
            let now = Instant::now();
            self.delegations.make(admitted.token, terms, now)
        });
        let (token, keep) = match made {
            Ok(made) => made,
            Err(why) => return refuse(stream, why).await,
        };
        let delegated = Delegated { token, grace_ms: GRACE.as_millis() as u64 };
        if link::write(&mut stream, &Control::Delegated(delegated)).await.is_err() {
            return keep.revoke();
        }
        tracing::info!(from = %admitted.from, direction = ?asked.open.direction, "delegated to another agent");
        if self.held_open(Link::new(stream)).await {
            keep.revoke();
        }
    }

    /// Refuses at once what the copy would be refused later.
    fn may_delegate(&self, asked: &Asked, admitted: &Admitted) -> Result<Terms, Refusal> {
        let open = &asked.open;
        // One step only: who was let in by a delegated token makes no further ones.
        let Work::Delegate { paths, .. } = &open.work else { return Err(other_terms()) };
        let terms = terms(asked).filter(|_| admitted.terms.is_none()).ok_or_else(other_terms)?;
        if open.direction == Direction::Push && paths.len() != 1 {
            return Err(Refusal { code: Code::Path, text: "a push has one destination".to_owned() });
        }
        for path in paths {
            admitted.grant.resolve(open.direction, path)?;
        }
        Ok(terms)
    }

    /// Waits until the connection is closed or lost; true if it was closed in good order.
    async fn held_open(&self, link: Link) -> bool {
        let mut wire = Wire::new(link, self.options.limits.timeout);
        let mut tick = tokio::time::interval(SECOND);
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                message = wire.link.recv() => match message {
                    Ok(message) => match wire.hear(message).await {
                        None => {}
                        Some(Control::Bye(_)) => return true,
                        Some(_) => return false,
                    },
                    Err(_) => return false,
                },
                _ = tick.tick() => if wire.tick(Instant::now()).await.is_err() {
                    return false;
                },
                () = stopped(&mut stop) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use proto::RelPath;
    use proto::control::{CopyOptions, Open, Settings};
    use sys::file::Dir;
    use tokio::sync::{Semaphore, watch};

    use super::super::asked::Names;
    use super::*;
    use crate::accept::Hub;
    use crate::request::{Hooks, Limits};
    use crate::server::{Grant, Policy, ServeLimits, ServeOptions};

    /// Lets in `lh1_main` as long as it is good.
    struct Door(Arc<AtomicBool>);

    impl Policy for Door {
        fn admit(&self, token: &str, _from: SocketAddr) -> Result<Arc<dyn Grant>, Refusal> {
            let good = token == "lh1_main" && self.0.load(Ordering::Relaxed);
            let no = || Refusal { code: Code::Denied, text: "no".into() };
            if good { Ok(Arc::new(Everything)) } else { Err(no()) }
        }
    }

    struct Everything;

    impl Grant for Everything {
        fn resolve(&self, _: Direction, _: &[u8]) -> Result<(Dir, RelPath), Refusal> {
            Ok((Dir::open("/").expect("it is there"), RelPath::root()))
        }

        fn may_test(&self) -> bool {
            true
        }

        fn may_relay(&self) -> bool {
            true
        }

        fn hooks(&self) -> Hooks {
            Hooks::default()
        }

        fn name(&self) -> String {
            "main".into()
        }
    }

    fn server(good: &Arc<AtomicBool>) -> Server {
        let options = ServeOptions {
            policy: Arc::new(Door(good.clone())),
            bounds: ServeLimits { sessions: 2, streams: 2, handshakes: 2, memory_bytes: 64 << 20, rate_bps: None },
            limits: Limits::default(),
            counters: Arc::default(),
            addresses: Vec::new(),
        };
        Server::new(options, Hub::new(2, 2, Arc::default()), 2, watch::channel(false).1)
    }

    #[test]
    fn it_goes_no_further_than_who_asked() {
        let good = Arc::new(AtomicBool::new(true));
        let server = server(&good);
        let admit = |token: &str| server.admit(token.to_owned(), "192.0.2.1:9".parse().expect("an address"));
        let asked = open(Direction::Push, delegate(b"/in"));
        let main = admit("lh1_main").map_err(|e| e.text).unwrap();
        let terms = server.may_delegate(&asked, &main).map_err(|e| e.text).unwrap();
        let (token, _keep) = server.delegations.make(main.token, terms, Instant::now()).map_err(|e| e.text).unwrap();
        let delegated = admit(&token).map_err(|e| e.text).unwrap();
        assert_eq!(delegated.terms, Some(terms));
        assert!(server.may_delegate(&asked, &delegated).is_err(), "one step only");
        good.store(false, Ordering::Relaxed);
        assert!(admit(&token).is_err(), "the token of who asked was revoked");
    }

    fn open(direction: Direction, work: Work) -> Asked {
        with_names(direction, work, &[])
    }

    fn with_names(direction: Direction, work: Work, names: &[&str]) -> Asked {
        let settings = Settings { streams_max: 4, ..crate::net::open::plain_settings() };
        let open = Open { job: [1; 16], session: [2; 16], direction, work, settings, names: names.len() as u32 };
        let list = names.iter().map(|name| RelPath::new(*name).expect("a path")).collect();
        let memory = Arc::new(Semaphore::new(1)).try_acquire_many_owned(0).expect("nothing is taken");
        Asked { open, names: Names { list, memory } }
    }

    fn delegate(path: &[u8]) -> Work {
        Work::Delegate { paths: vec![path.to_vec()], options: CopyOptions::default() }
    }

    fn copy(path: &[u8], options: CopyOptions) -> Work {
        Work::Copy { paths: vec![path.to_vec()], options, single: true, source_key: [7; 16], reorder_chunks: None }
    }

    #[test]
    fn a_token_is_for_one_copy() {
        let given = terms(&open(Direction::Push, delegate(b"/in/x")));
        let asked = |direction, work| terms(&open(direction, work));
        let plain = CopyOptions::default;
        assert!(given.is_some());
        assert_eq!(asked(Direction::Push, copy(b"/in/x", plain())), given);
        assert_ne!(asked(Direction::Pull, copy(b"/in/x", plain())), given, "another direction");
        assert_ne!(asked(Direction::Push, copy(b"/in", plain())), given, "a wider place");
        assert_ne!(asked(Direction::Push, copy(b"/in/x/y", plain())), given, "another place");
        let deleting = CopyOptions { delete: true, ..plain() };
        assert_ne!(asked(Direction::Push, copy(b"/in/x", deleting)), given, "other options");
        let mut other = open(Direction::Push, copy(b"/in/x", plain()));
        other.open.job = [2; 16];
        assert_ne!(terms(&other), given, "another job");
        let named = |names: &[&str]| terms(&with_names(Direction::Push, copy(b"/in/x", plain()), names));
        let all = [named(&[]), named(&["a", "b"]), named(&["a"]), named(&["ab"]), named(&["a/b"])];
        assert_eq!(all[0], given);
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one), "other names: {n}");
        }
        assert_eq!(asked(Direction::Push, Work::Memory { duration_ms: 1 }), None);
    }

    #[test]
    fn it_lasts_as_long_as_its_connection_and_a_grace() {
        let (delegations, now) = (Delegations::default(), Instant::now());
        let later = |s| now + Duration::from_secs(s);
        let (token, keep) = delegations.make("lh1_main".into(), [3; 32], now).map_err(|e| e.text).unwrap();
        let found = |token: &str, now| delegations.find(token, now);
        assert_eq!(found(&token, later(1_000_000)), Some(("lh1_main".to_owned(), [3; 32])));
        assert_eq!(found("lh1_main", now), None);
        assert_eq!(found(&token[..token.len() - 1], now), None);
        keep.lose(now);
        assert!(found(&token, later(GRACE.as_secs() - 1)).is_some());
        assert_eq!(found(&token, later(GRACE.as_secs())), None);
        keep.revoke();
        assert_eq!(found(&token, now), None, "revoked at once");
    }

    #[test]
    fn there_is_a_bound_and_the_old_make_room() {
        let (delegations, now) = (Delegations::default(), Instant::now());
        let make = |now| delegations.make(String::new(), [0; 32], now);
        let kept: Vec<_> = (0..DELEGATIONS_MAX).map(|_| make(now).map_err(|e| e.text).unwrap()).collect();
        assert_eq!(make(now).err().map(|why| why.code), Some(Code::Busy));
        kept[0].1.lose(now);
        assert!(make(now).is_err(), "it may still come");
        assert!(make(now + GRACE).is_ok());
    }
}
