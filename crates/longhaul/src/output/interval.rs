//! Lines of a throughput test.

use mover::event::Interval;

use super::name;

/// The line above the intervals.
pub(crate) const HEADER: &str =
    "  seconds      direction  goodput      retrans  RTT       window    streams  limited by";

/// One interval under [`HEADER`]. What the sending end has not told yet is no zero.
pub(crate) fn line(interval: &Interval) -> String {
    let seconds = format!("{:.1}-{:.1}", interval.from_s, interval.to_s);
    let told = |number: u64, text: String| if number == 0 { "-".to_owned() } else { text };
    let rtt = units::Span::new(std::time::Duration::from_micros(interval.rtt_us)).to_string();
    let rtt = told(interval.rtt_us, rtt);
    let limit = name::words(&interval.limit);
    let text = format!(
        "  {seconds:<11}  {:<9}  {:<11}  {:<7}  {rtt:<8}  {:<8}  {:<7}  {limit}",
        interval.direction,
        name::rate(interval.rate_bps),
        interval.retransmits,
        told(interval.cwnd_bytes, name::bytes(interval.cwnd_bytes).to_string()),
        told(interval.streams.into(), interval.streams.to_string()),
    );
    text.trim_end().to_owned()
}

#[test]
fn columns_stand_under_their_heads() {
    let interval = Interval {
        from_s: 59.0,
        to_s: 60.0,
        bytes: 1,
        rate_bps: 941_234_567_891,
        retransmits: 12,
        rtt_us: 100_200,
        cwnd_bytes: 4_999_999_999,
        streams: 16,
        direction: "forward",
        limit: mover::control::attribution::Limit::Unknown,
    };
    let line = line(&interval);
    assert_eq!(line, "  59.0-60.0    forward    941.2 Gb/s   12       100ms     5 GB      16       unknown");
    for (head, cell) in [
        ("direction", "forward"),
        ("goodput", "941.2"),
        ("retrans", "12 "),
        ("RTT", "100ms"),
        ("window", "5 GB"),
        ("streams", "16"),
        ("limited", "unknown"),
    ] {
        let under = &line[HEADER.find(head).unwrap()..];
        assert!(under.starts_with(cell), "{head}: {under}");
    }
    assert!(HEADER.len() <= super::COLUMNS_MAX);

    let unknown = Interval { rtt_us: 0, cwnd_bytes: 0, streams: 0, ..interval };
    assert!(super::interval::line(&unknown).ends_with("  12       -         -         -        unknown"));
}
