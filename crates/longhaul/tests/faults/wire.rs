//! Bits that turn over on the way.

use crate::cases;
use crate::proxy::{Damage, Proxy};
use crate::tree::{assert_same, left_behind};
use crate::world::World;

/// Damage of one copy: few bits, so that what is sent again arrives in the end.
const BITS: u32 = 12;
const GAP: u64 = 2 << 20;

fn damaged_copy(protection: &str, push: bool) {
    let world = World::new();
    let (from, to) = if push { ("source", "rw/tree") } else { ("rw/source", "tree") };
    for number in 0..200 {
        world.write(&format!("{from}/{}/{number}", number % 5), 1_000 + 200 * number);
    }
    world.write(&format!("{from}/big"), (24 << 20) + 5);
    for seed in 0..cases(2) {
        let _ = std::fs::remove_dir_all(world.path(to));
        let wire = Proxy::start(world.address(), Damage { bits: BITS, gap: GAP, seed });
        let place =
            |name: &str| if name.starts_with("rw") { world.there_by(&wire.address(), name) } else { world.here(name) };
        let options = format!("--protect {protection} --chunk-size 256KiB --streams 3");
        let summary = world.copy(&options, &place(&format!("{from}/")), &place(to)).expect_code(0).summary();
        let number = |key: &str| summary[key].as_u64().expect("a number");
        assert!(wire.damaged() > 0, "seed {seed}: nothing was damaged");
        assert!(number("repaired") + number("streams_lost") > 0, "seed {seed}: nobody noticed {summary}");
        // With a key nothing of a damaged record can be believed, so its stream ends.
        assert!(protection == "clear" || number("repaired") == 0, "seed {seed}: {summary}");
        assert_same(&world.path(from), &world.path(to));
        assert!(left_behind(&world.path(to)).is_empty(), "seed {seed}: {:?}", left_behind(&world.path(to)));
    }
}

#[test]
fn damage_is_repaired_clear() {
    damaged_copy("clear", true);
    damaged_copy("clear", false);
}

#[test]
fn damage_is_repaired_integrity() {
    damaged_copy("integrity", true);
}

#[test]
fn damage_is_repaired_private() {
    damaged_copy("private", true);
    damaged_copy("private", false);
}

/// After the last record of all nothing is left to send that would show that the stream is gone.
#[test]
fn damage_in_the_last_record_is_noticed() {
    const LENGTH: u64 = 100_000;
    for protection in ["clear", "integrity", "private"] {
        let world = World::new();
        world.write("source/file", LENGTH as usize);
        let wire = Proxy::start(world.address(), Damage { bits: 1, gap: LENGTH, seed: 1 });
        let to = world.there_by(&wire.address(), "rw/tree");
        let options = format!("--protect {protection} --streams 1 --timeout 20s");
        let summary = world.copy(&options, &world.here("source/"), &to).expect_code(0).summary();
        assert_eq!(wire.damaged(), 1);
        assert_eq!(summary["repaired"].as_u64().zip(summary["streams_lost"].as_u64()).map(|(a, b)| a + b), Some(1));
        assert_same(&world.path("source"), &world.path("rw/tree"));
    }
}

/// A wire that damages every parcel, as often as it is sent again: the files on it are given up, none of them is published,
/// and what nothing was wrong with is not held up.
#[test]
fn what_cannot_be_repaired_is_not_published() {
    const LENGTH: usize = 4 << 20;
    for push in [true, false] {
        let world = World::new();
        let (from, to) = if push { ("source", "rw/tree") } else { ("rw/source", "tree") };
        world.write(&format!("{from}/big"), LENGTH);
        std::fs::create_dir(world.path(&format!("{from}/empty"))).unwrap();
        // More than one bit in each parcel, and hardly any in the headers between them.
        let wire = Proxy::start(world.address(), Damage { bits: u32::MAX, gap: 100_000, seed: 1 });
        let place =
            |name: &str| if name.starts_with("rw") { world.there_by(&wire.address(), name) } else { world.here(name) };
        let options = "--protect clear --chunk-size 1MiB --streams 1";
        let ended = world.copy(options, &place(&format!("{from}/")), &place(to)).expect_code(5);
        let summary = ended.summary();
        assert_eq!((&summary["exit_code"], &summary["files_failed"]), (&5.into(), &1.into()), "{summary}");
        let corrupt: Vec<_> = ended.events().into_iter().filter(|event| event["outcome"] == "corrupt").collect();
        assert!(corrupt.len() == 1 && corrupt[0]["path"] == "big", "{}", ended.out);
        assert!(!world.path(to).join("big").exists() && world.path(to).join("empty").is_dir(), "push {push}");
        // On a sound wire the same command goes on.
        let sound = |name: &str| if name.starts_with("rw") { world.there(name) } else { world.here(name) };
        world.copy("", &sound(&format!("{from}/")), &sound(to)).expect_code(0);
        assert_same(&world.path(from), &world.path(to));
        assert!(left_behind(&world.path(to)).is_empty(), "{:?}", left_behind(&world.path(to)));
    }
}

/// With a key a damaged record costs its stream. A path that damages each one is not tried for ever.
#[test]
fn what_costs_every_stream_is_given_up() {
    for protection in ["integrity", "private"] {
        let world = World::new();
        world.write("source/big", 2 << 20);
        std::fs::create_dir(world.path("source/empty")).unwrap();
        let wire = Proxy::start(world.address(), Damage { bits: u32::MAX, gap: 100_000, seed: 1 });
        let to = world.there_by(&wire.address(), "rw/tree");
        let options = format!("--protect {protection} --chunk-size 1MiB --streams 1");
        let summary = world.copy(&options, &world.here("source/"), &to).expect_code(6).summary();
        let error = &summary["errors"][0];
        assert!(
            error["path"] == "big" && error["why"].as_str().is_some_and(|why| why.contains("lost with its stream")),
            "{summary}"
        );
        assert!(!world.path("rw/tree/big").exists() && world.path("rw/tree/empty").is_dir());
        world.copy("", &world.here("source/"), &world.there("rw/tree")).expect_code(0);
        assert_same(&world.path("source"), &world.path("rw/tree"));
        assert!(left_behind(&world.path("rw/tree")).is_empty(), "{:?}", left_behind(&world.path("rw/tree")));
    }
}
