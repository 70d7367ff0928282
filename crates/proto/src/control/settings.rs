//! How a session moves bytes, as both ends agree on it.

use serde::{Deserialize, Serialize};

use crate::seal::Protection;

/// How a session moves bytes. The agent may lower the limits in its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Protection of the data.
    pub protection: Protection,
    /// Bytes of a chunk.
    pub chunk_size: u32,
    /// Streams at most.
    pub streams_max: u16,
    /// Congestion control by name; `None` leaves the choice to the sending end.
    pub congestion: Option<String>,
    /// Set point in b/s of IP packets.
    pub rate_bps: Option<u64>,
    /// The sending end gives way to other traffic.
    pub polite: bool,
    /// DSCP, 6 bits.
    pub dscp: Option<u8>,
    /// IPv6 flow labels.
    pub flow_label: Option<FlowLabel>,
}

/// Bits of an IPv6 flow label.
const FLOW_LABEL: u32 = 0xf_ffff;

/// The IPv6 flow labels of a session: one, or one for each stream, so that routers spread them over parallel links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLabel {
    /// The label of the control connection and of stream 0, 20 bits.
    pub first: u32,
    /// The bits in which those of other streams differ.
    pub entropy: u32,
}

impl FlowLabel {
    /// The label of a stream: the bits of entropy, taken together as a number, count on from stream to stream.
    #[must_use]
    pub fn of_stream(self, stream: u16) -> u32 {
        let entropy = self.entropy & FLOW_LABEL;
        // A carry runs through bits that are set: so it passes those that are not of the number.
        let count = |label: u32| (label | !entropy).wrapping_add(1) & entropy;
        let turns = u32::from(stream) % (1 << entropy.count_ones());
        let counted = (0..turns).fold(self.first & entropy, |label, _| count(label));
        (self.first & FLOW_LABEL & !entropy) | counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_has_its_flow_label() {
        let label = FlowLabel { first: 0x9_1235, entropy: 0xc_0103 };
        let labels: Vec<u32> = (0..64).map(|stream| label.of_stream(stream)).collect();
        assert_eq!(labels[..4], [0x9_1235, 0x9_1236, 0x9_1237, 0x9_1334]);
        assert!(labels.iter().all(|one| one & !label.entropy == label.first & !label.entropy), "{labels:x?}");
        let all: std::collections::BTreeSet<u32> = labels.iter().copied().collect();
        assert_eq!((all.len(), labels[32]), (32, labels[0]), "five bits, all of them used");
        let one = FlowLabel { first: 0x6_789a, entropy: 0 };
        assert!([0, 1, u16::MAX].iter().all(|stream| one.of_stream(*stream) == 0x6_789a));
        let any = FlowLabel { first: u32::MAX, entropy: u32::MAX };
        assert_eq!((any.of_stream(0), any.of_stream(1)), (0xf_ffff, 0));
    }
}
