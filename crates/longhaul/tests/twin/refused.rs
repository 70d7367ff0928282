//! What is refused, with the way out, and leaves nothing.

use std::process::Command;

use crate::{Twins, assert_gone};

#[test]
fn a_second_of_the_same_name() {
    let Some(twins) = Twins::new("same") else { return };
    let name = twins.name("pair");
    twins.done(&format!("up pair --name {name}"));
    let said = twins.refused(&format!("up triangle --name {name}"), 1);
    assert!(said.contains(&format!("`longhaul twin down {name}` removes it, --name gives")), "{said}");
    let twin = twins.listed(&name).expect("the first is as it was");
    assert_eq!(twin["links"][0]["state"], "up");
    twins.done(&format!("exec --twin {name} a -- ping -c 1 -W 2 b"));
}

#[test]
fn what_is_no_network() {
    let Some(twins) = Twins::new("bad") else { return };
    let bad = "name = \"x\"\nhosts = [\"a\", \"b\"]\n\n[[link]]\nname = \"ab\"\nends = [\"a\", \"c\"]\n";
    let bad = twins.file("bad.toml", bad).display().to_string();
    let name = twins.name("x");
    for (words, says) in [
        (format!("up no-such-network --name {name}"), "it is neither a file nor one of: pair, dumbbell"),
        (format!("up {bad} --name {name}"), "bad.toml:6: link `ab`: unknown node `c`"),
        (format!("up pair --scale 0 --name {name}"), "--scale: `0` is no ratio"),
        ("up pair --name a/b".to_owned(), "cannot name a twin"),
    ] {
        let said = twins.refused(&words, 2);
        assert!(said.contains(says), "{said}");
    }
    assert_gone(twins.begin());
}

#[test]
fn what_is_not_there() {
    let Some(twins) = Twins::new("none") else { return };
    let name = twins.name("none");
    for words in ["down", "stats --twin", "link ab --cut --twin"] {
        let said = twins.refused(&format!("{words} {name}"), 1);
        assert!(said.contains(&format!("there is no twin `{name}`")), "{said}");
    }
}

#[test]
fn who_may_not() {
    let Some(twins) = Twins::new("user") else { return };
    let program = env!("CARGO_BIN_EXE_longhaul");
    let name = twins.name("pair");
    let nobody = |words: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
        command.args(words.split_whitespace()).output()
    };
    match nobody(&format!("test -x {program}")) {
        Ok(output) if output.status.success() => {}
        _ => return eprintln!("skipped: there is no setpriv, or nobody may not run {program}"),
    }
    let output = nobody(&format!("{program} twin up pair --name {name}")).expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("run this as root"), "{said}");
    assert_gone(&name);
    // A twin of root's is not theirs to change either.
    twins.done(&format!("up pair --name {name}"));
    for words in [
        format!("link --twin {name} ab --cut"),
        format!("down {name}"),
        format!("exec --twin {name} a -- true"),
        "ls".to_owned(),
    ] {
        let output = nobody(&format!("{program} twin {words}")).expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains("run this as root"), "{words}: {said}");
    }
    assert_eq!(twins.listed(&name).expect("it is up")["links"][0]["state"], "up");
}
