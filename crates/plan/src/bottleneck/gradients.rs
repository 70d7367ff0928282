//! The gradients of everything in one pass from high levels to low ones.
//!
//! What a b/s more of a resource is worth is what those get whom it holds back, less what they take from resources at higher levels, by what
//! those are worth: the adjoint of the pass for one change. That holds where the change meets no tie and no corner.

use super::number::Number;
use super::{Member, Structure};

/// How the sum of all rates changes, where it does so alike to both sides.
#[derive(Clone, Debug)]
pub struct Gradients<N> {
    /// By resource: with one b/s more of it, or the same lost with one less. `None` if the change meets a tie or a corner, so that each side
    /// is asked for by itself ([`Structure::gradient`]).
    pub links: Vec<Option<N>>,
    /// By flow: with one b/s less for it, what all get together, the flow too. `None` as above.
    pub flows: Vec<Option<N>>,
}

/// What is summed of a resource.
#[derive(Clone)]
struct Sums<N> {
    /// The slopes of those that it holds back.
    slopes: N,
    /// The same, each times what its resources at higher levels are worth.
    worth: N,
    reacting: usize,
}

impl Structure<'_> {
    /// All gradients, in O(Σ uses) operations.
    #[must_use]
    pub fn gradients<N: Number>(&self) -> Gradients<N> {
        let mut worth: Vec<Option<N>> = vec![Some(N::zero()); self.links.len()];
        let mut sums: Vec<Option<Sums<N>>> = vec![None; self.links.len()];
        for group in self.groups().rev() {
            for reacting in self.members_of(group) {
                let Member::Link(link) = reacting.member else { continue };
                let link = link as usize;
                let found = self.links[link].is_plain.then(|| self.sums(link, &worth)).flatten();
                worth[link] = found.as_ref().map(|sums| N::whole(1) - sums.worth.clone() / sums.slopes.clone());
                sums[link] = found;
            }
        }
        let flows = (0..self.standings.len()).map(|flow| self.of_flow(flow, &worth, &sums)).collect();
        Gradients { links: worth, flows }
    }

    fn sums<N: Number>(&self, link: usize, worth: &[Option<N>]) -> Option<Sums<N>> {
        let mut sums = Sums { slopes: N::zero(), worth: N::zero(), reacting: 0 };
        for flow in self.holds_back.of(link).iter().map(|flow| *flow as usize) {
            if self.reacts(flow, link) == (true, true) {
                let slope: N = self.stand(flow).less.number();
                sums.slopes = sums.slopes + slope.clone();
                sums.worth = sums.worth + slope * self.worth_of_others(flow, Some(link), worth)?;
                sums.reacting += 1;
            }
        }
        Some(sums)
    }

    /// What the resources that a flow draws on are worth together, but for one.
    fn worth_of_others<N: Number>(&self, flow: usize, but: Option<usize>, worth: &[Option<N>]) -> Option<N> {
        let others = self.problem.uses(flow).iter().map(|of| *of as usize).filter(|of| Some(*of) != but);
        others.map(|of| worth[of].clone()).try_fold(N::zero(), |sum, worth| Some(sum + worth?))
    }

    fn of_flow<N: Number>(&self, flow: usize, worth: &[Option<N>], sums: &[Option<Sums<N>>]) -> Option<N> {
        if self.standings[flow].at_floor {
            return Some(N::zero());
        }
        let reacts_with = |link: &u32| self.reacts(flow, *link as usize) == (true, true);
        let holder = self.held_by(flow).iter().find(|link| reacts_with(link)).map(|link| *link as usize);
        let mut sum = self.worth_of_others(flow, holder, worth)?;
        if let Some(holder) = holder {
            let of = sums[holder].as_ref()?;
            let slope: N = self.stand(flow).less.number();
            // What it leaves there the others share.
            if of.reacting > 1 {
                let others = of.worth.clone() - slope.clone() * sum.clone();
                sum = sum + N::whole(1) - others / (of.slopes.clone() - slope);
            } else if self.holds_back.of(holder).len() > 1 {
                return None;
            }
        }
        Some(sum - N::whole(1))
    }
}
