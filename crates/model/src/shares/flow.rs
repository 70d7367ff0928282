//! Flows, and the paths that they are given.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::read::{Reader, bytes, part};
use super::{Class, Flow, PATHS_MAX, Paths, SharesError, Split};
use crate::network::toml::{Keys, text};
use crate::network::{LinkIndex, NodeIndex, NodeKind};
use crate::scenario::Way;

pub(super) const KEYS: &[&str] =
    &["name", "class", "from", "to", "weight", "floor", "cap", "bytes", "urgent", "paths", "split"];

impl<'a> Reader<'a> {
    pub(super) fn flow(
        &self,
        name: &str,
        keys: &Keys<'a>,
        names: &BTreeMap<&str, usize>,
        classes: &[Class],
    ) -> Result<Flow, SharesError> {
        let class = Reader::class(keys, "class", names)?;
        let end = |key: &str, example: &str| {
            let node = keys.get(key, |value| self.node(text(value)?))?;
            node.ok_or_else(|| keys.missing(key, example))
        };
        let (from, to) = (end("from", "\"caltech\"")?, end("to", "\"cern\"")?);
        if from == to {
            let node = &self.network.nodes[from].name;
            return Err(keys.fault(format!("`{node}` is both ends: name another one")));
        }
        let (weight, floor, cap) = part(keys)?;
        let urgent = keys.flag("urgent")?.unwrap_or(false);
        if urgent && class.is_none_or(|class| classes[class].urgent.is_none()) {
            return Err(keys.fault("`urgent` without a budget: write `urgent = \"500 TB\"` in its `[[class]]`"));
        }
        let split = keys.get("split", |value| match text(value)? {
            "ordered" => Ok(Split::Ordered),
            "adaptive" => Ok(Split::Adaptive),
            _ => Err("write `ordered`, which fills the first path before the next, or `adaptive`".to_owned()),
        })?;
        Ok(Flow {
            name: name.to_owned(),
            class,
            from,
            to,
            weight,
            floor,
            cap,
            bytes: keys.quantity("bytes", bytes)?,
            urgent,
            paths: self.paths(keys, from, to)?,
            split: split.unwrap_or_default(),
        })
    }

    /// How many of the cheapest, or lists of links.
    fn paths(&self, keys: &Keys<'a>, from: NodeIndex, to: NodeIndex) -> Result<Paths, SharesError> {
        let Some(value) = keys.value("paths") else { return Ok(Paths::Cheapest(1)) };
        let problem =
            format!("paths: write how many, 1 to {PATHS_MAX}, or so many lists of links, `[[\"ab\", \"bc\"]]`");
        let wrong = |span: Range<usize>| keys.error(&span, problem.clone());
        let Some(lists) = value.get_ref().as_array() else {
            let most = 1..=PATHS_MAX as u32;
            return Ok(Paths::Cheapest(keys.whole("paths", most).map_err(|_| wrong(value.span()))?.unwrap_or(1)));
        };
        if !(1..=PATHS_MAX).contains(&lists.len()) {
            return Err(wrong(value.span()));
        }
        let path = |list: &Spanned<DeValue<'a>>| {
            let names = list.get_ref().as_array().ok_or_else(|| wrong(list.span()))?;
            let name = |name: &Spanned<DeValue<'a>>| {
                let text = name.get_ref().as_str().ok_or_else(|| wrong(name.span()))?;
                let link = self.link(text).map_err(|problem| keys.error(&name.span(), format!("paths: {problem}")))?;
                Ok((link, name.span()))
            };
            let links = names.iter().map(name).collect::<Result<Vec<_>, SharesError>>()?;
            self.along(keys, &list.span(), from, to, &links)
        };
        let given = lists.iter().map(path).collect::<Result<Vec<_>, _>>()?;
        if let Some(again) = (1..given.len()).find(|at| given[..*at].contains(&given[*at])) {
            return Err(keys.error(&lists[again].span(), "paths: that path is there already: leave it out"));
        }
        Ok(Paths::Given(given))
    }

    /// The ways of links in turn, from one end to the other.
    fn along(
        &self,
        keys: &Keys<'a>,
        span: &Range<usize>,
        from: NodeIndex,
        to: NodeIndex,
        links: &[(LinkIndex, Range<usize>)],
    ) -> Result<Vec<(LinkIndex, Way)>, SharesError> {
        let name = |node: NodeIndex| &self.network.nodes[node].name;
        let mut seen = vec![from];
        let mut at = from;
        let mut ways = Vec::with_capacity(links.len());
        for (index, span) in links {
            let link = &self.network.links[*index];
            let fault = |problem: String| Err(keys.error(span, format!("paths: link `{}` {problem}", link.name)));
            if at == to {
                return fault(format!("is behind `{}`, where the path ends: leave it out", name(to)));
            }
            if ![link.from, link.to].contains(&at) {
                let (one, other, at) = (name(link.from), name(link.to), name(at));
                return fault(format!("joins `{one}` and `{other}`, but the path is at `{at}`: write links in turn"));
            }
            let next = self.network.far_end(*index, at);
            if seen.contains(&next) {
                return fault(format!("leads back to `{}`: a path passes each node once", name(next)));
            }
            if next != to && self.network.nodes[next].kind == NodeKind::Host {
                return fault(format!("leads to host `{}`: hosts do not forward", name(next)));
            }
            ways.push((*index, if link.from == at { Way::Forward } else { Way::Backward }));
            seen.push(next);
            at = next;
        }
        if at != to {
            return Err(keys.error(
                span,
                format!("paths: the path ends at `{}`, not at `{}`: name all its links", name(at), name(to)),
            ));
        }
        Ok(ways)
    }
}
