//! What an agent or a door counts, for Prometheus: `GET /metrics`; and whether it is well: `GET /healthz`.

mod door;
mod endpoint;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use mover::server::{Counters, ServeLimits};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::controller;
use crate::door::{Backend, Tally};

pub use endpoint::{CONNECTIONS_MAX, IDLE_MAX, serve};

/// What the format is called in HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of one agent, or of one door.
pub struct Metrics {
    registry: Registry,
}

impl Metrics {
    /// Those of an agent that counts with `counters` within `bounds` and began at `start`.
    #[must_use]
    pub fn new(counters: Arc<Counters>, bounds: ServeLimits, start: SystemTime) -> Metrics {
        Metrics::of(Box::new(Sessions { counters, bounds }), start)
    }

    /// Those of a door that counts with `tally` in front of these instances and began at `start`.
    #[must_use]
    pub(crate) fn of_door(tally: Arc<Tally>, backends: Arc<[Arc<Backend>]>, start: SystemTime) -> Metrics {
        Metrics::of(Box::new(door::Door { tally, backends }), start)
    }

    fn of(own: Box<dyn Collector>, start: SystemTime) -> Metrics {
        let mut registry = Registry::default();
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("longhaul_build", "Version of the program", build);
        registry.register_collector(own);
        let start_s = start.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        registry.register_collector(Box::new(Process { start_s }));
        Metrics { registry }
    }

    /// The same with those of the agent's side of its controller.
    #[must_use]
    pub fn with_controller(mut self, tally: Arc<controller::Tally>) -> Metrics {
        self.registry.register_collector(Box::new(Controller { tally }));
        self
    }

    /// All of them as text, read now.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("a String takes all that is written");
        text
    }
}

struct Sessions {
    counters: Arc<Counters>,
    bounds: ServeLimits,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Collector for Sessions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Counters {
            sessions,
            relays,
            sessions_active,
            streams_active,
            refused,
            bytes_in,
            bytes_out,
            files_placed,
            files_failed,
            corrupt,
            retransmits,
        } = &*self.counters;
        let counters = [
            ("longhaul_sessions", "Sessions begun", sessions),
            ("longhaul_relays", "Copies with another agent that this one drove", relays),
            ("longhaul_connections_refused", "Connections refused before a session, by any cause", refused),
            ("longhaul_received_bytes", "File bytes received and verified", bytes_in),
            ("longhaul_sent_bytes", "File bytes sent", bytes_out),
            ("longhaul_files_placed", "Files put in place", files_placed),
            ("longhaul_files_failed", "Files that failed", files_failed),
            ("longhaul_corrupt_parcels", "Parcels that arrived corrupt and were asked for again", corrupt),
            ("longhaul_retransmitted_segments", "TCP segments of data streams sent again", retransmits),
        ];
        for (name, help, value) in counters {
            counter(&mut encoder, name, help, value.load(Ordering::Relaxed))?;
        }
        let now = |value: &AtomicU64| value.load(Ordering::Relaxed);
        gauge(&mut encoder, "longhaul_sessions_active", "Sessions running", now(sessions_active))?;
        gauge(&mut encoder, "longhaul_sessions_limit", "Sessions at once at most", self.bounds.sessions as u64)?;
        gauge(&mut encoder, "longhaul_streams_active", "Data streams open", now(streams_active))?;
        gauge(&mut encoder, "longhaul_streams_limit", "Data streams at once at most", self.bounds.streams as u64)
    }
}

#[derive(Debug)]
struct Controller {
    tally: Arc<controller::Tally>,
}

impl Collector for Controller {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let controller::Tally { connected, connections, sessions, sessions_active, fall_backs } = &*self.tally;
        let now = |value: &AtomicU64| value.load(Ordering::Relaxed);
        gauge(&mut encoder, "longhaul_controller_connected", "Whether the controller is connected", now(connected))?;
        let help = "Sessions driven for the controller now";
        gauge(&mut encoder, "longhaul_controller_sessions_active", help, now(sessions_active))?;
        let help = "Times that the controller took this agent";
        counter(&mut encoder, "longhaul_controller_connections", help, now(connections))?;
        counter(&mut encoder, "longhaul_controller_sessions", "Sessions driven for the controller", now(sessions))?;
        let help = "Times that a lease ended and the fall-back held";
        counter(&mut encoder, "longhaul_controller_lease_fall_backs", help, now(fall_backs))
    }
}

#[derive(Debug)]
struct Process {
    start_s: f64,
}

impl Collector for Process {
    /// Named as Prometheus's own client libraries name them.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Ok(time) = sys::cpu::process_time() {
            counter(&mut encoder, "process_cpu_seconds", "CPU time of the process", time.total().as_secs_f64())?;
        }
        if let Ok(bytes) = sys::cpu::rss_bytes() {
            gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory of the process", bytes)?;
        }
        gauge(&mut encoder, "process_start_time_seconds", "Start of the process since 1970", self.start_s)
    }
}

fn counter<N>(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: N) -> fmt::Result
where
    ConstCounter<N>: EncodeMetric,
{
    let counter = ConstCounter::new(value);
    let encoder = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
    counter.encode(encoder)
}

fn gauge<N>(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: N) -> fmt::Result
where
    ConstGauge<N>: EncodeMetric,
{
    let gauge = ConstGauge::new(value);
    let encoder = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
    gauge.encode(encoder)
}
