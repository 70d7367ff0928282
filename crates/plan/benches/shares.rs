//! How long shares and their certificate take: a JSON object for `bench/plan`, which prints it.
//!
//! 10,000 flows with different weights and caps over 8 of 504 links, and a million over 4 to 12 of 10,000; 10,000 in three tiers
//! with three tunnels each, with and without an order. And two problems with their rates, for a solver of linear programs beside:
//! flows over one tunnel, and over three without an order. Links are drawn at random; the seed is fixed: every run shares the same.

use std::num::NonZeroU32;

use plan::certificate::{Broken, check, check_adaptive};
use plan::share::{Allocation, Class, Curve, Demand, Limit, Problem, ResourceId, solve, solve_adaptive};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A solver, and the certificate of its results.
type Solver = (fn(&Problem) -> Allocation, fn(&Problem, &Allocation) -> Result<(), Broken>);

const ORDERED: Solver = (solve, check);
const ADAPTIVE: Solver = (|problem| solve_adaptive(problem).expect("nobody is in a class"), check_adaptive);

/// Flows that a solver of linear programs is done with in a minute.
const BESIDE: usize = 300;

/// What is drawn.
#[derive(Clone, Copy)]
struct Kind {
    links: u64,
    flows: usize,
    /// The fewest, and the most.
    hops: [u64; 2],
    tiers: u64,
    tunnels: usize,
}

fn main() {
    let mut rng = Rng(7);
    let plain = Kind { links: 504, flows: 10_000, hops: [8, 8], tiers: 1, tunnels: 1 };
    let many = timed(&random(&mut rng, &plain), ORDERED, 9);
    let million = Kind { links: 10_000, flows: 1_000_000, hops: [4, 12], ..plain };
    let million = timed(&random(&mut rng, &million), ORDERED, 3);
    let tree = timed(&tree(&mut rng), ORDERED, 9);
    let tiers = random(&mut rng, &Kind { tiers: 3, tunnels: 3, ..plain });
    let (ordered, adaptive) = (timed(&tiers, ORDERED, 5), timed(&tiers, ADAPTIVE, 5));
    let beside = random(&mut rng, &Kind { flows: BESIDE, ..plain });
    let beside_adaptive = random(&mut rng, &Kind { flows: BESIDE, tunnels: 3, ..plain });
    let results = json!({
        "many": many,
        "million": million,
        "tree": tree,
        "ordered": ordered,
        "adaptive": adaptive,
        "beside": with_rates(&beside, ORDERED),
        "beside_adaptive": with_rates(&beside_adaptive, ADAPTIVE),
        "peak_bytes": peak_bytes(),
    });
    println!("{results}");
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

fn random(rng: &mut Rng, kind: &Kind) -> Problem {
    let capacity = |rng: &mut Rng| [100, 200, 400][rng.below(3) as usize] * 1_000_000_000;
    let mut problem = Problem::new((0..kind.links).map(|_| Limit { capacity: capacity(rng), floor: 0 }).collect());
    for _ in 0..kind.flows {
        let path = |rng: &mut Rng| -> Vec<ResourceId> {
            let count = kind.hops[0] + rng.below(kind.hops[1] - kind.hops[0] + 1);
            (0..count).map(|_| rng.below(kind.links) as ResourceId).collect()
        };
        let tunnels: Vec<Vec<ResourceId>> = (0..kind.tunnels).map(|_| path(rng)).collect();
        let weight = NonZeroU32::new(1 + rng.below(16) as u32).expect("above 0");
        // About half of the caps are below what the links would give: in proportion to how many flows share them.
        let curve =
            Curve::Weighted { weight, most: 1_000_000 * (1 + rng.below(40_000_000 / kind.flows.min(10_000) as u64)) };
        let tier = if kind.tiers > 1 { rng.below(kind.tiers) as u8 } else { 0 };
        problem.add(Demand { tier, floor: 0, curve }, tunnels.iter().map(Vec::as_slice));
    }
    problem
}

/// Links, and marks for a class on one of them.
const LINKS: u64 = 504;
const MARKS: usize = 500;
/// Children of each class, from the top down: 3 tiers, and 4 levels of classes.
const CHILDREN: [u32; 4] = [3, 4, 5, 6];

/// 10,000 flows over 3 tunnels of 8 hops each, in 360 classes at the leaves of a tree, whose tops are in 3 tiers; classes have weights,
/// floors and caps.
fn tree(rng: &mut Rng) -> Problem {
    let mut classes: Vec<Class> = Vec::new();
    let mut tops: Vec<u8> = Vec::new();
    let mut above = vec![None];
    for (depth, children) in CHILDREN.into_iter().enumerate() {
        let mut level = Vec::new();
        for parent in above {
            for child in 0..children {
                let weight = NonZeroU32::new(1 + rng.below(8) as u32).expect("above 0");
                let floor = if rng.below(4) == 0 { (1_000_000 * rng.below(1_000)) >> depth } else { 0 };
                let cap = if rng.below(4) == 0 { 20_000_000_000 + rng.below(400_000_000_000) } else { u64::MAX };
                level.push(Some(classes.len() as u32));
                tops.push(parent.map_or(child as u8, |parent: u32| tops[parent as usize]));
                classes.push(Class { parent, weight, floor, cap });
            }
        }
        above = level;
    }
    let leaves = above;
    let marks: Vec<(ResourceId, u32)> =
        (0..MARKS).map(|_| (rng.below(LINKS) as ResourceId, rng.below(classes.len() as u64) as u32)).collect();
    let rate = |rng: &mut Rng| [100, 200, 400][rng.below(3) as usize] * 1_000_000_000;
    let links = (0..LINKS).map(|_| rate(rng));
    let caps = classes.iter().map(|class| class.cap);
    let mut limits: Vec<u64> = links.chain(caps).collect();
    limits.extend((0..MARKS).map(|_| 10_000_000_000 + rng.below(90_000_000_000)));
    let mut problem = Problem::new(limits.into_iter().map(|capacity| Limit { capacity, floor: 0 }).collect());
    let mut class_of = Vec::new();
    for _ in 0..10_000 {
        let class = leaves[rng.below(leaves.len() as u64) as usize];
        let chain: Vec<u32> = std::iter::successors(class, |class| classes[*class as usize].parent).collect();
        let tunnels: Vec<Vec<ResourceId>> = (0..3)
            .map(|_| {
                let mut uses: Vec<ResourceId> = (0..8).map(|_| rng.below(LINKS) as ResourceId).collect();
                let marks =
                    marks.iter().enumerate().filter(|(_, (link, class))| uses.contains(link) && chain.contains(class));
                let marks: Vec<ResourceId> = marks
                    .map(|(mark, _)| LINKS as ResourceId + classes.len() as ResourceId + mark as ResourceId)
                    .collect();
                uses.extend(marks);
                uses.extend(chain.iter().map(|class| LINKS as ResourceId + class));
                uses
            })
            .collect();
        let weight = NonZeroU32::new(1 + rng.below(16) as u32).expect("above 0");
        let curve = Curve::Weighted { weight, most: 1_000_000 * (1 + rng.below(20_000)) };
        let tier = tops[class.expect("a leaf is a class") as usize];
        problem.add(Demand { tier, floor: 0, curve }, tunnels.iter().map(Vec::as_slice));
        class_of.push(class);
    }
    problem.with_classes(classes, class_of).expect("they are a tree")
}

/// CPU seconds of the best round, of the solver and of the certificate.
fn timed(problem: &Problem, (solve, check): Solver, rounds: usize) -> Value {
    let (mut solved, mut checked) = (f64::MAX, f64::MAX);
    let mut full = 0;
    for _ in 0..rounds {
        let begin = cpu_seconds();
        let allocation = solve(problem);
        let end = cpu_seconds();
        check(problem, &allocation).expect("the solver is right");
        (solved, checked) = (solved.min(end - begin), checked.min(cpu_seconds() - end));
        full = allocation.bottlenecks.len();
    }
    json!({ "solve": solved, "check": checked, "full": full })
}

/// What this thread has used of a CPU: other programs on the machine do not count.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// A problem, the rates of its tunnels, and what `timed` says.
fn with_rates(problem: &Problem, solver: Solver) -> Value {
    let flows = problem.demands().iter().enumerate().map(|(flow, demand)| {
        let Curve::Weighted { weight, most } = demand.curve else { unreachable!("all that are drawn have weights") };
        let tunnels: Vec<&[ResourceId]> = problem.tunnels_of(flow).map(|tunnel| problem.uses(tunnel)).collect();
        json!({ "weight": weight, "most": most, "tunnels": tunnels })
    });
    let flows: Vec<Value> = flows.collect();
    let capacities: Vec<u64> = problem.limits().iter().map(|limit| limit.capacity).collect();
    let rates = solver.0(problem).rates;
    json!({ "capacities": capacities, "flows": flows, "rates": rates, "timed": timed(problem, solver, 9) })
}

/// The most memory that the process had, from the kernel.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
