//! How sure rates are.

use std::collections::BTreeSet;

use api::rest::Assurance;
use ledger::SessionId;
use model::shares::Most;

use super::link::{Bound, bound, may};
use super::ways;
use crate::core::Core;

/// Directions of links on which somebody says that Longhaul's part is held to what it may be, whatever senders do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Enforced(BTreeSet<String>);

impl Enforced {
    /// As it is now. Of a few directions only something is told.
    pub(crate) fn now(core: &Core) -> Enforced {
        let told = core.desk.counting.samples.all_enforced();
        let holds = told.filter(|(way, held)| may(core, way).is_some_and(|may| *held <= may));
        Enforced(holds.map(|(way, _)| way.to_owned()).collect())
    }

    /// Of a rate over these directions: enforced if each of them is. Else only our own senders hold to it.
    pub(crate) fn over(&self, ways: impl IntoIterator<Item = String>) -> Assurance {
        let mut ways = ways.into_iter().peekable();
        let is_enforced = ways.peek().is_some() && ways.all(|way| self.0.contains(&way));
        if is_enforced { Assurance::Enforced } else { Assurance::Edge }
    }

    /// Of the rates of sessions together.
    pub(crate) fn of_sessions<'a>(&self, core: &Core, ids: impl IntoIterator<Item = &'a SessionId>) -> Assurance {
        if self.0.is_empty() {
            return Assurance::Edge;
        }
        self.over(ids.into_iter().flat_map(|id| ways(core, *id)))
    }

    /// Of what may be given out on a direction of a link: an estimate where that follows what somebody counts of traffic at large.
    pub(crate) fn of_way(&self, core: &Core, way: &str) -> Assurance {
        let is_flexible = |name: &str| {
            let marks = core.world.iter().flat_map(|world| &world.shares.marks);
            marks.into_iter().any(|mark| mark.name == name && matches!(mark.most, Most::Flexible(_)))
        };
        match bound(core, way) {
            _ if self.0.contains(way) => Assurance::Enforced,
            Some((_, Bound::Mark(name))) if is_flexible(&name) => Assurance::Estimate,
            _ => Assurance::Edge,
        }
    }
}
