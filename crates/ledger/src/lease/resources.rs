//! Resources by number: what thousands of sessions draw on is summed for each step.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A resource of one [`Resources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(u32);

impl Number {
    /// Its place in a list of all.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The resources of the last planning, and those that sessions draw on still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    numbers: BTreeMap<Arc<str>, Number>,
    /// With how far each may be filled, b/s: not at all if the last planning does not know it.
    all: Vec<(Arc<str>, u64)>,
}

impl Resources {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How far one may be filled, b/s.
    pub(super) fn capacity(&self, number: Number) -> u64 {
        self.all[number.index()].1
    }

    /// The one of this name.
    pub(super) fn find(&self, name: &str) -> Option<Number> {
        self.numbers.get(name).copied()
    }

    /// Takes the resources of a new planning. What is not carried over is forgotten.
    pub(super) fn renew(&mut self, capacities: &BTreeMap<Arc<str>, u64>) -> Carried<'_> {
        let before = std::mem::take(self);
        for (name, capacity) in capacities {
            let number = self.of(name);
            self.all[number.index()].1 = *capacity;
        }
        Carried { numbers: vec![None; before.all.len()], before, now: self }
    }

    /// The one of this name, new if there is none.
    fn of(&mut self, name: &Arc<str>) -> Number {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // Names are those of links, marks and hosts of one network.
        let number = Number(u32::try_from(self.all.len()).expect("a network has fewer resources"));
        self.numbers.insert(name.clone(), number);
        self.all.push((name.clone(), 0));
        number
    }
}

/// The way from the numbers before to those now.
pub(super) struct Carried<'a> {
    before: Resources,
    /// Now, by the number before; those that were asked for.
    numbers: Vec<Option<Number>>,
    now: &'a mut Resources,
}

impl Carried<'_> {
    /// The number now of what had this number before.
    pub(super) fn number(&mut self, before: Number) -> Number {
        let (now, names) = (&mut *self.now, &self.before.all);
        *self.numbers[before.index()].get_or_insert_with(|| now.of(&names[before.index()].0))
    }

    /// The number of a name.
    pub(super) fn of(&mut self, name: &Arc<str>) -> Number {
        self.now.of(name)
    }
}
