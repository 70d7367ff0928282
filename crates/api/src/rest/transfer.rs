//! Transfers: what is asked for, and how it goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{checked_path, shown};
use super::{
    AFTER_MAX, Assurance, Check, DESTINATIONS_MAX, FILES_MAX, Location, SOURCES_MAX, STREAMS_MAX, Time, TransferId,
    URGENCY_MAX, Wrong, checked_limit, checked_name, checked_text,
};
use crate::Name;
use crate::agent::Cause;

/// Digests that are known, as `copy --checksum` calls them.
pub const CHECKSUMS: [&str; 6] = ["adler32", "crc32c", "md5", "sha256", "blake3", "xxh3"];

/// `POST /transfers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For whom. A submitter's token says it; with another's, the collaboration called like the class, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collaboration: Option<String>,
    /// Where the same files are; any of them may serve.
    pub sources: Vec<Location>,
    /// Where to; or `destinations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Location>,
    /// Where to, each a leg of its own; or `destination`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<Location>,
    /// Names beneath the source; without them all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Name>,
    /// The class of work.
    pub class: String,
    /// Inside its class, higher goes first.
    #[serde(default)]
    pub urgency: u8,
    /// When it should be done; it goes before others then, but nothing is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Keep a digest of each file: `adler32`, `crc32c`, `md5`, `sha256`, `blake3` or `xxh3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// What the data are protected against on their way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<Protect>,
    /// When a file at the destination is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite: Option<Overwrite>,
    /// Congestion control by name; each agent chooses if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Data streams of a session at most; as many as help if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u16>,
    /// Transfers that must be done before this one begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TransferId>,
}

/// What data are protected against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protect {
    /// Accidents.
    Clear,
    /// Accidents and tampering.
    Integrity,
    /// Accidents, tampering and reading.
    Private,
}

/// When a file at the destination is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overwrite {
    /// Never.
    Never,
    /// If it is another.
    Changed,
    /// Always.
    Always,
}

impl TransferRequest {
    /// All destinations, however they were written.
    pub fn all_destinations(&self) -> impl Iterator<Item = &Location> {
        self.destination.iter().chain(&self.destinations)
    }
}

impl Check for TransferRequest {
    fn check(&self) -> Result<(), Wrong> {
        if let Some(name) = &self.name {
            checked_text("name", name)?;
        }
        if let Some(collaboration) = &self.collaboration {
            checked_name("collaboration", collaboration)?;
        }
        checked_name("class", &self.class)?;
        self.check_places()?;
        self.check_files()?;
        self.check_how()
    }
}

impl TransferRequest {
    fn check_places(&self) -> Result<(), Wrong> {
        if !(1..=SOURCES_MAX).contains(&self.sources.len()) {
            return Err(Wrong::new("sources", format!("there are {}: name 1 to {SOURCES_MAX}", self.sources.len())));
        }
        if self.destination.is_some() != self.destinations.is_empty() {
            return Err(Wrong::new("destination", "give either `destination` or `destinations`"));
        }
        if self.destinations.len() > DESTINATIONS_MAX {
            let many = self.destinations.len();
            return Err(Wrong::new("destinations", format!("there are {many}: name at most {DESTINATIONS_MAX}")));
        }
        for (n, place) in self.destinations.iter().enumerate() {
            if self.destinations[..n].contains(place) {
                return Err(Wrong::new("destinations", format!("`{place}` is there twice: name it once")));
            }
        }
        match self.all_destinations().find(|place| self.sources.contains(place)) {
            Some(place) => {
                Err(Wrong::new("destination", format!("`{place}` is also a source: nothing is to be moved")))
            }
            None => Ok(()),
        }
    }

    fn check_files(&self) -> Result<(), Wrong> {
        if self.files.len() > FILES_MAX {
            let why = format!(
                "there are {}: at most {FILES_MAX} go into one transfer, submit more of them",
                self.files.len()
            );
            return Err(Wrong::new("files", why));
        }
        for (n, name) in self.files.iter().enumerate() {
            let wrong =
                |why: String| Wrong::new(format!("files[{n}]"), format!("`{}`: {why}", shown(&name.to_string())));
            checked_path(&name.0).map_err(wrong)?;
            let parts = || name.0.split(|byte| *byte == b'/');
            if parts().any(|part| part.is_empty() || part == b".") {
                return Err(wrong("a name is relative to the source: no slash at its begin or end, no `.`".to_owned()));
            }
        }
        let mut sorted: Vec<&Name> = self.files.iter().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => {
                Err(Wrong::new("files", format!("`{}` is there twice: name it once", shown(&two[0].to_string()))))
            }
            None => Ok(()),
        }
    }

    fn check_how(&self) -> Result<(), Wrong> {
        if self.urgency > URGENCY_MAX {
            return Err(Wrong::new("urgency", format!("{} is more than {URGENCY_MAX}", self.urgency)));
        }
        if let Some(kind) = &self.checksum
            && !CHECKSUMS.contains(&kind.as_str())
        {
            let why = format!("`{}` is not known: give one of {}", shown(kind), CHECKSUMS.join(", "));
            return Err(Wrong::new("checksum", why));
        }
        if let Some(name) = &self.congestion {
            // As long as the kernel's names may be (TCP_CA_NAME_MAX).
            let fits = name.len() < 16 && !name.is_empty();
            if !fits || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)) {
                let why = format!("`{}` is no congestion control: write for example `cubic` or `bbr`", shown(name));
                return Err(Wrong::new("congestion", why));
            }
        }
        if let Some(streams) = self.streams
            && !(1..=STREAMS_MAX).contains(&streams)
        {
            return Err(Wrong::new("streams", format!("{streams} is not from 1 to {STREAMS_MAX}")));
        }
        if self.after.len() > AFTER_MAX {
            return Err(Wrong::new("after", format!("there are {}: at most {AFTER_MAX}", self.after.len())));
        }
        Ok(())
    }
}

/// A transfer that was taken: it is on stable storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// Its number.
    pub id: TransferId,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransferState {
    /// For others that must be done before.
    Waiting,
    /// What it is of is being read.
    Listing,
    /// For a place.
    Queued,
    /// Bytes move.
    Moving,
    /// Somebody paused it.
    Paused,
    /// Until it is tried again.
    Retrying,
    /// Every file is in place.
    Done,
    /// It ended, and some files failed.
    Partly,
    /// It ended, and nothing is in place that was not before.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
}

impl TransferState {
    /// Whether nothing comes after it.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, TransferState::Done | TransferState::Partly | TransferState::Failed | TransferState::Cancelled)
    }
}

/// A transfer and how it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Its number.
    pub id: TransferId,
    /// What people call it; empty if they do not.
    pub name: String,
    /// For whom.
    pub collaboration: String,
    /// The class of work.
    pub class: String,
    /// Inside its class, higher goes first.
    pub urgency: u8,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Where it stands.
    pub state: TransferState,
    /// Why it stands there and does not go on, or why it is as fast as it is; always something.
    pub reason: String,
    /// What it waits for, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Until when, if somebody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Where from.
    pub sources: Vec<Location>,
    /// File bytes, of all legs.
    pub bytes_total: u64,
    /// File bytes in place, of all legs.
    pub bytes_done: u64,
    /// Files, of all legs; 0 while it is not known.
    pub files_total: u64,
    /// Files in place.
    pub files_done: u64,
    /// Files that failed.
    pub files_failed: u64,
    /// Measured in the last second, b/s of IP packets.
    pub rate_bps: u64,
    /// What is given to it, b/s of IP packets.
    pub allocated_bps: u64,
    /// How sure that is.
    #[serde(default)]
    pub assurance: Assurance,
    /// One for each destination. In a list they are without sessions.
    pub legs: Vec<Leg>,
    /// Transfers that must be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TransferId>,
    /// Whose token it was submitted with.
    pub submitted_by: String,
    /// When.
    pub submitted_at: Time,
    /// When bytes first moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
}

/// What goes to one destination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Leg {
    /// From 1.
    pub number: u32,
    /// Where to.
    pub destination: Location,
    /// Where it stands.
    pub state: TransferState,
    /// Why.
    pub reason: String,
    /// File bytes.
    pub bytes_total: u64,
    /// File bytes in place.
    pub bytes_done: u64,
    /// Files.
    pub files_total: u64,
    /// Files in place.
    pub files_done: u64,
    /// Files that failed.
    pub files_failed: u64,
    /// Measured in the last second, b/s of IP packets.
    pub rate_bps: u64,
    /// What runs now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<Session>,
}

/// A run of a mover between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// Directions of links that it takes, in turn.
    pub path: Vec<String>,
    /// What is given to it, b/s of IP packets.
    pub allocated_bps: u64,
    /// Measured in the last second, b/s of IP packets.
    pub rate_bps: u64,
    /// Data streams open.
    pub streams: u16,
    /// What limited the last second, as `copy` calls it.
    pub limit: String,
    /// Smoothed round trip, mean over streams, µs; not there if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    /// Congestion windows, sum over streams, bytes; not there if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    /// Segments sent again since the session began.
    #[serde(default)]
    pub retransmits: u64,
}

/// Where a file of a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// It is to be moved.
    Open,
    /// A session has it.
    Given,
    /// It is in place.
    Done,
    /// It failed.
    Failed,
}

/// A file of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    /// Beneath the source; empty for a source that is one file.
    pub name: Name,
    /// Bytes.
    pub size_bytes: u64,
    /// Of which leg, from 1.
    pub leg: u32,
    /// Where it stands.
    pub state: FileState,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What happened, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Its digest, in hexadecimal, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// `PATCH /transfers/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchRequest {
    /// The class it is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The urgency it is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency: Option<u8>,
}

impl Check for PatchRequest {
    fn check(&self) -> Result<(), Wrong> {
        match (&self.class, self.urgency) {
            (None, None) => Err(Wrong::new("class", "nothing is to be changed: give `class` or `urgency`")),
            (_, Some(urgency)) if urgency > URGENCY_MAX => {
                Err(Wrong::new("urgency", format!("{urgency} is more than {URGENCY_MAX}")))
            }
            (Some(class), _) => checked_name("class", class),
            (None, Some(_)) => Ok(()),
        }
    }
}

/// `GET /transfers`: which, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferQuery {
    /// Only those that stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TransferState>,
    /// Only those of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// What the page before gave as `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl Check for TransferQuery {
    fn check(&self) -> Result<(), Wrong> {
        if let Some(class) = &self.class {
            checked_name("class", class)?;
        }
        checked_cursor(self.cursor.as_deref())?;
        checked_limit(self.limit)
    }
}

/// `GET /transfers/{id}/files`: which, and how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesQuery {
    /// Only those that stand there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FileState>,
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// What the page before gave as `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl Check for FilesQuery {
    fn check(&self) -> Result<(), Wrong> {
        checked_cursor(self.cursor.as_deref())?;
        checked_limit(self.limit)
    }
}

fn checked_cursor(cursor: Option<&str>) -> Result<(), Wrong> {
    match cursor {
        Some(cursor) => checked_name("cursor", cursor)
            .map_err(|_| Wrong::new("cursor", "it is none that a page gave as `next`: begin without one")),
        None => Ok(()),
    }
}
