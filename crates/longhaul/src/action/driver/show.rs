//! What the driver says, for people and as JSON.

use driver::difference::Step;
use driver::item::{Item, Match, Selector};
use driver::{Done, Found};
use serde_json::{Value, json};
use units::{Bytes, dscp};

/// Steps that were done, or would be.
pub(super) fn steps(done: &Done, are_done: bool, as_json: bool) -> String {
    if as_json {
        let steps: Vec<Value> = done.steps.iter().map(step).collect();
        return format!("{}\n", json!({ "applied": are_done, "steps": steps }));
    }
    match done.steps.as_slice() {
        [] => "nothing to do: it is as wished\n".to_owned(),
        steps => steps.iter().map(|step| format!("{step}\n")).collect(),
    }
}

fn step(step: &Step) -> Value {
    match step {
        Step::Change { from, to } => json!({ "do": step.word(), "from": item(from), "item": item(to) }),
        Step::Add(of) | Step::Remove(of) => json!({ "do": step.word(), "item": item(of) }),
    }
}

/// What is there.
pub(super) fn found(found: &Found, as_json: bool) -> String {
    if as_json {
        let items: Vec<Value> = found.items.values().map(item).collect();
        let carried = found.carried.iter().map(|((device, minor), of)| {
            json!({
                "interface": device, "class": minor, "bytes": of.bytes, "packets": of.packets,
                "dropped_packets": of.dropped, "waiting_bytes": of.waiting_bytes,
            })
        });
        let foreign = found.devices.iter().filter(|(_, device)| !device.foreign.is_empty());
        let foreign: Vec<Value> =
            foreign.map(|(name, device)| json!({ "interface": name, "foreign": device.foreign })).collect();
        let told = json!({ "items": items, "carried": carried.collect::<Vec<_>>(), "inside_ours": foreign });
        return format!("{told}\n");
    }
    if found.items.is_empty() {
        return "nothing here is of the driver's making\n".to_owned();
    }
    let mut text: String = found.items.values().map(|item| format!("{item}\n")).collect();
    for ((device, minor), of) in &found.carried {
        let (sent, waits) = (Bytes::new(of.bytes), Bytes::new(of.waiting_bytes));
        text += &format!(
            "{device}: class {minor:x} has carried {sent} in {} packets, dropped {}, holds {waits}\n",
            of.packets, of.dropped
        );
    }
    for (name, device) in found.devices.iter().filter(|(_, device)| !device.foreign.is_empty()) {
        text += &format!("{name}: others have hung into it: {}\n", device.foreign.join(", "));
    }
    text
}

fn item(item: &Item) -> Value {
    match item {
        Item::Route(of) => json!({
            "kind": "route", "table": of.table, "to": of.to.to_string(), "metric": of.metric, "via": of.via, "interface": of.device,
        }),
        Item::Rule(of) => {
            let what = Match { dscp: of.dscp, from: of.from, to: of.to };
            let mut matched = matched(&what);
            matched["flow_label"] = of.flow_label.map(|label| format!("{label:#07x}")).into();
            json!({ "kind": "rule", "priority": of.priority, "ipv6": of.is_v6, "match": matched, "table": of.table })
        }
        Item::Root { device } => json!({ "kind": "root", "interface": device }),
        Item::Class(of) => json!({
            "kind": "class", "interface": of.device, "class": of.minor, "floor_bps": of.floor.bps(), "ceiling_bps": of.ceiling.bps(),
        }),
        Item::Queue { device, minor, limit } => {
            json!({ "kind": "queue", "interface": device, "class": minor, "limit_bytes": limit.get() })
        }
        Item::Filter(of) => {
            let what = match &of.selector {
                Selector::Of(what) => matched(what),
                Selector::Odd(words) => json!({ "words": words.len() }),
            };
            json!({
                "kind": "filter", "interface": of.device, "preference": of.preference, "ipv6": of.is_v6, "match": what, "class": of.minor,
            })
        }
    }
}

fn matched(what: &Match) -> Value {
    let prefix = |prefix: Option<driver::Prefix>| prefix.map(|prefix| prefix.to_string());
    json!({ "dscp": what.dscp.map(dscp::show), "from": prefix(what.from), "to": prefix(what.to) })
}
