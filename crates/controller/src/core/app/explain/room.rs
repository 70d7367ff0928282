//! What would change what goes over a link: where it is full, what has to be more; else what is full on it, or where to look.

use std::collections::BTreeMap;

use api::rest::{self, Explanation, Holder, Remedy};

use crate::core::Core;
use crate::views::{self, Bound};

/// Of what may be given out, so much less is all of it, in parts of a thousand: rates are whole, and those of sessions change after one another.
const FULL_WITHIN: u64 = 1;
/// Classes, and marks of classes, that are told.
const TOLD_MAX: usize = 4;

/// Adds what is full, until when if somebody knows, and what would change it.
pub(super) fn complete(core: &Core, link: &rest::Link, told: &mut Explanation) {
    let remedy = |text: String| Remedy { text, rate_bps: None };
    let name = link.id.rsplit_once(':').map_or(link.id.as_str(), |(name, _)| name);
    let bound = views::bound(core, &link.id).filter(|(most, _)| is_full(link.allocated_bps, *most));
    let Some((most, bound)) = bound else {
        let ends = format!(" on {}", link.id);
        let of_classes = views::classes(core);
        let marks = of_classes.iter().flat_map(|class| class.marks.iter().map(move |mark| (class, mark)));
        let full = marks.filter(|(_, mark)| mark.name.ends_with(&ends) && is_full(mark.allocated_bps, mark.mark_bps));
        let raise = |(class, mark): (&rest::Class, &rest::ClassMark)| {
            let most = views::rate(mark.mark_bps);
            remedy(format!("raise mark {} above {most}: class `{}` has all of it", mark.name, class.name))
        };
        told.remedies.extend(full.take(TOLD_MAX).map(|(class, mark)| raise((class, mark))));
        let first = told.holders.iter().find(|holder| holder.holder.starts_with('t') && holder.rate_bps > 0);
        if let Some(first) = first.filter(|_| told.remedies.is_empty()) {
            let text = format!("ask what holds back who goes over it: `longhaul explain transfer {}`", first.holder);
            told.remedies.push(remedy(text));
        }
        return;
    };
    let most = views::rate(most);
    told.text += "; all that it may be filled to is given out";
    match bound {
        Bound::Rate => told.remedies.push(remedy(format!(
            "raise what there is of it for transfers above {most}: the rate of `{name}`, or less kept for others"
        ))),
        Bound::Mark(mark) => told.remedies.push(remedy(format!("raise mark {mark} above {most}"))),
        Bound::Booked(ends) => {
            let ends = ends.map(rest::Time);
            told.until = told.until.into_iter().chain(ends).min();
            let until = ends.map(|ends| format!(", or wait until {ends}")).unwrap_or_default();
            told.remedies.push(remedy(format!("have less of it booked{until}")));
        }
        // That it may be lifted is told of each limit.
        Bound::Limit => {}
    }
    let weights: BTreeMap<String, u32> =
        views::classes(core).into_iter().map(|class| (class.name, class.weight)).collect();
    told.remedies.extend(heavier(&weights, &told.holders).map(remedy));
}

/// That those would have less of it who have most by their weight, if several classes share it.
fn heavier(weights: &BTreeMap<String, u32>, holders: &[Holder]) -> Option<String> {
    let mut has: BTreeMap<&str, u64> = BTreeMap::new();
    for holder in holders.iter().filter(|holder| holder.holder.starts_with('t')) {
        *has.entry(holder.class.as_deref()?).or_default() += holder.rate_bps;
    }
    let weighed = has.into_iter().map(|(name, rate)| Some((*weights.get(name)?, name, rate)));
    let mut weighed = weighed.collect::<Option<Vec<(u32, &str, u64)>>>()?;
    weighed.sort_unstable_by(|a, b| b.cmp(a));
    let least = weighed.last()?.0;
    let heavier = weighed.iter().filter(|(weight, ..)| *weight > least).take(TOLD_MAX);
    let words: Vec<String> = heavier
        .map(|(weight, name, rate)| format!("`{name}` less weight than {weight}: {} are its", views::rate(*rate)))
        .collect();
    (!words.is_empty()).then(|| format!("for more of it for the others, give class {}", words.join(", and ")))
}

fn is_full(given: u64, most: u64) -> bool {
    given >= most - most / 1_000 * FULL_WITHIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_weighs_more_is_told_to_the_others() {
        let weights = [("cms", 3), ("atlas", 1), ("lhcb", 1)].map(|(name, weight)| (name.to_owned(), weight)).into();
        let holder = |holder: &str, class: &str, gbps: u64| Holder {
            holder: holder.to_owned(),
            class: Some(class.to_owned()),
            rate_bps: gbps * 1_000_000_000,
            assurance: rest::Assurance::Edge,
        };
        let booking = holder("booking `b`", "", 9);
        let mut holders = vec![booking, holder("t1", "cms", 2), holder("t2", "cms", 1), holder("t3", "atlas", 1)];
        let told = heavier(&weights, &holders).expect("cms weighs more");
        assert_eq!(told, "for more of it for the others, give class `cms` less weight than 3: 3 Gb/s are its");
        holders.drain(1..3);
        holders.push(holder("t4", "lhcb", 1));
        assert_eq!(heavier(&weights, &holders), None, "all weigh the same");
        assert_eq!(heavier(&weights, &[]), None);
        assert!(is_full(8_000_000_000, 8_000_000_000) && is_full(5, 5) && !is_full(7_900_000_000, 8_000_000_000));
    }
}
