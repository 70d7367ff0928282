//! Which links are cut, from which paths are answered and which are not. Pure; times and names are the caller's.
//!
//! A link on a path that is answered works. Of the others, those that explain most suspects go first: with one cut that is the link that all
//! suspects have in common. Links that no path tells apart, such as those in a row on the only path over them, are named together.

use std::collections::{BTreeMap, BTreeSet};

use model::network::LinkIndex;

/// How a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Questions over it are answered.
    Answering,
    /// They were, and are not any more.
    Suspect,
    /// It is not known how it is: it says nothing.
    Unknown,
}

/// A path that is asked over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The links that it takes.
    pub links: &'a [LinkIndex],
    /// How it is.
    pub standing: Standing,
}

/// Links of which one at least is cut: what is known does not tell them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspects {
    /// Which.
    pub links: BTreeSet<LinkIndex>,
    /// The suspect paths that this explains, by their places.
    pub paths: Vec<usize>,
}

/// Links that may be cut, as long as none of them is named: each is on a suspect path with no link that is known to be down, and on none that
/// is answered.
#[must_use]
pub fn suspected(paths: &[Asked<'_>], down: &BTreeSet<LinkIndex>) -> BTreeSet<LinkIndex> {
    let of = |standing| paths.iter().filter(move |path| path.standing == standing);
    let open = of(Standing::Suspect).filter(|path| path.links.iter().all(|link| !down.contains(link)));
    let working: BTreeSet<LinkIndex> = of(Standing::Answering).flat_map(|path| path.links.iter().copied()).collect();
    open.flat_map(|path| path.links.iter().copied()).filter(|link| !working.contains(link)).collect()
}

/// What follows from all paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inference {
    /// What explains the suspects, each once, that which explains most first.
    pub cuts: Vec<Suspects>,
    /// Links that work: some path over them is answered.
    pub working: BTreeSet<LinkIndex>,
    /// Suspect paths all links of which work: not a link, but something else is wrong with them.
    pub unexplained: Vec<usize>,
}

impl Inference {
    /// From how each path is. Takes time by paths times cuts.
    #[must_use]
    pub fn of(paths: &[Asked<'_>]) -> Inference {
        let of = |standing| paths.iter().enumerate().filter(move |(_, path)| path.standing == standing);
        let working: BTreeSet<LinkIndex> =
            of(Standing::Answering).flat_map(|(_, path)| path.links.iter().copied()).collect();
        // Of each link that may be cut the suspects over it.
        let mut over: BTreeMap<LinkIndex, BTreeSet<usize>> = BTreeMap::new();
        let mut unexplained = Vec::new();
        for (index, path) in of(Standing::Suspect) {
            let mut left = path.links.iter().filter(|link| !working.contains(link)).peekable();
            if left.peek().is_none() {
                unexplained.push(index);
            }
            for link in left {
                over.entry(*link).or_default().insert(index);
            }
        }
        let mut cuts = Vec::new();
        // Each turn explains a suspect at least.
        while let Some(most) = over.values().max_by_key(|paths| paths.len()).filter(|paths| !paths.is_empty()).cloned()
        {
            let links = over.iter().filter(|(_, paths)| **paths == most).map(|(link, _)| *link).collect();
            over.values_mut().for_each(|paths| paths.retain(|path| !most.contains(path)));
            cuts.push(Suspects { links, paths: most.into_iter().collect() });
        }
        Inference { cuts, working, unexplained }
    }

    /// All links that may be cut.
    #[must_use]
    pub fn suspects(&self) -> BTreeSet<LinkIndex> {
        self.cuts.iter().flat_map(|cut| cut.links.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(links: &[LinkIndex], standing: Standing) -> Asked<'_> {
        Asked { links, standing }
    }

    fn set(links: &[LinkIndex]) -> BTreeSet<LinkIndex> {
        links.iter().copied().collect()
    }

    #[test]
    fn the_link_in_common_is_named() {
        use Standing::{Answering, Suspect};
        // Two sites with two hosts each; 5 and 6 are the ways across.
        let paths = [(&[1, 5, 3], Suspect), (&[2, 5, 4], Suspect), (&[1, 6, 3], Answering), (&[2, 6, 4], Answering)];
        let found = Inference::of(&paths.map(|(links, standing)| asked(links, standing)));
        assert_eq!(found.cuts, [Suspects { links: set(&[5]), paths: vec![0, 1] }]);
        assert_eq!((found.working, found.unexplained), (set(&[1, 2, 3, 4, 6]), vec![]));
    }

    #[test]
    fn links_are_suspected_until_one_is_named_that_explains_it() {
        use Standing::{Answering, Suspect, Unknown};
        let paths =
            [asked(&[1, 5, 3], Suspect), asked(&[1, 6, 3], Answering), asked(&[5, 7], Suspect), asked(&[8], Unknown)];
        assert_eq!(suspected(&paths, &set(&[])), set(&[5, 7]));
        assert_eq!(suspected(&paths, &set(&[5])), set(&[]));
        assert_eq!(suspected(&paths, &set(&[7])), set(&[5]), "7 explains one of the two");
    }

    #[test]
    fn two_cuts_are_two_and_links_in_a_row_are_one() {
        use Standing::{Answering, Suspect, Unknown};
        let paths = [
            asked(&[1, 2], Suspect),
            asked(&[1, 3], Suspect),
            asked(&[4, 5, 6], Suspect),
            asked(&[6], Answering),
            asked(&[4, 5], Unknown),
            asked(&[6], Suspect),
        ];
        let found = Inference::of(&paths);
        assert_eq!(found.cuts[0], Suspects { links: set(&[1]), paths: vec![0, 1] });
        assert_eq!(found.cuts[1], Suspects { links: set(&[4, 5]), paths: vec![2] });
        assert_eq!((found.cuts.len(), found.unexplained), (2, vec![5]));
        assert_eq!(Inference::of(&[]), Inference::default());
    }

    /// Random paths over so many links, and one that is cut, or several.
    fn cases() -> impl Strategy<Value = (Vec<BTreeSet<LinkIndex>>, BTreeSet<LinkIndex>)> {
        (2_usize..30).prop_flat_map(|links| {
            let path = prop::collection::btree_set(0..links, 1..links.min(8) + 1);
            (prop::collection::vec(path, 1..40), prop::collection::btree_set(0..links, 1..4))
        })
    }

    proptest! {
        #[test]
        fn what_is_cut_is_named_and_what_works_is_not((paths, cut) in cases(), one: bool) {
            let cut: BTreeSet<LinkIndex> = cut.into_iter().take(if one { 1 } else { 3 }).collect();
            let lists: Vec<Vec<LinkIndex>> = paths.iter().map(|path| path.iter().copied().collect()).collect();
            let hit = |path: &Vec<LinkIndex>| path.iter().any(|link| cut.contains(link));
            let standing = |path| if hit(path) { Standing::Suspect } else { Standing::Answering };
            let asked: Vec<Asked<'_>> = lists.iter().map(|path| Asked { links: path, standing: standing(path) }).collect();
            let found = Inference::of(&asked);
            prop_assert!(found.suspects().is_disjoint(&found.working));
            prop_assert!(found.unexplained.is_empty());
            // What is named was suspected before, and nothing is once all of it is down.
            let open = suspected(&asked, &BTreeSet::new());
            prop_assert!(found.suspects().is_subset(&open) && open.is_disjoint(&found.working));
            prop_assert!(suspected(&asked, &found.suspects()).is_empty());
            // Every suspect is explained, once.
            let mut explained: Vec<usize> = found.cuts.iter().flat_map(|cut| cut.paths.clone()).collect();
            explained.sort_unstable();
            let suspects: Vec<usize> = (0..lists.len()).filter(|path| hit(&lists[*path])).collect();
            prop_assert_eq!(&explained, &suspects);
            if let (1, Some(link)) = (cut.len(), cut.first().filter(|_| !suspects.is_empty())) {
                prop_assert_eq!(found.cuts.len(), 1, "one cut explains all");
                prop_assert!(found.cuts[0].links.contains(link));
                // Nothing is named that a path tells apart from it.
                for named in &found.cuts[0].links {
                    prop_assert!(suspects.iter().all(|path| lists[*path].contains(named)));
                }
            }
        }
    }
}
