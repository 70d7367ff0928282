//! `serve.toml` as it is written: syntax and types only. Values that are checked later remember where they stood.

use std::path::PathBuf;

use api::agent::Way;
use serde::Deserialize;
use toml::Spanned;
use units::{Bytes, Rate};

use super::Log;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) listen: Option<Spanned<String>>,
    pub(super) state_dir: Option<Spanned<PathBuf>>,
    pub(super) metrics: Option<Spanned<String>>,
    pub(super) log: Option<Log>,
    #[serde(default)]
    pub(super) addresses: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) root: Vec<RawRoot>,
    #[serde(default)]
    pub(super) limits: RawLimits,
    #[serde(default)]
    pub(super) hooks: RawHooks,
    #[serde(default)]
    pub(super) tests: RawAllow,
    #[serde(default)]
    pub(super) relay: RawAllow,
    pub(super) door: Option<Spanned<RawDoor>>,
    pub(super) controller: Option<Spanned<RawController>>,
    #[serde(default)]
    pub(super) grant: Vec<RawGrant>,
    #[serde(default)]
    pub(super) counter: Vec<RawCounter>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDoor {
    pub(super) socket: Option<Spanned<PathBuf>>,
    pub(super) user: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawController {
    pub(super) address: Option<Spanned<String>>,
    pub(super) fingerprint: Option<Spanned<String>>,
    pub(super) enrol_token_file: Option<Spanned<PathBuf>>,
    pub(super) host_rate: Option<Spanned<Rate>>,
    pub(super) core_rate: Option<Spanned<Rate>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGrant {
    pub(super) controller: Spanned<String>,
    pub(super) collaboration: Spanned<String>,
    pub(super) root: Spanned<PathBuf>,
    #[serde(default)]
    pub(super) read: bool,
    #[serde(default)]
    pub(super) write: bool,
    pub(super) rate: Option<Spanned<Rate>>,
    #[serde(default)]
    pub(super) hooks: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCounter {
    pub(super) interface: Spanned<String>,
    pub(super) link: Spanned<String>,
    pub(super) sends: Way,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRoot {
    pub(super) path: Spanned<PathBuf>,
    #[serde(default)]
    pub(super) write: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) sessions: Option<Spanned<i64>>,
    pub(super) streams: Option<Spanned<i64>>,
    pub(super) handshakes: Option<Spanned<i64>>,
    pub(super) memory: Option<Spanned<Bytes>>,
    pub(super) rate: Option<Spanned<Rate>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHooks {
    pub(super) before_file: Option<Spanned<String>>,
    pub(super) after_file: Option<Spanned<String>>,
    pub(super) before_dataset: Option<Spanned<String>>,
    pub(super) after_dataset: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAllow {
    #[serde(default = "yes")]
    pub(super) allow: bool,
}

impl Default for RawAllow {
    fn default() -> RawAllow {
        RawAllow { allow: yes() }
    }
}

fn yes() -> bool {
    true
}
