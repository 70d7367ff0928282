//! Policy rules: which table packets are routed by.
//!
//! Source: `include/uapi/linux/fib_rules.h`.

use std::net::IpAddr;

use super::{Message, attribute, number, put};

/// The message that makes a rule.
pub const RTM_NEWRULE: u16 = 32;
/// The message that removes one.
pub const RTM_DELRULE: u16 = 33;
/// The message that asks for all.
pub const RTM_GETRULE: u16 = 34;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// struct fib_rule_hdr: family, length of the target, of the source, type of service, table, two that are 0, action, flags.
pub const HEADER_BYTES: usize = 12;
/// Said in the eight bits of the header for a table that is told by an attribute.
const TABLE_ELSEWHERE: u8 = 252;
const TO_TABLE: u8 = 1;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
/// From Linux 6.13 on; before, a rule of IPv4 cannot look for a code point. One that does not know it leaves it out, which is seen when the
/// rule is read back.
const FRA_DSCP: u16 = 25;
/// From Linux 6.14 on, with its mask, both in the order of the network; left out like [`FRA_DSCP`] by one that does not know them.
const FRA_FLOWLABEL: u16 = 26;
const FRA_FLOWLABEL_MASK: u16 = 27;
/// All bits of a flow label.
const LABEL_BITS: u32 = 0xf_ffff;
/// Told beside a code point from Linux 6.15 on.
const FRA_DSCP_MASK: u16 = 30;
/// All bits of a code point.
const DSCP_BITS: u8 = 0x3f;
/// What else a rule can look for: interfaces, marks, tunnels, users, ports.
const FRA_MORE: &[u16] = &[3, 4, 10, 12, 17, 19, 20, 22, 23, 24, 28, 29];

/// An address, and how many of its bits count.
pub type Bits = (IpAddr, u8);

/// Packets that are routed by a table: all that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of IPv6, else of IPv4.
    pub is_v6: bool,
    /// Lower ones are asked first.
    pub priority: u32,
    /// The table.
    pub table: u32,
    /// Who made it.
    pub protocol: u8,
    /// From where.
    pub from: Option<Bits>,
    /// To where.
    pub to: Option<Bits>,
    /// Differentiated services code point. One of 0 is told from none by IPv4 only.
    pub dscp: Option<u8>,
    /// IPv6 flow label, 20 bits.
    pub flow_label: Option<u32>,
}

impl Rule {
    /// The body of a message about it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let length = |bits: Option<Bits>| bits.map_or(0, |(_, length)| length);
        let family = if self.is_v6 { AF_INET6 } else { AF_INET };
        // Of IPv6 every kernel knows the code point as traffic class, in the header.
        let class = self.dscp.filter(|_| self.is_v6).map_or(0, |point| point << 2);
        let mut body =
            vec![family, length(self.to), length(self.from), class, TABLE_ELSEWHERE, 0, 0, TO_TABLE, 0, 0, 0, 0];
        for (kind, bits) in [(FRA_DST, self.to), (FRA_SRC, self.from)] {
            match bits.filter(|(_, length)| *length > 0) {
                Some((IpAddr::V4(address), _)) => put(&mut body, kind, &address.octets()),
                Some((IpAddr::V6(address), _)) => put(&mut body, kind, &address.octets()),
                None => {}
            }
        }
        put(&mut body, FRA_PRIORITY, &self.priority.to_ne_bytes());
        put(&mut body, FRA_TABLE, &self.table.to_ne_bytes());
        put(&mut body, FRA_PROTOCOL, &[self.protocol]);
        if let Some(point) = self.dscp.filter(|_| !self.is_v6) {
            put(&mut body, FRA_DSCP, &[point]);
        }
        if let Some(label) = self.flow_label {
            put(&mut body, FRA_FLOWLABEL, &label.to_be_bytes());
            put(&mut body, FRA_FLOWLABEL_MASK, &LABEL_BITS.to_be_bytes());
        }
        body
    }

    /// The rule that a message is about; `None` for one that looks for more than can be said here, does something else, or is cut off.
    #[must_use]
    pub fn decode(message: &Message) -> Option<Rule> {
        let attributes = message.body.get(HEADER_BYTES..)?;
        let header: [u8; HEADER_BYTES] = number(&message.body, 0)?;
        let [family, to_length, from_length, class, table, _, _, action, ..] = header;
        let word = |kind| attribute(attributes, kind).and_then(|value| number(value, 0));
        let mask = word(FRA_FLOWLABEL_MASK).map(u32::from_be_bytes);
        let in_part = attribute(attributes, FRA_DSCP_MASK).is_some_and(|mask| mask != [DSCP_BITS]);
        let has_more = in_part || FRA_MORE.iter().any(|more| attribute(attributes, *more).is_some());
        if has_more || action != TO_TABLE || mask.is_some_and(|mask| mask != LABEL_BITS) {
            return None;
        }
        let bits = |kind, length| match attribute(attributes, kind) {
            Some(value) => Some(Some((address(value)?, length))),
            None => Some(None),
        };
        let point = attribute(attributes, FRA_DSCP).and_then(|value| value.first().copied());
        Some(Rule {
            is_v6: family == AF_INET6,
            priority: word(FRA_PRIORITY).map(u32::from_ne_bytes)?,
            table: word(FRA_TABLE).map_or(u32::from(table), u32::from_ne_bytes),
            protocol: *attribute(attributes, FRA_PROTOCOL)?.first()?,
            from: bits(FRA_SRC, from_length)?,
            to: bits(FRA_DST, to_length)?,
            dscp: point.or((class != 0).then_some(class >> 2)),
            flow_label: word(FRA_FLOWLABEL).map(u32::from_be_bytes),
        })
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => number::<4>(value, 0).map(IpAddr::from),
        16 => number::<16>(value, 0).map(IpAddr::from),
        _ => None,
    }
}

#[test]
fn rules_come_back_and_what_is_cut_is_none() {
    let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0xfd; 16]));
    let rule = |is_v6, from, to, dscp, flow_label| Rule {
        is_v6,
        priority: 7,
        table: 70_000,
        protocol: 241,
        from,
        to,
        dscp,
        flow_label,
    };
    let all = [
        rule(false, Some((v4, 32)), Some((v4, 8)), Some(18), None),
        rule(false, None, None, Some(0), None),
        rule(true, Some((v6, 128)), None, Some(63), Some(0x12345)),
        rule(true, None, Some((v6, 7)), None, Some(1)),
    ];
    for rule in all {
        let body = rule.encode();
        for cut in 0..body.len() {
            // Never a panic, and never another table.
            let cut = Rule::decode(&Message { kind: RTM_NEWRULE, body: body[..cut].to_vec() });
            assert!(cut.is_none_or(|cut| cut.priority == 7));
        }
        assert_eq!(Rule::decode(&Message { kind: RTM_NEWRULE, body: body.clone() }), Some(rule));
        let mut odd = body;
        put(&mut odd, 10, &[0; 4]);
        assert_eq!(Rule::decode(&Message { kind: RTM_NEWRULE, body: odd }), None, "it looks for a mark as well");
    }
}
