//! What packets carry so that routers can tell them from others: code point and flow label.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::dscp::{self, DSCP_MAX};

/// Largest flow label that a host may choose: above it are those that Linux makes up for packets without one
/// (`net.ipv6.flowlabel_state_ranges`).
pub const FLOW_LABEL_MAX: u32 = 0x7_ffff;

/// What packets carry; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Marks {
    /// Differentiated services code point, 1 to [`DSCP_MAX`]: without one it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    /// IPv6 flow label (RFC 6437), 1 to [`FLOW_LABEL_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
}

impl Marks {
    /// Nothing.
    pub const NONE: Marks = Marks { dscp: None, flow_label: None };

    /// Whether packets carry nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Marks::NONE
    }

    /// Whether packets can carry it.
    ///
    /// # Errors
    /// What they cannot carry, and the way out.
    pub fn check(self) -> Result<(), String> {
        if self.dscp.is_some_and(|point| !(1..=DSCP_MAX).contains(&point)) {
            return Err(format!("dscp: a mark is 1 to {DSCP_MAX} or a name such as af21; 0 is what all packets have"));
        }
        if self.flow_label.is_some_and(|label| !(1..=FLOW_LABEL_MAX).contains(&label)) {
            return Err(format!("flow_label: write 0x1 to {FLOW_LABEL_MAX:#x}; Linux makes up those above"));
        }
        Ok(())
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let point = self.dscp.map(|point| format!("DSCP {}", dscp::show(point)));
        let label = self.flow_label.map(|label| format!("flow label {label:#07x}"));
        let all: Vec<String> = point.into_iter().chain(label).collect();
        f.write_str(if all.is_empty() { "no mark" } else { "" })?;
        f.write_str(&all.join(", "))
    }
}

#[test]
fn marks_are_shown_and_bounded() {
    let marks = |dscp, flow_label| Marks { dscp, flow_label };
    assert_eq!(marks(Some(18), Some(0x12)).to_string(), "DSCP af21, flow label 0x00012");
    assert_eq!(marks(None, None).to_string(), "no mark");
    for good in [marks(None, None), marks(Some(1), None), marks(Some(63), Some(1)), marks(None, Some(FLOW_LABEL_MAX))] {
        assert_eq!(good.check(), Ok(()));
    }
    for bad in [marks(Some(0), None), marks(Some(64), None), marks(None, Some(0)), marks(None, Some(0x8_0000))] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}
