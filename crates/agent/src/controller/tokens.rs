//! Tokens for single sessions, as the controller asked for them. They live in memory only; of each just its owner knows the text. What the
//! operator of the host decides reaches the sessions that run with them, whoever drives these.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mover::server::Standing;
use tokio::sync::watch;

use crate::tokens::{find_constant_time, new_text, sha256};

use super::grants::PathGrant;

/// Session tokens at once; those that are good no more make room.
pub const TOKENS_MAX: usize = 1024;
/// How long a token may be good before it is used.
pub const UNUSED_MAX: Duration = Duration::from_secs(3600);
/// How long a token stays good after each use: a session that lost its connections comes again with it. A controller that is there
/// revokes it when the session is over.
pub const USED_GOOD: Duration = Duration::from_secs(24 * 3600);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Too many.
    #[error("this agent has {TOKENS_MAX} sessions prepared: revoke some, or wait until they expire")]
    Full,
    /// No random bytes.
    #[error("cannot make a token")]
    Make(#[source] crate::tokens::TokenError),
}

/// The tokens. Times are those of a clock that never goes back.
#[derive(Debug, Default)]
pub struct SessionTokens(Mutex<Tokens>);

#[derive(Debug, Default)]
struct Tokens {
    /// Those that are good, and those with which a session still runs.
    of: BTreeMap<u64, SessionToken>,
    /// The host stands still.
    is_still: bool,
}

#[derive(Debug)]
struct SessionToken {
    sha256: [u8; 32],
    /// Kept, so that a question that is asked twice has one answer.
    text: String,
    grant: Arc<PathGrant>,
    until: Duration,
    /// For the sessions that run with it: each has a receiver until it is over.
    standing: watch::Sender<Standing>,
}

impl SessionToken {
    fn is_kept(&self, now: Duration) -> bool {
        now < self.until || self.standing.receiver_count() > 0
    }
}

/// What is left of a session that was told to end.
#[derive(Debug)]
pub enum Ending {
    /// Nothing runs with its token.
    Over,
    /// It ends in good order: it is over when this has no receiver any more.
    Soon(watch::Sender<Standing>),
    /// It was told before.
    Told,
}

impl SessionTokens {
    /// A token for a session. The same again for the same session gives the same token, good for longer.
    ///
    /// # Errors
    /// When there are too many, or no randomness.
    pub fn make(&self, session: u64, grant: PathGrant, good: Duration, now: Duration) -> Result<String, TokenError> {
        let Tokens { of: tokens, is_still } = &mut *self.lock();
        tokens.retain(|_, token| token.is_kept(now));
        let until = now.saturating_add(good.min(UNUSED_MAX));
        let is_same = |token: &SessionToken| token.grant.path() == grant.path() && token.grant.role() == grant.role();
        if let Some(token) = tokens.get_mut(&session).filter(|token| now < token.until && is_same(token)) {
            token.until = token.until.max(until);
            return Ok(token.text.clone());
        }
        if tokens.len() >= TOKENS_MAX && !tokens.contains_key(&session) {
            return Err(TokenError::Full);
        }
        let text = new_text().map_err(TokenError::Make)?;
        let standing = watch::Sender::new(if *is_still { Standing::Still } else { Standing::Goes });
        let grant = Arc::new(grant.obeying(standing.clone()));
        let token = SessionToken { sha256: sha256(&text), text: text.clone(), grant, until, standing };
        if let Some(before) = tokens.insert(session, token) {
            before.standing.send_replace(Standing::Over);
        }
        Ok(text)
    }

    /// What a token opens, if it is one and good.
    #[must_use]
    pub fn check(&self, text: &str, now: Duration) -> Option<Arc<PathGrant>> {
        let tokens = &mut self.lock().of;
        let token = find_constant_time(&sha256(text), tokens.values_mut().map(|token| (token.sha256, token)))?;
        if now >= token.until {
            return None;
        }
        token.until = token.until.max(now.saturating_add(USED_GOOD));
        Some(token.grant.clone())
    }

    /// Makes the token of a session good for nothing. What runs with it comes to its own end: hooks, above all.
    pub fn revoke(&self, session: u64) {
        let tokens = &mut self.lock().of;
        if let Some(token) = tokens.get_mut(&session) {
            token.until = Duration::ZERO;
        }
        tokens.retain(|of, token| *of != session || token.is_kept(Duration::ZERO));
    }

    /// The same, and what runs with it ends in good order.
    pub fn end(&self, session: u64) -> Ending {
        self.revoke(session);
        let tokens = &self.lock().of;
        let Some(token) = tokens.get(&session) else { return Ending::Over };
        match token.standing.send_replace(Standing::Over) {
            Standing::Over => Ending::Told,
            Standing::Goes | Standing::Still => Ending::Soon(token.standing.clone()),
        }
    }

    /// The same for all.
    pub fn end_all(&self) {
        for token in std::mem::take(&mut self.lock().of).into_values() {
            token.standing.send_replace(Standing::Over);
        }
    }

    /// Has sessions stand still, or go on.
    pub fn stand_still(&self, still: bool) {
        let all = &mut *self.lock();
        all.is_still = still;
        let now = if still { Standing::Still } else { Standing::Goes };
        for token in all.of.values() {
            // What is over stays so.
            token.standing.send_if_modified(|is| *is != Standing::Over && std::mem::replace(is, now) != now);
        }
    }

    /// Sessions that run with such tokens.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.lock().of.values().map(|token| token.standing.receiver_count()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use api::agent::Role;
    use mover::request::{Fingerprint, Hooks};
    use mover::server::Grant;

    use super::super::grants::{Asker, Grants, SiteGrant};
    use super::*;
    use crate::roots::Root;

    fn grant(dir: &tempfile::TempDir, name: &str) -> PathGrant {
        let grants = Grants::new(vec![SiteGrant {
            controller: None,
            collaboration: "*".into(),
            root: Root::new(dir.path(), false).unwrap(),
            read: true,
            write: false,
            rate_bps: None,
            hooks: false,
        }]);
        let asker = Asker { controller: Fingerprint([0; 32]), collaboration: "x" };
        let path = dir.path().join(name).into_os_string().into_encoded_bytes();
        grants.find(asker, Role::Source, &path, &Hooks::default()).unwrap()
    }

    #[test]
    fn a_token_is_good_for_a_while_and_longer_once_used() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = SessionTokens::default();
        let s = Duration::from_secs;
        let one = tokens.make(1, grant(&dir, "a"), s(10), s(100)).unwrap();
        assert_eq!(tokens.make(1, grant(&dir, "a"), s(10), s(101)).unwrap(), one, "asked twice");
        let other = tokens.make(2, grant(&dir, "b"), s(10), s(100)).unwrap();
        assert!(tokens.check(&one, s(110)).is_some(), "until 111");
        assert!(tokens.check(&other, s(110)).is_none(), "never used");
        assert!(tokens.check(&one, s(110) + USED_GOOD - s(1)).is_some());
        assert!(tokens.check("lh1_x", s(110)).is_none());
        let moved = tokens.make(1, grant(&dir, "c"), s(10), s(200)).unwrap();
        assert_ne!(moved, one, "another path is another token");
        assert!(tokens.check(&one, s(200)).is_none());
        tokens.revoke(1);
        assert!(tokens.check(&moved, s(201)).is_none());
        let long = tokens.make(3, grant(&dir, "a"), s(1 << 40), s(0)).unwrap();
        assert!(tokens.check(&long, UNUSED_MAX).is_none(), "an hour is the most");
    }

    #[test]
    fn sessions_stand_as_the_operator_says() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = SessionTokens::default();
        let s = Duration::from_secs;
        let text = tokens.make(1, grant(&dir, "a"), s(10), s(0)).unwrap();
        let running = tokens.check(&text, s(1)).unwrap().standing().unwrap();
        assert_eq!((tokens.in_use(), *running.borrow()), (1, Standing::Goes));
        tokens.stand_still(true);
        assert_eq!(*running.borrow(), Standing::Still);
        tokens.end_all();
        assert_eq!(*running.borrow(), Standing::Over);
        assert!(tokens.check(&text, s(1)).is_none(), "it opens nothing");
        assert_eq!(tokens.in_use(), 0);
        let text = tokens.make(2, grant(&dir, "a"), s(10), s(0)).unwrap();
        let next = tokens.check(&text, s(1)).unwrap().standing().unwrap();
        assert_eq!(*next.borrow(), Standing::Still, "the host stands still, whoever its controller is");
        tokens.stand_still(false);
        assert_eq!((*next.borrow(), *running.borrow()), (Standing::Goes, Standing::Over), "what is over is over");
    }

    #[test]
    fn one_session_ends_and_the_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = SessionTokens::default();
        let s = Duration::from_secs;
        let running = [1, 2, 3].map(|session| {
            let text = tokens.make(session, grant(&dir, "a"), s(10), s(0)).unwrap();
            (tokens.check(&text, s(1)).unwrap().standing().unwrap(), text)
        });
        let [(one, of_one), (two, of_two), (three, _)] = running;
        // Revoked, it opens nothing; who runs with it does not notice, but for what the host's operator says.
        tokens.revoke(1);
        assert!(tokens.check(&of_one, s(1)).is_none());
        assert_eq!((*one.borrow(), tokens.in_use()), (Standing::Goes, 3));
        let Ending::Soon(of) = tokens.end(2) else { panic!("it runs") };
        assert!(matches!(tokens.end(2), Ending::Told));
        assert!(tokens.check(&of_two, s(1)).is_none());
        tokens.stand_still(true);
        assert_eq!([*one.borrow(), *two.borrow(), *three.borrow()], [Standing::Still, Standing::Over, Standing::Still]);
        drop(two);
        assert_eq!((of.receiver_count(), tokens.in_use()), (0, 2));
        assert!(matches!((tokens.end(2), tokens.end(9)), (Ending::Over, Ending::Over)));
        // One that runs is reached for ever, however long ago it used its token.
        tokens.make(4, grant(&dir, "a"), s(10), s(2) + USED_GOOD * 2).unwrap();
        assert!(matches!(tokens.end(3), Ending::Soon(_)));
    }

    #[test]
    fn there_are_so_many_and_old_ones_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = SessionTokens::default();
        let s = Duration::from_secs;
        for session in 0..TOKENS_MAX as u64 {
            tokens.make(session, grant(&dir, "a"), s(10), s(0)).unwrap();
        }
        assert!(matches!(tokens.make(u64::MAX, grant(&dir, "a"), s(10), s(9)), Err(TokenError::Full)));
        assert!(tokens.make(u64::MAX, grant(&dir, "a"), s(10), s(10)).is_ok());
    }
}
