//! What interfaces of this host carry, told to the controller for the links that the configuration names.
//!
//! One look at the kernel each [`COUNT_EACH_MS`] has all of them, while the controller is connected.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::agent::{COUNT_EACH_MS, Counted, Way};
use sys::interface::devices;
use sys::netlink::{Netlink, Refused};
use tokio::task::spawn_blocking;
use tokio::time::MissedTickBehavior;

use super::{Site, lock, now};

/// An interface that counts for a link of the controller's network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// The interface of this host.
    pub interface: String,
    /// The link: all that goes through one goes through the other.
    pub link: String,
    /// Which way of the link is what the interface sends.
    pub sends: Way,
}

/// Counts for as long as the agent runs; for ever where there is nothing to count.
pub(super) async fn run(site: Arc<Site>) {
    if site.interfaces.is_empty() {
        return std::future::pending().await;
    }
    let mut each = tokio::time::interval(Duration::from_millis(COUNT_EACH_MS));
    each.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Trouble::default();
    loop {
        each.tick().await;
        if lock(&site.standing).controller.is_none() {
            continue;
        }
        let counters = site.interfaces.clone();
        let Ok(looked) = spawn_blocking(move || look(&counters)).await else { continue };
        match looked {
            Ok(counts) => {
                trouble.note(missing(&site.interfaces, &counts));
                site.tell(|outbox| outbox.counted(counts));
            }
            Err(error) => {
                trouble.note(BTreeSet::from([format!("the kernel does not tell what interfaces carry: {error}")]))
            }
        }
    }
}

/// What the interfaces have carried; nothing of those that are not there.
fn look(counters: &[Counter]) -> Result<Vec<Counted>, Refused> {
    let found = devices(&mut Netlink::open()?)?;
    let read_ms = u64::try_from(now().as_millis()).unwrap_or(u64::MAX);
    let of = |counter: &Counter| {
        let device = found.get(&counter.interface)?;
        Some(Counted {
            interface: counter.interface.clone(),
            link: counter.link.clone(),
            sends: counter.sends,
            sent_bytes: device.sent.ip_bytes(),
            received_bytes: device.received.ip_bytes(),
            read_ms,
        })
    };
    Ok(counters.iter().filter_map(of).collect())
}

fn missing(counters: &[Counter], counts: &[Counted]) -> BTreeSet<String> {
    let is_there = |counter: &&Counter| counts.iter().any(|count| count.interface == counter.interface);
    let gone = counters.iter().filter(|counter| !is_there(counter));
    gone.map(|counter| {
        format!("there is no interface `{}`: nothing is counted for `{}`", counter.interface, counter.link)
    })
    .collect()
}

/// What went wrong at the last look.
#[derive(Default)]
struct Trouble(BTreeSet<String>);

impl Trouble {
    /// Says each trouble once, and that there are none any more.
    fn note(&mut self, is: BTreeSet<String>) {
        is.difference(&self.0).for_each(|text| tracing::warn!("{text}"));
        if is.is_empty() && !self.0.is_empty() {
            tracing::info!("all interfaces of [[counter]] are counted");
        }
        self.0 = is;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_counted_and_what_is_not_is_named() {
        let counter = |interface: &str| Counter {
            interface: interface.to_owned(),
            link: format!("of-{interface}"),
            sends: Way::Forward,
        };
        let counters = [counter("lo"), counter("no-such")];
        let counts = look(&counters).unwrap();
        assert_eq!(counts.iter().map(|count| count.link.as_str()).collect::<Vec<_>>(), ["of-lo"]);
        assert!(counts[0].read_ms > 0, "{counts:?}");
        let told = missing(&counters, &counts);
        assert_eq!(
            told.into_iter().collect::<Vec<_>>(),
            ["there is no interface `no-such`: nothing is counted for `of-no-such`"]
        );
    }
}
