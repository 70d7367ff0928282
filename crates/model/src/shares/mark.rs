//! Marks: which ways of which links, for whom, how far.

use std::collections::BTreeMap;

use toml::de::DeValue;
use units::Rate;

use super::read::{Reader, any_rate, share};
use super::{Flexible, MARKED_MAX, MARKS_MAX, Mark, Most, SharesError};
use crate::network::toml::{Keys, text};
use crate::network::{LinkIndex, NodeIndex};
use crate::scenario::Way;

const KEYS: &[&str] = &["name", "class", "links", "from", "together", "rate", "share", "flexible"];
const FLEXIBLE_KEYS: &[&str] = &["share", "margin", "least", "most", "now", "as_of", "at_large", "expires"];

impl<'a> Reader<'a> {
    /// The marks of a file.
    pub(super) fn marks(&self, keys: &Keys<'a>, classes: &BTreeMap<&str, usize>) -> Result<Vec<Mark>, SharesError> {
        let mut marks = Vec::new();
        let mut marked = 0;
        for (name, keys) in self.named(keys, "mark", KEYS, MARKS_MAX)? {
            let class = Reader::class(&keys, "class", classes)?;
            let ways = self.marked(&keys)?;
            marked += ways.len();
            if marked > MARKED_MAX {
                return Err(keys.fault(format!("marks name more than {MARKED_MAX} ways of links: name fewer")));
            }
            let together = keys.flag("together")?.unwrap_or(false);
            let most = self.most(&keys)?;
            let rate = |(link, way): &(LinkIndex, Way)| {
                let link = &self.network.links[*link];
                if *way == Way::Forward { link.forward.rate } else { link.backward.rate }
            };
            if let (Some((link, _)), false) =
                (ways.iter().find(|way| rate(way).is_none()), matches!(most, Most::Rate(_)))
            {
                let link = &self.network.links[*link].name;
                return Err(keys.fault(format!("link `{link}` has no rate to have a share of: write `rate` instead")));
            }
            marks.push(Mark { name: name.to_owned(), class, ways, together, most });
        }
        Ok(marks)
    }

    /// The ways that a mark is on, sorted.
    fn marked(&self, keys: &Keys<'a>) -> Result<Vec<(LinkIndex, Way)>, SharesError> {
        let names = keys.list("links")?;
        if names.is_empty() {
            return Err(keys.missing("links", "[\"ab\"]"));
        }
        let from = self.leaving(keys)?;
        let mut ways = Vec::new();
        for (name, span) in &names {
            let links = self.links(name).map_err(|problem| keys.error(span, format!("links: {problem}")))?;
            for index in links {
                let link = &self.network.links[index];
                let of_link = [(Way::Forward, link.from), (Way::Backward, link.to)];
                let before = ways.len();
                let leaves = |node: &NodeIndex| from.is_empty() || from.contains(node);
                ways.extend(of_link.iter().filter(|(_, node)| leaves(node)).map(|(way, _)| (index, *way)));
                if ways.len() == before {
                    let problem =
                        format!("links: `{}` is at no node that `from` names: name one of its ends", link.name);
                    return Err(keys.error(span, problem));
                }
            }
        }
        ways.sort_unstable_by_key(|(link, way)| (*link, way.index()));
        ways.dedup();
        Ok(ways)
    }

    /// The nodes of `from`: one, or a list.
    fn leaving(&self, keys: &Keys<'a>) -> Result<Vec<NodeIndex>, SharesError> {
        if keys.value("from").is_some_and(|value| value.get_ref().is_array()) {
            let node = |(name, span): &(&str, std::ops::Range<usize>)| {
                self.node(name).map_err(|problem| keys.error(span, format!("from: {problem}")))
            };
            return keys.list("from")?.iter().map(node).collect();
        }
        Ok(keys.get("from", |value: &DeValue<'_>| self.node(text(value)?))?.into_iter().collect())
    }

    fn most(&self, keys: &Keys<'a>) -> Result<Most, SharesError> {
        let forms = ["rate", "share", "flexible"];
        if forms.iter().filter(|form| keys.has(form)).count() != 1 {
            let problem = "write one of `rate`, `share` and `flexible`, for example `rate = \"40 Gb/s\"`";
            return Err(keys.fault(problem));
        }
        if let Some(rate) = keys.quantity("rate", any_rate)? {
            return Ok(Most::Rate(rate));
        }
        if let Some(share) = keys.quantity("share", share)? {
            return Ok(Most::Share(share));
        }
        let keys =
            keys.table("flexible", FLEXIBLE_KEYS)?.ok_or_else(|| keys.missing("flexible", "{ share = \"90 %\" }"))?;
        let share_ppm = keys.quantity("share", share)?.ok_or_else(|| keys.missing("share", "\"90 %\""))?;
        let flexible = Flexible {
            share_ppm,
            margin: keys.quantity("margin", any_rate)?.unwrap_or(Rate::ZERO),
            least: keys.quantity("least", any_rate)?.unwrap_or(Rate::ZERO),
            most: keys.quantity("most", any_rate)?,
            now: keys.quantity("now", any_rate)?,
            as_of: self.as_of(&keys)?,
            at_large: keys.quantity("at_large", any_rate)?,
            expires: self.moment(&keys, "expires")?,
        };
        if let Some(most) = flexible.most.filter(|most| *most < flexible.least) {
            let least = flexible.least;
            return Err(keys.fault(format!("`most` {most} is below `least` {least}: write one of them otherwise")));
        }
        for (key, needs, lacks) in [
            ("as_of", "now", flexible.as_of.is_some() && flexible.now.is_none()),
            ("expires", "at_large", flexible.expires.is_some() && flexible.at_large.is_none()),
        ] {
            if lacks {
                return Err(
                    keys.fault(format!("`{key}` without `{needs}`: write `{needs}` too, a rate, or leave it out"))
                );
            }
        }
        Ok(Most::Flexible(flexible))
    }
}
