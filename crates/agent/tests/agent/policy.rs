//! What a peer can reach, and above all what it cannot.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use agent::policy::{AgentPolicy, Terms};
use agent::tokens::NewToken;
use agent::{Root, Roots, TokenStore};
use mover::request::Hooks;
use mover::server::{Grant, Policy};
use proto::control::{Code, Direction, Refusal};
use sys::file::{Dir, OpenFlags};

use crate::{Site, at, peer};

use Direction::{Pull, Push};

/// Serves `data` read-only and `in` writable.
fn terms(site: &Site) -> Terms {
    let mut roots = Roots::default();
    roots.add(Root::new(&site.path("data"), false).unwrap()).unwrap();
    roots.add(Root::new(&site.path("in"), true).unwrap()).unwrap();
    Terms { roots, tests: true, relay: true, hooks: Hooks { after_file: Some("/bin/true".into()), ..Hooks::default() } }
}

fn grant(site: &Site, terms: Terms, new: Option<NewToken>) -> Arc<dyn Grant> {
    let store = TokenStore::open(&site.path("state")).unwrap();
    let token = match new {
        None => store.main_token().unwrap(),
        Some(new) => store.issue(&new, None, at(0)).unwrap().text,
    };
    AgentPolicy::new(store, terms, || at(1)).admit(&token, peer()).map_err(|e| e.text).unwrap()
}

fn main_grant(site: &Site) -> Arc<dyn Grant> {
    grant(site, terms(site), None)
}

fn resolve(site: &Site, grant: &dyn Grant, direction: Direction, path: &str) -> Result<(Dir, String), (Code, String)> {
    let whole = path.replace("TOP", site.text("").trim_end_matches('/'));
    match grant.resolve(direction, whole.as_bytes()) {
        Ok((dir, rel)) => Ok((dir, String::from_utf8_lossy(rel.as_bytes()).into_owned())),
        Err(Refusal { code, text }) => Err((code, site.plain(text))),
    }
}

/// Which directory it is, and the rest of the path.
fn found(site: &Site, grant: &dyn Grant, direction: Direction, path: &str) -> (String, String) {
    let (dir, rel) = resolve(site, grant, direction, path).unwrap();
    let meta = dir.stat(b"").unwrap();
    let names = ["data", "data/x", "data/y", "in", "in/deep"];
    let is = |name: &&str| Dir::open(site.path(name)).is_ok_and(|d| d.stat(b"").unwrap().is_same_file(&meta));
    (names.into_iter().find(is).unwrap_or("?").to_owned(), rel)
}

fn pair(a: &str, b: &str) -> (String, String) {
    (a.to_owned(), b.to_owned())
}

#[test]
fn the_main_token_reaches_what_is_served() {
    let site = Site::new();
    let grant = main_grant(&site);
    assert_eq!(found(&site, &*grant, Pull, "TOP/data/x/file"), pair("data", "x/file"));
    assert_eq!(found(&site, &*grant, Pull, "TOP//data///./x/"), pair("data", "x"));
    assert_eq!(found(&site, &*grant, Pull, "TOP/data"), pair("data", ""));
    assert_eq!(found(&site, &*grant, Push, "TOP/in/new/tree"), pair("in", "new/tree"));
    assert_eq!(found(&site, &*grant, Pull, "TOP/in"), pair("in", ""));
    assert!(grant.may_test() && grant.may_relay());
    assert_eq!((grant.name().as_str(), grant.hooks().after_file.as_deref()), ("main", Some("/bin/true")));
}

#[test]
fn nothing_else_is_reached() {
    let site = Site::new();
    fs::create_dir(site.path("data2")).unwrap();
    let grant = main_grant(&site);
    let refused = |direction, path: &str| resolve(&site, &*grant, direction, path).map(|_| ()).unwrap_err();
    for path in ["/etc/passwd", "/", "TOP", "TOP/data2", "TOP/data2/x", "TOP/dat", "TOP/state/token"] {
        let (code, text) = refused(Pull, path);
        assert_eq!(code, Code::Path, "{path}");
        assert!(
            text.ends_with(
                "cannot be read at this agent: what can be read with this token is beneath TOP/data, TOP/in"
            ),
            "{text}"
        );
    }
    assert_eq!(
        refused(Push, "TOP/data/x"),
        (Code::Path, "TOP/data/x cannot be written at this agent, only read: what can be written with this token is beneath TOP/in".into())
    );
    assert_eq!(
        refused(Push, "/etc/cron.d"),
        (
            Code::Path,
            "/etc/cron.d cannot be written at this agent: what can be written with this token is beneath TOP/in".into()
        )
    );
}

#[test]
fn what_climbs_or_is_no_path_is_refused_before_it_is_looked_for() {
    let site = Site::new();
    let grant = main_grant(&site);
    for direction in [Pull, Push] {
        for path in ["TOP/in/../data", "TOP/in/..", "TOP/in/x/../../../etc/passwd", "/.."] {
            let (code, text) = resolve(&site, &*grant, direction, path).map(|_| ()).unwrap_err();
            assert_eq!((code, text), (Code::Path, format!("`{path}` has a `..` in it: write the path without")));
        }
        for path in ["", "in", "./TOP/in"] {
            let refusal = grant.resolve(direction, path.as_bytes()).map(|_| ()).unwrap_err();
            assert_eq!(refusal.text, format!("`{path}` is not absolute: write the whole path, beginning with `/`"));
        }
        let nul = grant.resolve(direction, format!("{}\0/x", site.text("in")).as_bytes()).map(|_| ()).unwrap_err();
        assert!(nul.text.contains("zero byte"), "{}", nul.text);
        assert!(grant.resolve(direction, &[b"/".as_slice(), &[b'x'; 5000]].concat()).is_err());
    }
    let forged = grant.resolve(Pull, b"/x\nroot: denied \x1b[2J").map(|_| ()).unwrap_err().text;
    assert!(!forged.contains('\n') && !forged.contains('\x1b'), "{forged}");
}

#[test]
fn symbolic_links_lead_nowhere_outside() {
    let site = Site::new();
    fs::write(site.path("secret"), "s").unwrap();
    fs::write(site.path("data/y/inside"), "i").unwrap();
    symlink("../../secret", site.path("data/x/up")).unwrap();
    symlink(site.path("data/y"), site.path("data/x/absolute")).unwrap();
    symlink("../..", site.path("data/x/parent")).unwrap();
    symlink("../y", site.path("data/x/sideways")).unwrap();
    let open = |grant: &dyn Grant, path: &str| {
        let (dir, rel) = resolve(&site, grant, Pull, path).unwrap();
        dir.open_file(rel.as_bytes(), OpenFlags { follow: true, ..OpenFlags::read() })
    };
    let main = main_grant(&site);
    for path in
        ["TOP/data/x/up", "TOP/data/x/absolute/inside", "TOP/data/x/parent/secret", "TOP/data/x/parent/state/token"]
    {
        let refused = open(&*main, path).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{path}: {refused}");
    }
    assert!(open(&*main, "TOP/data/x/sideways/inside").is_ok(), "within the root");

    // For a token of data/x the neighbour is as far away as the rest of the world.
    let scoped = grant(&site, terms(&site), Some(NewToken { read: vec![site.path("data/x")], ..NewToken::default() }));
    assert_eq!(found(&site, &*scoped, Pull, "TOP/data/x/sideways"), pair("data/x", "sideways"));
    let refused = open(&*scoped, "TOP/data/x/sideways/inside").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "{refused}");
}

#[test]
fn a_scope_narrows_and_never_widens() {
    let site = Site::new();
    fs::create_dir(site.path("elsewhere")).unwrap();
    fs::create_dir(site.path("in/deep")).unwrap();
    let new = NewToken {
        name: Some("bob".into()),
        read: vec![site.path("data/x"), site.path("elsewhere")],
        write: vec![site.path("in/deep"), site.path("data/y")],
        ..NewToken::default()
    };
    let grant = grant(&site, terms(&site), Some(new));
    assert_eq!(found(&site, &*grant, Pull, "TOP/data/x"), pair("data/x", ""));
    assert_eq!(found(&site, &*grant, Pull, "TOP/data/x/a/b"), pair("data/x", "a/b"));
    assert_eq!(found(&site, &*grant, Push, "TOP/in/deep/a"), pair("in/deep", "a"));
    let refused = |direction, path: &str| resolve(&site, &*grant, direction, path).map(|_| ()).unwrap_err();
    // Beneath a root but not in the scope; in the scope but beneath no root; read but not written; and back.
    for path in ["TOP/data", "TOP/data/y", "TOP/data/xy", "TOP/elsewhere", "TOP/elsewhere/z", "TOP/in/deep"] {
        let (code, text) = refused(Pull, path);
        assert_eq!(
            (code, text),
            (
                Code::Denied,
                format!("{path} cannot be read at this agent: what can be read with this token is beneath TOP/data/x")
            )
        );
    }
    for path in ["TOP/in", "TOP/in/other", "TOP/data/y"] {
        let (code, text) = refused(Push, path);
        assert_eq!(
            (code, text),
            (
                Code::Denied,
                format!(
                    "{path} cannot be written at this agent: what can be written with this token is beneath TOP/in/deep"
                )
            )
        );
    }
    assert_eq!(
        refused(Push, "TOP/data/x/a").1,
        "TOP/data/x/a cannot be written at this agent, only read: what can be written with this token is beneath TOP/in/deep"
    );
    assert!(!grant.may_test() && !grant.may_relay());
    assert_eq!(grant.name(), "bob");
    fs::remove_dir(site.path("data/x")).unwrap();
    assert_eq!(
        refused(Pull, "TOP/data/x/a"),
        (Code::Path, "TOP/data/x/a cannot be reached at this agent: it cannot open TOP/data/x (No such file or directory (os error 2))".into())
    );
}

#[test]
fn a_scope_above_the_roots_is_cut_to_them() {
    let site = Site::new();
    // The keys are elsewhere, so a scope as wide as this can be made.
    let store = TokenStore::open(tempfile::tempdir().unwrap().keep().as_path()).unwrap();
    let new = NewToken { read: vec![site.path("")], test: true, relay: true, ..NewToken::default() };
    let token = store.issue(&new, None, at(0)).unwrap().text;
    let state = store.state_dir().as_path().to_owned();
    let allowed = AgentPolicy::new(store, terms(&site), || at(1)).admit(&token, peer()).unwrap();
    assert_eq!(found(&site, &*allowed, Pull, "TOP/data/x"), pair("data", "x"));
    assert_eq!(
        resolve(&site, &*allowed, Pull, "TOP/other").map(|_| ()).unwrap_err().1,
        "TOP/other cannot be read at this agent: what can be read with this token is beneath TOP/data, TOP/in"
    );
    assert_eq!(
        resolve(&site, &*allowed, Push, "TOP/in").map(|_| ()).unwrap_err().1,
        "TOP/in cannot be written at this agent, only read: nothing can be written with this token; ask the agent's operator for one that can"
    );
    assert!(allowed.may_test() && allowed.may_relay());

    let store = TokenStore::open(&state).unwrap();
    let closed = AgentPolicy::new(store, Terms { tests: false, relay: false, ..terms(&site) }, || at(1))
        .admit(&token, peer())
        .unwrap();
    assert!(!closed.may_test() && !closed.may_relay(), "the configuration goes before the token");
    fs::remove_dir_all(state).unwrap();
}

#[test]
fn a_token_for_one_file_opens_that_file() {
    let site = Site::new();
    fs::write(site.path("data/x/one"), "1").unwrap();
    fs::write(site.path("data/x/two"), "2").unwrap();
    let grant =
        grant(&site, terms(&site), Some(NewToken { read: vec![site.path("data/x/one")], ..NewToken::default() }));
    assert_eq!(found(&site, &*grant, Pull, "TOP/data/x/one"), pair("data/x", "one"));
    for path in ["TOP/data/x", "TOP/data/x/two", "TOP/data/x/one/more"] {
        assert!(resolve(&site, &*grant, Pull, path).is_err(), "{path}");
    }
}

#[test]
fn the_innermost_root_counts() {
    let site = Site::new();
    let mut roots = Roots::default();
    roots.add(Root::new(&site.path("data"), false).unwrap()).unwrap();
    roots.add(Root::new(&site.path("data/x"), true).unwrap()).unwrap();
    let grant = grant(&site, Terms { roots, ..Terms::default() }, None);
    assert_eq!(found(&site, &*grant, Push, "TOP/data/x/new"), pair("data/x", "new"));
    assert_eq!(found(&site, &*grant, Pull, "TOP/data/x/new"), pair("data/x", "new"));
    assert_eq!(found(&site, &*grant, Pull, "TOP/data/y"), pair("data", "y"));
    assert!(resolve(&site, &*grant, Push, "TOP/data/y").is_err());
    assert!(resolve(&site, &*grant, Push, "TOP/data").is_err());
}

#[test]
fn a_root_is_found_by_the_name_the_operator_wrote_too() {
    let site = Site::new();
    symlink(site.path("data"), site.path("alias")).unwrap();
    let mut roots = Roots::default();
    roots.add(Root::new(&site.path("alias"), false).unwrap()).unwrap();
    let grant = grant(&site, Terms { roots, ..Terms::default() }, None);
    for path in ["TOP/alias/x", "TOP/data/x"] {
        assert_eq!(found(&site, &*grant, Pull, path), pair("data", "x"));
    }
    assert!(resolve(&site, &*grant, Pull, "TOP/in").unwrap_err().1.ends_with("beneath TOP/alias"));
}

#[test]
fn the_agents_own_keys_are_never_served() {
    let site = Site::new();
    let mut roots = Roots::default();
    roots.add(Root::new(&site.path(""), true).unwrap()).unwrap();
    let grant = grant(&site, Terms { roots, ..Terms::default() }, None);
    for path in ["TOP/state", "TOP/state/token", "TOP/state/identity.pem"] {
        assert!(resolve(&site, &*grant, Pull, path).is_err(), "{path}");
        assert!(resolve(&site, &*grant, Push, path).is_err(), "{path}");
    }
    assert!(resolve(&site, &*grant, Push, "TOP/statement").is_ok());
}

#[test]
fn who_has_no_good_token_learns_nothing() {
    let site = Site::new();
    let store = TokenStore::open(&site.path("state")).unwrap();
    let new = NewToken { test: true, expires: Some("1s".parse().unwrap()), ..NewToken::default() };
    let expired = store.issue(&new, None, at(0)).unwrap().text;
    let policy = AgentPolicy::new(store, terms(&site), || at(1));
    let told = |token: &str| policy.admit(token, peer()).err().unwrap();
    assert!(policy.admit_at(&expired, peer(), at(0)).is_ok());
    assert_eq!(told(&expired), told("never was one"));
    assert_eq!(told("").code, Code::Denied);
}
