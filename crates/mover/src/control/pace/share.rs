//! Sharing a set point out among streams by what they can use.

/// What a stream can use of the set point, in b/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::control) enum Want {
    /// It has nothing to send.
    Nothing,
    /// That much, which is what it sends; it has no use for more.
    Uses(u64),
    /// At least that much.
    More(u64),
}

impl Want {
    fn bps(self) -> u64 {
        match self {
            Want::Nothing => 0,
            Want::Uses(bps) | Want::More(bps) => bps,
        }
    }
}

/// Parts of `total_bps`, in the order of `wants`.
///
/// Max-min fair up to what each wants. What is left goes in equal parts to those that want more, else
/// to those that have something to send, else to all. The parts add up to the total, less a bit per
/// stream lost in rounding.
pub(in crate::control) fn share(total_bps: u64, wants: &[Want]) -> Vec<u64> {
    let mut parts = vec![0; wants.len()];
    let mut by_want: Vec<usize> = (0..wants.len()).filter(|&i| wants[i] != Want::Nothing).collect();
    by_want.sort_by_key(|&i| wants[i].bps());
    let mut left_bps = total_bps;
    for (done, &i) in by_want.iter().enumerate() {
        let fair = left_bps / (by_want.len() - done) as u64;
        parts[i] = wants[i].bps().min(fair);
        left_bps -= parts[i];
    }
    let all = 0..wants.len();
    let hungry: Vec<usize> = all.clone().filter(|&i| matches!(wants[i], Want::More(_))).collect();
    let takers = [hungry, by_want, all.collect()].into_iter().find(|takers| !takers.is_empty());
    for &i in takers.iter().flatten() {
        parts[i] += left_bps / takers.as_ref().map_or(1, Vec::len) as u64;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn want() -> impl Strategy<Value = Want> {
        prop_oneof![
            Just(Want::Nothing),
            (0..500_u64).prop_map(Want::Uses),
            (0..500_u64).prop_map(Want::More),
            Just(Want::More(u64::MAX)),
        ]
    }

    #[test]
    fn by_hand() {
        use Want::{More, Nothing, Uses};
        let all = More(u64::MAX);
        assert_eq!(share(100, &[]), [0; 0]);
        assert_eq!(share(100, &[Nothing, Nothing]), [50, 50], "nobody sends: ready for any");
        assert_eq!(share(100, &[all, all]), [50, 50]);
        assert_eq!(share(100, &[all, Nothing]), [100, 0], "what one does not need, the other gets");
        assert_eq!(share(100, &[Uses(10), all]), [10, 90]);
        assert_eq!(share(100, &[Uses(80), all]), [50, 50], "nobody is pushed below a fair part");
        assert_eq!(share(100, &[Uses(10), Uses(20)]), [45, 55], "room to grow");
        assert_eq!(share(100, &[More(42), all]), [42, 58]);
        assert_eq!(share(100, &[More(10), More(20)]), [45, 55]);
        assert_eq!(share(0, &[all]), [0]);
        assert_eq!(share(u64::MAX, &[all, all]), [u64::MAX / 2, u64::MAX / 2 + 1]);
    }

    proptest! {
        #[test]
        fn all_is_given_and_nobody_starves(total in 0..2_000_u64, wants in prop::collection::vec(want(), 1..12)) {
            let parts = share(total, &wants);
            let sum: u64 = parts.iter().sum();
            prop_assert!(sum <= total && sum + wants.len() as u64 > total, "{sum} of {total}");
            let busy = wants.iter().filter(|w| **w != Want::Nothing).count() as u64;
            let Some(fair) = total.checked_div(busy) else { return Ok(()) };
            for (part, want) in parts.iter().zip(&wants) {
                prop_assert!(*part >= want.bps().min(fair), "{parts:?} for {wants:?}");
                prop_assert!(*want != Want::Nothing || *part == 0);
            }
        }
    }
}
