//! Routes and rules in netlink's words (`rtnetlink(7)`, `include/uapi/linux/rtnetlink.h`; rules: [`sys::netlink::rule`]).

use std::collections::BTreeMap;
use std::net::IpAddr;

use sys::netlink::{Change, Message, Netlink, Refused, attribute, number, put, rule};

use super::{Deed, Said};
use crate::found::Found;
use crate::item::{self, Item, PROTOCOL, Route, Rule};
use crate::prefix::Prefix;

const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// struct rtmsg (struct fib_rule_hdr is as long): family, length of the target, of the source, type of service, …, flags (at 8).
const HEADER_BYTES: usize = 12;
/// Said in the eight bits of the header for a table that is told by an attribute.
const TABLE_ELSEWHERE: u8 = 252;
const SCOPE_UNIVERSE: u8 = 0;
const TYPE_UNICAST: u8 = 1;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;

pub(super) fn say_route(route: &Route, deed: Deed, index: i32) -> Said {
    let family = if route.to.is_v6() { AF_INET6 } else { AF_INET };
    let mut body =
        vec![family, route.to.length(), 0, 0, TABLE_ELSEWHERE, PROTOCOL, SCOPE_UNIVERSE, TYPE_UNICAST, 0, 0, 0, 0];
    put(&mut body, RTA_TABLE, &route.table.to_ne_bytes());
    if route.to.length() > 0 {
        put(&mut body, RTA_DST, &route.to.bytes());
    }
    put(&mut body, RTA_PRIORITY, &route.metric.to_ne_bytes());
    if let Some(via) = route.via {
        put(&mut body, RTA_GATEWAY, &bytes(via));
    }
    put(&mut body, RTA_OIF, &index.to_ne_bytes());
    match deed {
        Deed::Add => (RTM_NEWROUTE, Change::Create, body),
        Deed::Change => (RTM_NEWROUTE, Change::Replace, body),
        Deed::Remove => (RTM_DELROUTE, Change::Delete, body),
    }
}

pub(super) fn say_rule(of: &Rule, deed: Deed) -> Said {
    let bits = |prefix: Option<Prefix>| prefix.map(|prefix| (prefix.address(), prefix.length()));
    let Rule { priority, is_v6, dscp, flow_label, table, .. } = *of;
    let (from, to) = (bits(of.from), bits(of.to));
    let rule = rule::Rule { is_v6, priority, table, protocol: PROTOCOL, from, to, dscp, flow_label };
    match deed {
        Deed::Remove => (rule::RTM_DELRULE, Change::Delete, rule.encode()),
        Deed::Add | Deed::Change => (rule::RTM_NEWRULE, Change::Create, rule.encode()),
    }
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Reads the rules and routes that bear our marks.
pub(super) fn read(kernel: &mut Netlink, found: &mut Found) -> Result<(), Refused> {
    let names: BTreeMap<i32, String> = found.devices.iter().map(|(name, of)| (of.index, name.clone())).collect();
    for family in [AF_INET, AF_INET6] {
        let mut header = [0; HEADER_BYTES];
        header[0] = family;
        for message in asked(kernel.dump(rule::RTM_GETRULE, &header))? {
            if let Some(rule) = rule_of(&message) {
                found.add(Item::Rule(rule));
            }
        }
        // The kernel chooses by the protocol, if it can (4.20 and later): a router in the middle of the Internet has a million routes.
        header[5] = PROTOCOL;
        for message in asked(kernel.dump(RTM_GETROUTE, &header))? {
            if let Some(route) = route_of(&message, &names) {
                found.add(Item::Route(route));
            }
        }
    }
    Ok(())
}

/// A kernel without IPv6 has none of its routes.
fn asked(answer: Result<Vec<Message>, Refused>) -> Result<Vec<Message>, Refused> {
    match answer {
        Err(refused) if refused.source.raw_os_error() == Some(EAFNOSUPPORT) => Ok(Vec::new()),
        Err(refused) if refused.source.raw_os_error() == Some(EOPNOTSUPP) => Ok(Vec::new()),
        answer => answer,
    }
}

const EAFNOSUPPORT: i32 = 97;
const EOPNOTSUPP: i32 = 95;

fn word(attributes: &[u8], kind: u16) -> Option<u32> {
    attribute(attributes, kind).and_then(|value| number(value, 0)).map(u32::from_ne_bytes)
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => number::<4>(value, 0).map(IpAddr::from),
        16 => number::<16>(value, 0).map(IpAddr::from),
        _ => None,
    }
}

fn rule_of(message: &Message) -> Option<Rule> {
    let rule = rule::Rule::decode(message)?;
    let rule::Rule { is_v6, priority, table, dscp, flow_label, .. } = rule;
    let prefix = |bits: Option<rule::Bits>| match bits {
        Some((address, length)) => Prefix::of(address, length).map(Some),
        None => Some(None),
    };
    let is_ours = rule.protocol == PROTOCOL && item::is_our_table(priority);
    let (from, to) = (prefix(rule.from)?, prefix(rule.to)?);
    is_ours.then_some(Rule { priority, is_v6, from, to, dscp, flow_label, table })
}

fn route_of(message: &Message, names: &BTreeMap<i32, String>) -> Option<Route> {
    let attributes = message.body.get(HEADER_BYTES..)?;
    let header: [u8; HEADER_BYTES] = number(&message.body, 0)?;
    let [family, length, _, _, table, protocol, _, kind, ..] = header;
    let table = word(attributes, RTA_TABLE).unwrap_or(u32::from(table));
    let is_ours = protocol == PROTOCOL && kind == TYPE_UNICAST && item::is_our_table(table);
    if !is_ours || attribute(attributes, RTA_MULTIPATH).is_some() {
        return None;
    }
    let to = match attribute(attributes, RTA_DST) {
        Some(value) => Prefix::of(address(value)?, length)?,
        None => Prefix::all(family == AF_INET6),
    };
    let index = word(attributes, RTA_OIF).and_then(|index| i32::try_from(index).ok())?;
    Some(Route {
        table,
        to,
        metric: word(attributes, RTA_PRIORITY).unwrap_or(0),
        via: attribute(attributes, RTA_GATEWAY).and_then(address),
        device: names.get(&index)?.clone(),
    })
}
