//! Finds what holds which flow back: some passes over the uses of all flows, in the order in which they lie in memory.

use std::cmp::Ordering;

use crate::share::{Allocation, Fine, Level, Problem, ResourceId};

use super::csr::Csr;
use super::stand::{blur, fine, nearness, stand};
use super::{Link, Member, NoStructure, Reacting, Standing, Structure};

/// What flows use of a resource, and what is not known of that.
#[derive(Clone, Copy, Default)]
struct Use {
    used: Fine,
    blur: Fine,
}

pub(super) fn build<'a>(problem: &'a Problem, allocation: &'a Allocation) -> Result<Structure<'a>, NoStructure> {
    if !problem.classes().is_empty() {
        return Err(NoStructure::Classes);
    }
    let flows = problem.demands().len();
    if problem.tunnels() > flows {
        let flow = (0..flows).find(|flow| problem.tunnels_of(*flow).len() > 1).unwrap_or(0);
        return Err(NoStructure::Tunnels { flow });
    }
    let near = nearness(problem.demands());
    let (standings, mut links) = limits(problem, allocation, near);
    // The highest level at which a flow has its rate.
    let highest = |flow: usize| match standings[flow] {
        Standing { is_straight: true, lowest, .. } => lowest,
        _ => stand(&problem.demands()[flow], allocation.exact[flow], near).highest,
    };
    let held_by = held_by(problem, &links, near, highest);
    let uses = (0..flows).map(|flow| problem.uses(flow));
    let over = Csr::inverse(links.len(), uses);
    let holds_back = Csr::inverse(links.len(), held_by.lists());
    let members = members(problem, &standings, &links, (&held_by, &holds_back), near, highest);
    let groups = groups(&members, &mut links, near);
    let mut structure =
        Structure { problem, allocation, near, standings, links, held_by, holds_back, over, members, groups };
    for link in 0..structure.links.len() {
        structure.links[link].is_plain = is_plain(&structure, link);
    }
    Ok(structure)
}

/// Where flows stand, and which resources are full at which level.
fn limits(problem: &Problem, allocation: &Allocation, near: Level) -> (Vec<Standing>, Vec<Link>) {
    let mut uses = vec![Use::default(); problem.limits().len()];
    let mut links = vec![Link::default(); uses.len()];
    let mut standings = Vec::with_capacity(problem.demands().len());
    for (flow, demand) in problem.demands().iter().enumerate() {
        let rate = allocation.exact[flow];
        let stand = stand(demand, rate, near);
        let is_straight = stand.lowest == stand.highest && stand.less == stand.more && !stand.less.is_level();
        let (has_all, at_floor) = (stand.has_all, stand.at_floor);
        standings.push(Standing { lowest: stand.lowest, has_all, at_floor, is_straight });
        let blur = blur(demand, near);
        for of in problem.uses(flow).iter().map(|of| *of as usize) {
            uses[of].used += rate;
            uses[of].blur += blur;
            // It holds back the lowest tier that has more than floors there, of that who is highest.
            if !at_floor {
                links[of].tier = links[of].tier.max(demand.tier);
            }
        }
    }
    for ((link, limit), of) in links.iter_mut().zip(problem.limits()).zip(&uses) {
        link.is_full = of.used + of.blur >= fine(limit.capacity);
    }
    for (flow, standing) in standings.iter().enumerate().filter(|(_, standing)| !standing.at_floor) {
        let tier = problem.demands()[flow].tier;
        for of in problem.uses(flow) {
            let link = &mut links[*of as usize];
            if link.is_full && link.tier == tier {
                link.level = link.level.max(standing.lowest);
            }
        }
    }
    (standings, links)
}

fn held_by(problem: &Problem, links: &[Link], near: Level, highest: impl Fn(usize) -> Level) -> Csr {
    let demands = problem.demands();
    let mut held_by = Csr::with_capacity(demands.len(), demands.len());
    for (flow, demand) in demands.iter().enumerate() {
        let highest = highest(flow);
        for of in problem.uses(flow) {
            let link = links[*of as usize];
            let is_held = match demand.tier.cmp(&link.tier) {
                Ordering::Less => false,
                // At a floor above the level it would not rise before that is full.
                Ordering::Equal => highest + near >= link.level,
                // What the others leave of a rise is for those that have no more than a floor.
                Ordering::Greater => true,
            };
            if link.is_full && is_held {
                held_by.push(*of);
            }
        }
        held_by.end_list();
    }
    held_by
}

/// What reacts, in the order of tiers and levels.
fn members(
    problem: &Problem,
    standings: &[Standing],
    links: &[Link],
    (held_by, holds_back): (&Csr, &Csr),
    near: Level,
    highest: impl Fn(usize) -> Level,
) -> Vec<Reacting> {
    let mut members = Vec::new();
    for (link, of) in links.iter().enumerate().filter(|(link, _)| !holds_back.of(*link).is_empty()) {
        members.push(Reacting { tier: of.tier, level: of.level, member: Member::Link(link as ResourceId) });
    }
    for (flow, standing) in standings.iter().enumerate().filter(|(_, standing)| !standing.is_straight) {
        let tier = problem.demands()[flow].tier;
        let level = highest(flow);
        let rises_with = |of: &ResourceId| {
            let link = links[*of as usize];
            link.tier == tier && level <= link.level + near
        };
        let held_by = held_by.of(flow);
        if !standing.has_all && !held_by.is_empty() && !held_by.iter().any(rises_with) {
            members.push(Reacting { tier, level, member: Member::Late(flow as u32) });
        }
    }
    members.sort_unstable();
    members
}

/// Where each group of one level begins among the members, and one more.
fn groups(members: &[Reacting], links: &mut [Link], near: Level) -> Vec<u32> {
    let mut begins = vec![0];
    let mut at = 0;
    for group in members.chunk_by(|a, b| a.tier == b.tier && b.level - a.level <= near) {
        for member in group {
            if let Member::Link(link) = member.member {
                links[link as usize].group = Some(begins.len() as u32 - 1);
            }
        }
        at += group.len();
        begins.push(at as u32);
    }
    begins
}

/// Whether all that a resource holds back it holds back alone, and they react alike to more and to less.
fn is_plain(structure: &Structure, link: usize) -> bool {
    let is_alone = structure.links[link].group.is_some_and(|group| structure.members_of(group as usize).len() == 1);
    let holds_back = structure.holds_back.of(link);
    let is_plain = |flow: usize| match structure.reacts(flow, link) {
        (false, false) => true,
        (true, true) => structure.standings[flow].is_straight && structure.held_by.of(flow).len() == 1,
        _ => false,
    };
    let any_reacts = holds_back.iter().any(|flow| structure.reacts(*flow as usize, link) == (true, true));
    is_alone && any_reacts && holds_back.iter().all(|flow| is_plain(*flow as usize))
}
