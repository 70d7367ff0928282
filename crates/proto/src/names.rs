//! A list of names, on its way in pages.
//!
//! The list of a copy can be longer than a frame. [`Open`](crate::control::Open) says how many names there are, and
//! [`Control::Names`](crate::control::Control::Names) brings them, before anything is answered.

use crate::RelPath;
use crate::limits::{NAMES_BYTES_MAX, NAMES_MAX, PAGE_BYTES_MAX};

/// What a name costs beside its bytes: its place in a list, and what an allocator takes for a small piece.
const NAME_COST: usize = 32;

/// Why a list of names cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NamesError {
    /// Too many names.
    #[error("the list has more than {NAMES_MAX} names: name the directories that they are in, or split it")]
    Many,
    /// Too many bytes.
    #[error("the list is longer than {} MiB: name the directories that the files are in, or split it", NAMES_BYTES_MAX >> 20)]
    Long,
    /// A page without a name, or with names that were not announced.
    #[error("a page of names that was not announced")]
    Page,
}

/// Bytes that a list counts as: each name, and 32 for it.
fn cost<'a>(names: impl IntoIterator<Item = &'a RelPath>) -> usize {
    names.into_iter().map(|name| name.as_bytes().len() + NAME_COST).sum()
}

/// The number of names, for [`Open`](crate::control::Open).
///
/// # Errors
/// When the list is longer than a peer takes.
pub fn count(names: &[RelPath]) -> Result<u32, NamesError> {
    let count = u32::try_from(names.len()).ok().filter(|count| *count as usize <= NAMES_MAX);
    let count = count.ok_or(NamesError::Many)?;
    if cost(names) > NAMES_BYTES_MAX { Err(NamesError::Long) } else { Ok(count) }
}

/// The pages of a list. A page ends with the name that reaches [`PAGE_BYTES_MAX`], so it fits into a frame.
pub fn pages(names: &[RelPath]) -> impl Iterator<Item = Vec<RelPath>> {
    let mut left = names;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = left.iter().take_while(|name| {
            let begun = bytes < PAGE_BYTES_MAX;
            bytes += cost([*name]);
            begun
        });
        let (page, rest) = left.split_at(fits.count());
        left = rest;
        (!page.is_empty()).then(|| page.to_vec())
    })
}

/// Puts a list together from its pages.
#[derive(Debug)]
pub struct Inbox {
    missing: usize,
    bytes: usize,
    /// `None` if the names are only counted.
    names: Option<Vec<RelPath>>,
}

impl Inbox {
    /// For so many names. Memory is taken as they come.
    ///
    /// # Errors
    /// When that is more than a list may have.
    pub fn new(count: u32) -> Result<Inbox, NamesError> {
        let missing = count as usize;
        if missing > NAMES_MAX {
            return Err(NamesError::Many);
        }
        Ok(Inbox { missing, bytes: 0, names: Some(Vec::new()) })
    }

    /// True until all names are here.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.missing > 0
    }

    /// Bytes that the names count as until now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a page.
    ///
    /// # Errors
    /// When it is empty, or the list grows beyond what was announced or beyond its bound.
    pub fn take(&mut self, page: Vec<RelPath>) -> Result<(), NamesError> {
        // An empty one would be a way to keep this end waiting.
        if page.is_empty() || page.len() > self.missing {
            return Err(NamesError::Page);
        }
        self.missing -= page.len();
        self.bytes += cost(&page);
        if self.bytes > NAMES_BYTES_MAX {
            return Err(NamesError::Long);
        }
        if let Some(names) = &mut self.names {
            names.extend(page);
        }
        Ok(())
    }

    /// There is no memory for the list: what comes is counted, so that the other end hears the refusal when it has said
    /// all, and dropped.
    pub fn drop_names(&mut self) {
        self.names = None;
    }

    /// The list; `None` if it was dropped or is not whole.
    #[must_use]
    pub fn finish(self) -> Option<Vec<RelPath>> {
        self.names.filter(|_| self.missing == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Control;
    use crate::limits::{FRAME_MAX, PATH_MAX};

    fn name(len: usize) -> RelPath {
        let names: Vec<Vec<u8>> = vec![b'n'; len].chunks(200).map(<[u8]>::to_vec).collect();
        RelPath::new(names.join(&b'/')[..len].to_vec()).expect("a path")
    }

    #[test]
    fn a_list_arrives_in_pages() {
        for (names, least) in
            [(vec![], 0), (vec![name(1)], 1), (vec![name(14); 300_000], 50), (vec![name(4_000); 500], 8)]
        {
            let mut inbox = Inbox::new(count(&names).unwrap()).unwrap();
            let mut all = 0;
            for page in pages(&names) {
                assert!(inbox.is_open());
                let mut frame = Vec::new();
                crate::frame::encode(&Control::Names(page.clone()), &mut frame);
                assert!(frame.len() <= PAGE_BYTES_MAX + PATH_MAX + 64 && frame.len() < FRAME_MAX);
                inbox.take(page).unwrap();
                all += 1;
            }
            assert!(all >= least && !inbox.is_open());
            assert_eq!(inbox.finish(), Some(names));
        }
    }

    #[test]
    fn what_was_not_announced_is_refused() {
        let mut inbox = Inbox::new(2).unwrap();
        assert_eq!(inbox.take(Vec::new()), Err(NamesError::Page));
        assert_eq!(inbox.take(vec![name(1); 3]), Err(NamesError::Page));
        inbox.take(vec![name(1)]).unwrap();
        assert_eq!(inbox.finish(), None, "one is missing");
        assert_eq!(Inbox::new(NAMES_MAX as u32 + 1).err(), Some(NamesError::Many));
        assert_eq!(Inbox::new(u32::MAX).err(), Some(NamesError::Many));
    }

    #[test]
    fn a_list_has_bounds_at_both_ends() {
        assert_eq!(count(&vec![RelPath::root(); NAMES_MAX + 1]), Err(NamesError::Many));
        let long = vec![name(PATH_MAX - 20); 1000];
        let most = NAMES_BYTES_MAX / cost(&long);
        let mut inbox = Inbox::new((most as u32 + 1) * 1000).unwrap();
        inbox.drop_names();
        (0..most).for_each(|_| inbox.take(long.clone()).unwrap());
        assert_eq!(inbox.take(long), Err(NamesError::Long));
        assert_eq!(inbox.finish(), None, "dropped");
    }
}
