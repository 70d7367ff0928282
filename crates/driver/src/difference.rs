//! From what is there to what is wished: steps, each with its opposite.

use std::collections::BTreeMap;
use std::fmt;

use crate::item::{Item, Key};

/// Items by what makes them these and no others.
pub type Items = BTreeMap<Key, Item>;

/// One change, which the kernel makes as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes what is not there.
    Add(Item),
    /// Gives other values to what is there.
    Change {
        /// As it is.
        from: Item,
        /// As it is to be.
        to: Item,
    },
    /// Removes what is there.
    Remove(Item),
}

impl Step {
    /// What takes it back.
    #[must_use]
    pub fn inverse(self) -> Step {
        match self {
            Step::Add(item) => Step::Remove(item),
            Step::Change { from, to } => Step::Change { from: to, to: from },
            Step::Remove(item) => Step::Add(item),
        }
    }

    /// One word for what it does.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Step::Add(_) => "add",
            Step::Change { .. } => "change",
            Step::Remove(_) => "remove",
        }
    }

    /// What it leaves, or removes.
    #[must_use]
    pub fn item(&self) -> &Item {
        match self {
            Step::Add(item) | Step::Change { to: item, .. } | Step::Remove(item) => item,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<6} {}", self.word(), self.item())
    }
}

/// The steps in their order: what is needed comes before what needs it, and goes after it. Traffic that is in no class yet, or no more, goes
/// out unshaped or at large: no step holds any up.
#[must_use]
pub fn steps(is: &Items, wish: &Items) -> Vec<Step> {
    let add = |item: &Item| Step::Add(item.clone());
    let change = |from: &Item, to: &Item| Step::Change { from: from.clone(), to: to.clone() };
    let made = wish.iter().filter_map(|(key, to)| match is.get(key) {
        None => Some(add(to)),
        Some(from) if from != to => Some(change(from, to)),
        Some(_) => None,
    });
    let gone = is.iter().rev().filter(|(key, _)| !wish.contains_key(*key));
    made.chain(gone.map(|(_, item)| Step::Remove(item.clone()))).collect()
}

/// Items as a map.
pub fn items(all: impl IntoIterator<Item = Item>) -> Items {
    all.into_iter().map(|item| (item.key(), item)).collect()
}

/// What a step makes of what is there, for tests without a kernel: an error if what is to be added is there, or what is to be changed or
/// removed is not.
#[cfg(test)]
pub(crate) fn carry_out(step: &Step, on: &mut Items) -> Result<(), String> {
    let key = step.item().key();
    match (step, on.contains_key(&key)) {
        (Step::Add(item) | Step::Change { to: item, .. }, is_there) => {
            if is_there != matches!(step, Step::Change { .. }) {
                return Err(format!("cannot {step}"));
            }
            on.insert(key, item.clone());
        }
        (Step::Remove(_), true) => drop(on.remove(&key)),
        (Step::Remove(_), false) => return Err(format!("cannot {step}")),
    }
    Ok(())
}
