//! What the driver makes, each by itself: the words in which is and wish are compared.
//!
//! All of it bears a mark that says whose it is, in the kernel and nowhere else, so nothing can be forgotten: qdiscs have a handle, filters a
//! preference, rules a protocol and a priority, routes a protocol and a table of a range of their own.

use std::fmt;
use std::net::IpAddr;

use units::{Bytes, Rate, dscp};

use crate::prefix::Prefix;

/// The major number of the root qdisc: "LH". Kernels number qdiscs that nobody numbered from 8000 on.
pub const ROOT_MAJOR: u16 = 0x4c48;
/// Preference of the first filter; one for each further filter of an interface.
pub const FIRST_PREFERENCE: u16 = 0x4c48;
/// Filters of an interface.
pub const FILTERS_MAX: u16 = 256;
/// The class of all together.
pub const WHOLE_MINOR: u16 = 1;
/// The class of what no filter takes: traffic at large.
pub const AT_LARGE_MINOR: u16 = 2;
/// The first of the other classes.
pub const FIRST_MINOR: u16 = 3;
/// Other classes of an interface.
pub const CLASSES_MAX: u16 = 32;
/// The protocol of our rules and routes: not among the numbers that `rt_protos` of iproute2 gives to others.
pub const PROTOCOL: u8 = 241;
/// Table, and priority of the rule, of the policy route with the number 0.
pub const FIRST_TABLE: u32 = 24_100;
/// Numbers of policy routes are 1 to this.
pub const ROUTES_MAX: u32 = 255;
/// The metric of our routes: that which IPv6 has when nobody says.
pub const METRIC: u32 = 1_024;

/// Whether a class is one that we make.
#[must_use]
pub fn is_our_minor(minor: u16) -> bool {
    (WHOLE_MINOR..FIRST_MINOR + CLASSES_MAX).contains(&minor)
}

/// Whether a filter is one that we make.
#[must_use]
pub fn is_our_preference(preference: u16) -> bool {
    (FIRST_PREFERENCE..FIRST_PREFERENCE + FILTERS_MAX).contains(&preference)
}

/// Whether a table, or a rule's priority, is one that we use.
#[must_use]
pub fn is_our_table(table: u32) -> bool {
    (FIRST_TABLE + 1..=FIRST_TABLE + ROUTES_MAX).contains(&table)
}

/// The major number of the queue of a class.
#[must_use]
pub fn queue_major(minor: u16) -> u16 {
    ROOT_MAJOR + minor
}

/// One thing that the driver makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A way out of one of our tables.
    Route(Route),
    /// What is sent through one of our tables.
    Rule(Rule),
    /// The qdisc (htb) in place of the kernel's default.
    Root {
        /// The interface.
        device: String,
    },
    /// A class beneath it.
    Class(Class),
    /// What waits in a class (bfifo).
    Queue {
        /// The interface.
        device: String,
        /// The class.
        minor: u16,
        /// Bytes that may wait.
        limit: Bytes,
    },
    /// What goes into a class.
    Filter(Filter),
}

/// A default route in a table of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The table.
    pub table: u32,
    /// To where: for us always to everywhere.
    pub to: Prefix,
    /// Among several to the same place the lowest counts.
    pub metric: u32,
    /// The next hop.
    pub via: Option<IpAddr>,
    /// The interface.
    pub device: String,
}

/// What is sent through a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Lower ones are asked first.
    pub priority: u32,
    /// Of which family.
    pub is_v6: bool,
    /// From where.
    pub from: Option<Prefix>,
    /// To where.
    pub to: Option<Prefix>,
    /// Marked how.
    pub dscp: Option<u8>,
    /// With which IPv6 flow label.
    pub flow_label: Option<u32>,
    /// The table.
    pub table: u32,
}

/// A class of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The interface.
    pub device: String,
    /// Its number.
    pub minor: u16,
    /// What it has in any case.
    pub floor: Rate,
    /// What it has at most.
    pub ceiling: Rate,
    /// How long it may send at once, in units of 64 ns: as the kernel counts, at floor and at ceiling.
    pub burst_ticks: (u32, u32),
    /// Bytes in its turn, when classes share what is free.
    pub quantum: u32,
    /// Lower ones go first to what is free.
    pub priority: u32,
}

/// What goes into a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The interface.
    pub device: String,
    /// Lower ones are asked first.
    pub preference: u16,
    /// Of which family.
    pub is_v6: bool,
    /// What it looks for.
    pub selector: Selector,
    /// The class.
    pub minor: u16,
}

/// What a filter looks for in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// All that is given.
    Of(Match),
    /// Nothing that we would make: words at an offset, with mask and value. Somebody changed a filter of ours.
    Odd(Vec<Word>),
}

/// What is looked for in packets: all that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// Differentiated services code point.
    pub dscp: Option<u8>,
    /// Source address.
    pub from: Option<Prefix>,
    /// Destination address.
    pub to: Option<Prefix>,
}

/// 32 bits of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// Bytes from the begin of the IP header.
    pub offset: i32,
    /// The bits that count.
    pub mask: u32,
    /// What they are.
    pub value: u32,
}

/// What makes a thing this one and no other. They are made in this order, and removed in the opposite one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A route by table, target and metric.
    Route(u32, Prefix, u32),
    /// A rule by priority, and whether it is one of IPv6.
    Rule(u32, bool),
    /// By interface.
    Root(String),
    /// By interface and minor number.
    Class(String, u16),
    /// By interface and class.
    Queue(String, u16),
    /// By interface and preference.
    Filter(String, u16),
}

impl Item {
    /// What makes it this one and no other.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Item::Route(route) => Key::Route(route.table, route.to, route.metric),
            Item::Rule(rule) => Key::Rule(rule.priority, rule.is_v6),
            Item::Root { device } => Key::Root(device.clone()),
            Item::Class(class) => Key::Class(class.device.clone(), class.minor),
            Item::Queue { device, minor, .. } => Key::Queue(device.clone(), *minor),
            Item::Filter(filter) => Key::Filter(filter.device.clone(), filter.preference),
        }
    }

    /// The interface whose traffic it shapes; `None` for what is about routes.
    #[must_use]
    pub fn shapes(&self) -> Option<&str> {
        match self {
            Item::Route(_) | Item::Rule(_) => None,
            Item::Root { device } | Item::Queue { device, .. } => Some(device),
            Item::Class(class) => Some(&class.device),
            Item::Filter(filter) => Some(&filter.device),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Route(Route { table, to, via, device, .. }) => {
                write!(f, "route of table {table}: to {to}")?;
                if let Some(via) = via {
                    write!(f, " via {via}")?;
                }
                write!(f, " over {device}")
            }
            Item::Rule(rule) => {
                let family = if rule.is_v6 { "IPv6" } else { "IPv4" };
                write!(f, "rule {} ({family}): ", rule.priority)?;
                let what = Match { dscp: rule.dscp, from: rule.from, to: rule.to };
                write!(f, "{what}")?;
                if let Some(label) = rule.flow_label {
                    write!(f, " with flow label {label:#07x}")?;
                }
                write!(f, " goes by table {}", rule.table)
            }
            Item::Root { device } => write!(f, "{device}: root htb {ROOT_MAJOR:x}:"),
            Item::Class(Class { device, minor, floor, ceiling, .. }) => {
                write!(f, "{device}: class {ROOT_MAJOR:x}:{minor:x} ({}), ", called(*minor))?;
                write!(f, "{floor} in any case, {ceiling} at most")
            }
            Item::Queue { device, minor, limit } => {
                write!(f, "{device}: queue {:x}: of class {ROOT_MAJOR:x}:{minor:x}, {limit}", queue_major(*minor))
            }
            Item::Filter(Filter { device, preference, is_v6, selector, minor }) => {
                let family = if *is_v6 { "IPv6" } else { "IPv4" };
                write!(f, "{device}: filter {preference} ({family}): ")?;
                match selector {
                    Selector::Of(what) => write!(f, "{what}")?,
                    Selector::Odd(words) => {
                        let words = words.iter().map(|w| format!("{:08x}/{:08x} at {}", w.value, w.mask, w.offset));
                        write!(f, "{}", words.collect::<Vec<_>>().join(", "))?;
                    }
                }
                write!(f, " goes into class {ROOT_MAJOR:x}:{minor:x}")
            }
        }
    }
}

/// What a class is for, as far as its number says.
fn called(minor: u16) -> &'static str {
    match minor {
        WHOLE_MINOR => "all together",
        AT_LARGE_MINOR => "at large",
        _ => "a class of the wish",
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.from.map(|from| format!("from {from}")),
            self.to.map(|to| format!("to {to}")),
            self.dscp.map(|point| format!("marked {}", dscp::show(point))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "all" } else { "" })?;
        f.write_str(&parts.join(" "))
    }
}

impl Match {
    /// Which families it can be about.
    pub(crate) fn families(&self) -> impl Iterator<Item = bool> {
        let given = self.from.or(self.to).map(Prefix::is_v6);
        [false, true].into_iter().filter(move |is_v6| given.is_none_or(|given| given == *is_v6))
    }

    /// The bits of the header that say it.
    pub(crate) fn words(&self, is_v6: bool) -> Vec<Word> {
        let mut words = Vec::new();
        if let Some(point) = self.dscp {
            let shift = if is_v6 { V6_DSCP_SHIFT } else { V4_DSCP_SHIFT };
            words.push(Word { offset: 0, mask: DSCP_BITS << shift, value: u32::from(point) << shift });
        }
        let (source, destination) = address_offsets(is_v6);
        for (prefix, at) in [(self.from, source), (self.to, destination)] {
            words.extend(prefix.into_iter().flat_map(|prefix| prefix_words(prefix, at)));
        }
        words
    }

    /// What the words say, if we would say it in these words.
    pub(crate) fn of_words(words: &[Word], is_v6: bool) -> Option<Match> {
        let (source, destination) = address_offsets(is_v6);
        let shift = if is_v6 { V6_DSCP_SHIFT } else { V4_DSCP_SHIFT };
        let first = words.iter().find(|word| word.offset == 0);
        let point =
            first.map(|word| u8::try_from(word.value >> shift).ok()).map_or(Some(None), |point| point.map(Some))?;
        let end = destination + if is_v6 { 16 } else { 4 };
        let from = prefix_of(words, source..destination, is_v6)?;
        let to = prefix_of(words, destination..end, is_v6)?;
        let found = Match { dscp: point, from, to };
        // What would be written otherwise is not what we wrote.
        (found.words(is_v6) == words).then_some(found)
    }
}

const DSCP_BITS: u32 = 0x3f;
/// The code point is in bits 8 to 13 of the first word of IPv4, of IPv6 in bits 4 to 9.
const V4_DSCP_SHIFT: u32 = 18;
const V6_DSCP_SHIFT: u32 = 22;

/// Where source and destination begin.
fn address_offsets(is_v6: bool) -> (i32, i32) {
    if is_v6 { (8, 24) } else { (12, 16) }
}

/// The words of a prefix; one of length 0 is one word without bits, so that it can be read back.
fn prefix_words(prefix: Prefix, at: i32) -> Vec<Word> {
    let bytes = prefix.bytes();
    let words = bytes.chunks_exact(4).zip(0_u8..).map(|(chunk, index)| {
        let value = chunk.iter().fold(0, |value: u32, byte| value << 8 | u32::from(*byte));
        let bits = u32::from(prefix.length().saturating_sub(index * 32).min(32));
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        Word { offset: at + i32::from(index) * 4, mask, value }
    });
    words.filter(|word| word.mask != 0 || word.offset == at).collect()
}

/// The prefix that words in a range of offsets say; `None` if they say none, and nothing inside if there are none.
fn prefix_of(words: &[Word], range: std::ops::Range<i32>, is_v6: bool) -> Option<Option<Prefix>> {
    let inside: Vec<&Word> = words.iter().filter(|word| range.contains(&word.offset)).collect();
    if inside.is_empty() {
        return Some(None);
    }
    let mut bytes = [0; 16];
    for word in &inside {
        let at = usize::try_from(word.offset - range.start).ok()?;
        bytes.get_mut(at..at + 4)?.copy_from_slice(&word.value.to_be_bytes());
    }
    let length = inside.iter().map(|word| word.mask.count_ones()).sum::<u32>();
    let [a, b, c, d, ..] = bytes;
    let address = if is_v6 { IpAddr::from(bytes) } else { IpAddr::from([a, b, c, d]) };
    Prefix::of(address, u8::try_from(length).ok()?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Option<Prefix> {
        Some(text.parse().expect("it is a prefix"))
    }

    #[test]
    fn what_is_looked_for_is_told_by_the_words() {
        let all = [
            Match { dscp: Some(10), from: None, to: None },
            Match { dscp: Some(0), from: prefix("10.0.0.0/8"), to: None },
            Match { dscp: None, from: prefix("10.1.2.3"), to: prefix("0.0.0.0/0") },
            Match { dscp: Some(63), from: prefix("2001:db8::/32"), to: prefix("2001:db8:7::/65") },
            Match { dscp: None, from: prefix("::/0"), to: prefix("2001:db8::1") },
        ];
        for one in all {
            for is_v6 in one.families() {
                let words = one.words(is_v6);
                assert_eq!(Match::of_words(&words, is_v6), Some(one), "{words:x?}");
            }
        }
        let odd = [Word { offset: 4, mask: 1, value: 1 }];
        assert_eq!(Match::of_words(&odd, false), None);
        let holes = [Word { offset: 12, mask: 0xff00_ff00, value: 0x0a00_0100 }];
        assert_eq!(Match::of_words(&holes, false), None);
    }

    #[test]
    fn the_words_are_those_of_the_header() {
        let both = Match { dscp: Some(10), from: prefix("10.0.0.0/8"), to: None };
        // As `tc` writes them for `match ip dsfield 0x28 0xfc match ip src 10.0.0.0/8`.
        let words = [
            Word { offset: 0, mask: 0x00fc_0000, value: 0x0028_0000 },
            Word { offset: 12, mask: 0xff00_0000, value: 0x0a00_0000 },
        ];
        assert_eq!(both.words(false), words);
        let six = Match { dscp: Some(10), from: None, to: None };
        assert_eq!(six.words(true), [Word { offset: 0, mask: 0x0fc0_0000, value: 0x0280_0000 }]);
        assert_eq!(six.families().collect::<Vec<_>>(), [false, true]);
        assert_eq!(both.families().collect::<Vec<_>>(), [false]);
    }

    #[test]
    fn they_are_made_from_the_root_on() {
        let device = "eth0".to_owned();
        let keys = [
            Key::Route(1, Prefix::all(true), METRIC),
            Key::Rule(1, true),
            Key::Root(device.clone()),
            Key::Class(device.clone(), WHOLE_MINOR),
            Key::Class(device.clone(), AT_LARGE_MINOR),
            Key::Queue(device.clone(), AT_LARGE_MINOR),
            Key::Filter(device, FIRST_PREFERENCE),
        ];
        assert!(keys.is_sorted());
    }
}
