//! The options of the questions about reservations.

use std::path::PathBuf;

use clap::Args;
use units::{Bytes, Rate, Span, Utc};

/// Which network, and what is booked of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Bookings {
    /// A network description, or the name of one that comes with Longhaul
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: PathBuf,

    /// What is booked: reservations, maintenance, grains (docs/plan.md); without it, what is above high-water marks
    #[arg(long, value_name = "FILE")]
    pub(crate) bookings: Option<PathBuf>,

    /// The time that it is taken to be, such as 2026-03-01T06:00:00Z; else the clock's
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<Utc>,

    /// One JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where from and to.
#[derive(Debug, Clone, Args)]
pub(crate) struct Way {
    /// Where it begins: a host or router
    #[arg(value_name = "FROM")]
    pub(crate) from: String,

    /// Where it ends
    #[arg(value_name = "TO")]
    pub(crate) to: String,
}

/// All moments from which on a rate is free for a time, on one path
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  longhaul plan slots caltech cern --topology transatlantic --bookings week.toml --rate 100Gb/s --for 6h")]
pub(crate) struct SlotsArgs {
    #[command(flatten)]
    pub(crate) way: Way,

    /// How much, in bits of IP packets with their headers
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Rate,

    /// How long
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) length: Span,

    /// When it must be over; else 30 days from now
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Utc>,

    #[command(flatten)]
    pub(crate) bookings: Bookings,
}

/// The highest rate that is free in a slot, on one path
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  longhaul plan highest caltech cern --topology transatlantic --start 2026-03-01T06:00:00Z --for 6h")]
pub(crate) struct HighestArgs {
    #[command(flatten)]
    pub(crate) way: Way,

    /// When it begins
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Utc,

    /// How long
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) length: Span,

    #[command(flatten)]
    pub(crate) bookings: Bookings,
}

/// When a volume can have been sent at the earliest: at one rate, at any rate, over all paths
///
/// The first two are over one path, the best of the 8 cheapest.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  longhaul plan volume caltech cern --topology transatlantic --bookings week.toml --size 1PB")]
pub(crate) struct VolumeArgs {
    #[command(flatten)]
    pub(crate) way: Way,

    /// How much, in bytes of IP packets with their headers
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Bytes,

    /// The highest rate that may be used
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,

    /// When it must be over; else 30 days from now
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Utc>,

    #[command(flatten)]
    pub(crate) bookings: Bookings,
}

/// Whether a rate is free in a slot, on one path; if not, what binds and what there is instead
///
/// Nothing is booked. Exits with 4 when it is refused.
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "longhaul plan reserve [OPTIONS] --topology <FILE> --rate <RATE> --start <TIME> \\\n         \
                      --for <SPAN> <FROM> <TO>",
    after_help = "Example:
  longhaul plan reserve caltech cern --topology transatlantic --bookings week.toml \\
    --rate 100Gb/s --start 2026-03-01T06:00:00Z --for 6h"
)]
pub(crate) struct ReserveArgs {
    #[command(flatten)]
    pub(crate) way: Way,

    /// How much, in bits of IP packets with their headers
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Rate,

    /// When it begins
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Utc,

    /// How long
    #[arg(long = "for", value_name = "SPAN")]
    pub(crate) length: Span,

    /// Until when something else would still be of use; else 30 days from now
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Utc>,

    /// Of paths that cost and hops leave equal, take the least full one instead of the first by names
    #[arg(long)]
    pub(crate) balance: bool,

    #[command(flatten)]
    pub(crate) bookings: Bookings,
}

/// What is free of each link, piece by piece
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  longhaul plan calendar --topology transatlantic --bookings week.toml --svg > week.svg")]
pub(crate) struct CalendarArgs {
    /// Until when; else 7 days from now
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Utc>,

    /// Draw it, as SVG on standard output
    #[arg(long, conflicts_with = "json")]
    pub(crate) svg: bool,

    #[command(flatten)]
    pub(crate) bookings: Bookings,
}
