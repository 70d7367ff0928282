//! The tuner against curves of throughput over streams.

use proptest::prelude::*;

use super::*;
use Limit::*;

const NEAR: Bounds = Bounds { min: 1, max: 32 };
const FAR: Bounds = Bounds { min: 8, max: 32 };

/// A path with a session on it.
struct Session<F> {
    tuner: StreamTuner,
    second: u64,
    /// Mb/s by number of streams.
    curve: F,
    limit: Limit,
    loss_ppm: u32,
    is_full: bool,
    /// Noise in thousandths, and its state.
    noise: u64,
    dice: u64,
    targets: Vec<u16>,
}

impl<F: Fn(u16) -> u64> Session<F> {
    fn new(bounds: Bounds, curve: F) -> Session<F> {
        let tuner = StreamTuner::new(Duration::ZERO, bounds, None);
        Session {
            tuner,
            second: 0,
            curve,
            limit: NetworkPath,
            loss_ppm: 0,
            is_full: false,
            noise: 0,
            dice: 1,
            targets: Vec::new(),
        }
    }

    fn with_noise(self, seed: u64) -> Session<F> {
        Session { noise: 50, dice: seed | 1, ..self }
    }

    /// Goes on where the path has changed.
    fn on<G: Fn(u16) -> u64>(self, curve: G) -> Session<G> {
        let Session { tuner, second, limit, loss_ppm, is_full, noise, dice, targets, .. } = self;
        Session { tuner, second, curve, limit, loss_ppm, is_full, noise, dice, targets }
    }

    fn run(&mut self, seconds: u64) -> u16 {
        for _ in 0..seconds {
            self.second += 1;
            let streams = self.tuner.target();
            let factor = 1_000 - self.noise + self.roll() % (2 * self.noise + 1);
            let goodput = Goodput::from_bps((self.curve)(streams) * 1_000 * factor);
            let sample = Sample { goodput, streams, limit: self.limit, loss_ppm: self.loss_ppm, is_full: self.is_full };
            self.targets.push(self.tuner.sample(Duration::from_secs(self.second), &sample));
        }
        self.tuner.base
    }

    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice
    }
}

/// As much as streams carry, up to the path's capacity.
fn knee(at: u16) -> impl Fn(u16) -> u64 {
    move |streams| 1_000 * u64::from(streams.min(at))
}

/// The reference machine over a veth pair.
fn two_cores(streams: u16) -> u64 {
    match streams {
        1 => 32_000,
        2 => 48_000,
        3..=4 => 41_000,
        _ => 36_000,
    }
}

#[test]
fn the_knee_is_found_within_ten_seconds() {
    for at in [1, 2, 4, 8] {
        for bounds in [NEAR, FAR] {
            let base = Session::new(bounds, knee(at)).run(10);
            let most = (at * 2).max(bounds.min);
            assert!(base >= at && base <= most, "{base} streams for a knee at {at}");
        }
    }
    assert_eq!(Session::new(NEAR, two_cores).run(10), 2);
    assert_eq!(Session::new(FAR, two_cores).run(10), FAR.min, "as few as there may be");
}

#[test]
fn a_knee_between_two_steps_is_covered() {
    for at in 1..=32 {
        let base = Session::new(FAR, knee(at)).run(30);
        let most = at.next_power_of_two().max(FAR.min);
        assert!(base >= at && base <= most, "{base} streams for a knee at {at}");
    }
}

#[test]
fn a_trial_that_harms_ends_after_two_seconds() {
    let mut session = Session::new(NEAR, |streams| if streams > 2 { 1_000 } else { 10_000 });
    session.run(20);
    assert_eq!(session.targets.iter().filter(|t| **t == 4).count(), 2);
}

#[test]
fn disks_and_the_set_point_are_not_asked_to_have_more_streams() {
    for limit in [SourceDisk, DestinationDisk, RateLimit, Latency, Idle] {
        let mut session = Session { limit, ..Session::new(NEAR, knee(32)) };
        session.run(200);
        assert!(session.targets.iter().all(|target| *target == 2), "{limit}");
        session.limit = NetworkPath;
        assert!(session.run(20) > 2, "and when the network is the limit, it is tried");
    }
}

#[test]
fn another_limit_ends_a_trial() {
    let mut session = Session::new(NEAR, knee(32));
    session.run(4);
    assert_eq!(session.tuner.target(), 4);
    session.limit = SourceDisk;
    session.run(3);
    assert_eq!(session.tuner.target(), 2);
}

#[test]
fn a_rate_that_climbs_is_waited_for() {
    // Slow start of 6 s: no verdict before it is over.
    let mut session = Session::new(FAR, |_| 0);
    for second in 1..=20 {
        let streams = session.tuner.target();
        let climbing = 10_u64.pow(6) << second.min(6_u64);
        let goodput = Goodput::from_bps(climbing * u64::from(streams));
        session.tuner.sample(
            Duration::from_secs(second),
            &Sample { goodput, streams, limit: NetworkPath, loss_ppm: 0, is_full: false },
        );
        assert!(second > 6 || session.tuner.base_rate.is_none(), "second {second}");
    }
    assert!(session.tuner.base >= 8);
}

#[test]
fn a_drop_begins_a_new_search() {
    let mut session = Session::new(NEAR, knee(2));
    assert_eq!(session.run(30), 2);
    // A thread gets slower: each stream has half of what it had, so that twice as many are needed.
    let mut session = session.on(|streams: u16| 500 * u64::from(streams.min(4)));
    assert_eq!(session.run(15), 4);
}

#[test]
fn loss_halves_the_streams_within_two_seconds() {
    let mut session = Session::new(NEAR, knee(16));
    assert_eq!(session.run(40), 16);
    // A competitor: all that many streams get is loss.
    let mut session = session.on(|_: u16| 3_000);
    session.loss_ppm = 20_000;
    session.run(2);
    assert_eq!(session.tuner.target(), 8);
    session.loss_ppm = 0;
    assert!(session.run(20) <= 4, "and again while fewer give as much");
}

#[test]
fn bounds_hold() {
    let mut session = Session::new(FAR, knee(32));
    session.run(30);
    session.tuner.set_bounds(Duration::from_secs(30), Bounds { min: 1, max: 5 });
    session.run(30);
    assert!(session.targets[31..].iter().all(|target| *target <= 5));
    assert_eq!(session.tuner.base, 5);
    let one = StreamTuner::new(Duration::ZERO, Bounds { min: 0, max: 0 }, None);
    assert_eq!(one.target(), 1);
}

#[test]
fn more_streams_are_not_tried_on_a_full_path_until_it_has_room() {
    let mut session = Session::new(FAR, knee(32));
    session.is_full = true;
    assert_eq!(session.run(200), 8);
    assert!(session.targets.iter().all(|target| *target == 8), "{:?}", session.targets);
    session.is_full = false;
    assert_eq!(session.run(100), 32);
}

#[test]
fn with_one_number_allowed_nothing_is_tried() {
    let mut session = Session::new(FAR, knee(8));
    session.run(5);
    session.tuner.set_bounds(Duration::from_secs(5), Bounds { min: 16, max: 16 });
    assert_eq!(session.tuner.target(), 16, "at once");
    session.run(200);
    assert!(session.targets[5..].iter().all(|target| *target == 16));
}

#[test]
fn what_was_found_is_remembered() {
    let mut session = Session::new(FAR, knee(8));
    assert_eq!(session.tuner.memory("a b", 7), None);
    session.run(30);
    let memory = session.tuner.memory("a b", 7).expect("something was found");
    assert_eq!(memory, Memory { path: "a b".to_owned(), streams: 8, at_s: 7, rate: Goodput::gbps(8) });
    let text = serde_json::to_string(&memory).expect("plain data");
    assert_eq!(text, r#"{"path":"a b","streams":8,"at_s":7,"rate":"8 Gb/s"}"#);
    assert_eq!(serde_json::from_str::<Memory>(&text).expect("its own"), memory);
    for (bounds, streams) in [(NEAR, 8), (Bounds { min: 16, max: 32 }, 16), (Bounds { min: 1, max: 4 }, 4)] {
        assert_eq!(StreamTuner::new(Duration::ZERO, bounds, Some(&memory)).target(), streams, "{bounds:?}");
    }
    assert!(memory.is_fresh(7 * 24 * 3600) && !memory.is_fresh(8 * 24 * 3600) && memory.is_fresh(0));
}

/// Of 100 such sessions; one in 20,000 is misled for longer.
#[test]
fn noise_does_not_make_it_restless() {
    for (seed, at, bounds) in
        (1..100).flat_map(|seed| [1, 2, 4, 8].map(|at| (seed, at, if seed % 2 == 0 { NEAR } else { FAR })))
    {
        let at = at.max(bounds.min);
        let mut session = Session::new(bounds, knee(at)).with_noise(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let base = session.run(30);
        assert!(base >= at && base <= at * 4, "seed {seed}: {base} streams for a knee at {at}");
        session.run(570);
        let near = session.targets.iter().filter(|target| **target >= at && **target <= at * 2).count();
        assert!(near >= 500, "seed {seed}: {near} of 600 s at the knee {at}");
        let changes = session.targets.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 40, "seed {seed}: {changes} changes in ten minutes");
    }
}

proptest! {
    #[test]
    fn any_samples_keep_the_bounds(samples in prop::collection::vec((any::<u64>(), 0..40_u16, 0..11_usize, any::<u32>()), 1..200), max in 0..40_u16) {
        let bounds = Bounds { min: 2, max };
        let mut tuner = StreamTuner::new(Duration::ZERO, bounds, None);
        for (i, (bps, streams, limit, loss_ppm)) in samples.into_iter().enumerate() {
            let streams = if streams < 30 { tuner.target() } else { streams };
            let sample = Sample { goodput: Goodput::from_bps(bps), streams, limit: Limit::ALL[limit], loss_ppm, is_full: false };
            let target = tuner.sample(Duration::from_secs(i as u64), &sample);
            prop_assert!(target >= 2 && target <= max.max(2));
        }
    }
}
