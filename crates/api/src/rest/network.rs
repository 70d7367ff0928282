//! The network and who shares it, as it is seen and changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Assurance, Check, Estimate, HOSTS_MAX, LIMIT_SECONDS_MAX, NAME_MAX, SAMPLES_MAX, Time, Wrong, checked_agent,
    checked_name, checked_seconds, checked_text,
};
use crate::Name;

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The link's name and its way, such as `ana:forward`.
    pub id: String,
    /// Where it begins.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Its rate, b/s of IP packets; without one it is as fast as the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    /// How far Longhaul may fill it now, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_bps: Option<u64>,
    /// What others have booked of it now, b/s of IP packets; not there if that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked_bps: Option<u64>,
    /// What is given out, b/s of IP packets.
    pub allocated_bps: u64,
    /// How sure that is, and what may be: `estimate` where it follows what is counted of traffic at large.
    #[serde(default)]
    pub assurance: Assurance,
    /// What Longhaul's sessions measured in the last second, b/s of IP packets.
    pub measured_bps: u64,
    /// What all traffic was by the counters of the link, b/s of IP packets; not there without a source of counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bps: Option<u64>,
    /// Age of the counters, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_age_seconds: Option<u64>,
    /// Who counted, as it calls itself, or `agent HOST interface NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_by: Option<String>,
    /// Of that what is not Longhaul's, b/s of IP packets: flexible marks follow the low end, as what is above it may be what a session did
    /// that has not told it yet. It counts for 180 s; not there before it is known what Longhaul's own did meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_large_bps: Option<Estimate>,
    /// Whether it works.
    pub state: LinkState,
    /// Why it is in this state, in words.
    pub reason: String,
    /// When it is used again, if it is held down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Whether a link works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// It does.
    Up,
    /// Probes are missing that went over it.
    Suspect,
    /// It does not.
    Down,
    /// It works again, but is not used yet.
    HoldDown,
}

/// A storage with the agents that see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Endpoint {
    /// What it is called.
    pub name: String,
    /// Hosts whose agents see the storage.
    pub hosts: Vec<String>,
    /// Beneath which directory, absolute.
    pub root: Name,
    /// Those of the hosts whose agents are connected and take part.
    pub online: Vec<String>,
}

/// `PUT /endpoints/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointRequest {
    /// Hosts whose agents see the storage.
    pub hosts: Vec<String>,
    /// Beneath which directory, absolute; `/` if not given.
    #[serde(default = "top")]
    pub root: Name,
}

fn top() -> Name {
    Name(b"/".to_vec())
}

impl Check for EndpointRequest {
    fn check(&self) -> Result<(), Wrong> {
        if !(1..=HOSTS_MAX).contains(&self.hosts.len()) {
            return Err(Wrong::new("hosts", format!("there are {}: name 1 to {HOSTS_MAX}", self.hosts.len())));
        }
        for (n, host) in self.hosts.iter().enumerate() {
            checked_agent("hosts", host)?;
            if self.hosts[..n].contains(host) {
                return Err(Wrong::new("hosts", format!("`{host}` is there twice: name it once")));
            }
        }
        if !self.root.0.starts_with(b"/") {
            return Err(Wrong::new("root", "it is not absolute: begin it with `/`"));
        }
        super::text::checked_path(&self.root.0).map_err(|why| Wrong::new("root", why))
    }
}

/// A class of work, with what it has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Class {
    /// What it is called.
    pub name: String,
    /// The class that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// 0 is served first.
    pub tier: u8,
    /// Its part, beside the others of the same parent.
    pub weight: u32,
    /// What it gets whatever the others have, b/s of IP packets.
    pub floor_bps: u64,
    /// What it may have, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_bps: Option<u64>,
    /// What it used of late, bytes of IP packets, older ones counted less by the half-life.
    pub used_bytes: u64,
    /// Transfers that are not ended.
    pub transfers: u64,
    /// What is given to it, b/s of IP packets.
    pub allocated_bps: u64,
    /// What its sessions measured in the last second, b/s of IP packets.
    pub measured_bps: u64,
    /// Marks that are its own.
    pub marks: Vec<ClassMark>,
}

/// A mark of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassMark {
    /// What it is called.
    pub name: String,
    /// Where it stands now, b/s of IP packets.
    pub mark_bps: u64,
    /// What is given out beneath it, b/s of IP packets.
    pub allocated_bps: u64,
}

/// What became of a file of the network or of its shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Rises with each change.
    pub version: u64,
    /// What whoever sent it should know, in words.
    pub notes: Vec<String>,
}

/// A limit that was imposed from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// On what: a link (both ways, `link:ana`), a direction of one (`link:ana:forward`), a mark (`mark:ocean`), a host
    /// (`host:dtn1`), a class (`class:cms`).
    pub resource: String,
    /// The most that Longhaul may use of it, b/s of IP packets.
    pub rate_bps: u64,
    /// Until when.
    pub until: Time,
    /// Whose token imposed it.
    pub by: String,
    /// Why.
    pub why: String,
}

/// `PUT /limits/{resource}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// The most that Longhaul may use of it, b/s of IP packets; 0 stops it.
    pub rate_bps: u64,
    /// For how long, s.
    pub for_seconds: u64,
    /// Why, for whoever asks later.
    pub why: String,
}

impl Check for LimitRequest {
    fn check(&self) -> Result<(), Wrong> {
        checked_seconds("for_seconds", Some(self.for_seconds), LIMIT_SECONDS_MAX)?;
        if self.why.is_empty() {
            return Err(Wrong::new("why", "it is empty: say why, for whoever is slowed down by it"));
        }
        checked_text("why", &self.why)
    }
}

/// `POST /counters`: what all traffic on links was, from whoever can read that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Who counted, such as `snmp-geneva`.
    pub source: String,
    /// At most [`SAMPLES_MAX`].
    pub samples: Vec<CounterSample>,
}

/// What a direction of a link carried: a rate, or a counter whose difference from the last one is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterSample {
    /// The direction of the link.
    pub link: String,
    /// All traffic, b/s of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// All traffic since the counter began, bytes of IP packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// How long ago it was read, ms.
    #[serde(default)]
    pub age_ms: u64,
    /// The rate to which whoever counts holds Longhaul's part of it, b/s of IP packets, whatever senders do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enforced_bps: Option<u64>,
}

impl Check for Counters {
    fn check(&self) -> Result<(), Wrong> {
        checked_name("source", &self.source)?;
        if !(1..=SAMPLES_MAX).contains(&self.samples.len()) {
            return Err(Wrong::new("samples", format!("there are {}: send 1 to {SAMPLES_MAX}", self.samples.len())));
        }
        for (n, sample) in self.samples.iter().enumerate() {
            let field = format!("samples[{n}]");
            if sample.link.is_empty() || sample.link.len() > 2 * NAME_MAX {
                return Err(Wrong::new(field, "`link` names no direction of a link: see GET /links"));
            }
            if sample.rate_bps.is_some() == sample.total_bytes.is_some() {
                return Err(Wrong::new(field, "give either `rate_bps` or `total_bytes`"));
            }
        }
        Ok(())
    }
}
