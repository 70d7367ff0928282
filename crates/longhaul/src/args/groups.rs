//! Options that several commands share.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use mover::request::Fingerprint;
use units::{Bytes, Span};

use super::scitag::{self, SciTag};
use super::value::{Ports, ProgressWhen, Protect, SetPoint, Streams};

/// How bytes move.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How it moves")]
pub(crate) struct TransportArgs {
    /// TCP connections: a number, or auto for as many as help
    #[arg(long, value_name = "N|auto", default_value = "auto")]
    pub(crate) streams: Streams,

    /// Greatest rate, counted in IP packets with their headers, such as 8Gb/s; off for none
    ///
    /// It can be changed while the command runs: longhaul session set ID --rate 2Gb/s.
    #[arg(long, value_name = "RATE|off", default_value = "off")]
    pub(crate) rate: SetPoint,

    /// Give way: take only what other traffic leaves, and mark the packets le unless --dscp says otherwise
    ///
    /// Streams slow down together when packets begin to queue or are lost. With --rate the smaller of both holds.
    #[arg(long)]
    pub(crate) polite: bool,

    /// Congestion control by name, such as cubic or bbr; chosen per path when none is named
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,

    /// What the data are protected against on their way; control is TLS 1.3 in any case [default: private]
    ///
    /// Between two places of this host the default is clear.
    #[arg(long, value_name = "HOW", value_enum)]
    pub(crate) protect: Option<Protect>,

    /// Differentiated services code point: 0 to 63, or a name such as le, cs1, af11
    #[arg(long, value_name = "DSCP", value_parser = units::dscp::parse)]
    pub(crate) dscp: Option<u8>,

    /// SciTag of the packets: 64 x experiment + activity, or EXPERIMENT:ACTIVITY
    ///
    /// It is written into the IPv6 flow label. Of its 20 bits, from the highest: 2 are random, 9 are the
    /// experiment (lowest bit first), 1 is random, 6 are the activity, 2 are random. IPv4 packets have no place
    /// for it. The numbers are registered at scitags.org.
    #[arg(long, value_name = "TAG", conflicts_with = "flow_label")]
    pub(crate) scitag: Option<SciTag>,

    /// IPv6 flow label as it is: 20 bits, decimal or 0x and hexadecimal
    #[arg(long, value_name = "LABEL", value_parser = scitag::flow_label)]
    pub(crate) flow_label: Option<u32>,

    /// Local address to connect from; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) bind: Vec<IpAddr>,

    /// Take the connection for lost when the other end is silent for this long, and make it anew; a slow disk or
    /// hook at an end that answers is waited for
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    pub(crate) timeout: Span,

    /// Greatest memory for buffers of this end; lists take up to 100 MiB more
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    pub(crate) memory: Bytes,

    /// Unit of reading, sending and resuming: 256KiB to 64MiB
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    pub(crate) chunk_size: Bytes,
}

/// How the far end is reached and trusted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Access")]
pub(crate) struct AccessArgs {
    /// File with the access token of the agent; else the environment's LONGHAUL_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Fingerprint that the agent must have, sha256:HEX; nothing is pinned then
    #[arg(long, value_name = "SHA256")]
    pub(crate) fingerprint: Option<Fingerprint>,

    /// File of pinned fingerprints; default $XDG_STATE_HOME/longhaul/known_hosts
    ///
    /// An agent that is met for the first time is pinned here; one whose fingerprint has changed is refused.
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,

    /// Command that reaches a host for host:/path
    #[arg(long, value_name = "CMD", default_value = "ssh")]
    pub(crate) ssh: String,

    /// Command of the program at a host reached over ssh, as its shell reads it
    #[arg(long, value_name = "CMD", default_value = "longhaul")]
    pub(crate) remote_longhaul: String,

    /// With host:/path the far end connects to this one (when only this side can be connected to)
    #[arg(long)]
    pub(crate) reverse_connect: bool,

    /// Ports that the connected-to end of host:/path may listen on; default any
    #[arg(long, value_name = "LOW-HIGH")]
    pub(crate) ssh_port_range: Option<Ports>,
}

/// What is printed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// JSON Lines on standard output; the last record has "event":"summary"
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the summary and every failed file to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Print errors only
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Show a progress line on standard error
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) progress: ProgressWhen,
}
