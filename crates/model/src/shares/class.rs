//! Classes: a tree, checked.

use std::collections::BTreeMap;

use units::Bytes;

use super::read::{Reader, bytes, part};
use super::{CLASSES_MAX, Class, DEPTH_MAX, SharesError, TIER_MAX, TIER_SCAVENGER, Urgent, Used};
use crate::network::toml::Keys;

const KEYS: &[&str] =
    &["name", "parent", "tier", "weight", "floor", "cap", "scavenger", "used", "as_of", "urgent", "urgent_used"];

/// The classes of a file.
pub(super) fn read<'a>(reader: &Reader<'a>, keys: &Keys<'a>) -> Result<Vec<Class>, SharesError> {
    let tables = reader.named(keys, "class", KEYS, CLASSES_MAX)?;
    // A class may stand before the one that it is in.
    let names: BTreeMap<&str, usize> = tables.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
    let class = |(name, keys): &(&str, Keys<'a>)| class(reader, name, keys, &names);
    let mut classes = tables.iter().map(class).collect::<Result<Vec<Class>, _>>()?;
    for (index, (name, keys)) in tables.iter().enumerate() {
        let top = top(&classes, index).ok_or_else(|| {
            keys.fault(format!(
                "parent: `{name}` is within itself, or deeper than {DEPTH_MAX} classes: name one higher up"
            ))
        })?;
        classes[index].tier = classes[top].tier;
    }
    Ok(classes)
}

/// The class at the top of a class's branch; `None` if there is none within the bound, as in a cycle.
fn top(classes: &[Class], of: usize) -> Option<usize> {
    let mut branch = std::iter::successors(Some(of), |class| classes[*class].parent);
    branch.by_ref().take(DEPTH_MAX).find(|class| classes[*class].parent.is_none())
}

fn class<'a>(
    reader: &Reader<'a>,
    name: &str,
    keys: &Keys<'a>,
    names: &BTreeMap<&str, usize>,
) -> Result<Class, SharesError> {
    let parent = Reader::class(keys, "parent", names)?;
    let is_scavenger = keys.flag("scavenger")?.unwrap_or(false);
    let tier = keys.whole("tier", 0..=u32::from(TIER_MAX))?;
    if let (Some(_), true) = (parent, is_scavenger || tier.is_some()) {
        let key = if is_scavenger { "scavenger" } else { "tier" };
        return Err(
            keys.fault(format!("`{key}` beside `parent`: the class at the top says it for all below, leave it out"))
        );
    }
    if is_scavenger && tier.is_some() {
        return Err(keys.fault("`tier` beside `scavenger`: that is below all tiers, leave one of them out"));
    }
    let (weight, floor, cap) = part(keys)?;
    let as_of = reader.as_of(keys)?;
    let used = keys.quantity("used", bytes)?.map(|bytes| Used { bytes, as_of });
    let urgent_used = keys.quantity("urgent_used", bytes)?;
    if as_of.is_some() && used.is_none() && urgent_used.is_none() {
        return Err(keys.missing("used", "\"120 TB\""));
    }
    let budget = keys.quantity("urgent", bytes)?;
    let urgent = budget.map(|budget| Urgent { budget, used: urgent_used.unwrap_or(Bytes::ZERO), as_of });
    if urgent.is_none() && urgent_used.is_some() {
        return Err(keys.missing("urgent", "\"500 TB\""));
    }
    let named = tier.and_then(|tier| u8::try_from(tier).ok()).unwrap_or(0);
    let tier = if is_scavenger { TIER_SCAVENGER } else { named };
    Ok(Class { name: name.to_owned(), parent, tier, weight, floor, cap, used, urgent })
}
