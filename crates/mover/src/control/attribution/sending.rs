//! A second as a sending session counts it.

use std::time::Duration;

use proto::control::Telemetry;

use super::{Destination, PerMille, Second, Source, Tcp};
use crate::report::SendSecond;
use crate::session::streams::Sample;

impl Second {
    /// From the counters of a sending end, its sockets, the last telemetry of the other end, and the busy
    /// share of this host in thousandths.
    #[must_use]
    pub fn sending(second: &SendSecond, sample: &Sample, peer: &Telemetry, host_busy: u16) -> Second {
        let share = |us: u64| PerMille::of(us, second.span.as_micros() as u64);
        Second {
            outstanding: second.frames_free < second.frames,
            moved: sample.acked > 0,
            held: PerMille::of_time(second.held, second.span),
            source: Source {
                empty: share(second.starved_us),
                readers: share(second.disk_busy_us),
                hashing: PerMille::default(),
                net: share(second.net_busy_us),
                host: PerMille::new(host_busy),
            },
            tcp: Tcp {
                busy: Duration::from_micros(sample.busy_us),
                receiver_limited: Duration::from_micros(sample.rwnd_limited_us),
                buffer_limited: Duration::from_micros(sample.sndbuf_limited_us),
                segments: sample.segments,
                retransmitted: sample.retransmits_now,
                window_full: None,
            },
            destination: Destination::from(peer),
        }
    }
}
