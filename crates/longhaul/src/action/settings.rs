//! How bytes move: from options to what the mover takes.

use anyhow::{Context, Result};
use mover::frame::FRAMES_MIN;
use mover::request::{BUFFER_SHARE, Limits, STREAMS_AUTO_MAX};
use proto::control::{FlowLabel, Settings};
use proto::limits::{CHUNK_SIZE_MAX, CHUNK_SIZE_MIN, CONGESTION_CHARS_MAX};
use units::Bytes;

use crate::args::groups::TransportArgs;
use crate::args::value::Protect;
use crate::environment::Environment;
use crate::exit::usage;
use units::dscp;

/// Chunks are whole pages, for direct I/O.
const CHUNK_ALIGN: u64 = 4096;

/// Checks the options. What stays on this host (`here`) is not encrypted unless that is asked for.
///
/// # Errors
/// When a value cannot be.
pub(super) fn settings(args: &TransportArgs, here: bool) -> Result<Settings> {
    let protect = args.protect.unwrap_or(if here { Protect::Clear } else { Protect::Private });
    Ok(Settings {
        protection: protect.into(),
        chunk_size: chunk_size(args.chunk_size)?,
        streams_max: args.streams.count(),
        congestion: args.congestion.as_deref().map(congestion).transpose()?,
        rate_bps: args.rate.bps(),
        polite: args.polite,
        dscp: args.dscp.or(args.polite.then_some(dscp::LOWER_EFFORT)),
        flow_label: match args.scitag {
            Some(tag) => Some(tag.flow_label(random()?)),
            None => args.flow_label.map(|first| FlowLabel { first, entropy: 0 }),
        },
    })
}

/// What this end may use.
///
/// # Errors
/// When a value cannot be.
pub(super) fn limits(args: &TransportArgs, environment: &Environment) -> Result<Limits> {
    if args.timeout.get().is_zero() {
        return Err(usage("--timeout 0s would give up at once: leave it away, or give a longer one"));
    }
    if args.memory < Bytes::new(args.chunk_size.get().saturating_mul(MEMORY_CHUNKS_MIN)) {
        return Err(usage(format!(
            "--memory {:#} is too little for chunks of {:#}: {MEMORY_CHUNKS_MIN} must fit",
            args.memory, args.chunk_size
        )));
    }
    Ok(Limits {
        memory: args.memory,
        bind: args.bind.clone(),
        marks: Vec::new(),
        in_order: false,
        streams_auto: STREAMS_AUTO_MAX,
        timeout: args.timeout.get(),
        paths_file: environment.state_home.as_ref().map(|state| state.join("longhaul/paths.json")),
        io: environment.io,
    })
}

/// Chunks that must fit into all memory, of which buffers are a share.
const MEMORY_CHUNKS_MIN: u64 = FRAMES_MIN * BUFFER_SHARE;

fn chunk_size(size: Bytes) -> Result<u32> {
    let fits = u32::try_from(size.get()).ok().filter(|size| (CHUNK_SIZE_MIN..=CHUNK_SIZE_MAX).contains(size));
    let aligned = fits.filter(|_| size.get().is_multiple_of(CHUNK_ALIGN));
    aligned.ok_or_else(|| {
        let (least, most) = (Bytes::new(CHUNK_SIZE_MIN.into()), Bytes::new(CHUNK_SIZE_MAX.into()));
        usage(format!("--chunk-size {size:#} is not a multiple of 4 KiB from {least:#} to {most:#}"))
    })
}

fn congestion(name: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > CONGESTION_CHARS_MAX || !name.chars().all(plain) {
        return Err(usage(format!(
            "`{}` is no congestion control: sysctl net.ipv4.tcp_available_congestion_control lists them",
            name.escape_debug()
        )));
    }
    Ok(name.to_owned())
}

fn random() -> Result<u32> {
    let mut bytes = [0; 4];
    sys::random::fill(&mut bytes).context("cannot get random bytes")?;
    Ok(u32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes() {
        assert_eq!(chunk_size(Bytes::mib(4)).unwrap(), 4 << 20);
        for bad in [Bytes::kib(128), Bytes::mib(65), Bytes::new(4_000_000), Bytes::gib(5)] {
            assert!(chunk_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_congestion_controls() {
        assert_eq!(congestion("bbr").unwrap(), "bbr");
        assert!(["", "a b", "0123456789abcdef", "ü"].iter().all(|bad| congestion(bad).is_err()));
    }
}
