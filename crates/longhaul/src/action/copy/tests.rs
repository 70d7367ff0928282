//! What goes together and what does not.

use std::ffi::OsString;

use super::*;
use crate::args::{self, Command};
use crate::exit;

fn checked(line: &str) -> Result<Copy> {
    let words = ["longhaul", "copy"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    let Command::Copy(args) = args::parse(words).unwrap_or_else(|error| panic!("{line}: {error}")).command else {
        unreachable!("the line says copy");
    };
    let environment =
        Environment { token: Some("secret".into()), state_home: Some("/state".into()), ..Environment::default() };
    Copy::of(*args, &environment)
}

#[test]
fn contradictions_are_explained() {
    let pin = format!("sha256:{}", "ab".repeat(32));
    let other = format!("sha256:{}", "cd".repeat(32));
    let cases = [
        ("- -".to_owned(), "nothing to move"),
        ("a - lh://h/x".into(), "all sources are on one host"),
        ("a lh://h/x lh://h/y".into(), "all sources are on one host, but a and lh://h:4810/x are not"),
        ("lh://h/x lh://g/x y".into(), "all sources are on one host"),
        ("- lh://h/x --sync".into(), "standard input is none"),
        ("- lh://h/x --files-from -".into(), "both the data and the list"),
        ("lh://h/x - --json".into(), "--report FILE"),
        ("lh://h/x lh://h/y -".into(), "standard output takes one source"),
        ("lh://h/x - --checksum md5".into(), "--digests FILE"),
        ("a b lh://h/x --files-from list".into(), "one source"),
        ("a lh://h/x --sync --overwrite always".into(), "leave one of them"),
        ("a lh://h/x --sync --overwrite never".into(), "leave one of them"),
        ("a lh://h/x --by-checksum".into(), "add --sync"),
        ("a lh://h/x --by-checksum --overwrite never".into(), "add --sync"),
        ("a lh://h/x --delete --files-from list".into(), "does not name"),
        ("a lh://h/x --dry-run --checksum md5".into(), "reads no file"),
        ("h:/x g:/y".into(), "both must be agents"),
        ("h:/x lh://g/y".into(), "both must be agents"),
        ("lh://h/x lh://g/y --hook-after-dataset true".into(), "no hook can run at this side"),
        (format!("lh://h/x lh://g/y --fingerprint {pin}"), "could mean either"),
        (format!("a lh://{pin}@h/x --fingerprint {other}"), "leave one of them"),
        ("a lh://h/x --destination-token-file t".into(), "use --token-file"),
        ("a lh://h/x --reverse-connect".into(), "is for host:/path"),
        (format!("a h:/x --fingerprint {pin}"), "is for lh://"),
        ("a lh://h/x --token-file /none".into(), "No such file"),
        ("a lh://h/x --files-from /none".into(), "No such file"),
        ("a lh://h/x --chunk-size 1MB".into(), "--chunk-size"),
        ("a lh://h/x --memory 1MiB".into(), "16 must fit"),
        ("a lh://h/x --timeout 0s".into(), "give up at once"),
        ("a h:/x --ssh '".into(), "a quote is left open"),
    ];
    for (line, why) in cases {
        let error = checked(&line).err().unwrap_or_else(|| panic!("{line} is accepted"));
        assert_eq!(exit::code_of(&error), exit::USAGE, "{line}: {error:#}");
        let text = exit::one_line(&error);
        assert!(text.contains(why), "{line}: {text}");
    }
}

#[test]
fn what_is_said_is_what_the_mover_gets() {
    let copy = checked(
        "a b lh://h/x --sync --delete --rate 8Gb/s --streams 4 --protect clear --preserve all --dscp le --scitag 1:1",
    )
    .unwrap();
    assert_eq!(copy.options.overwrite, Overwrite::Changed);
    assert!(copy.options.delete && copy.options.preserve_all && !copy.options.by_checksum);
    assert_eq!(
        (copy.settings.rate_bps, copy.settings.streams_max, copy.settings.dscp),
        (Some(8_000_000_000), 4, Some(1))
    );
    assert_eq!(copy.settings.flow_label.unwrap().first & !0xC0103, 0x20004);
    assert_eq!(copy.limits.memory, units::Bytes::mib(512));
    let plain = checked("a lh://h/x").unwrap();
    assert_eq!(
        (plain.options.overwrite, plain.settings.streams_max, plain.settings.rate_bps),
        (Overwrite::Always, 0, None)
    );
    assert_eq!(plain.settings.protection, proto::seal::Protection::Private);
    let marks = |line: &str| {
        let settings = checked(line).unwrap().settings;
        (settings.polite, settings.dscp)
    };
    assert_eq!(marks("a lh://h/x"), (false, None));
    assert_eq!(marks("a lh://h/x --polite"), (true, Some(1)), "less than best effort, RFC 8622");
    assert_eq!(marks("a lh://h/x --polite --dscp 0"), (true, Some(0)), "what is said wins");
    assert_eq!(plain.options.filters, []);
}

#[test]
fn digests_have_a_place() {
    let place = |line: &str| checked(line).unwrap().digests;
    assert_eq!(place("a lh://h/x"), DigestsTo::Nowhere);
    assert_eq!(place("a lh://h/x --checksum sha256"), DigestsTo::Output);
    assert_eq!(place("a lh://h/x --checksum sha256 --json"), DigestsTo::Nowhere);
    assert_eq!(place("a lh://h/x --checksum sha256 --report r.json"), DigestsTo::File("r.json.sha256".into()));
    assert_eq!(place("a lh://h/x --checksum md5 --report r.json --digests d"), DigestsTo::File("d".into()));
}

#[test]
fn without_a_token_there_is_no_agent_to_talk_to() {
    let words = ["longhaul", "copy", "a", "lh://h/x"].map(OsString::from);
    let Command::Copy(args) = args::parse(words).unwrap().command else { unreachable!("the line says copy") };
    let environment = Environment { state_home: Some("/state".into()), ..Environment::default() };
    let error = Copy::of(*args, &environment).err().unwrap();
    assert!(error.to_string().contains("--token-file FILE, or set LONGHAUL_TOKEN"), "{error}");
    assert_eq!(exit::code_of(&error), exit::USAGE);
}
