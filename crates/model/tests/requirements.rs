//! Requirements as they are written: what they mean, and what is refused with which words.

use std::time::Duration;

use model::network::Ratio;
use model::requirements::{ENTRIES_MAX, FACTORS_MAX, Requirements};
use units::{Bytes, Goodput};

fn read(text: &str) -> Result<Requirements, String> {
    Requirements::from_toml(text, "x.toml").map_err(|error| error.to_string())
}

const HEAD: &str = "name = \"x\"\n[[experiment]]\nname = \"a\"\nrate = \"1 Gb/s\"\n";

#[test]
fn what_comes_along_is_as_published() {
    let requirements = Requirements::hl_lhc();
    let sums: Vec<_> = requirements.experiments.iter().map(|one| (one.name.as_str(), one.sum())).collect();
    let gbps = |gbps| Goodput::gbps(gbps);
    assert_eq!(sums, [("ATLAS", gbps(500)), ("CMS", gbps(500)), ("ALICE", gbps(100)), ("LHCb", gbps(100))]);
    let atlas = &requirements.experiments[0];
    assert_eq!(atlas.taken, Some((Bytes::tb(350_000), Duration::from_secs(7_000_000))));
    assert_eq!(atlas.mean(), Some(gbps(400)));
    assert_eq!(
        requirements.factors.iter().map(|factor| factor.times).collect::<Vec<_>>(),
        [Ratio::new(2, 1).unwrap(); 3]
    );
    assert_eq!(requirements.left_out, ["simulation", "derived data", "analysis"]);
}

#[test]
fn a_mean_is_rounded_up() {
    let text = "name = \"x\"\n[[experiment]]\nname = \"a\"\nvolume = \"1 B\"\ntime = \"3 s\"\n";
    assert_eq!(read(text).unwrap().experiments[0].sum(), Goodput::from_bps(3));
}

#[test]
fn targets_are_of_what_they_name() {
    let rest = "[[factor]]\nname = \"two\"\ntimes = 1.5\ngives = \"more\"\n[[factor]]\nname = \"three\"\ntimes = \"1/3\"\n\
        [[target]]\nname = \"t\"\nshare = 0.1\nof = \"more\"\n[[target]]\nname = \"u\"\nshare = \"5 %\"\n";
    let requirements = read(&format!("{HEAD}{rest}")).unwrap();
    let targets: Vec<_> = requirements.targets.iter().map(|target| (target.share_ppm, target.after)).collect();
    assert_eq!(targets, [(100_000, 1), (50_000, 2)]);
    assert_eq!(requirements.factors[0].times, Ratio::new(15, 10).unwrap());
}

#[test]
fn refusals_name_line_thing_and_way_out() {
    let many = |kind: &str, count: usize, rest: &str| {
        (0..=count).map(|n| format!("[[{kind}]]\nname = \"n{n}\"\n{rest}\n")).collect::<String>()
    };
    for (rest, says) in [
        ("rate = 3", "x.toml:5: "),
        ("prompt = 3", "x.toml:5: experiment `a`: prompt: `3` has no unit"),
        ("volume = \"1 PB\"", "experiment `a`: `time` is missing: write for example"),
        ("time = \"1 s\"", "`volume` is missing"),
        ("time = \"0 s\"\nvolume = \"1 B\"", "time: `0 s` is out of bounds"),
        ("volume = \"1 PB\"\ntime = \"1 d\"", "`volume` and `rate`: write what was taken"),
        ("volumes = \"1 PB\"", "unknown key `volumes`; did you mean `volume`?"),
        ("prompt = \"18 Eb/s\"", "it needs more than"),
        ("[[experiment]]\nname = \"b\"", "x.toml:5: experiment `b`: it needs nothing"),
        ("[[experiment]]\nname = \"a\"\nrate = \"1 b/s\"", "another experiment has that name"),
        ("[[experiment]]\nname = \"\"", "write 1 to 40 characters"),
        ("[[factor]]\nname = \"f\"", "factor `f`: `times` is missing: write for example `times = 2`"),
        ("[[factor]]\nname = \"f\"\ntimes = 0", "is no ratio"),
        ("[[target]]\nname = \"t\"\nshare = 2", "is no share"),
        ("[[target]]\nname = \"t\"\nshare = 1\nof = \"x\"", "unknown factor `x`"),
        ("[growth]\ntimes = 2\nyears = 0", "write a whole number from 1 to"),
        (&many("factor", FACTORS_MAX, "times = 1"), "more than 16 `[[factor]]`"),
        (&many("experiment", ENTRIES_MAX, "rate = \"1 b/s\""), "more than 1000 `[[experiment]]`"),
    ] {
        let error = read(&format!("{HEAD}{rest}")).expect_err(rest);
        assert!(error.contains(says) && !error.contains('\n'), "{rest}: {error}");
    }
    assert!(read("name = \"x\"").unwrap_err().contains("no experiment: write"));
    assert!(read(&" ".repeat(2 << 20)).unwrap_err().contains("longer than 1 MiB"));
}
