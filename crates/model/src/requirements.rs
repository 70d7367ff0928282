//! What experiments take and when, and what is made of it to know what links must carry.
//!
//! ```toml
//! name = "my experiment"
//!
//! [[experiment]]
//! name = "detector"
//! volume = "2 PB"
//! time = "30 d"
//!
//! [[factor]]
//! name = "overprovisioning"
//! times = 2
//! ```

mod read;

use std::time::Duration;

use units::{Bytes, Goodput};

use crate::network::Ratio;
use crate::network::error::NetworkError;

/// Why a file is no requirements, with line and thing: of one form with what is said of networks.
pub type RequirementsError = NetworkError;

/// Bytes of a file.
pub const TEXT_MAX: usize = 1 << 20;
/// Experiments, and targets.
pub const ENTRIES_MAX: usize = 1000;
/// Factors, one after the other.
pub const FACTORS_MAX: usize = 16;
/// Characters of a name or of something that is left out.
pub const NAME_MAX: usize = 40;
/// What one experiment needs at most: the sum over [`ENTRIES_MAX`] of them fits 64 bits.
pub const GOODPUT_MAX: Goodput = Goodput::from_bps(10_000_000_000_000_000);
/// The longest that volumes are taken in, and the longest growth, in years.
pub const YEARS_MAX: u32 = 1000;

/// Volumes and rates of experiments, and the model that makes rates of links of them.
///
/// All rates are of file bytes. What they are made of is the user's to say; nothing is added that is not in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// What they are called.
    pub name: String,
    /// What they are, in a sentence.
    pub about: Option<String>,
    /// In the order of the file.
    pub experiments: Vec<Experiment>,
    /// What the sum is multiplied by, one after the other.
    pub factors: Vec<Factor>,
    /// Shares to be reached on a certain occasion.
    pub targets: Vec<Target>,
    /// How the need grows.
    pub growth: Option<Growth>,
    /// What the model leaves out.
    pub left_out: Vec<String>,
}

/// What one experiment needs; the sum of what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Data, and the time in which they are taken and must be sent.
    pub taken: Option<(Bytes, Duration)>,
    /// A rate that is known.
    pub rate: Option<Goodput>,
    /// What must be sent at once besides, such as prompt reconstruction.
    pub prompt: Option<Goodput>,
}

/// A factor on everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// What it is for.
    pub name: String,
    /// How much.
    pub times: Ratio,
    /// What the product is called.
    pub gives: Option<String>,
}

/// A share of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// On which occasion.
    pub name: String,
    /// How much, in parts per million.
    pub share_ppm: u32,
    /// After how many factors.
    pub after: usize,
}

/// So many times as much in so many years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// How much more.
    pub times: Ratio,
    /// In how long.
    pub years: u32,
}

impl Requirements {
    /// Reads a file; `file_name` is what messages call it.
    ///
    /// # Errors
    /// The first thing in the file that is not as it should be, with its line and the way out.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Requirements, RequirementsError> {
        read::requirements(text, file_name)
    }

    /// The requirements that come along: those of the High-Luminosity LHC, as published.
    #[must_use]
    pub fn hl_lhc() -> Requirements {
        let text = include_str!("../../../requirements/hl-lhc.toml");
        Requirements::from_toml(text, "hl-lhc.toml").expect("a test reads what comes along")
    }
}

impl Experiment {
    /// What its volume is in the mean over its time; rounded up.
    ///
    /// `None` without a volume.
    #[must_use]
    pub fn mean(&self) -> Option<Goodput> {
        let (volume, time) = self.taken?;
        let bits = u128::from(volume.get()) * 8 * 1_000_000_000;
        let bps = bits.div_ceil(time.as_nanos());
        Some(Goodput::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    /// All that it needs.
    #[must_use]
    pub fn sum(&self) -> Goodput {
        [self.mean(), self.rate, self.prompt]
            .into_iter()
            .flatten()
            .fold(Goodput::ZERO, |sum, part| sum.checked_add(part).unwrap_or(Goodput::MAX))
    }
}
