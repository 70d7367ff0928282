//! From a network to TOML.

use std::fmt::Write as _;

use units::dscp;

use crate::network::{Direction, Link, Network, NodeKind, Probability, forms, limits};

impl Network {
    /// The description as [`Network::from_toml`] reads it; what that gives is equal to this, if this is within [`limits`].
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut lines = vec![format!("name = {}", quote(&self.name))];
        lines.extend(self.about.as_deref().map(|about| format!("about = {}", quote(about))));
        for site in &self.sites {
            lines.extend(["".into(), "[[site]]".into(), format!("name = {}", quote(&site.name))]);
            if let Some((latitude, longitude)) = site.position {
                lines.extend([format!("latitude = {latitude:?}"), format!("longitude = {longitude:?}")]);
            }
        }
        for node in &self.nodes {
            let kind = if node.kind == NodeKind::Host { "host" } else { "router" };
            lines.extend(["".into(), format!("[[{kind}]]"), format!("name = {}", quote(&node.name))]);
            lines.extend(node.site.map(|site| format!("site = {}", quote(&self.sites[site].name))));
        }
        for link in &self.links {
            let ends = [link.from, link.to].map(|node| quote(&self.nodes[node].name));
            lines.extend(["".into(), "[[link]]".into(), format!("name = {}", quote(&link.name))]);
            lines.push(format!("ends = [{}]", ends.join(", ")));
            let (keys, back) = link_keys(link);
            lines.extend(keys.iter().map(pair));
            if !back.is_empty() {
                lines.push("[link.back]".to_owned());
                lines.extend(back.iter().map(pair));
            }
        }
        for path in &self.paths {
            let [from, to] = [path.from, path.to].map(|node| quote(&self.nodes[node].name));
            let links: Vec<String> = path.links.iter().map(|link| quote(&self.links[*link].name)).collect();
            lines.extend(["".into(), "[[path]]".into(), format!("name = {}", quote(&path.name))]);
            lines.extend([format!("from = {from}"), format!("to = {to}"), format!("links = [{}]", links.join(", "))]);
            lines.extend(path.addresses.map(|[from, to]| format!("addresses = [\"{from}\", \"{to}\"]")));
            lines.extend(path.marks.dscp.map(|point| format!("dscp = {}", quote(&dscp::show(point)))));
            lines.extend(path.marks.flow_label.map(|label| format!("flow_label = {label:#07x}")));
        }
        lines.join("\n") + "\n"
    }
}

/// A key with its value as TOML.
pub(crate) type Pair = (&'static str, String);

fn pair((key, value): &Pair) -> String {
    format!("{key} = {value}")
}

/// What is to be said of a link beyond its name and ends, and what of its way back is otherwise.
pub(crate) fn link_keys(link: &Link) -> (Vec<Pair>, Vec<Pair>) {
    let mut keys = direction_keys(&link.forward, &Direction::default());
    if link.mtu != limits::MTU_DEFAULT {
        keys.push(("mtu", link.mtu.to_string()));
    }
    if !link.risks.is_empty() {
        let risks: Vec<String> = link.risks.iter().map(|risk| quote(risk)).collect();
        keys.push(("risks", format!("[{}]", risks.join(", "))));
    }
    if link.cost != limits::COST_DEFAULT {
        keys.push(("cost", link.cost.to_string()));
    }
    keys.extend(link.high_water_ppm.map(|ppm| ("high_water", quote(&forms::high_water_text(ppm)))));
    keys.extend(link.bundle.as_deref().map(|bundle| ("bundle", quote(bundle))));
    (keys, direction_keys(&link.backward, &link.forward))
}

/// What of `direction` is not as in `base`.
fn direction_keys(direction: &Direction, base: &Direction) -> Vec<Pair> {
    let Direction { rate, delay, jitter, loss, queue, ecn, duplicate, corrupt } = direction;
    let or_none = |text: Option<String>| quote(text.as_deref().unwrap_or(forms::NONE));
    let chance = |probability: &Probability| forms::probability_text(*probability);
    let mut keys = Vec::new();
    let mut say = |differs: bool, key: &'static str, value: String| {
        if differs {
            keys.push((key, value));
        }
    };
    say(*rate != base.rate, "rate", or_none(rate.map(|rate| format!("{rate:#}"))));
    say(*delay != base.delay, "delay", quote(&forms::span_text(*delay)));
    say(jitter.amount != base.jitter.amount, "jitter", quote(&forms::span_text(jitter.amount)));
    say(jitter.reorder != base.jitter.reorder, "reorder", jitter.reorder.to_string());
    say(*loss != base.loss, "loss", forms::loss_text(*loss));
    say(*queue != base.queue, "queue", or_none(queue.map(forms::queue_text)));
    say(*ecn != base.ecn, "ecn", or_none(ecn.map(forms::queue_text)));
    say(*duplicate != base.duplicate, "duplicate", chance(duplicate));
    say(*corrupt != base.corrupt, "corrupt", chance(corrupt));
    keys
}

/// As a basic string (TOML 1.0).
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => write!(quoted, "\\u{:04X}", u32::from(c)).expect("a string takes everything"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
