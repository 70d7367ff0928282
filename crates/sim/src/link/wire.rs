//! What befalls a segment on the wire: loss, corruption, duplication.

use model::network::{Loss, Probability};

use crate::random::Random;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    Lost,
    Through {
        /// The bit that is to be changed.
        corrupt: Option<u32>,
        /// It arrives twice.
        twice: bool,
    },
}

/// Randomness is drawn for each segment in the order of the wire and for what is configured only, so it does not
/// depend on when anybody looks.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    loss: Loss,
    corrupt: Probability,
    duplicate: Probability,
    /// State of the Gilbert-Elliott chain; it begins good.
    bad: bool,
    /// So many segments more are lost, whatever else was set.
    doomed: u32,
}

impl Wire {
    pub(super) fn new() -> Wire {
        Wire { loss: Loss::None, corrupt: Probability::ZERO, duplicate: Probability::ZERO, bad: false, doomed: 0 }
    }

    /// New chances for the segments that follow. The chain stays in its state as long as there is one.
    pub(super) fn configure(&mut self, loss: Loss, corrupt: Probability, duplicate: Probability) {
        self.bad &= matches!(loss, Loss::Bursts { .. });
        *self = Wire { loss, corrupt, duplicate, ..*self };
    }

    /// The next `count` segments are lost, after those that are doomed already.
    pub(super) fn doom(&mut self, count: u32) {
        self.doomed = self.doomed.saturating_add(count);
    }

    /// Whether nothing can befall anything.
    pub(super) fn is_clean(&self) -> bool {
        self.doomed == 0 && self.loss == Loss::None && self.corrupt.is_zero() && self.duplicate.is_zero()
    }

    /// The next segment passes.
    pub(super) fn pass(&mut self, random: &mut Random) -> Passage {
        if self.doomed > 0 {
            // Nothing is drawn: chance goes on with the next segment as if this one had not been there.
            self.doomed -= 1;
            return Passage::Lost;
        }
        if self.loses(random) {
            return Passage::Lost;
        }
        let mut corrupt = None;
        if !self.corrupt.is_zero() {
            let (chance, bit) = random.next_pair();
            corrupt = self.corrupt.hits(chance).then_some(bit);
        }
        let twice = !self.duplicate.is_zero() && self.duplicate.hits(random.next_pair().0);
        Passage::Through { corrupt, twice }
    }

    fn loses(&mut self, random: &mut Random) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Random(loss) => loss.hits(random.next_pair().0),
            Loss::Bursts { to_bad, to_good, in_good, in_bad } => {
                let (step, chance) = random.next_pair();
                let turns = if self.bad { to_good } else { to_bad }.hits(step);
                self.bad ^= turns;
                if self.bad { in_bad } else { in_good }.hits(chance)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(value: f64) -> Probability {
        Probability::new(value).expect("a probability")
    }

    fn wire(loss: Loss) -> Wire {
        Wire { loss, ..Wire::new() }
    }

    #[test]
    fn always_is_always_and_never_never() {
        let mut random = Random::new(1);
        let mut all = wire(Loss::Random(Probability::ONE));
        assert!((0..1000).all(|_| all.pass(&mut random) == Passage::Lost));
        let mut nothing = Wire::new();
        let through = Passage::Through { corrupt: None, twice: false };
        assert!((0..1000).all(|_| nothing.pass(&mut random) == through));
        let mut both = Wire { corrupt: Probability::ONE, duplicate: Probability::ONE, ..Wire::new() };
        assert!(matches!(both.pass(&mut random), Passage::Through { corrupt: Some(_), twice: true }));
    }

    #[test]
    fn random_loss_is_within_its_binomial_interval() {
        // 10⁶ segments at 1 %: 10,000 ± 100 (one sigma); 4.4 sigma is one in 100,000 seeds.
        let mut random = Random::new(2);
        let mut wire = wire(Loss::Random(p(0.01)));
        let lost = (0..1_000_000).filter(|_| wire.pass(&mut random) == Passage::Lost).count();
        assert!(lost.abs_diff(10_000) < 440, "{lost}");
    }

    #[test]
    fn bursts_have_their_length_and_their_share() {
        // Bad spells of 1 / 0.2 = 5 segments, one begins every 1 / 0.01 = 100 good ones: 5 of 105 are lost.
        let loss = Loss::Bursts { to_bad: p(0.01), to_good: p(0.2), in_good: p(0.0), in_bad: p(1.0) };
        let (mut random, mut wire) = (Random::new(3), wire(loss));
        let (mut bursts, mut lost, mut before) = (0_u32, 0_u32, false);
        for _ in 0..1_000_000 {
            let now = wire.pass(&mut random) == Passage::Lost;
            bursts += u32::from(now && !before);
            lost += u32::from(now);
            before = now;
        }
        let length = f64::from(lost) / f64::from(bursts);
        assert!((length - 5.0).abs() < 0.2, "{length}");
        let share = f64::from(lost) / 1_000_000.0;
        assert!((share - 1.0 / 21.0).abs() < 0.0025, "{share}");
    }

    #[test]
    fn the_chain_is_forgotten_with_its_loss() {
        let bursts = Loss::Bursts { to_bad: p(1.0), to_good: p(0.0), in_good: p(0.0), in_bad: p(1.0) };
        let (mut random, mut wire) = (Random::new(4), wire(bursts));
        assert_eq!(wire.pass(&mut random), Passage::Lost);
        let stays = Loss::Bursts { to_bad: p(0.0), to_good: p(0.0), in_good: p(0.0), in_bad: p(1.0) };
        wire.configure(stays, Probability::ZERO, Probability::ZERO);
        assert_eq!(wire.pass(&mut random), Passage::Lost, "still bad");
        wire.configure(Loss::None, Probability::ZERO, Probability::ZERO);
        wire.configure(stays, Probability::ZERO, Probability::ZERO);
        assert_ne!(wire.pass(&mut random), Passage::Lost, "good again");
    }
}
