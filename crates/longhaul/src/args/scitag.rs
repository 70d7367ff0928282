//! SciTags: who a packet belongs to, written into the IPv6 flow label.
//!
//! A SciTag is one number, as in the HTTP header `SciTag` and in FTS: the experiment's id times 64, plus the
//! activity's. In the flow label the experiment stands with its bits reversed, and five bits stay free for
//! entropy, so that routers still spread the streams of one activity over parallel links:
//!
//! ```text
//!  bit   19 18 | 17 16 15 14 13 12 11 10  9 |  8 |  7  6  5  4  3  2 |  1  0
//!         e  e |  experiment, lowest first  |  e |  activity         |  e  e
//! ```
//!
//! Source: draft-cc-v6ops-wlcg-flow-label-marking; the registry of ids is <https://scitags.org/api.json>.

use std::str::FromStr;

use proto::control::FlowLabel;

/// Bits of the activity.
const ACTIVITY_BITS: u32 = 6;
/// Bits of the experiment.
const EXPERIMENT_BITS: u32 = 9;
/// Largest tag that fits: experiment 511, activity 63.
const TAG_MAX: u32 = (1 << (EXPERIMENT_BITS + ACTIVITY_BITS)) - 1;
/// Smallest tag that names both: experiment 1, activity 1.
const TAG_MIN: u32 = (1 << ACTIVITY_BITS) + 1;
/// The five bits of entropy: `e` above.
const ENTROPY: u32 = 0b1100_0000_0001_0000_0011;
/// Bits of a flow label (RFC 6437).
const LABEL_MAX: u32 = (1 << 20) - 1;

/// An experiment and an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SciTag {
    experiment: u32,
    activity: u32,
}

/// What is no tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a SciTag is a number from {TAG_MIN} to {TAG_MAX} (64 times the experiment, plus the activity), or EXPERIMENT:ACTIVITY, each at least 1"
)]
pub(crate) struct NoTag;

impl FromStr for SciTag {
    type Err = NoTag;

    fn from_str(text: &str) -> Result<SciTag, NoTag> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| NoTag);
        let (experiment, activity) = match text.split_once(':') {
            Some((experiment, activity)) => (number(experiment)?, number(activity)?),
            None => (number(text)? >> ACTIVITY_BITS, number(text)? & ((1 << ACTIVITY_BITS) - 1)),
        };
        let fits = |value: u32, bits: u32| (1..1 << bits).contains(&value);
        let known = fits(experiment, EXPERIMENT_BITS) && fits(activity, ACTIVITY_BITS);
        known.then_some(SciTag { experiment, activity }).ok_or(NoTag)
    }
}

impl SciTag {
    /// The flow labels; `random` gives the bits of entropy of the first.
    pub(crate) fn flow_label(self, random: u32) -> FlowLabel {
        let reversed = self.experiment.reverse_bits() >> (u32::BITS - EXPERIMENT_BITS);
        FlowLabel { first: (random & ENTROPY) | reversed << 9 | self.activity << 2, entropy: ENTROPY }
    }
}

/// Reads a raw flow label: decimal, or hexadecimal after `0x`.
///
/// # Errors
/// When it is no number of 20 bits.
pub(crate) fn flow_label(text: &str) -> Result<u32, String> {
    let label = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let label = label.ok().filter(|label| *label <= LABEL_MAX);
    label.ok_or_else(|| format!("a flow label is a number from 0 to {LABEL_MAX} (0x{LABEL_MAX:x})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_stand_where_the_specification_has_them() {
        let cases = [("1:1", 0x20004), ("2:2", 0x10008), ("3:17", 0x30044), ("23:1", 0x3a004), ("511:63", 0x3fefc)];
        for (text, label) in cases {
            assert_eq!(text.parse::<SciTag>().unwrap().flow_label(0).first, label, "{text}");
        }
    }

    #[test]
    fn entropy_fills_the_other_bits_and_only_those() {
        let tag: SciTag = "3:17".parse().unwrap();
        assert_eq!(tag.flow_label(u32::MAX).first & !ENTROPY, tag.flow_label(0).first);
        assert_eq!(tag.flow_label(u32::MAX).first & ENTROPY, ENTROPY);
        assert_eq!(ENTROPY, 0xC0103);
        let all: SciTag = "511:63".parse().unwrap();
        assert_eq!(all.flow_label(u32::MAX).first, LABEL_MAX, "every bit has one meaning");
    }

    #[test]
    fn one_number_is_the_same_tag() {
        assert_eq!("65".parse::<SciTag>(), "1:1".parse());
        assert_eq!("209".parse::<SciTag>(), "3:17".parse());
        assert_eq!("32767".parse::<SciTag>(), "511:63".parse());
        for bad in ["", "0", "64", "128", "32768", "1:0", "0:1", "512:1", "1:64", "-1", "x", "1:1:1"] {
            assert_eq!(bad.parse::<SciTag>(), Err(NoTag), "{bad}");
        }
    }

    #[test]
    fn raw_labels() {
        assert_eq!(flow_label("0xfffff"), Ok(LABEL_MAX));
        assert_eq!(flow_label("17"), Ok(17));
        for bad in ["1048576", "0x100000", "-1", "", "ff"] {
            assert!(flow_label(bad).is_err(), "{bad}");
        }
    }
}
