//! How far derivatives hold: until a curve bends, a resource is full, or another one holds a flow back.

use super::TINY;
use crate::bottleneck::stand::bends;
use crate::bottleneck::{Link, Structure};
use crate::share::{FINE_BITS, Fine, LEVEL_BITS, Level};

/// The level at which a resource holds back flows of a tier, and how that changes.
struct Moving {
    tier: u8,
    level: f64,
    rise: f64,
}

/// After how many b/s of a change something is otherwise, given how flows change by one b/s; `None` if nothing ever is. `shaped` has the rate
/// that it is given, whatever holds it back.
pub(super) fn range(structure: &Structure, changes: &[(usize, f64)], shaped: Option<usize>) -> Option<f64> {
    let problem = structure.problem;
    let links = problem.limits().len();
    let mut nearest = f64::INFINITY;
    let mut comes = |gap: f64, speed: f64| {
        if speed > TINY {
            nearest = nearest.min(gap.max(0.0) / speed);
        }
    };
    // How levels of flows change, and those of resources; of those that are not full, how their use does.
    let mut rises = vec![0.0; problem.demands().len()];
    let level = |link: &Link| Moving { tier: link.tier, level: of_level(link.level), rise: 0.0 };
    let mut levels: Vec<Moving> = structure.links.iter().map(level).collect();
    let (mut more_used, near) = (vec![0.0; links], of_level(structure.near));
    // From the highest on: if flows that a resource holds back rise from several levels, its level is that of the highest.
    let mut changes = changes.to_vec();
    changes.sort_by_key(|(flow, _)| std::cmp::Reverse(structure.stand(*flow).highest));
    for (flow, by) in changes {
        problem.uses(flow).iter().for_each(|of| more_used[*of as usize] += by);
        if shaped == Some(flow) {
            continue;
        }
        let stand = structure.stand(flow);
        let slope: f64 = if by > 0.0 { stand.more.number() } else { stand.less.number() };
        rises[flow] = by / slope;
        for link in structure.held_by(flow).iter().map(|link| *link as usize) {
            let (of, tier) = (&mut levels[link], problem.demands()[flow].tier);
            let begin = of_level(stand.highest);
            if by > 0.0 && (tier > of.tier || begin > of.level + near) {
                // What is left there is for a lower tier, or for those that rise only now, from where they begin.
                *of = Moving { tier, level: begin, rise: rises[flow] };
            } else if of.rise == 0.0 || by < 0.0 || begin + near >= of.level {
                of.rise = if of.rise == 0.0 { rises[flow] } else { of.rise.max(rises[flow]) };
            }
        }
        let (below, above) = bends(&problem.demands()[flow], structure.allocation.exact[flow], structure.near);
        let rate = of_fine(structure.allocation.exact[flow]);
        comes(if by > 0.0 { above - rate } else { rate - below }, by.abs());
    }
    for (link, by) in more_used.iter().enumerate().filter(|(link, by)| **by > 0.0 && !structure.links[*link].is_full) {
        let over = structure.over.of(link).iter().map(|flow| of_fine(structure.allocation.exact[*flow as usize]));
        comes(problem.limits()[link].capacity as f64 - over.sum::<f64>(), *by);
    }
    for (link, Moving { tier, level: at, rise: moves }) in levels.into_iter().enumerate() {
        let of = structure.links[link];
        for flow in structure.over.of(link).iter().map(|flow| *flow as usize) {
            if shaped == Some(flow) || problem.demands()[flow].tier != tier {
                continue;
            }
            let standing = structure.standings[flow];
            if structure.held_by(flow).contains(&(link as u32)) {
                // Where its curve is level, until it is so no longer.
                if !standing.is_straight && rises[flow] == 0.0 && !standing.at_floor {
                    comes(at - of_level(standing.lowest), -moves);
                }
                if !standing.is_straight && rises[flow] == 0.0 && !standing.has_all {
                    comes(of_level(structure.stand(flow).highest) - at, moves);
                }
                // Where another resource holds it back now, until it is as high as who is held back here.
                let highest = of_level(structure.stand(flow).highest);
                if rises[flow] > 0.0 && highest + near < at {
                    comes(at - highest, rises[flow] - moves);
                }
            } else if of.is_full && of.group.is_some() {
                // Until its level is that of the resource.
                let from_above = standing.at_floor || rises[flow] > 0.0;
                let level = if from_above { structure.stand(flow).highest } else { standing.lowest };
                comes(at - of_level(level), rises[flow] - moves);
            }
        }
    }
    nearest.is_finite().then_some(nearest)
}

fn of_fine(rate: Fine) -> f64 {
    rate as f64 / 2_f64.powi(FINE_BITS as i32)
}

fn of_level(level: Level) -> f64 {
    level as f64 / 2_f64.powi(LEVEL_BITS as i32)
}
