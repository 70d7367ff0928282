//! How long the bottleneck structure takes: a JSON object for `bench/plan`, which prints it.
//!
//! The problems are those of `shares.rs`: 10,000 flows with different weights and caps over 8 of 504 links, and a million over 4 to 12 of
//! 10,000. Links are drawn at random; the seed is fixed: every run asks the same.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Instant;

use plan::bottleneck::Structure;
use plan::bottleneck::incremental::{FlowId, Incremental};
use plan::share::{Curve, Demand, FINE_BITS, Fine, Limit, Problem, ResourceId, solve};

use rustix::time::{ClockId, clock_gettime};

/// Arrivals, and as many departures.
const CHANGES: usize = 20_000;

fn main() {
    let mut rng = Rng(7);
    let small = random(&mut rng, 504, 10_000, 8..=8);
    let many = timed(&small, 9);
    let follows = followed(&mut rng, &small);
    let large = random(&mut rng, 10_000, 1_000_000, 4..=12);
    let million = timed(&large, 3);
    println!("{{\"many\":{many},\"change\":{follows},\"million\":{million},\"peak_bytes\":{}}}", peak_bytes());
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

fn random(rng: &mut Rng, links: u64, flows: usize, hops: RangeInclusive<u64>) -> Problem {
    let capacity = |rng: &mut Rng| [100, 200, 400][rng.below(3) as usize] * 1_000_000_000;
    let mut problem = Problem::new((0..links).map(|_| Limit { capacity: capacity(rng), floor: 0 }).collect());
    for _ in 0..flows {
        let (demand, path) = flow(rng, links, &hops);
        problem.add(demand, [path.as_slice()]);
    }
    problem
}

fn flow(rng: &mut Rng, links: u64, hops: &RangeInclusive<u64>) -> (Demand, Vec<ResourceId>) {
    let count = hops.start() + rng.below(hops.end() - hops.start() + 1);
    let path: Vec<ResourceId> = (0..count).map(|_| rng.below(links) as ResourceId).collect();
    let weight = NonZeroU32::new(1 + rng.below(16) as u32).expect("above 0");
    // About half of the caps are below what the links would give.
    let curve = Curve::Weighted { weight, most: 1_000_000 * (1 + rng.below(4_000)) };
    (Demand { tier: 0, floor: 0, curve }, path)
}

/// Seconds of the best round, of the structure and of all gradients.
fn timed(problem: &Problem, rounds: usize) -> String {
    let allocation = solve(problem);
    let (mut built, mut graded, mut known) = (f64::MAX, f64::MAX, 0);
    for _ in 0..rounds {
        let begin = Instant::now();
        let structure = Structure::of(problem, &allocation).expect("flows have one tunnel");
        built = built.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let gradients = structure.gradients::<f64>();
        graded = graded.min(begin.elapsed().as_secs_f64());
        known = gradients.links.iter().flatten().filter(|gradient| **gradient != 0.0).count();
    }
    format!("{{\"structure\":{built},\"gradients\":{graded},\"bottlenecks\":{known}}}")
}

/// Nanoseconds of one arrival or departure among many flows; in the end rates are those of a full solve.
fn followed(rng: &mut Rng, problem: &Problem) -> String {
    let mut shares = Incremental::of(problem).expect("one tier, one tunnel, weights");
    let mut flows: Vec<FlowId> = shares.ids().collect();
    let mut nanos = Vec::with_capacity(2 * CHANGES);
    let (mut moves, mut turns, mut anew) = (0, 0, 0);
    for _ in 0..CHANGES {
        let (demand, path) = flow(rng, problem.limits().len() as u64, &(8..=8));
        let begin = cpu_nanos();
        let (flow, arrived) = shares.arrive(&demand, &path).expect("it is like the others");
        nanos.push(cpu_nanos() - begin);
        flows.push(flow);
        let leaves = flows.swap_remove(rng.below(flows.len() as u64) as usize);
        let begin = cpu_nanos();
        let departed = shares.depart(leaves).expect("it is there");
        nanos.push(cpu_nanos() - begin);
        for update in [arrived, departed] {
            moves += update.moves;
            turns += update.turns;
            anew += usize::from(update.is_anew);
        }
    }
    let exact = solve(&shares.problem()).exact;
    for (flow, exact) in shares.ids().zip(exact) {
        let rate = Fine::from(shares.rate(flow).expect("it is there")) << FINE_BITS;
        assert!(rate.abs_diff(exact) <= (1 << FINE_BITS) + (1 << (FINE_BITS - 6)), "within 1 b/s of a full solve");
    }
    nanos.sort_unstable();
    let part = |part: usize| nanos[nanos.len() * part / 1000];
    let count = nanos.len();
    let (p50, p99, p999, most) = (part(500), part(990), part(999), nanos[count - 1]);
    let (moves, turns) = (moves as f64 / count as f64, turns as f64 / count as f64);
    format!(
        "{{\"count\":{count},\"p50\":{p50},\"p99\":{p99},\"p999\":{p999},\"most\":{most},\"moves\":{moves},\"turns\":{turns},\"anew\":{anew}}}"
    )
}

/// Time of this thread on a core: what others do meanwhile is not counted.
fn cpu_nanos() -> i64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The most memory that the process had, from the kernel.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
