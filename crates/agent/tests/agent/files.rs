//! What is kept in the state directory, and who may read it.

use std::fs;
use std::path::Path;

use agent::tokens::{MAIN_FILE, TOKENS_FILE};
use agent::{TokenStore, tokens::NewToken};
use mover::request::Fingerprint;

use service::{IDENTITY_FILE, Identity, IdentityError, PrivateDir, ephemeral};

use crate::{Site, at, chain, chmod, mode};

/// The identity of a state directory, as an agent asks for it.
fn load_or_make(state: &Path, hostname: &str) -> Result<(Identity, bool), IdentityError> {
    service::load_or_make(&PrivateDir::open(state, "choose another place with --state-dir")?, hostname)
}

#[test]
fn an_identity_is_made_once_and_kept_private() {
    let site = Site::new();
    let state = site.path("deep/state");
    let (first, made) = load_or_make(&state, "dtn.example.org").unwrap();
    assert!(made);
    let (second, made) = load_or_make(&state, "another.example.org").unwrap();
    assert!(!made);
    assert_eq!((&first.certificate, &first.key), (&second.certificate, &second.key));
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join(IDENTITY_FILE)), 0o600);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "no temporary file is left");

    let other = ephemeral("dtn.example.org").unwrap();
    assert_ne!(Fingerprint::of(&first.certificate), Fingerprint::of(&other.certificate));
    assert!(ephemeral("what no certificate can name: \u{1f4be}").is_ok());
}

#[test]
fn agents_that_start_at_once_agree_on_one_identity_and_token() {
    let site = Site::new();
    let state = site.path("state");
    let start = || {
        let (identity, _) = load_or_make(&state, "host").unwrap();
        (identity.certificate, TokenStore::open(&state).unwrap().main_token().unwrap())
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|one| *one == all[0]));
}

#[test]
fn secrets_that_others_can_read_are_refused() {
    let site = Site::new();
    let state = site.path("state");
    load_or_make(&state, "host").unwrap();
    let store = TokenStore::open(&state).unwrap();
    store.issue(&NewToken { test: true, ..NewToken::default() }, None, at(0)).unwrap();
    for name in [MAIN_FILE, TOKENS_FILE] {
        assert_eq!(mode(&state.join(name)), 0o600, "{name}");
    }
    for (name, bits) in [(IDENTITY_FILE, 0o640), (MAIN_FILE, 0o604), (TOKENS_FILE, 0o660)] {
        chmod(&state.join(name), bits);
        let told = match name {
            IDENTITY_FILE => chain(&load_or_make(&state, "host").map(|_| ()).unwrap_err()),
            _ => chain(&TokenStore::open(&state).unwrap_err()),
        };
        let path = format!("TOP/state/{name}");
        let expected = format!(
            "{path} holds a secret, but others can read it (mode {bits:04o}): run `chmod 600 {path}`; if they may have read it, remove it and a new one is made"
        );
        assert_eq!(site.plain(told), expected);
        chmod(&state.join(name), 0o600);
    }
    chmod(&state, 0o777);
    let told = TokenStore::open(&state).unwrap_err().to_string();
    assert_eq!(site.plain(told), "others can change the directory TOP/state (mode 0777): run `chmod 700 TOP/state`");
}

#[test]
fn a_damaged_identity_is_refused_with_the_way_out() {
    let site = Site::new();
    let state = site.path("state");
    load_or_make(&state, "host").unwrap();
    let file = state.join(IDENTITY_FILE);
    let good = fs::read_to_string(&file).unwrap();
    let certificate = good.find("-----BEGIN CERTIFICATE").unwrap();
    load_or_make(&site.path("other"), "host").unwrap();
    let other = fs::read_to_string(site.path("other").join(IDENTITY_FILE)).unwrap();
    let mixed = format!("{}{}", &other[..other.find("-----BEGIN CERTIFICATE").unwrap()], &good[certificate..]);
    for (text, why) in [
        ("", "it has no PKCS#8 key"),
        (&good[..certificate], "it has no certificate"),
        (&good[certificate..], "it has no PKCS#8 key"),
        (&mixed, "key and certificate do not go together"),
    ] {
        fs::write(&file, text).unwrap();
        let told = load_or_make(&state, "host").map(|_| ()).unwrap_err().to_string();
        assert!(
            told.contains(why)
                && told.ends_with("remove it: a new one is made, and clients must accept its fingerprint"),
            "{told}"
        );
    }
}

#[test]
fn a_state_directory_that_cannot_be_made_is_named() {
    let site = Site::new();
    fs::write(site.path("file"), "").unwrap();
    let told = load_or_make(&site.path("file/state"), "host").map(|_| ()).unwrap_err();
    assert_eq!(
        site.plain(chain(&told)),
        "cannot make the state directory TOP/file/state: choose another place with --state-dir: Not a directory (os error 20)"
    );
}
