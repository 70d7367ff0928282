//! The table at the end, for people.

use mover::event::Summary;
use proto::control::StorageIo;

use super::COLUMNS_MAX;
use super::name::{bytes, percent, rate, span, thousands, words};

/// Files that failed which the table lists; the report has all of them.
const ERRORS_SHOWN: usize = 10;
/// Limiting factors that the table lists.
const LIMITS_SHOWN: usize = 4;
/// Share of the time from which a limit on socket buffers is worth a hint.
const HINT_SHARE: f64 = 0.1;
/// Socket buffers that are proposed, bytes: less is no change for most kernels, more than a kernel takes.
const BUFFER_HINT_MIN: u64 = 64 << 20;
const BUFFER_HINT_MAX: u64 = 1 << 30;
/// Columns of the names on the left.
const NAMES: usize = 12;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A copy.
    Copy,
    /// A copy that only says what it would do.
    DryRun,
    /// A throughput test.
    Test,
}

/// The table, each line of at most 100 columns.
pub(crate) fn table(summary: &Summary, kind: Kind) -> String {
    let mut rows: Vec<(&str, String)> = Vec::new();
    match kind {
        Kind::Test => rows.push(("received", bytes(summary.bytes))),
        Kind::Copy | Kind::DryRun => rows.extend(dataset(summary, kind == Kind::DryRun)),
    }
    if kind != Kind::DryRun {
        rows.extend(path(summary));
        rows.extend(cost(summary));
    }
    rows.extend(sweep(summary));
    let mut text = String::new();
    for (name, value) in rows {
        text.push_str(&fitted(&format!("{name:<NAMES$}{value}")));
    }
    text.push_str(&errors(summary));
    text
}

fn dataset(summary: &Summary, dry_run: bool) -> Vec<(&'static str, String)> {
    let (copied, deleted) = if dry_run { (" to copy", "to delete") } else { ("", "deleted") };
    let mut files = format!("{} of {}{copied}", thousands(summary.files_placed), thousands(summary.files));
    let others = [(summary.files_skipped, "skipped"), (summary.files_failed, "failed"), (summary.deleted, deleted)];
    for (count, what) in others.iter().filter(|(count, _)| *count > 0) {
        files.push_str(&format!(", {} {what}", thousands(*count)));
    }
    let mut rows = vec![("dataset", bytes(summary.bytes)), ("files", files)];
    rows.extend(summary.digests_file.as_ref().map(|file| ("digests", file.escape_debug().to_string())));
    rows
}

fn path(summary: &Summary) -> Vec<(&'static str, String)> {
    let rtt = units::Span::new(std::time::Duration::from_micros(summary.rtt_us));
    let plural = if summary.streams == 1 { "" } else { "s" };
    let congestion = summary.congestion.as_deref().unwrap_or("unknown congestion control");
    let window = match summary.cwnd_bytes {
        0 => String::new(),
        window => format!(", window {}", bytes(window)),
    };
    let mut rows = vec![
        ("moved", format!("{} in {}", bytes(summary.bytes_sent), span(summary.seconds))),
        ("goodput", rate(summary.rate_bps)),
        (
            "path",
            format!(
                "{} stream{plural}, {congestion}, RTT {rtt}{window}, {} retransmits",
                summary.streams,
                thousands(summary.retransmits)
            ),
        ),
        (
            "protection",
            format!("{}, {} chunks verified", words(&summary.protection), thousands(summary.chunks_verified)),
        ),
    ];
    rows.extend(summary.reverse_rate_bps.map(|bps| ("reverse", rate(bps))));
    if summary.repaired > 0 || summary.reconnects > 0 || summary.streams_lost > 0 {
        let again = thousands(summary.repaired);
        let (lost, reconnects) = (summary.streams_lost, summary.reconnects);
        rows.push(("trouble", format!("{again} chunks sent again, {lost} streams lost, {reconnects} reconnects")));
    }
    rows
}

fn cost(summary: &Summary) -> Vec<(&'static str, String)> {
    let cpu = summary.cpu_s_per_gb;
    let memory = &summary.peak_rss_bytes;
    let mut rows = vec![
        ("CPU", format!("{:.2} s per GB at the source, {:.2} at the destination", cpu.source, cpu.destination)),
        ("memory", format!("{} at the source, {} at the destination", bytes(memory.source), bytes(memory.destination))),
    ];
    // The usual needs no line: less than io_uring explains a slow copy.
    let ends = [summary.io.source, summary.io.destination];
    if ends.iter().flatten().any(|io| matches!(io, StorageIo::Posix | StorageIo::Mixed)) {
        let [source, destination] = ends.map(|io| io.map_or("unknown", storage));
        rows.push(("I/O", format!("{source} at the source, {destination} at the destination")));
    }
    let mut limits: Vec<(&String, &f64)> = summary.limits.iter().filter(|(_, share)| **share >= 0.005).collect();
    limits.sort_by(|a, b| b.1.total_cmp(a.1));
    let shown: Vec<String> = limits
        .iter()
        .take(LIMITS_SHOWN)
        .map(|(limit, share)| format!("{} {}", limit.replace('_', " "), percent(**share)))
        .collect();
    if !shown.is_empty() {
        rows.push(("limited by", shown.join(", ")));
    }
    rows.extend(hint(summary));
    rows
}

/// What to do where a kernel's limits on socket buffers are in the way for a noticeable part of the time.
fn hint(summary: &Summary) -> Vec<(&'static str, String)> {
    let held = |limit: &str| summary.limits.get(limit).copied().unwrap_or(0.0) >= HINT_SHARE;
    // As in `mover::control::buffers`, bandwidth × delay twice, for losses are to be repaired; at twice the rate that was
    // reached, since nobody knows what the path carries; and the kernel counts its own administration, as much again.
    // Eight times the bytes in flight are the bits in flight.
    let needed = u128::from(summary.rate_bps) * u128::from(summary.rtt_us) / 1_000_000;
    let needed = u64::try_from(needed / u128::from(summary.streams.max(1))).unwrap_or(u64::MAX);
    let most = needed.clamp(BUFFER_HINT_MIN, BUFFER_HINT_MAX).next_power_of_two();
    let mut rows = Vec::new();
    for (limit, end, key, usual) in [
        ("sender_window", "source", "net.ipv4.tcp_wmem", "4096 65536"),
        ("receiver_window", "destination", "net.ipv4.tcp_rmem", "4096 131072"),
    ] {
        if held(limit) {
            rows.push((
                "hint",
                format!("the {end}'s kernel keeps socket buffers too small for this path; as root there:"),
            ));
            rows.push(("", format!("sysctl -w {key}=\"{usual} {most}\"")));
        }
    }
    rows
}

fn storage(io: StorageIo) -> &'static str {
    match io {
        StorageIo::Memory => "memory",
        StorageIo::Pipe => "a pipe",
        StorageIo::IoUring => "io_uring",
        StorageIo::Posix => "plain calls",
        StorageIo::Mixed => "io_uring or plain calls",
    }
}

fn sweep(summary: &Summary) -> Vec<(&'static str, String)> {
    let steps = summary.sweep.iter().map(|step| ("", format!("{:>4} streams  {}", step.streams, rate(step.rate_bps))));
    let mut rows: Vec<_> = steps.collect();
    rows.extend(summary.sweep.last().map(|last| {
        let knee = summary.knee.map(|knee| format!("{knee} streams: more do not help"));
        ("knee", knee.unwrap_or_else(|| format!("none up to {} streams, which is all that were tried", last.streams)))
    }));
    rows
}

fn errors(summary: &Summary) -> String {
    let failed = summary.errors.iter().take(ERRORS_SHOWN);
    let mut text: String = failed
        .map(|file| {
            fitted(&format!("{}: {}: {}", file.outcome, file.path, file.why.as_deref().unwrap_or("no reason given")))
        })
        .collect();
    let more = summary.files_failed.saturating_sub(summary.errors.len().min(ERRORS_SHOWN) as u64);
    if more > 0 {
        text.push_str(&format!("and {} more: --report FILE lists them all\n", thousands(more)));
    }
    text
}

/// A line with its end cut off at 100 columns.
fn fitted(line: &str) -> String {
    let line = line.trim_end();
    if line.chars().count() <= COLUMNS_MAX {
        return format!("{line}\n");
    }
    let cut: String = line.chars().take(COLUMNS_MAX - 1).collect();
    format!("{cut}…\n")
}

#[cfg(test)]
mod tests {
    use mover::event::{CpuPerGb, Ends, FileEvent, SweepStep};

    use super::*;

    fn failed(path: &str) -> FileEvent {
        FileEvent {
            path: path.into(),
            path_bytes: None,
            outcome: "failed",
            size: 1,
            why: Some("permission denied".into()),
            digest: None,
        }
    }

    fn typical() -> Summary {
        Summary {
            bytes: 987_654_321_000,
            bytes_sent: 123_456_789_012,
            files: 50_000,
            files_placed: 49_000,
            files_skipped: 988,
            files_failed: 12,
            seconds: 93.5,
            rate_bps: 9_412_345_678,
            retransmits: 1_234,
            rtt_us: 100_200,
            cwnd_bytes: 31_250_000,
            streams: 4,
            chunks_verified: 29_434,
            cpu_s_per_gb: CpuPerGb { source: 0.154, destination: 0.316, total: 0.47 },
            peak_rss_bytes: Ends { source: 300_000_000, destination: 400_000_000 },
            io: Ends { source: Some(StorageIo::IoUring), destination: Some(StorageIo::Posix) },
            limits: [("network".to_owned(), 0.83), ("source_disk".to_owned(), 0.165), ("rate_limit".to_owned(), 0.001)]
                .into(),
            congestion: Some("cubic".into()),
            errors: (0..12).map(|n| failed(&format!("dir/{n}"))).collect(),
            ..Summary::default()
        }
    }

    #[test]
    fn a_copy() {
        let text = table(&typical(), Kind::Copy);
        let expected = "\
dataset     987.7 GB
files       49,000 of 50,000, 988 skipped, 12 failed
moved       123.5 GB in 1m33s
goodput     9.412 Gb/s
path        4 streams, cubic, RTT 100ms, window 31.25 MB, 1,234 retransmits
protection  private, 29,434 chunks verified
CPU         0.15 s per GB at the source, 0.32 at the destination
memory      300 MB at the source, 400 MB at the destination
I/O         io_uring at the source, plain calls at the destination
limited by  network 83 %, source disk 16 %
failed: dir/0: permission denied
";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.ends_with("failed: dir/9: permission denied\nand 2 more: --report FILE lists them all\n"),
            "{text}"
        );
    }

    #[test]
    fn limits_of_the_kernel_are_named_with_the_way_out() {
        let mut summary = typical();
        assert!(!table(&summary, Kind::Copy).contains("sysctl"));
        // 9.4 Gb/s over 100 ms are 118 MB, in four streams 29 MB each; eight times that.
        summary.limits = [("receiver_window".to_owned(), 0.6), ("sender_window".to_owned(), 0.09)].into();
        let text = table(&summary, Kind::Copy);
        assert!(
            text.contains(
                "hint        the destination's kernel keeps socket buffers too small for this path; as root there:\n"
            ),
            "{text}"
        );
        assert!(text.contains("            sysctl -w net.ipv4.tcp_rmem=\"4096 131072 268435456\"\n"), "{text}");
        assert!(!text.contains("tcp_wmem"), "{text}");
        summary.limits = [("sender_window".to_owned(), 0.1)].into();
        (summary.rate_bps, summary.streams) = (1_000_000, 1);
        let text = table(&summary, Kind::Test);
        assert!(text.contains("the source's") && text.contains("net.ipv4.tcp_wmem=\"4096 65536 67108864\""), "{text}");
    }

    #[test]
    fn a_sweep_names_its_knee() {
        let steps = [(1, 2_000_000_000), (2, 3_500_000_000)].map(|(streams, rate_bps)| SweepStep { streams, rate_bps });
        let text = table(&Summary { sweep: steps.to_vec(), knee: Some(2), ..typical() }, Kind::Test);
        assert!(text.contains("               1 streams  2 Gb/s\n               2 streams  3.5 Gb/s\nknee        2 streams: more do not help\n"), "{text}");
        assert!(!text.contains("files") || text.contains("dir/"), "{text}");
        let text = table(&Summary { sweep: steps.to_vec(), knee: None, ..typical() }, Kind::Test);
        assert!(text.contains("knee        none up to 2 streams, which is all that were tried\n"), "{text}");
    }

    #[test]
    fn what_a_dry_run_would_do_is_not_said_to_be_done() {
        let summary = Summary { files: 3, files_placed: 2, files_skipped: 1, deleted: 4, ..Summary::default() };
        let text = table(&summary, Kind::DryRun);
        assert!(text.contains("2 of 3 to copy, 1 skipped, 4 to delete"), "{text}");
        assert!(table(&summary, Kind::Copy).contains("2 of 3, 1 skipped, 4 deleted"));
    }

    #[test]
    fn no_line_is_wider_than_100_columns() {
        let mut summary = typical();
        summary.errors = vec![failed(&"é".repeat(300))];
        summary.bytes = u64::MAX;
        for kind in [Kind::Copy, Kind::DryRun, Kind::Test] {
            let text = table(&summary, kind);
            assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
        }
    }
}
