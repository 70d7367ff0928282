//! What a door counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::counter;
use crate::door::{Backend, Tally};

/// A door and its instances.
pub(super) struct Door {
    pub(super) tally: Arc<Tally>,
    pub(super) backends: Arc<[Arc<Backend>]>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}

impl Collector for Door {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Tally { accepted, no_place, silent, unreadable, nobody, away, full, probes_in, probes_out, probes_lost } =
            &*self.tally;
        let plain = [
            ("longhaul_door_accepted", "Connections accepted", accepted),
            ("longhaul_door_probes_in", "Probes that arrived and were handed to an instance", probes_in),
            ("longhaul_door_probes_out", "Probes sent for instances", probes_out),
            ("longhaul_door_probes_lost", "Probes that could not be handed on or sent", probes_lost),
        ];
        for (name, help, value) in plain {
            counter(&mut encoder, name, help, value.load(Ordering::Relaxed))?;
        }
        let closed = [
            ("no_place", no_place),
            ("silent", silent),
            ("unreadable", unreadable),
            ("nobody", nobody),
            ("away", away),
            ("full", full),
        ];
        let help = "Connections closed without being handed over, by reason";
        let closed = closed.into_iter().map(|(reason, value)| (reason, value.load(Ordering::Relaxed)));
        family(&mut encoder, ("longhaul_door_closed", help), "reason", closed, ConstCounter::new)?;
        let instances = || self.backends.iter();
        let handed = instances().map(|one| (one.name(), one.handed()));
        let help = "Connections handed over, by instance";
        family(&mut encoder, ("longhaul_door_handed", help), "instance", handed, ConstCounter::new)?;
        let here = instances().map(|one| (one.name(), u64::from(one.is_here())));
        let help = "Whether the instance is there";
        family(&mut encoder, ("longhaul_door_instance_connected", help), "instance", here, ConstGauge::new)
    }
}

/// A metric with one label.
fn family<'a, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    label: &str,
    values: impl Iterator<Item = (&'a str, u64)>,
    metric: impl Fn(u64) -> M,
) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, None, metric(0).metric_type())?;
    for (of, value) in values {
        metric(value).encode(encoder.encode_family(&[(label, of)])?)?;
    }
    Ok(())
}
