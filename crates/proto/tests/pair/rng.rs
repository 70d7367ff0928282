//! A small generator: the whole of a case follows from its seed.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Rng(pub u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// An index into something of this length.
    pub(crate) fn at(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What may go wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Kill,
    Change,
    Corrupt,
    Read,
    Write,
    Decide,
    Publish,
    Compare,
    GiveUp,
}

/// What may still go wrong in a case: bounded, so that every case ends, and of some kinds only, so that
/// there is enough of each.
pub(crate) struct Luck {
    left: u32,
    kinds: u64,
}

impl Luck {
    pub(crate) fn new(rng: &mut Rng, faults: u32) -> Luck {
        Luck { left: faults, kinds: rng.next() }
    }

    /// Decides whether something goes wrong now, once in `n` times.
    pub(crate) fn fails(&mut self, fault: Fault, rng: &mut Rng, n: u64) -> bool {
        let fails = self.may_fail(fault) && rng.one_in(n);
        self.left -= u32::from(fails);
        fails
    }

    pub(crate) fn may_fail(&self, fault: Fault) -> bool {
        self.left > 0 && self.kinds >> fault as u32 & 1 == 1
    }
}
