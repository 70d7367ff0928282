//! The progress line: everything on one line of at most 100 columns, the most important first.

use mover::control::attribution::Limit;
use mover::event::Progress;

use super::COLUMNS_MAX;
use super::name;

/// Between two parts.
const GAP: &str = "  ";

/// The line in at most `columns` columns: parts that do not fit are left out, the last ones first.
pub(crate) fn line(progress: &Progress, columns: usize) -> String {
    let columns = columns.min(COLUMNS_MAX);
    let mut line = String::new();
    for part in parts(progress) {
        let gap = if line.is_empty() { "" } else { GAP };
        // All of it is ASCII, so bytes are columns.
        if line.len() + gap.len() + part.len() > columns {
            break;
        }
        line.push_str(gap);
        line.push_str(&part);
    }
    line
}

fn parts(progress: &Progress) -> Vec<String> {
    let mut parts = vec![done(progress), format!("{} now", name::rate(progress.rate_bps))];
    parts.extend(
        progress.eta_s.map(|seconds| format!("ETA {}", units::Span::new(std::time::Duration::from_secs(seconds)))),
    );
    parts.push(format!("{} mean", name::rate(progress.mean_rate_bps)));
    if progress.limit != Limit::Unknown {
        parts.push(name::words(&progress.limit));
    }
    parts.push(files(progress));
    parts.push(format!("{} stream{}", progress.streams, if progress.streams == 1 { "" } else { "s" }));
    parts
}

/// `1.2 GB/9.8 GB 12%`; a total that still grows ends in `+` and has no percentage.
fn done(progress: &Progress) -> String {
    let (done, total) = (name::bytes(progress.bytes_done), name::bytes(progress.bytes_total));
    if !progress.scanned {
        return format!("{done}/{total}+");
    }
    let percent = u128::from(progress.bytes_done) * 100 / u128::from(progress.bytes_total.max(1));
    let percent = if progress.bytes_total == 0 { 100 } else { percent.min(100) };
    format!("{done}/{total} {percent}%")
}

fn files(progress: &Progress) -> String {
    let more = if progress.scanned { "" } else { "+" };
    let files = format!("{}/{}{more} files", progress.files_done, progress.files_total);
    match progress.files_failed {
        0 => files,
        failed => format!("{files} ({failed} failed)"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn typical() -> Progress {
        Progress {
            seconds: 93.0,
            bytes_done: 123_456_789_012,
            bytes_total: 987_654_321_000,
            scanned: true,
            files_done: 1_234,
            files_total: 50_000,
            files_failed: 0,
            rate_bps: 9_412_345_678,
            mean_rate_bps: 8_800_000_000,
            eta_s: Some(735),
            streams: 4,
            limit: Limit::Unknown,
            ..Progress::default()
        }
    }

    #[test]
    fn says_it_all_in_100_columns() {
        let text = "123.5 GB/987.7 GB 12%  9.412 Gb/s now  ETA 12m15s  8.8 Gb/s mean  1234/50000 files  4 streams";
        assert_eq!(line(&typical(), 100), text);
        assert_eq!(line(&typical(), 60), "123.5 GB/987.7 GB 12%  9.412 Gb/s now  ETA 12m15s");
        assert_eq!(line(&typical(), 300), text);
        assert_eq!(line(&typical(), 0), "");
    }

    #[test]
    fn what_is_not_known_yet_is_not_claimed() {
        let scanning = Progress { scanned: false, eta_s: None, ..typical() };
        let text = line(&scanning, 100);
        assert!(
            text.starts_with("123.5 GB/987.7 GB+  ") && text.contains("1234/50000+ files") && !text.contains("ETA"),
            "{text}"
        );
        let empty = Progress { scanned: true, ..Progress::default() };
        assert!(line(&empty, 100).starts_with("0 B/0 B 100%"));
        let failed = Progress { files_failed: 3, ..typical() };
        assert!(line(&failed, 120).contains("(3 failed)"));
    }

    proptest! {
        #[test]
        fn never_wider_than_asked(
            bytes in any::<[u64; 2]>(), rates in any::<[u64; 2]>(), files in any::<[u64; 3]>(),
            eta_s in any::<Option<u64>>(), streams in any::<u16>(), scanned in any::<bool>(), columns in 0_usize..200,
        ) {
            let progress = Progress {
                seconds: 1.0, bytes_done: bytes[0], bytes_total: bytes[1], scanned, files_done: files[0], files_total: files[1],
                files_failed: files[2], rate_bps: rates[0], mean_rate_bps: rates[1], eta_s, streams, limit: Limit::Unknown,
                ..Progress::default()
            };
            let text = line(&progress, columns);
            prop_assert!(text.is_ascii() && text.len() <= columns.min(COLUMNS_MAX), "{}", text);
        }
    }
}
