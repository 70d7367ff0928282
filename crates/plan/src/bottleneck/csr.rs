//! Lists of numbers by an index, all in one array.

/// Compressed rows: a list of each index.
#[derive(Clone, Debug, Default)]
pub(super) struct Csr {
    /// Where each list begins, and one more.
    begins: Vec<u32>,
    items: Vec<u32>,
}

impl Csr {
    /// No list, for so many items.
    pub(super) fn with_capacity(lists: usize, items: usize) -> Csr {
        let mut begins = Vec::with_capacity(lists + 1);
        begins.push(0);
        Csr { begins, items: Vec::with_capacity(items) }
    }

    /// Adds an item to the list that is not ended yet.
    pub(super) fn push(&mut self, item: u32) {
        self.items.push(item);
    }

    pub(super) fn end_list(&mut self) {
        self.begins.push(u32::try_from(self.items.len()).expect("a problem numbers its uses with 32 bits"));
    }

    /// By item the indices that have it, in order; of items below `items`.
    pub(super) fn inverse<'a>(items: usize, lists: impl Iterator<Item = &'a [u32]> + Clone) -> Csr {
        let mut begins = vec![0_u32; items + 1];
        lists.clone().flatten().for_each(|item| begins[*item as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut inverse = vec![0; begins.last().map_or(0, |end| *end as usize)];
        for (index, list) in lists.enumerate() {
            for item in list {
                let next = &mut next[*item as usize];
                inverse[*next as usize] = index as u32;
                *next += 1;
            }
        }
        Csr { begins, items: inverse }
    }

    pub(super) fn lists(&self) -> impl Iterator<Item = &[u32]> + Clone {
        self.begins.windows(2).map(|two| &self.items[two[0] as usize..two[1] as usize])
    }

    pub(super) fn of(&self, index: usize) -> &[u32] {
        &self.items[self.begins[index] as usize..self.begins[index + 1] as usize]
    }

    pub(super) fn items(&self) -> usize {
        self.items.len()
    }
}
