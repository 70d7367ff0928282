//! Load balance: which sessions would have clearly more over another path of theirs that works.
//!
//! The planner is asked once what there would be if sessions could use all their paths together. What a leg would gain then is a bound
//! for what one move can bring; those with most to gain are tried one by one, each on top of those before.

use std::collections::BTreeMap;

use model::network::LinkIndex;
use model::scenario::Way;
use model::shares::Paths;
use plan::allot::Snapshot;

use super::{Asked, Rates};

/// A path: links from the sender on, with the way that each is gone.
pub type Links = Vec<(LinkIndex, Way)>;

/// What a leg must gain by a move, in percent of what the session has that moves: a move costs a new connection and its slow start.
const GAIN_PERCENT: u64 = 25;
/// The same in percent of what its leg has: sessions of one leg leave each other what they do not need.
const LEG_PERCENT: u64 = 5;
/// The same, in b/s.
const GAIN_MIN_BPS: u64 = 100_000;
/// A move may cost all sessions together so much in percent: planners round.
const LOSS_PERCENT: u128 = 1;
/// Moves that are tried in one look.
const TRIES_MAX: usize = 8;

/// A session that would have more over another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Better {
    /// The session.
    pub session: u64,
    /// Which of its other paths: an index.
    pub path: usize,
    /// What it has, b/s of IP packets.
    pub from_bps: u64,
    /// What it would have, b/s of IP packets.
    pub to_bps: u64,
}

/// The sessions that would have clearly more over one of their `others`, at most 8, in the order in which they are to move: each counts on those
/// before it. `question` is [`super::Situation::snapshot`] of `asked`, `rates` its answer; where the planner refuses a question there are none.
///
/// Costs one allotment, and one for each try.
#[must_use]
pub fn better(question: &Snapshot, asked: &[Asked], rates: &Rates, others: &BTreeMap<u64, Vec<Links>>) -> Vec<Better> {
    let mut now = question.clone();
    let Some((ideal, parts)) = ideal(&now, asked, rates, others) else { return Vec::new() };
    let mut rates = rates.clone();
    let (had, could) = (by_leg(asked, &rates), by_leg(asked, &ideal));
    let gain = |asked: &Asked| could[&asked.leg].saturating_sub(had[&asked.leg]);
    let mut first: Vec<(usize, usize)> = parts.into_iter().filter(|(flow, _)| gain(&asked[*flow]) > 0).collect();
    first.sort_by_key(|(flow, _)| std::cmp::Reverse(gain(&asked[*flow])));
    first.truncate(TRIES_MAX);
    let mut found = Vec::new();
    for (flow, path) in first {
        let session = asked[flow].session;
        let before =
            std::mem::replace(&mut now.shares.flows[flow].paths, Paths::Given(vec![others[&session][path].clone()]));
        match now.allot().map(|outcome| Rates::from_outcome(&outcome, asked)) {
            Ok(then) if is_better(asked, flow, &rates, &then) => {
                let of = |rates: &Rates| rates.sessions.get(&session).map_or(0, |rated| rated.rate_bps);
                found.push(Better { session, path, from_bps: of(&rates), to_bps: of(&then) });
                rates = then;
            }
            _ => now.shares.flows[flow].paths = before,
        }
    }
    found
}

/// What sessions would have over all their paths together, and the flows of which another path than that in use would carry most, with that path.
fn ideal(
    question: &Snapshot,
    asked: &[Asked],
    rates: &Rates,
    others: &BTreeMap<u64, Vec<Links>>,
) -> Option<(Rates, Vec<(usize, usize)>)> {
    let mut all = question.clone();
    for (flow, asked) in all.shares.flows.iter_mut().zip(asked) {
        let Some(more) = others.get(&asked.session).filter(|more| !more.is_empty()) else { continue };
        let used = rates.sessions.get(&asked.session)?.links.clone();
        flow.paths = Paths::Given(std::iter::once(used).chain(more.iter().cloned()).collect());
    }
    let outcome = all.allot().ok()?;
    let other = |(flow, asked): (usize, &Asked)| {
        let more = others.get(&asked.session).filter(|more| !more.is_empty())?;
        let parts = outcome.rates(flow).get(1..)?;
        let most = (0..more.len().min(parts.len())).max_by_key(|path| (parts[*path], usize::MAX - path))?;
        (parts[most] > 0).then_some((flow, most))
    };
    let parts = asked.iter().enumerate().filter_map(other).collect();
    Some((Rates::from_outcome(&outcome, asked), parts))
}

fn by_leg(asked: &[Asked], rates: &Rates) -> BTreeMap<(u64, u32), u64> {
    let mut legs = BTreeMap::new();
    for asked in asked {
        *legs.entry(asked.leg).or_default() += rates.sessions.get(&asked.session).map_or(0, |rated| rated.rate_bps);
    }
    legs
}

/// Whether a move brings its leg enough, and costs all together nothing.
fn is_better(asked: &[Asked], flow: usize, before: &Rates, after: &Rates) -> bool {
    let all = |rates: &Rates| rates.sessions.values().map(|rated| u128::from(rated.rate_bps)).sum::<u128>();
    let leg = |rates: &Rates| by_leg(asked, rates)[&asked[flow].leg];
    let has = before.sessions.get(&asked[flow].session).map_or(0, |rated| rated.rate_bps);
    let least = (has / 100 * GAIN_PERCENT).max(leg(before) / 100 * LEG_PERCENT).max(GAIN_MIN_BPS);
    leg(after) >= leg(before).saturating_add(least) && all(after) * 100 >= all(before) * (100 - LOSS_PERCENT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::network::Network;
    use model::shares::Shares;
    use units::Rate;

    use super::super::{Limited, Situation};
    use super::*;

    /// Two hosts and two ways across, which one mark is on together.
    const NETWORK: &str = r#"
name = "sea"
hosts = ["a", "b"]
routers = ["ra", "rb"]
[[link]]
name = "ea"
ends = ["a", "ra"]
rate = "40 Gb/s"
[[link]]
name = "north"
ends = ["ra", "rb"]
rate = "10 Gb/s"
[[link]]
name = "south"
ends = ["ra", "rb"]
rate = "10 Gb/s"
[[link]]
name = "eb"
ends = ["rb", "b"]
rate = "40 Gb/s"
"#;

    const SHARES: &str = r#"
[[class]]
name = "one"
weight = 3
[[class]]
name = "two"
weight = 1
[[mark]]
name = "sea"
links = ["north", "south"]
from = "ra"
together = true
rate = "10 Gb/s"
"#;

    fn over(link: usize) -> Links {
        vec![(0, Way::Forward), (link, Way::Forward), (3, Way::Forward)]
    }

    fn session(session: u64, class: usize, link: usize) -> Asked {
        let path = Some(over(link));
        Asked { session, leg: (session, 0), class, from: 0, to: 1, urgent: false, most_bps: None, bytes: None, path }
    }

    /// The moves of sessions that may take the link that they do not take, with what each has in Gb/s, and would have.
    fn moves(asked: &[Asked], limit: Option<(Limited, u64)>) -> Vec<(u64, u64, u64)> {
        let network = Network::from_toml(NETWORK, "sea.toml").expect("a network");
        let shares = Shares::from_toml(SHARES, "shares.toml", &network).expect("shares");
        let limits: Vec<_> = limit.into_iter().map(|(of, gbps)| (of, Rate::gbps(gbps))).collect();
        let situation = Situation {
            network: &network,
            shares: &shares,
            down: &BTreeSet::new(),
            limits: &limits,
            booked: &[],
            sessions: asked,
        };
        let rates = Rates::of(&situation).expect("a problem");
        let other = |asked: &Asked| {
            let used = asked.path.as_ref().expect("it has one")[1].0;
            (asked.session, vec![over(if used == 1 { 2 } else { 1 })])
        };
        let others = asked.iter().map(other).collect();
        let found = better(&situation.snapshot(), asked, &rates, &others);
        let gbps = |bps: u64| (bps + 500_000_000) / 1_000_000_000;
        found.into_iter().map(|better| (better.session, gbps(better.from_bps), gbps(better.to_bps))).collect()
    }

    #[test]
    fn who_is_squeezed_moves_and_who_gains_nothing_stays() {
        let sessions = [session(1, 0, 1), session(2, 1, 2)];
        assert_eq!(moves(&sessions, None), [], "the mark on both binds");
        // One has 2 of 7.5 where the limit is; the other has the rest.
        assert_eq!(moves(&sessions, Some((Limited::Link(1), 2))), [(1, 2, 8)]);
    }

    #[test]
    fn of_sessions_that_crowd_on_one_link_only_as_many_move_as_gain() {
        let crowd: Vec<Asked> = (0..4).map(|number| session(number, 1, 1)).collect();
        let limit = Some((Limited::Link(1), 4));
        let moved = moves(&crowd, limit);
        assert!((1..=3).contains(&moved.len()), "{moved:?}");
        // As they stand then, nobody gains any more.
        let over = |one: &Asked| if moved.iter().any(|(session, ..)| *session == one.session) { 2 } else { 1 };
        let stand: Vec<Asked> = crowd.iter().map(|one| session(one.session, 1, over(one))).collect();
        assert_eq!(moves(&stand, limit), []);
    }

    #[test]
    fn a_leg_whose_other_sessions_take_what_one_cannot_does_not_move_it() {
        let leg = |number, link| Asked { leg: (7, 0), ..session(number, 0, link) };
        // 2 and 8 of the mark's 10: over the same link it would be 5 and 5.
        assert_eq!(moves(&[leg(1, 1), leg(2, 2)], Some((Limited::Link(1), 2))), []);
    }

    #[test]
    fn who_could_not_use_more_does_not_move() {
        let slow = Asked { most_bps: Some(2_000_000_000), ..session(1, 0, 1) };
        assert_eq!(moves(&[slow, session(2, 1, 2)], Some((Limited::Link(1), 2))), []);
    }
}
