//! Pinning, refusing, and many at once.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::*;

fn print(byte: u8) -> Fingerprint {
    Fingerprint([byte; 32])
}

fn file() -> (tempfile::TempDir, KnownHosts) {
    let dir = tempfile::tempdir().unwrap();
    let known = KnownHosts::new(dir.path().join("state/longhaul/known_hosts"));
    (dir, known)
}

#[test]
fn pins_on_first_use_and_knows_it_afterwards() {
    let (_dir, known) = file();
    assert_eq!(known.check("host:4810", &print(1)).unwrap(), Known::Pinned);
    assert_eq!(known.check("host:4810", &print(1)).unwrap(), Known::Same);
    assert_eq!(known.check("host:4811", &print(2)).unwrap(), Known::Pinned);
    assert_eq!(known.check("[::1]:4810", &print(3)).unwrap(), Known::Pinned);
    let text = fs::read_to_string(known.path()).unwrap();
    assert_eq!(text.lines().next().unwrap(), format!("host:4810 sha256:{}", "01".repeat(32)));
    assert_eq!(text.lines().count(), 3);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(known.path()), mode(known.path().parent().unwrap())), (0o600, 0o700));
}

#[test]
fn a_change_is_refused_and_the_text_leads_out() {
    let (_dir, known) = file();
    known.check("other:4810", &print(9)).unwrap();
    known.check("host:4810", &print(1)).unwrap();
    let text = known.check("host:4810", &print(2)).unwrap_err().to_string();
    let path = known.path().display().to_string();
    for part in
        ["host:4810 has changed", &"02".repeat(32), &"01".repeat(32), &path, "line 2", "sed -i 2d", "--fingerprint"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(known.check("host:4810", &print(1)).unwrap(), Known::Same, "the pin is still there");
}

#[test]
fn comments_and_blank_lines_are_kept_and_a_missing_newline_does_no_harm() {
    let (_dir, known) = file();
    known.check("a:1", &print(1)).unwrap();
    let pinned = fs::read_to_string(known.path()).unwrap();
    fs::write(known.path(), format!("# mine\n\n{}", pinned.trim_end())).unwrap();
    assert_eq!(known.check("a:1", &print(1)).unwrap(), Known::Same);
    assert_eq!((known.pinned("a:1"), known.pinned("b:1")), (Some(print(1)), None));
    assert_eq!(known.check("b:1", &print(2)).unwrap(), Known::Pinned);
    assert_eq!(known.pinned("b:1"), Some(print(2)));
    assert_eq!(fs::read_to_string(known.path()).unwrap(), format!("# mine\n\n{pinned}b:1 {}\n", print(2)));
}

#[test]
fn a_damaged_line_is_named() {
    let (_dir, known) = file();
    known.check("a:1", &print(1)).unwrap();
    for bad in ["host:4810", "host:4810 sha256:12", "host:4810 x y"] {
        fs::write(known.path(), format!("# mine\n{bad}\n")).unwrap();
        let text = known.check("b:1", &print(1)).unwrap_err().to_string();
        assert!(text.contains("line 2"), "{text}");
    }
}

#[test]
fn many_at_once_lose_nothing() {
    const WRITERS: u8 = 16;
    let (_dir, known) = file();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let known = &known;
            scope.spawn(move || known.check(&format!("host{writer}:1"), &print(writer)).unwrap());
        }
    });
    for writer in 0..WRITERS {
        assert_eq!(known.check(&format!("host{writer}:1"), &print(writer)).unwrap(), Known::Same);
    }
    assert_eq!(fs::read_to_string(known.path()).unwrap().lines().count(), usize::from(WRITERS));
}

#[test]
fn a_place_that_cannot_be_written_says_so() {
    let (dir, _) = file();
    fs::write(dir.path().join("plain"), "x").unwrap();
    let known = KnownHosts::new(dir.path().join("plain/known_hosts"));
    let text = known.check("a:1", &print(1)).unwrap_err().to_string();
    assert!(text.contains("--known-hosts"), "{text}");
}

/// Lines that are right, and some that are not.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let right = (prop_oneof![Just("a:1"), Just("b:1"), Just("# a:1"), Just("")], 1..4u8);
    let line = prop_oneof![
        8 => right.prop_map(|(name, byte)| format!("{name} {}", print(byte)).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        1 => Just(Vec::new()),
    ];
    prop::collection::vec(line, 0..5).prop_map(|lines| lines.join(&b'\n'))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_file_says_stays_and_an_agent_is_pinned_once(text in lines()) {
        let (_dir, known) = file();
        fs::create_dir_all(known.path().parent().unwrap()).unwrap();
        fs::write(known.path(), &text).unwrap();
        let said = known.check("a:1", &print(1));
        let after = fs::read(known.path()).unwrap();
        match said {
            Ok(Known::Pinned) => {
                prop_assert!(after.starts_with(&text) && after.len() > text.len());
                prop_assert_eq!(known.check("a:1", &print(1)).unwrap(), Known::Same);
                let changed = matches!(known.check("a:1", &print(2)), Err(Refused::Changed { .. }));
                prop_assert!(changed);
            }
            Ok(Known::Same) => {
                prop_assert_eq!(known.pinned("a:1"), Some(print(1)));
                prop_assert_eq!(after, text);
            }
            Err(_) => prop_assert_eq!(after, text),
        }
    }
}
