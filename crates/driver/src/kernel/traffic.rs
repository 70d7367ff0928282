//! Qdiscs, classes and filters in netlink's words (`rtnetlink(7)`, `include/uapi/linux/pkt_sched.h`, `pkt_cls.h`).

use std::collections::BTreeMap;

use sys::netlink::{self, Change, Message, Netlink, Refused, attribute, number, put};
use units::{Bytes, Rate};

use super::{Deed, Said};
use crate::found::{Carried, Found};
use crate::item::{
    self, AT_LARGE_MINOR, Class, Filter, Item, Match, ROOT_MAJOR, Selector, WHOLE_MINOR, Word, queue_major,
};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;

/// struct tcmsg: family, index of the interface (at 4), handle (8), parent (12), info (16).
const TCMSG_BYTES: usize = 20;
const TC_H_ROOT: u32 = 0xffff_ffff;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_CHAIN: u16 = 11;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// The version that the kernel's htb insists on, and the divisor of rates that gives quanta to classes without one.
const HTB_VERSION: u32 = 3;
const HTB_RATE_TO_QUANTUM: u32 = 10;
/// Said so that the kernel counts rates itself and wants no table of them.
const LINKLAYER_ETHERNET: u8 = 1;

const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
/// What else a u32 filter can have (a link, a divisor, police, action, device, counters aside).
const TCA_U32_MORE: &[u16] = &[3, 6, 7, 8, 10];
const U32_TERMINAL: u8 = 1;
/// struct tc_u32_sel, and struct tc_u32_key.
const SEL_BYTES: usize = 16;
const KEY_BYTES: usize = 16;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

const ROOT_HANDLE: u32 = (ROOT_MAJOR as u32) << 16;

fn class_handle(minor: u16) -> u32 {
    ROOT_HANDLE | u32::from(minor)
}

fn message(index: i32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    for word in [handle, parent, info] {
        body.extend(word.to_ne_bytes());
    }
    body
}

pub(super) fn say_root(deed: Deed, index: i32) -> Said {
    let mut body = message(index, ROOT_HANDLE, TC_H_ROOT, 0);
    if deed == Deed::Remove {
        return (RTM_DELQDISC, Change::Delete, body);
    }
    put(&mut body, TCA_KIND, b"htb\0");
    // struct tc_htb_glob: version, rate to quantum, class of what no filter takes, debug, packets past the classes.
    let glob = [HTB_VERSION, HTB_RATE_TO_QUANTUM, u32::from(AT_LARGE_MINOR), 0, 0];
    let mut options = Vec::new();
    put(&mut options, TCA_HTB_INIT, &glob.map(u32::to_ne_bytes).concat());
    put(&mut body, TCA_OPTIONS, &options);
    (RTM_NEWQDISC, Change::Create, body)
}

pub(super) fn say_class(class: &Class, deed: Deed, index: i32) -> Said {
    let parent = if class.minor == WHOLE_MINOR { ROOT_HANDLE } else { class_handle(WHOLE_MINOR) };
    let mut body = message(index, class_handle(class.minor), parent, 0);
    if deed == Deed::Remove {
        return (RTM_DELTCLASS, Change::Delete, body);
    }
    put(&mut body, TCA_KIND, b"htb\0");
    let bytes_per_second = |rate: Rate| rate.bps() / 8;
    // struct tc_htb_opt: two struct tc_ratespec, burst, burst at the ceiling, quantum, level, priority.
    let mut opt = Vec::new();
    for rate in [class.floor, class.ceiling] {
        opt.extend([0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]);
        opt.extend(u32::try_from(bytes_per_second(rate)).unwrap_or(u32::MAX).to_ne_bytes());
    }
    for word in [class.burst_ticks.0, class.burst_ticks.1, class.quantum, 0, class.priority] {
        opt.extend(word.to_ne_bytes());
    }
    let mut options = Vec::new();
    put(&mut options, TCA_HTB_PARMS, &opt);
    for (kind, rate) in [(TCA_HTB_RATE64, class.floor), (TCA_HTB_CEIL64, class.ceiling)] {
        // From 34 Gb/s on the 32 bits above do not hold it.
        if bytes_per_second(rate) > u64::from(u32::MAX) {
            put(&mut options, kind, &bytes_per_second(rate).to_ne_bytes());
        }
    }
    put(&mut body, TCA_OPTIONS, &options);
    (RTM_NEWTCLASS, if deed == Deed::Add { Change::Create } else { Change::Modify }, body)
}

pub(super) fn say_queue(minor: u16, limit: Bytes, deed: Deed, index: i32) -> Said {
    let mut body = message(index, u32::from(queue_major(minor)) << 16, class_handle(minor), 0);
    if deed == Deed::Remove {
        return (RTM_DELQDISC, Change::Delete, body);
    }
    put(&mut body, TCA_KIND, b"bfifo\0");
    put(&mut body, TCA_OPTIONS, &u32::try_from(limit.get()).unwrap_or(u32::MAX).to_ne_bytes());
    (RTM_NEWQDISC, if deed == Deed::Add { Change::Create } else { Change::Modify }, body)
}

pub(super) fn say_filter(filter: &Filter, deed: Deed, index: i32) -> Said {
    let protocol = if filter.is_v6 { ETH_P_IPV6 } else { ETH_P_IP };
    let info = u32::from(filter.preference) << 16 | u32::from(protocol.to_be());
    let mut body = message(index, 0, ROOT_HANDLE, info);
    if deed == Deed::Remove {
        return (RTM_DELTFILTER, Change::Delete, body);
    }
    put(&mut body, TCA_KIND, b"u32\0");
    let words = match &filter.selector {
        Selector::Of(what) => what.words(filter.is_v6),
        Selector::Odd(words) => words.clone(),
    };
    let mut sel = vec![0; SEL_BYTES];
    sel[0] = U32_TERMINAL;
    sel[2] = u8::try_from(words.len()).unwrap_or(u8::MAX);
    for word in words {
        // struct tc_u32_key: mask and value as in the packet, offset, mask of a further offset.
        sel.extend(word.mask.to_be_bytes());
        sel.extend(word.value.to_be_bytes());
        sel.extend(word.offset.to_ne_bytes());
        sel.extend(0_i32.to_ne_bytes());
    }
    let mut options = Vec::new();
    put(&mut options, TCA_U32_CLASSID, &class_handle(filter.minor).to_ne_bytes());
    put(&mut options, TCA_U32_SEL, &sel);
    put(&mut body, TCA_OPTIONS, &options);
    (RTM_NEWTFILTER, Change::Create, body)
}

/// What a message of traffic control is about.
struct About<'a> {
    index: i32,
    handle: u32,
    parent: u32,
    info: u32,
    kind: String,
    attributes: &'a [u8],
}

impl About<'_> {
    fn of(message: &Message) -> Option<About<'_>> {
        let word = |at: usize| number(&message.body, at).map(u32::from_ne_bytes);
        let attributes = message.body.get(TCMSG_BYTES..)?;
        Some(About {
            index: number(&message.body, 4).map(i32::from_ne_bytes)?,
            handle: word(8)?,
            parent: word(12)?,
            info: word(16)?,
            kind: attribute(attributes, TCA_KIND).map(netlink::text).unwrap_or_default(),
            attributes,
        })
    }

    fn options(&self) -> &[u8] {
        attribute(self.attributes, TCA_OPTIONS).unwrap_or_default()
    }

    fn major(&self) -> u32 {
        self.handle >> 16
    }

    fn minor(&self) -> u16 {
        (self.handle & 0xffff) as u16
    }
}

/// All of a kind: of all interfaces for index 0.
fn dump(kernel: &mut Netlink, kind: u16, index: i32, parent: u32) -> Result<Vec<Message>, Refused> {
    kernel.dump(kind, &message(index, 0, parent, 0))
}

/// Reads qdiscs of all interfaces, and what hangs beneath those that are ours.
pub(super) fn read(kernel: &mut Netlink, found: &mut Found) -> Result<(), Refused> {
    let names: BTreeMap<i32, String> = found.devices.iter().map(|(name, of)| (of.index, name.clone())).collect();
    let qdiscs = dump(kernel, RTM_GETQDISC, 0, 0)?;
    let qdiscs: Vec<(String, About<'_>)> = qdiscs
        .iter()
        .filter_map(About::of)
        .filter_map(|about| Some((names.get(&about.index)?.clone(), about)))
        .collect();
    let mut ours = Vec::new();
    for (device, about) in qdiscs.iter().filter(|(_, about)| about.parent == TC_H_ROOT) {
        // The kernel's own default has the handle 0.
        if about.handle == ROOT_HANDLE && about.kind == "htb" && takes_at_large(about.options()) {
            ours.push((device.clone(), about.index));
            found.add(Item::Root { device: device.clone() });
        } else if about.handle != 0 {
            let qdisc = format!("{} {:x}:", about.kind, about.major());
            found.device(device).foreign_root = Some(qdisc);
        }
    }
    for (device, about) in qdiscs.iter().filter(|(_, about)| about.parent >> 16 == u32::from(ROOT_MAJOR)) {
        if ours.iter().any(|(ours, _)| ours == device) {
            read_queue(device, about, found);
        }
    }
    for (device, index) in ours {
        let classes = dump(kernel, RTM_GETTCLASS, index, 0)?;
        classes.iter().filter_map(About::of).for_each(|about| read_class(&device, &about, found));
        let filters = dump(kernel, RTM_GETTFILTER, index, ROOT_HANDLE)?;
        filters.iter().filter_map(About::of).for_each(|about| read_filter(&device, &about, found));
    }
    Ok(())
}

fn takes_at_large(options: &[u8]) -> bool {
    let glob = attribute(options, TCA_HTB_INIT).unwrap_or_default();
    number(glob, 8).map(u32::from_ne_bytes) == Some(u32::from(AT_LARGE_MINOR))
}

fn read_queue(device: &str, about: &About<'_>, found: &mut Found) {
    let minor = (about.parent & 0xffff) as u16;
    let limit = number(about.options(), 0).map(u32::from_ne_bytes);
    let is_ours = item::is_our_minor(minor) && about.major() == u32::from(queue_major(minor));
    match limit.filter(|_| is_ours && about.kind == "bfifo") {
        Some(limit) => {
            let limit = Bytes::new(u64::from(limit));
            found.add(Item::Queue { device: device.to_owned(), minor, limit });
        }
        // What the kernel made by itself for a class has no handle.
        None if about.handle == 0 => {}
        None => found.foreign(device, format!("qdisc {} {:x}:", about.kind, about.major())),
    }
}

fn read_class(device: &str, about: &About<'_>, found: &mut Found) {
    if about.major() != u32::from(ROOT_MAJOR) {
        return;
    }
    let minor = about.minor();
    let right_parent = match minor {
        WHOLE_MINOR => about.parent == TC_H_ROOT || about.parent == ROOT_HANDLE,
        _ => about.parent == class_handle(WHOLE_MINOR),
    };
    let class = class_of(device, minor, about.options()).filter(|_| item::is_our_minor(minor) && right_parent);
    let Some(class) = class else {
        return found.foreign(device, format!("class {ROOT_MAJOR:x}:{minor:x}"));
    };
    found.add(Item::Class(class));
    let stats = attribute(about.attributes, TCA_STATS2).unwrap_or_default();
    // struct gnet_stats_basic: bytes, packets. struct gnet_stats_queue: packets and bytes that wait, drops, ….
    let basic = attribute(stats, TCA_STATS_BASIC).unwrap_or_default();
    let queue = attribute(stats, TCA_STATS_QUEUE).unwrap_or_default();
    let word = |bytes: &[u8], at: usize| number(bytes, at).map_or(0, |word| u64::from(u32::from_ne_bytes(word)));
    let carried = Carried {
        bytes: number(basic, 0).map_or(0, u64::from_ne_bytes),
        packets: word(basic, 8),
        waiting_bytes: word(queue, 4),
        dropped: word(queue, 8),
    };
    found.carried.insert((device.to_owned(), minor), carried);
}

fn class_of(device: &str, minor: u16, options: &[u8]) -> Option<Class> {
    let opt = attribute(options, TCA_HTB_PARMS)?;
    let word = |at: usize| number(opt, at).map(u32::from_ne_bytes);
    let rate = |at: usize, wide: u16| {
        let wide = attribute(options, wide).and_then(|value| number(value, 0)).map(u64::from_ne_bytes);
        let bytes = wide.or(word(at).map(u64::from))?;
        Some(Rate::from_bps(bytes.saturating_mul(8)))
    };
    Some(Class {
        device: device.to_owned(),
        minor,
        floor: rate(8, TCA_HTB_RATE64)?,
        ceiling: rate(20, TCA_HTB_CEIL64)?,
        burst_ticks: (word(24)?, word(28)?),
        quantum: word(32)?,
        priority: word(40)?,
    })
}

fn read_filter(device: &str, about: &About<'_>, found: &mut Found) {
    let preference = (about.info >> 16) as u16;
    let protocol = u16::from_be((about.info & 0xffff) as u16);
    let chain = attribute(about.attributes, TCA_CHAIN).and_then(|value| number(value, 0)).map(u32::from_ne_bytes);
    let in_range = item::is_our_preference(preference) && about.kind == "u32" && chain.unwrap_or(0) == 0;
    let is_v6 = protocol == ETH_P_IPV6;
    if !in_range || !(is_v6 || protocol == ETH_P_IP) {
        return found.foreign(device, format!("filter {preference}"));
    }
    // Of each filter there are also messages for its table, without anything to look for.
    let Some(sel) = attribute(about.options(), TCA_U32_SEL) else { return };
    let class = attribute(about.options(), TCA_U32_CLASSID).and_then(|value| number(value, 0)).map(u32::from_ne_bytes);
    let has_more = TCA_U32_MORE.iter().any(|more| attribute(about.options(), *more).is_some());
    let minor = class.filter(|class| class >> 16 == u32::from(ROOT_MAJOR)).map(|class| (class & 0xffff) as u16);
    let (Some(minor), Some(words), false) = (minor, words_of(sel), has_more) else {
        return found.foreign(device, format!("filter {preference}"));
    };
    let selector = Match::of_words(&words, is_v6).map_or(Selector::Odd(words), Selector::Of);
    let item = Item::Filter(Filter { device: device.to_owned(), preference, is_v6, selector, minor });
    match found.items.contains_key(&item.key()) {
        // Ours are one each.
        true => found.foreign(device, format!("a second filter {preference}")),
        false => found.add(item),
    }
}

fn words_of(sel: &[u8]) -> Option<Vec<Word>> {
    let count = usize::from(*sel.get(2)?);
    let word = |chunk: &[u8]| {
        Some(Word {
            mask: number(chunk, 0).map(u32::from_be_bytes)?,
            value: number(chunk, 4).map(u32::from_be_bytes)?,
            offset: number(chunk, 8).map(i32::from_ne_bytes)?,
        })
    };
    let words: Vec<Word> =
        sel.get(SEL_BYTES..)?.chunks_exact(KEY_BYTES).take(count).map(word).collect::<Option<_>>()?;
    (words.len() == count).then_some(words)
}
