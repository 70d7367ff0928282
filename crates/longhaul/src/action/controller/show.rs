//! What a controller says, for people: tables within the columns there are.

use api::rest::{
    Agent, AgentState, ApiToken, Assurance, Class, Endpoint, Estimate, Explanation, File, History, Leg, Limit, Link,
    Path, Series, Time, Transfer,
};
use units::{Marks, Rate};

use crate::action::plan::table::table;
use crate::output::COLUMNS_MAX;
use crate::output::name::{bytes, percent, thousands, words};

/// A list of transfers.
pub(super) fn transfers(list: &[Transfer]) -> String {
    let head = ["ID", "STATE", "CLASS", "DONE", "RATE", "FILES", "NAME", "REASON"].map(str::to_owned);
    let row = |t: &Transfer| {
        [
            t.id.to_string(),
            words(&t.state),
            t.class.clone(),
            done((t.bytes_done, t.bytes_total), t.files_done + t.files_failed >= t.files_total),
            rate(t.rate_bps),
            format!("{}/{}", t.files_done, t.files_total),
            short(&t.name, 16),
            t.reason.clone(),
        ]
    };
    lines(head, list.iter().map(row), [false, false, false, true, true, true, false, false])
}

/// A transfer with its legs and sessions.
pub(super) fn transfer(t: &Transfer) -> String {
    let mut text = format!("{} {}: {}\n", t.id, words(&t.state), t.reason);
    let mut say = |what: &str, value: String| text += &cut(&format!("  {what:<12} {value}"));
    let named = [("name", &t.name), ("for", &t.collaboration), ("class", &t.class)];
    named.iter().filter(|(_, value)| !value.is_empty()).for_each(|(what, value)| say(what, (*value).clone()));
    if t.urgency > 0 {
        say("urgency", t.urgency.to_string());
    }
    let files = format!("{} of {} files", thousands(t.files_done), thousands(t.files_total));
    let failed = if t.files_failed > 0 { format!(", {} failed", thousands(t.files_failed)) } else { String::new() };
    // Of a list without sizes it is known in the end.
    let of_bytes = if t.bytes_done < t.bytes_total { format!(" of {}", bytes(t.bytes_total)) } else { String::new() };
    say("done", format!("{}{of_bytes}, {files}{failed}", bytes(t.bytes_done)));
    say("rate", format!("{} of {} given to it", rate(t.rate_bps), rate(t.allocated_bps)));
    t.sources.iter().for_each(|source| say("from", source.to_string()));
    t.waits_for.iter().for_each(|thing| say("waits for", thing.clone()));
    let times = [
        ("until", t.until),
        ("deadline", t.deadline),
        ("submitted", Some(t.submitted_at)),
        ("began", t.started_at),
        ("ended", t.ended_at),
    ];
    for (what, at) in times {
        at.iter().for_each(|at| say(what, seconds(*at)));
    }
    text + &legs(&t.id.to_string(), &t.legs)
}

/// Legs of a transfer, each with its sessions.
fn legs(id: &str, list: &[Leg]) -> String {
    let mut text = String::new();
    for leg in list {
        let settled = leg.files_done + leg.files_failed >= leg.files_total;
        let share = done((leg.bytes_done, leg.bytes_total), settled);
        text += &cut(&format!(
            "leg {}.{} to {}: {}, {share}, {}",
            id,
            leg.number,
            leg.destination,
            words(&leg.state),
            leg.reason
        ));
        for s in &leg.sessions {
            let path = s.path.join(" ");
            let line = format!(
                "  {} → {}  {} of {}  {} streams  {}  {path}",
                s.from,
                s.to,
                rate(s.rate_bps),
                rate(s.allocated_bps),
                s.streams,
                s.limit
            );
            text += &cut(&line);
            if let Some(rtt_us) = s.rtt_us {
                let windows = s.cwnd_bytes.map_or_else(String::new, |cwnd| format!("  windows {}", bytes(cwnd)));
                let again = thousands(s.retransmits);
                text += &cut(&format!(
                    "    RTT {} ms{windows}  {again} segments sent again",
                    digits(rtt_us as f64 / 1_000.0)
                ));
            }
        }
    }
    text
}

/// Files of a transfer.
pub(super) fn files(list: &[File]) -> String {
    let head = ["STATE", "LEG", "SIZE", "NAME", "WHY"].map(str::to_owned);
    let row = |f: &File| [words(&f.state), f.leg.to_string(), bytes(f.size_bytes), f.name.to_string(), f.text.clone()];
    lines(head, list.iter().map(row), [false, true, true, false, false])
}

/// Classes.
pub(super) fn classes(list: &[Class]) -> String {
    let head = ["CLASS", "IN", "TIER", "WEIGHT", "TRANSFERS", "GIVEN", "MEASURED", "MARKS"].map(str::to_owned);
    let row = |c: &Class| {
        let marks = c.marks.iter().map(|m| format!("{} {}", m.name, rate(m.mark_bps))).collect::<Vec<_>>().join(", ");
        [
            c.name.clone(),
            c.parent.clone().unwrap_or_default(),
            c.tier.to_string(),
            c.weight.to_string(),
            thousands(c.transfers),
            rate(c.allocated_bps),
            rate(c.measured_bps),
            marks,
        ]
    };
    lines(head, list.iter().map(row), [false, false, true, true, true, true, true, false])
}

/// Directions of links.
pub(super) fn links(list: &[Link]) -> String {
    let head = ["LINK", "FROM", "TO", "STATE", "CAPACITY", "MARK", "GIVEN", "MEASURED", "ALL"].map(str::to_owned);
    let some = |bps: Option<u64>| bps.map_or_else(|| "-".to_owned(), rate);
    let row = |l: &Link| {
        [
            l.id.clone(),
            l.from.clone(),
            l.to.clone(),
            words(&l.state),
            some(l.capacity_bps),
            some(l.mark_bps),
            rate(l.allocated_bps),
            rate(l.measured_bps),
            some(l.total_bps),
        ]
    };
    lines(head, list.iter().map(row), [false, false, false, false, true, true, true, true, true])
}

/// Directions of named paths, and usual ones that are asked over. Addresses and links are in the JSON.
pub(super) fn paths(list: &[Path]) -> String {
    let head = ["PATH", "FROM", "TO", "MARKS", "STATE", "SESSIONS", "RTT ms", "LOSS %", "AGE"].map(str::to_owned);
    let row = |p: &Path| {
        let marks = Marks { dscp: p.dscp, flow_label: p.flow_label };
        [
            p.id.clone(),
            p.from.clone(),
            p.to.clone(),
            if marks.is_none() { "-".to_owned() } else { marks.to_string() },
            words(&p.state),
            thousands(p.sessions),
            estimate(p.rtt_us, 1_000.0),
            estimate(p.loss_ppm, 10_000.0),
            age(p),
        ]
    };
    lines(head, list.iter().map(row), [false, false, false, false, false, true, true, true, true])
}

/// `20.1 (19.8 to 25)`, in so many of its units.
fn estimate(of: Option<Estimate>, unit: f64) -> String {
    let Some(Estimate { value, low, high, .. }) = of else { return "-".to_owned() };
    let [value, low, high] = [value, low, high].map(|number| digits(number as f64 / unit));
    format!("{value} ({low} to {high})")
}

/// Three digits, or all before the point.
fn digits(number: f64) -> String {
    let places = match number {
        _ if number == 0.0 || number >= 100.0 => 0,
        _ if number >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.places$}")
}

/// How old the newer of its estimates is.
fn age(path: &Path) -> String {
    let newest = [path.rtt_us, path.loss_ppm].into_iter().flatten().map(|estimate| estimate.age_ms).min();
    newest.map_or_else(|| "-".to_owned(), |ms| format!("{} s", ms / 1_000))
}

/// Agents.
pub(super) fn agents(list: &[Agent]) -> String {
    let head = ["HOST", "STATE", "MODE", "SESSIONS", "RATE", "VERSION", "REASON"].map(str::to_owned);
    let row = |a: &Agent| {
        let state = match (a.state, a.away_since) {
            (AgentState::Away, Some(since)) => format!("away since {}", seconds(since)),
            (state, _) => words(&state),
        };
        let sessions = format!("{}/{}", a.sessions.len(), a.sessions_max);
        [a.host.clone(), state, words(&a.mode), sessions, rate(a.rate_bps), a.version.clone(), a.reason.clone()]
    };
    lines(head, list.iter().map(row), [false, false, false, true, true, false, false])
}

/// Endpoints.
pub(super) fn endpoints(list: &[Endpoint]) -> String {
    let head = ["ENDPOINT", "ONLINE", "ROOT", "HOSTS"].map(str::to_owned);
    let row = |e: &Endpoint| {
        [e.name.clone(), format!("{}/{}", e.online.len(), e.hosts.len()), e.root.to_string(), e.hosts.join(" ")]
    };
    lines(head, list.iter().map(row), [false, true, false, false])
}

/// Limits.
pub(super) fn limits(list: &[Limit]) -> String {
    let head = ["RESOURCE", "RATE", "UNTIL", "BY", "WHY"].map(str::to_owned);
    let row = |l: &Limit| [l.resource.clone(), rate(l.rate_bps), seconds(l.until), l.by.clone(), l.why.clone()];
    lines(head, list.iter().map(row), [false, true, false, false, false])
}

/// Series of samples.
pub(super) fn series(list: &[Series]) -> String {
    let head = ["SERIES", "LAST", "AT"].map(str::to_owned);
    let row = |s: &Series| {
        let last = s.value.map_or_else(|| "-".to_owned(), |value| measured(&s.name, value));
        [s.name.clone(), last, s.at.map_or_else(|| "-".to_owned(), seconds)]
    };
    lines(head, list.iter().map(row), [false, true, false])
}

/// Points of a series.
pub(super) fn history(h: &History) -> String {
    let head = ["FROM", "MEAN", "MOST", "SECONDS"].map(str::to_owned);
    let row = |p: &api::rest::Point| {
        [seconds(p.at), measured(&h.series, p.mean), measured(&h.series, p.max), thousands(p.count.into())]
    };
    lines(head, h.points.iter().map(row), [false, true, true, true])
}

/// A value, by the unit at the end of its series' name.
fn measured(series: &str, value: f64) -> String {
    match series.rsplit_once('_').map(|(_, unit)| unit) {
        // No rate is less than nothing, or more than what is the greatest.
        Some("bps") => rate(value.round() as u64),
        Some("us") => format!("{} ms", digits(value / 1_000.0)),
        Some("s") => format!("{}/s", digits(value)),
        _ if value.fract() == 0.0 => value.to_string(),
        _ => digits(value),
    }
}

/// Tokens of the API.
pub(super) fn tokens(list: &[ApiToken]) -> String {
    let head = ["TOKEN", "ROLE", "FOR", "EXPIRES"].map(str::to_owned);
    let row = |t: &ApiToken| {
        let expires = t.expires_at.map_or_else(|| "never".to_owned(), seconds);
        [t.name.clone(), words(&t.role), t.collaboration.clone().unwrap_or_else(|| "-".to_owned()), expires]
    };
    lines(head, list.iter().map(row), [false; 4])
}

/// Why something is as it is. Texts are wrapped, not cut.
pub(super) fn explanation(e: &Explanation) -> String {
    let wrapped =
        |text: &str, indent: &str| crate::action::plan::table::wrapped(text.split(' '), indent, COLUMNS_MAX) + "\n";
    let mut text = wrapped(&e.text, "");
    if let Some(resource) = &e.resource {
        let part = |bps: Option<u64>| bps.map_or_else(|| "?".to_owned(), rate);
        // The planner's name of a mark or a cap says itself what it is.
        let kind = Some(&resource.kind).filter(|kind| resource.name.split(' ').next() != Some(kind.as_str()));
        let kind = kind.map(|kind| format!("{kind} ")).unwrap_or_default();
        let given = format!(": {} of {} given", part(resource.allocated_bps), part(resource.capacity_bps));
        // A transfer or a host that is waited for has no rate.
        let has_rate = resource.allocated_bps.is_some() || resource.capacity_bps.is_some();
        text += &cut(&format!("{kind}{}{}", resource.name, if has_rate { &given } else { "" }));
    }
    for holder in &e.holders {
        let class = holder.class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
        // Of most it is said once for all, below.
        let sure = if holder.assurance == Assurance::Estimate { " (estimate)" } else { "" };
        text += &cut(&format!("  {:>12}  {}{class}{sure}", rate(holder.rate_bps), holder.holder));
    }
    e.until.iter().for_each(|until| text += &format!("until {}\n", seconds(*until)));
    for remedy in &e.remedies {
        let then = remedy.rate_bps.map(|bps| format!(" (then {})", rate(bps))).unwrap_or_default();
        text += &wrapped(&format!("→ {}{then}", remedy.text), "");
    }
    text + &format!("rates are sure by: {}\n", words(&e.assurance))
}

/// A rate of IP packets.
fn rate(bps: u64) -> String {
    Rate::from_bps(bps).to_string()
}

/// `37 %`; the bytes alone while it is not known of how much, as of a list without sizes; nothing before there are some. All is only shown
/// when all files are settled.
fn done((done, total): (u64, u64), settled: bool) -> String {
    // A share of bytes: what is lost in a float is far below what is shown.
    let share = done as f64 / total as f64;
    match total {
        0 => "-".to_owned(),
        _ if done < total => percent(share.min(0.99)),
        _ if settled => percent(1.0),
        _ => bytes(done),
    }
}

/// A moment to the second.
pub(super) fn seconds(at: Time) -> String {
    Time(at.0.div_euclid(1_000_000_000) * 1_000_000_000).to_string()
}

fn lines<const N: usize>(head: [String; N], rows: impl Iterator<Item = [String; N]>, right: [bool; N]) -> String {
    let all: Vec<[String; N]> = std::iter::once(head).chain(rows.map(|row| row.map(|cell| plain(&cell)))).collect();
    table(&all, right).iter().map(|line| cut(line)).collect()
}

/// A line for a terminal, within the columns there are.
fn cut(line: &str) -> String {
    let line = plain(line);
    if line.chars().count() <= COLUMNS_MAX {
        return line.trim_end().to_owned() + "\n";
    }
    line.chars().take(COLUMNS_MAX - 1).collect::<String>() + "…\n"
}

/// What others wrote, without what a terminal would obey.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).collect::<String>() + "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_down_to_what_is_done() {
        assert_eq!(
            (done((0, 0), false), done((0, 9), false), done((999_999, 1_000_000), false), done((9, 9), true)),
            ("-".into(), "0 %".into(), "99 %".into(), "100 %".into())
        );
        assert_eq!(done((9_000, 9_000), false), "9 kB", "of a list without sizes the rest is not known");
    }

    #[test]
    fn paths_have_their_estimates_or_none() {
        let estimate = |value, low, high, age_ms| Some(Estimate { value, low, high, age_ms });
        let north = Path {
            id: "north:forward".into(),
            name: Some("north".into()),
            from: "a".into(),
            to: "b".into(),
            from_address: Some([192, 0, 2, 1].into()),
            to_address: Some([192, 0, 2, 2].into()),
            dscp: Some(18),
            flow_label: None,
            links: vec!["ana:forward".into()],
            state: api::rest::PathState::Answering,
            sessions: 2,
            rtt_us: estimate(120_100, 119_900, 125_000, 3_000),
            loss_ppm: estimate(0, 0, 6_400, 3_000),
        };
        let state = api::rest::PathState::Unknown;
        let (id, name) = ("usual:a,b".into(), None);
        let usual = Path { id, name, dscp: None, state, sessions: 0, rtt_us: None, loss_ppm: None, ..north.clone() };
        let text = paths(&[north, usual]);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[1].join(" "),
            "north:forward a b DSCP af21 answering 2 120 (120 to 125) 0 (0 to 0.64) 3 s",
            "{text}"
        );
        assert_eq!(rows[2].join(" "), "usual:a,b a b - unknown 0 - - -", "{text}");
        assert_eq!([0.0, 0.004, 9.994, 20.14, 350.4].map(digits), ["0", "0.00", "9.99", "20.1", "350"]);
    }

    #[test]
    fn sessions_say_what_their_streams_see() {
        let session = api::rest::Session {
            id: 3,
            from: "caltech-dtn1".into(),
            to: "cern-dtn1".into(),
            path: vec!["ana:forward".into(); 8],
            allocated_bps: 40_000_000_000,
            rate_bps: 39_900_000_000,
            streams: 32,
            limit: "source disk".into(),
            rtt_us: Some(151_040),
            cwnd_bytes: Some(750_000_000),
            retransmits: 12_345,
        };
        let leg = |session| Leg {
            number: 1,
            destination: "cern:/x".parse().expect("a place"),
            state: api::rest::TransferState::Moving,
            reason: "a session moves its files".into(),
            bytes_total: 1,
            bytes_done: 0,
            files_total: 1,
            files_done: 0,
            files_failed: 0,
            rate_bps: 0,
            sessions: vec![session],
        };
        let unknown = api::rest::Session { rtt_us: None, cwnd_bytes: None, ..session.clone() };
        let text = legs("t17", &[leg(session), leg(unknown)]);
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows.len() == 5 && rows.iter().all(|row| row.chars().count() <= COLUMNS_MAX), "{text}");
        assert_eq!(rows[2], "    RTT 151 ms  windows 750 MB  12,345 segments sent again");
    }

    #[test]
    fn points_have_the_unit_of_their_series() {
        let point = |mean, max| api::rest::Point { at: Time(10_000_000_000), mean, max, count: 10 };
        let of = |series: &str, mean, max| {
            let points = vec![point(mean, max)];
            history(&History { series: series.to_owned(), from: Time(0), to: Time(1), grain_ms: 10_000, points })
        };
        let row = |text: String| text.lines().nth(1).map(str::to_owned).unwrap_or_default();
        assert_eq!(
            row(of("link:ana:forward/measured_bps", 1.5e9, 2e9)),
            "1970-01-01T00:00:10Z  1.5 Gb/s  2 Gb/s       10"
        );
        assert_eq!(row(of("path:north/rtt_us", 20_100.4, 3e4)), "1970-01-01T00:00:10Z  20.1 ms  30.0 ms       10");
        assert_eq!(row(of("all/files_per_s", 0.5, 1.0)), "1970-01-01T00:00:10Z  0.50/s  1.00/s       10");
        let idle = Series { name: "all/sessions".into(), at: None, value: None };
        let busy = Series { at: Some(Time(0)), value: Some(3.0), ..idle.clone() };
        let rows = series(&[idle, busy]);
        let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1..], [vec!["all/sessions", "-", "-"], vec!["all/sessions", "3", "1970-01-01T00:00:00Z"]]);
    }

    #[test]
    fn lines_fit_and_obey_nobody() {
        let limit = |why: String| Limit {
            resource: "ana:forward".into(),
            rate_bps: 40_000_000_000,
            until: Time(0),
            by: "noc".into(),
            why,
        };
        let text = limits(&[limit("repair".into()), limit("x".repeat(200)), limit("\u{1b}[2J".into())]);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), ["RESOURCE", "RATE", "UNTIL", "BY", "WHY"]);
        assert!(rows[1].contains("40 Gb/s  1970-01-01T00:00:00Z  noc  repair"), "{text}");
        assert!(rows[2].ends_with('…') && rows[3].ends_with("?[2J"), "{text}");
    }

    #[test]
    fn explanations_say_who_has_what_is_missing() {
        use api::rest::{About, Holder, Remedy, Resource};
        let text = explanation(&Explanation {
            what: About::Transfer,
            subject: "t17".into(),
            text: "t17 has 2 Gb/s: the mark of link ana:forward is full".into(),
            rate_bps: Some(2_000_000_000),
            resource: Some(Resource {
                name: "ana:forward".into(),
                kind: "link".into(),
                capacity_bps: Some(8_000_000_000),
                allocated_bps: Some(8_000_000_000),
            }),
            holders: vec![
                Holder {
                    holder: "t3".into(),
                    class: Some("cms".into()),
                    rate_bps: 6_000_000_000,
                    assurance: Assurance::Enforced,
                },
                Holder {
                    holder: "at-large".into(),
                    class: None,
                    rate_bps: 2_000_000_000,
                    assurance: Assurance::Estimate,
                },
            ],
            until: None,
            remedies: vec![Remedy { text: "raise the mark to 10 Gb/s".into(), rate_bps: Some(4_000_000_000) }],
            assurance: Assurance::Edge,
        });
        let expected = "t17 has 2 Gb/s: the mark of link ana:forward is full\nlink ana:forward: 8 Gb/s of 8 Gb/s given\n        6 Gb/s  t3 (cms)\n        2 Gb/s  at-large (estimate)\n→ raise the mark to 10 Gb/s (then 4 Gb/s)\nrates are sure by: edge\n";
        assert_eq!(text, expected);
    }
}
