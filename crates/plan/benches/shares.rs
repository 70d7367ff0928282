//! How long shares and their certificate take: a JSON object for `bench/plan`, which prints it.
//!
//! 10,000 flows with different weights and caps over 8 of 504 links, and a million over 4 to 12 of 10,000. Links are drawn at
//! random; the seed is fixed: every run shares the same.

use std::num::NonZeroU32;
use std::time::Instant;

use plan::certificate::check;
use plan::share::{Curve, Demand, Limit, Problem, ResourceId, solve};

fn main() {
    let mut rng = Rng(7);
    let many = timed(&random(&mut rng, 504, 10_000, 8..=8), 9);
    let million = timed(&random(&mut rng, 10_000, 1_000_000, 4..=12), 3);
    println!("{{\"many\":{many},\"million\":{million},\"peak_bytes\":{}}}", peak_bytes());
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

fn random(rng: &mut Rng, links: u64, flows: usize, hops: std::ops::RangeInclusive<u64>) -> Problem {
    let capacity = |rng: &mut Rng| [100, 200, 400][rng.below(3) as usize] * 1_000_000_000;
    let mut problem = Problem::new((0..links).map(|_| Limit { capacity: capacity(rng), floor: 0 }).collect());
    for _ in 0..flows {
        let count = hops.start() + rng.below(hops.end() - hops.start() + 1);
        let path: Vec<ResourceId> = (0..count).map(|_| rng.below(links) as ResourceId).collect();
        let weight = NonZeroU32::new(1 + rng.below(16) as u32).expect("above 0");
        // About half of the caps are below what the links would give.
        let curve = Curve::Weighted { weight, most: 1_000_000 * (1 + rng.below(4_000)) };
        problem.add(Demand { tier: 0, floor: 0, curve }, [path.as_slice()]);
    }
    problem
}

/// Seconds of the best round, of the solver and of the certificate.
fn timed(problem: &Problem, rounds: usize) -> String {
    let (mut solved, mut checked) = (f64::MAX, f64::MAX);
    let mut full = 0;
    for _ in 0..rounds {
        let begin = Instant::now();
        let allocation = solve(problem);
        solved = solved.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        check(problem, &allocation).expect("the solver is right");
        checked = checked.min(begin.elapsed().as_secs_f64());
        full = allocation.bottlenecks.len();
    }
    format!("{{\"solve\":{solved},\"check\":{checked},\"full\":{full}}}")
}

/// The most memory that the process had, from the kernel.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
