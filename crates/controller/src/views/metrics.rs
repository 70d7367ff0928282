//! Metrics for Prometheus, read now.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use api::rest::{Estimate, Path, PathState};

use super::{classes, links};
use crate::core::Core;

type Level = Gauge<u64, AtomicU64>;
/// A number that is not whole.
type Real = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClass {
    class: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLink {
    link: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPath {
    /// Empty for the usual one.
    path: String,
    from: String,
    to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PathEstimate {
    path: String,
    from: String,
    to: String,
    /// `value`, `low` or `high`.
    estimate: &'static str,
}

/// Microseconds in a second, parts per million in a whole.
const MILLION: f64 = 1e6;
/// Paths of which there are metrics; the API lists all.
const PATHS_MAX: usize = 1024;

/// All metrics as text.
///
/// # Errors
/// Never: a text takes all that is written.
pub(crate) fn metrics(core: &Core) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("longhaul_controller");
    counts(core, &mut registry);
    of_classes(core, &mut registry);
    of_links(core, &mut registry);
    of_paths(core, &mut registry);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn counts(core: &Core, registry: &mut Registry) {
    of_transfers(core, registry);
    let agents = Family::<State, Level>::default();
    for host in core.state.agents.keys() {
        let state = if core.connected.contains_key(host) { "online" } else { "away" };
        agents.get_or_create(&State { state: state.to_owned() }).inc();
    }
    registry.register("agents", "Agents that are enrolled", agents);
    level(registry, "sessions", "Sessions that run or begin", core.live.len() as u64);
    level(registry, "limits", "Limits from outside that are in force", core.state.limits.len() as u64);
    let down = core.state.links.values().filter(|link| !link.usable).count();
    level(registry, "links_unusable", "Links that are down or held down", down as u64);
    let trouble = core.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    level(registry, "store_trouble", "1 while the store refuses to be written", trouble.into());
    let events = ConstCounter::new(core.log_events());
    registry.register("log_events", "Events in the log", events);
}

fn of_transfers(core: &Core, registry: &mut Registry) {
    let [transfers, files] = std::array::from_fn(|_| Family::<State, Level>::default());
    let mut phases: BTreeMap<&str, u64> = BTreeMap::new();
    let [mut open, mut given, mut done, mut failed] = [0_u64; 4];
    for transfer in core.state.transfers.values() {
        *phases.entry(transfer.phase().word()).or_default() += 1;
        for leg in &transfer.legs {
            open += leg.open(&transfer.listing);
            given += leg.given;
            done += leg.done;
            failed += leg.failed;
        }
    }
    let set = |of: &Family<State, Level>, state: &str, value| {
        of.get_or_create(&State { state: state.to_owned() }).set(value);
    };
    phases.into_iter().for_each(|(phase, count)| set(&transfers, phase, count));
    [("open", open), ("given", given), ("done", done), ("failed", failed)]
        .into_iter()
        .for_each(|(state, count)| set(&files, state, count));
    registry.register("transfers", "Transfers that are remembered", transfers);
    registry.register(
        "files",
        "Files of transfers that are remembered, for each leg; of lists as far as they are known",
        files,
    );
}

fn level(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Level::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn of_classes(core: &Core, registry: &mut Registry) {
    let [allocated, measured, used] = std::array::from_fn(|_| Family::<OfClass, Level>::default());
    for class in classes(core) {
        let of = OfClass { class: class.name };
        allocated.get_or_create(&of).set(class.allocated_bps);
        measured.get_or_create(&of).set(class.measured_bps);
        used.get_or_create(&of).set(class.used_bytes);
    }
    registry.register("class_allocated_bps", "Given to a class and those in it, b/s of IP packets", allocated);
    registry.register(
        "class_measured_bps",
        "What a class and those in it did in the last second, b/s of IP packets",
        measured,
    );
    registry.register("class_used_bytes", "What a class used of late, older bytes counted less", used);
}

fn of_links(core: &Core, registry: &mut Registry) {
    let [allocated, measured, total, mark, usable] = std::array::from_fn(|_| Family::<OfLink, Level>::default());
    for link in links(core) {
        let of = OfLink { link: link.id };
        allocated.get_or_create(&of).set(link.allocated_bps);
        measured.get_or_create(&of).set(link.measured_bps);
        link.total_bps.into_iter().for_each(|rate| {
            total.get_or_create(&of).set(rate);
        });
        link.mark_bps.into_iter().for_each(|rate| {
            mark.get_or_create(&of).set(rate);
        });
        usable.get_or_create(&of).set((link.state == api::rest::LinkState::Up).into());
    }
    registry.register("link_allocated_bps", "Given out on a direction of a link, b/s of IP packets", allocated);
    registry.register("link_measured_bps", "What sessions did over it in the last second, b/s of IP packets", measured);
    registry.register("link_total_bps", "All traffic by its counters, b/s of IP packets", total);
    registry.register("link_mark_bps", "How far it may be filled, b/s of IP packets", mark);
    registry.register("link_usable", "1 if it is used", usable);
}

fn of_paths(core: &Core, registry: &mut Registry) {
    let [answering, sessions] = std::array::from_fn(|_| Family::<OfPath, Level>::default());
    let [rtt, loss] = std::array::from_fn(|_| Family::<PathEstimate, Real>::default());
    let age = Family::<OfPath, Real>::default();
    for Path { name, from, to, state, sessions: over, rtt_us, loss_ppm, .. } in
        core.paths_seen().into_iter().take(PATHS_MAX)
    {
        let of = OfPath { path: name.unwrap_or_default(), from, to };
        answering.get_or_create(&of).set((state == PathState::Answering).into());
        sessions.get_or_create(&of).set(over);
        for (family, estimate) in [(&rtt, rtt_us), (&loss, loss_ppm)] {
            let Some(Estimate { value, low, high, .. }) = estimate else { continue };
            for (estimate, number) in [("value", value), ("low", low), ("high", high)] {
                let OfPath { path, from, to } = of.clone();
                family.get_or_create(&PathEstimate { path, from, to, estimate }).set(number as f64 / MILLION);
            }
        }
        if let Some(ms) = [rtt_us, loss_ppm].into_iter().flatten().map(|estimate| estimate.age_ms).min() {
            age.get_or_create(&of).set(ms as f64 / 1e3);
        }
    }
    registry.register("path_answering", "1 if questions over a path are answered", answering);
    registry.register("path_sessions", "Sessions that go over a path", sessions);
    registry.register("path_rtt_seconds", "Round trip of a path: smoothed, shortest and longest of some 10 s", rtt);
    registry.register("path_loss_ratio", "Questions of the last minute without an answer, both ways together", loss);
    registry.register("path_age_seconds", "How old what is known of a path is", age);
}
