//! Tokens: made, listed, checked, expired, revoked.

use std::fs;
use std::time::Duration;

use agent::tokens::{Access, Issued, NewToken, TOKENS_FILE, TOKENS_MAX, Unfit};
use agent::{Root, Roots, TokenError, TokenStore};

use crate::{Site, at, chain};

fn store(site: &Site) -> TokenStore {
    TokenStore::open(&site.path("state")).unwrap()
}

fn roots(site: &Site) -> Roots {
    let mut roots = Roots::default();
    roots.add(Root::new(&site.path("data"), false).unwrap()).unwrap();
    roots.add(Root::new(&site.path("in"), true).unwrap()).unwrap();
    roots
}

fn reading(site: &Site) -> NewToken {
    NewToken { name: Some("alice".into()), read: vec![site.path("data/x")], test: true, ..NewToken::default() }
}

fn issue(site: &Site, new: &NewToken) -> Result<Issued, String> {
    store(site).issue(new, Some(&roots(site)), at(0)).map_err(|e| site.plain(chain(&e)))
}

#[test]
fn the_main_token_is_made_once_and_opens_all() {
    let site = Site::new();
    let store = store(&site);
    let token = store.main_token().unwrap();
    assert!(token.starts_with("lh1_") && token.len() == 47);
    assert_eq!(store.check(&token, at(0)), Ok(Access::All));
    assert_eq!(self::store(&site).main_token().unwrap(), token, "the next start finds it");
    for wrong in ["", "lh1_", &token[..46], &format!("{token}x"), &token.to_uppercase()] {
        assert_eq!(store.check(wrong, at(0)), Err(Unfit::Unknown), "{wrong}");
    }
}

#[test]
fn a_scoped_token_lasts_until_it_expires() {
    let site = Site::new();
    let new = NewToken { expires: Some("2d".parse().unwrap()), ..reading(&site) };
    let Issued { text, token } = issue(&site, &new).unwrap();
    assert_eq!((token.name.as_str(), token.id.len()), ("alice", 8));
    assert_eq!(token.expires, Some(at(2 * 86_400)));
    let store = store(&site);
    assert_eq!(store.list().unwrap(), std::slice::from_ref(&token));
    let last = at(2 * 86_400) - Duration::from_nanos(1);
    assert!(matches!(store.check(&text, last), Ok(Access::Scoped(found)) if *found == token));
    assert_eq!(store.check(&text, at(2 * 86_400)), Err(Unfit::Expired("alice".into())));
    assert_eq!(store.check(&text, at(0) - Duration::from_secs(86_400)).map(|_| ()), Ok(()), "a clock that went back");
}

#[test]
fn the_file_does_not_hold_the_token() {
    let site = Site::new();
    let Issued { text, token } = issue(&site, &reading(&site)).unwrap();
    let file = fs::read_to_string(site.path("state").join(TOKENS_FILE)).unwrap();
    assert!(!file.contains(&text[4..]), "{file}");
    let digest = file.lines().find_map(|line| line.strip_prefix("sha256 = \"")).unwrap();
    assert!(digest.starts_with(&token.id));
    let plain = site.plain(file.replace(digest, "DIGEST\""));
    let golden = "# Scoped tokens of this agent; made by `longhaul token new`. Of a token only its SHA-256 is kept.\n\n\
        [[token]]\nname = \"alice\"\nsha256 = \"DIGEST\"\nread = [\"TOP/data/x\"]\nwrite = []\ntest = true\nrelay = false\n\
        created_unix_s = 1700000000\n";
    assert_eq!(plain, golden);
}

#[test]
fn a_running_agent_notices_new_and_revoked_tokens() {
    let site = Site::new();
    let running = store(&site);
    let now = std::time::SystemTime::now;
    assert_eq!(running.check("nobody's", now()), Err(Unfit::Unknown));
    // Faster than the file system's clock ticks.
    for round in 0..20 {
        let name = format!("n{round}");
        let Issued { text, token } = issue(&site, &NewToken { name: Some(name.clone()), ..reading(&site) }).unwrap();
        assert!(running.check(&text, now()).is_ok(), "new in round {round}");
        let handle = if round % 2 == 0 { &token.id } else { &name };
        assert_eq!(store(&site).revoke(handle).unwrap(), name);
        assert_eq!(running.check(&text, now()), Err(Unfit::Unknown), "revoked in round {round}");
    }
    let before = running.main_token().unwrap();
    assert_eq!(store(&site).revoke("main").unwrap(), "main");
    assert_eq!(running.check(&before, now()), Err(Unfit::Unknown));
    let after = running.main_token().unwrap();
    assert_eq!(running.check(&after, now()), Ok(Access::All));
}

#[test]
fn what_cannot_be_read_lets_nobody_in_until_it_is_mended() {
    let site = Site::new();
    let running = store(&site);
    let Issued { text, .. } = issue(&site, &reading(&site)).unwrap();
    let main = running.main_token().unwrap();
    let file = site.path("state").join(TOKENS_FILE);
    let good = fs::read(&file).unwrap();
    for damage in [&b"\xff"[..], b"[[token]]", b"unknown = 1"] {
        fs::write(&file, damage).unwrap();
        assert_eq!(running.check(&text, at(0)), Err(Unfit::Unknown));
        assert_eq!(running.check(&main, at(0)), Ok(Access::All), "the main token is another file");
        fs::write(&file, &good).unwrap();
        assert!(running.check(&text, at(0)).is_ok());
    }
    crate::chmod(&file, 0o644);
    assert_eq!(running.check(&text, at(0)), Err(Unfit::Unknown), "others could have added tokens");
    crate::chmod(&file, 0o600);
    assert!(running.check(&text, at(0)).is_ok());
    fs::write(&file, "[[token]]").unwrap();
    assert!(matches!(running.list(), Err(TokenError::State(_))));
}

#[test]
fn scopes_and_names_that_make_no_sense_are_refused() {
    let site = Site::new();
    fs::write(site.path("data/file"), "").unwrap();
    fs::create_dir(site.path("elsewhere")).unwrap();
    let none = NewToken::default;
    issue(&site, &reading(&site)).unwrap();
    let cases = [
        (none(), "the token would be good for nothing: give it --read DIR or --write DIR"),
        (reading(&site), "there is a token `alice` already: choose another --name, or revoke it first"),
        (
            NewToken { name: Some("a b".into()), ..reading(&site) },
            "`a b` cannot name a token: it takes 1 to 64 characters without spaces, and not `main`",
        ),
        (
            NewToken { name: Some("main".into()), ..reading(&site) },
            "`main` cannot name a token: it takes 1 to 64 characters without spaces, and not `main`",
        ),
        (
            NewToken { expires: Some("0s".parse().unwrap()), name: None, ..reading(&site) },
            "a token that expires in 0s is of no use: say for example `--expires 2d`",
        ),
        (
            NewToken { read: vec![site.path("data/none")], ..none() },
            "cannot make a token for --read TOP/data/none: No such file or directory (os error 2)",
        ),
        (
            NewToken { write: vec![site.path("data/file")], ..none() },
            "TOP/data/file is no directory: --write takes the directory that may be written beneath",
        ),
        (
            NewToken { write: vec![site.path("data/x")], ..none() },
            "TOP/data/x cannot be written: the root TOP/data is read-only (serve it with --root TOP/data)",
        ),
        (
            NewToken { read: vec![site.path("elsewhere")], ..none() },
            "TOP/elsewhere is beneath no root of this agent, so the token would open nothing; its roots: TOP/data, TOP/in",
        ),
        (
            NewToken { read: vec![site.path("")], ..none() },
            "TOP would hand out this agent's own keys, which are in TOP/state: choose another directory",
        ),
        (
            NewToken { read: vec![site.path("state")], ..none() },
            "TOP/state would hand out this agent's own keys, which are in TOP/state: choose another directory",
        ),
    ];
    for (new, message) in cases {
        assert_eq!(issue(&site, &new).map(|_| ()).unwrap_err(), message);
    }
    assert_eq!(
        store(&site).revoke("bob").unwrap_err().to_string(),
        "there is no token `bob`: `longhaul token ls` lists them"
    );
    assert_eq!(store(&site).revoke("bob").unwrap_err().exit_code(), 2);
    let unknown_roots = store(&site).issue(&NewToken { read: vec![site.path("elsewhere")], ..none() }, None, at(0));
    assert!(unknown_roots.is_ok(), "without roots at hand it is checked when it is used");
    assert!(issue(&site, &NewToken { read: vec![site.path("data/file")], ..none() }).is_ok(), "one file");
}

#[test]
fn expired_tokens_make_room() {
    let site = Site::new();
    let store = store(&site);
    let digest = |n: usize| format!("{n:064x}");
    let record = |n: usize| {
        let expires = if n == 7 { "expires_unix_s = 1700000000\n" } else { "" };
        format!(
            "[[token]]\nname = \"n{n}\"\nsha256 = \"{}\"\nread = []\nwrite = []\ntest = true\nrelay = false\ncreated_unix_s = 1\n{expires}",
            digest(n)
        )
    };
    let file = site.path("state").join(TOKENS_FILE);
    fs::write(&file, (0..TOKENS_MAX).map(record).collect::<String>()).unwrap();
    crate::chmod(&file, 0o600);
    let test = NewToken { test: true, ..NewToken::default() };
    let full = store.issue(&test, Some(&roots(&site)), at(0) - Duration::from_secs(1)).map(|_| ()).unwrap_err();
    assert_eq!(full.to_string(), "there are 1000 tokens already: revoke some (`longhaul token ls`)");
    store.issue(&test, Some(&roots(&site)), at(0)).unwrap();
    let names: Vec<String> = store.list().unwrap().into_iter().map(|token| token.name).collect();
    assert_eq!(names.len(), TOKENS_MAX);
    assert!(!names.contains(&"n7".to_owned()));
}

#[test]
fn commands_at_the_same_time_lose_nothing() {
    let site = Site::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let site = &site;
            scope.spawn(move || {
                issue(site, &NewToken { name: Some(format!("n{n}")), ..reading(site) }).map(|_| ()).unwrap()
            });
        }
    });
    assert_eq!(store(&site).list().unwrap().len(), 8);
}
