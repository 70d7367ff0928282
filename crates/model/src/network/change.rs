//! Changes of a direction, in the words of a description: `rate` to `500 Mb/s`, `loss` to `0.01 %`.

use super::forms;
use super::{Direction, Jitter, Loss};

/// What can be changed while a network runs, and how it is written.
pub const KEYS: &[&str] =
    &["rate", "delay", "distance", "jitter", "reorder", "loss", "queue", "ecn", "duplicate", "corrupt"];

impl Direction {
    /// Changes what `key` names to what `text` says.
    ///
    /// A loss is `none`, a share (`0.01 %`, `1e-4`), or one in bursts: `1e-4 in bursts of 10`.
    ///
    /// # Errors
    /// In one line, what is wrong with the text, or that there is no such key.
    pub fn change(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            "rate" => self.rate = forms::rate(text)?,
            "delay" => self.delay = forms::delay(text)?,
            "distance" => self.delay = forms::distance(text)?,
            "jitter" => self.jitter = Jitter { amount: forms::delay(text)?, ..self.jitter },
            "reorder" => self.jitter.reorder = text.parse().map_err(|_| "write `true` or `false`".to_owned())?,
            "loss" => self.loss = loss(text)?,
            "queue" => self.queue = forms::queue(text)?,
            "ecn" => self.ecn = forms::queue(text)?,
            "duplicate" => self.duplicate = forms::probability(text)?,
            "corrupt" => self.corrupt = forms::probability(text)?,
            _ => return Err(format!("`{key}` cannot be changed: one of {} can", KEYS.join(", "))),
        }
        Ok(())
    }

    /// As it is once all of `changes` are made, on a link of this MTU: keys and texts of [`Direction::change`].
    ///
    /// A queue that is there stays without a rate, for the rate may come back; one that is asked for needs it.
    ///
    /// # Errors
    /// In one line, what is wrong with a text, or that no description may have what they make.
    pub fn changed<T: AsRef<str>>(&self, changes: &[(T, T)], mtu: u32) -> Result<Direction, String> {
        let mut changed = self.clone();
        for (key, text) in changes {
            changed.change(key.as_ref(), text.as_ref()).map_err(|why| format!("{}: {why}", key.as_ref()))?;
        }
        changed.check(mtu, |key| changes.iter().any(|(given, _)| given.as_ref() == key))?;
        Ok(changed)
    }
}

fn loss(text: &str) -> Result<Loss, String> {
    match text.split_once("in bursts of") {
        None if text == forms::NONE => Ok(Loss::None),
        None => forms::random_loss(text),
        Some((mean, burst)) => {
            let burst: f64 = burst.trim().parse().map_err(|_| "write `1e-4 in bursts of 10`".to_owned())?;
            forms::mean_bursts(forms::share(mean)?, burst)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use units::{Bytes, Rate};

    use super::super::{Probability, QueueLimit};
    use super::*;

    #[test]
    fn every_key_changes_its_own() {
        let mut direction = Direction::default();
        let all = [
            ("rate", "5 Gb/s"),
            ("delay", "50 ms"),
            ("jitter", "1 ms"),
            ("reorder", "true"),
            ("loss", "0.5"),
            ("queue", "2 MB"),
            ("ecn", "10 packets"),
            ("duplicate", "25 %"),
            ("corrupt", "0.125"),
        ];
        for (key, text) in all {
            direction.change(key, text).unwrap();
        }
        let probability = |p| Probability::new(p).unwrap();
        let expected = Direction {
            rate: Some(Rate::gbps(5)),
            delay: Duration::from_millis(50),
            jitter: Jitter { amount: Duration::from_millis(1), reorder: true },
            loss: Loss::Random(probability(0.5)),
            queue: Some(QueueLimit::Bytes(Bytes::new(2_000_000))),
            ecn: Some(QueueLimit::Packets(10)),
            duplicate: probability(0.25),
            corrupt: probability(0.125),
        };
        assert_eq!(direction, expected);
        for (key, text) in [("rate", "none"), ("loss", "none"), ("queue", "none"), ("ecn", "none")] {
            direction.change(key, text).unwrap();
        }
        assert_eq!((direction.rate, direction.loss, direction.queue, direction.ecn), (None, Loss::None, None, None));
    }

    #[test]
    fn bursts_have_their_mean_and_length() {
        let mut direction = Direction::default();
        direction.change("loss", "20 % in bursts of 4").unwrap();
        let Loss::Bursts { to_bad, to_good, in_good, in_bad } = direction.loss else { panic!("{direction:?}") };
        assert_eq!((to_good.as_f64(), in_good.as_f64(), in_bad.as_f64()), (0.25, 0.0, 1.0));
        assert!((to_bad.as_f64() - 0.0625).abs() < 1e-9);
    }

    #[test]
    fn a_change_makes_what_a_description_may_have() {
        let none = Direction::default();
        let refused = |of: &Direction, changes: &[(&str, &str)]| of.changed(changes, 1500).unwrap_err();
        for (key, text) in [("queue", "10 MB"), ("ecn", "10 packets")] {
            assert!(refused(&none, &[(key, text)]).starts_with(&format!("`{key}` without `rate`")));
            assert!(none.changed(&[(key, text), ("rate", "1 Gb/s")], 1500).is_ok(), "the rate comes with it");
        }
        assert!(refused(&none, &[("reorder", "true")]).starts_with("`reorder` without `jitter`"));
        let limited = none.changed(&[("rate", "1 Gb/s"), ("queue", "1500 B")], 1500).unwrap();
        assert!(refused(&limited, &[("queue", "100 B")]).contains("holds no packet of 1500 bytes"));
        assert!(refused(&limited, &[("rate", "fast")]).starts_with("rate: "));
        let unlimited = limited.changed(&[("rate", "none")], 1500).unwrap();
        assert_eq!(unlimited.changed(&[("rate", "1 Gb/s")], 1500), Ok(limited), "the queue waits for the rate");
    }

    #[test]
    fn odd_texts_say_the_way_out() {
        let refused = |key: &str, text: &str| Direction::default().change(key, text).unwrap_err();
        assert!(refused("rate", "fast").contains("8 Gb/s"));
        assert!(refused("loss", "2").contains("0 to 1"));
        assert!(refused("loss", "1e-4 in bursts of many").contains("in bursts of 10"));
        assert!(refused("colour", "red").contains("rate, delay"));
        assert!(refused("reorder", "maybe").contains("true"));
    }
}
