//! A small seeded generator: the same seed gives the same numbers on every machine, forever.

/// xoshiro256++ (Blackman and Vigna 2018), seeded by SplitMix64 as its authors advise. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// The sequence that belongs to `seed`; seeds that differ in one bit give unrelated sequences.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        let mut state = seed;
        Random([0; 4].map(|_: u64| split_mix(&mut state)))
    }

    /// Uniform over 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Two numbers, each uniform over 32 bits, from one step.
    pub fn next_pair(&mut self) -> (u32, u32) {
        let random = self.next_u64();
        ((random >> 32) as u32, random as u32)
    }

    /// Uniform from 0 to `most`, both included. One step whatever comes of it, so the bias of up to
    /// `most` / 2^64 stays.
    pub fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.next_u64()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_numbers() {
        let mut state = 1_234_567;
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_: u64| split_mix(&mut state)), expected);
    }

    #[test]
    fn xoshiro_gives_the_published_numbers() {
        let mut random = Random([1, 2, 3, 4]);
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!(expected.map(|_: u64| random.next_u64()), expected);
    }

    #[test]
    fn both_ends_of_a_range_come_up() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 3];
        (0..3000).for_each(|_| seen[random.up_to(2) as usize] += 1);
        assert!(seen.iter().all(|times| (900..1100).contains(times)), "{seen:?}");
        assert_eq!(random.up_to(0), 0);
        assert!((0..64).any(|_| random.up_to(u64::MAX) > u64::MAX / 2));
    }
}
