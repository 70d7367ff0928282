//! Command lines as they are read, and help texts as they are shown.

use std::path::Path;

use clap::Command as ClapCommand;
use clap::error::ErrorKind;

use super::*;

fn parsed(line: &str) -> Result<Args, clap::Error> {
    parse(std::iter::once("longhaul").chain(line.split_whitespace()).map(OsString::from))
}

fn copy(line: &str) -> Box<copy::CopyArgs> {
    match parsed(&format!("copy {line}")).unwrap_or_else(|error| panic!("{line}: {error}")).command {
        Command::Copy(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clap_finds_no_fault_with_it() {
    command().debug_assert();
}

#[test]
fn sources_come_before_the_destination() {
    let args = copy("a b lh://host/c");
    assert_eq!(args.sources.len(), 2);
    assert_eq!(args.destination.to_string(), "lh://host:4810/c");
    assert_eq!(copy("- lh://host/c").sources[0].to_string(), "-");
    assert_eq!(parsed("copy a").unwrap_err().kind(), ErrorKind::MissingRequiredArgument);
}

#[test]
fn filters_keep_their_order() {
    let args = copy("--exclude *.tmp a --include keep.tmp --exclude=keep.* b");
    let rules: Vec<String> = args
        .choice
        .filters
        .iter()
        .map(|rule| format!("{}{}", if rule.include { '+' } else { '-' }, rule.glob))
        .collect();
    assert_eq!(rules, ["-*.tmp", "+keep.tmp", "-keep.*"]);
    assert!(copy("a b").choice.filters.is_empty());
}

#[test]
fn values_are_checked_where_they_are_read() {
    let bad = [
        ("copy --rate 8000 a b", "has no unit"),
        ("copy --streams 0 a b", "1 to 512"),
        ("copy --timeout 60 a b", "has no unit"),
        ("copy --dscp 64 a b", "from 0 to 63"),
        ("copy --scitag 64 a b", "from 65 to 32767"),
        ("copy --flow-label 0x100000 a b", "0xfffff"),
        ("copy --fingerprint 12 a b", "64 hexadecimal digits"),
        ("copy --protect none a b", "clear, integrity, private"),
        ("copy --bind host a b", "invalid IP address"),
        ("copy a http://x/y", "http:// is not known"),
        ("copy --scitag 65 --flow-label 1 a b", "cannot be used with"),
        ("copy --digests x a b", "--checksum"),
        ("copy --null a b", "--files-from"),
        ("session set 3f", "--rate"),
        ("session set 3f --streams 0", "1..=512"),
        ("test throughput user@host", "write user@host:"),
        ("plan path a b --topology pair --k 0", "1..=1000"),
        ("plan path a b --topology pair --k 2 --widest", "cannot be used with"),
        ("plan path a b --topology pair --disjoint risk --include c", "cannot be used with"),
        ("plan path a b --topology pair --max-delay 5", "has no unit"),
        ("plan path a b", "--topology"),
        ("serve --oneshot --root /x", "cannot be used with"),
    ];
    for (line, why) in bad {
        let error = parsed(line).expect_err(line);
        assert_eq!(error.exit_code(), i32::from(crate::exit::USAGE), "{line}");
        assert!(error.to_string().contains(why), "{line}: {error}");
    }
}

#[test]
fn every_option_of_a_copy_is_read() {
    let line = "--files-from list -0 --include a --exclude b --sync --by-checksum --delete --dry-run --overwrite changed \
        --preserve all --checksum sha256 --digests d --hook-before-file x --hook-after-file x --hook-before-dataset x \
        --hook-after-dataset x --streams 4 --rate 8Gb/s --congestion bbr --protect clear --dscp le --scitag 65 \
        --bind 192.0.2.1 --bind 2001:db8::1 --timeout 5m --memory 1GiB --chunk-size 8MiB --token-file t \
        --known-hosts k --ssh ssh --remote-longhaul l --reverse-connect --ssh-port-range 50000-50100 \
        --destination-token-file t --json --report r -q --progress never a b";
    let args = copy(line);
    assert_eq!(args.transport.bind.len(), 2);
    assert_eq!(args.transport.rate.to_string(), "8 Gb/s");
    assert_eq!(args.choice.files_from.as_deref(), Some(Path::new("list")));
}

/// The help of each command is in `tests/golden`; `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn help_texts() {
    let mut root = command().term_width(HELP_COLUMNS);
    root.build();
    let mut stale = Vec::new();
    check_help(&mut root, "longhaul", &mut stale);
    assert!(stale.is_empty(), "UPDATE_GOLDEN=1 cargo test writes anew, after a look: {stale:?}");
}

fn check_help(command: &mut ClapCommand, name: &str, stale: &mut Vec<String>) {
    let texts = [("short", command.render_help()), ("long", command.render_long_help())];
    for (length, help) in texts {
        let text = help.to_string();
        let wide = text.lines().find(|line| line.chars().count() > HELP_COLUMNS);
        assert_eq!(wide, None, "{name}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.{length}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &text).unwrap();
        } else if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
            stale.push(format!("{name}.{length}"));
        }
    }
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        let name = format!("{name}-{}", inner.get_name());
        check_help(inner, &name, stale);
    }
}
