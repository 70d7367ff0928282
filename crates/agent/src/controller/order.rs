//! What a controller asks a host to drive, checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Name;
use api::agent::{Cause, How, PAGE_MAX, Role, Run};
use mover::request::{CopyRequest, Fingerprint, Limits, Place, Reach, Remote};
use proto::RelPath;
use proto::control::{CopyOptions, DigestKind, Overwrite, Settings};
use proto::limits::{CONGESTION_CHARS_MAX, RELAY_ADDRESSES_MAX};
use proto::seal::Protection;

use super::cause::shown;
use super::grants::PathGrant;

/// Unit of reading, sending and resuming, as `copy` has it.
const CHUNK_BYTES: u32 = 4 << 20;
/// Characters of what the other host is called.
const LABEL_CHARS_MAX: usize = 100;

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct No {
    /// Of what kind.
    pub(super) cause: Cause,
    /// For people.
    pub(super) text: String,
}

impl No {
    /// With a text of bounded length.
    #[must_use]
    pub(super) fn new(cause: Cause, text: &str) -> No {
        No { cause, text: shown(text) }
    }

    fn other(text: &str) -> No {
        No::new(Cause::Other, text)
    }
}

/// A copy that may be begun.
pub(super) struct Order {
    /// For the mover; the rate is yet to be set.
    pub(super) request: CopyRequest,
    /// What is copied of a directory; empty for one file.
    pub(super) names: Vec<RelPath>,
    /// Digests are to be told.
    pub(super) digests: bool,
    /// The other end, for messages.
    pub(super) label: String,
}

/// Makes a copy of what was asked, under a grant for this host's path.
///
/// # Errors
/// When something in it cannot be.
pub(super) fn check(run: &Run, grant: &PathGrant, limits: Limits) -> Result<Order, No> {
    let names = names(&run.names)?;
    let remote = remote(run)?;
    let label = remote.label.clone();
    let (options, settings) = how(&run.how)?;
    let streams_auto = at_most(run.how.streams_max, limits.streams_auto);
    let digests = options.digest.is_some();
    let own = Place::Served(Arc::new(grant.clone()), vec![grant.path().as_bytes().to_vec()]);
    let other = Place::Agent(remote, vec![run.there.0.clone()]);
    let (source, destination) = match run.role {
        Role::Source => (own, other),
        Role::Destination => (other, own),
    };
    let request = CopyRequest {
        source,
        destination,
        names: names.clone(),
        options,
        settings,
        hooks: grant.hooks(),
        limits: Limits {
            bind: run.bind.clone(),
            marks: run.marks.clone(),
            in_order: run.in_order,
            streams_auto,
            ..limits
        },
        digests_file: None,
        every_file: true,
    };
    Ok(Order { request, names, digests, label })
}

/// A number of streams within the bound that there is, if there is one.
fn at_most(bound: u16, streams: u16) -> u16 {
    if bound == 0 { streams } else { streams.min(bound) }
}

fn names(written: &[Name]) -> Result<Vec<RelPath>, No> {
    if written.len() > PAGE_MAX {
        return Err(No::other(&format!("{} names: a session has at most {PAGE_MAX}", written.len())));
    }
    let mut seen = BTreeSet::new();
    let check = |name: &Name| {
        let path = RelPath::new(name.0.clone()).map_err(|error| No::other(&format!("`{name}` is no name: {error}")))?;
        match seen.insert(name.0.clone()) {
            true => Ok(path),
            false => Err(No::other(&format!("`{name}` is named twice: name it once"))),
        }
    };
    written.iter().map(check).collect()
}

fn remote(run: &Run) -> Result<Remote, No> {
    if run.addresses.is_empty() {
        return Err(No::other("the other host has no address"));
    }
    if run.in_order && !run.bind.is_empty() && run.bind.len() != run.addresses.len() {
        return Err(No::other("paths have an address at each end: name as many of one as of the other"));
    }
    if run.bind.len() > RELAY_ADDRESSES_MAX {
        return Err(No::other(&format!("a host connects from at most {RELAY_ADDRESSES_MAX} addresses")));
    }
    if !run.marks.is_empty() && (!run.in_order || run.marks.len() != run.addresses.len()) {
        return Err(No::other("marks belong to paths: name as many as addresses in order"));
    }
    run.marks.iter().try_for_each(|marks| marks.check()).map_err(|why| No::other(&format!("marks: {why}")))?;
    if run.marks.iter().zip(&run.addresses).any(|(marks, to)| marks.flow_label.is_some() && to.is_ipv4()) {
        return Err(No::other("a path of IPv4 has no flow label: name a DSCP"));
    }
    let pin: Fingerprint = run.fingerprint.parse().map_err(|_| No::other("the other host's fingerprint is none"))?;
    let judge = Arc::new(move |found: &Fingerprint| {
        match *found == pin {
        true => Ok(()),
        false => Err("another host answers at the other agent's address: its fingerprint is not the one that the controller named".into()),
    }
    });
    let label: String = shown(&run.other).chars().take(LABEL_CHARS_MAX).collect();
    let label = if label.is_empty() { run.addresses[0].to_string() } else { label };
    // Best first; more are not tried.
    let addresses = run.addresses.iter().take(RELAY_ADDRESSES_MAX).copied().collect();
    let (reach, token) = (Reach::Connect(addresses), run.token.clone());
    Ok(Remote { reach, expected: Some(pin), judge, token, label, gone: None })
}

fn how(how: &How) -> Result<(CopyOptions, Settings), No> {
    let no = |what: &str, written: &str, known: &str| No::other(&format!("`{written}` is no {what}: it is {known}"));
    let protection = match how.protect.as_str() {
        "clear" => Protection::Clear,
        "integrity" => Protection::Integrity,
        "private" | "" => Protection::Private,
        other => return Err(no("protection", other, "clear, integrity or private")),
    };
    let overwrite = match how.overwrite.as_str() {
        "never" => Overwrite::Never,
        "changed" | "" => Overwrite::Changed,
        "always" => Overwrite::Always,
        other => return Err(no("way to overwrite", other, "never, changed or always")),
    };
    let digest = match how.checksum.as_deref() {
        None => None,
        Some(name) => {
            let kind: Result<DigestKind, _> = serde_json::from_value(name.into());
            Some(kind.map_err(|_| no("checksum", name, "adler32, crc32c, md5, sha256, blake3 or xxh3"))?)
        }
    };
    let plain = |name: &&String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        !name.is_empty() && name.len() <= CONGESTION_CHARS_MAX && name.chars().all(is_plain)
    };
    if let Some(name) = how.congestion.as_ref().filter(|name| !plain(name)) {
        return Err(no("congestion control", name, "a name that the kernel lists, or none"));
    }
    let options = CopyOptions {
        overwrite,
        by_checksum: false,
        delete: false,
        dry_run: false,
        preserve_all: false,
        filters: Vec::new(),
        digest,
    };
    let settings = Settings {
        protection,
        chunk_size: CHUNK_BYTES,
        streams_max: at_most(how.streams_max, how.streams),
        congestion: how.congestion.clone(),
        rate_bps: None,
        polite: false,
        dscp: None,
        flow_label: None,
    };
    Ok((options, settings))
}

#[cfg(test)]
mod tests {
    use api::agent::Lease;
    use units::Marks;

    use super::*;

    fn written(names: &[&[u8]]) -> Result<Vec<RelPath>, No> {
        names_of(names.iter().map(|name| Name(name.to_vec())).collect())
    }

    fn names_of(list: Vec<Name>) -> Result<Vec<RelPath>, No> {
        names(&list)
    }

    #[test]
    fn hostile_names_are_refused() {
        assert_eq!(written(&[b"a", b"b/\xff\n", b""]).unwrap().len(), 3);
        for bad in [&b".."[..], b"../a", b"/etc/passwd", b"a/../b", b"a//b", b"a/", b"a\0", &[b'x'; 5000], &[b'x'; 256]]
        {
            assert_eq!(written(&[b"ok", bad]).unwrap_err().cause, Cause::Other, "{bad:?}");
        }
        assert!(written(&[b"a", b"a"]).unwrap_err().text.contains("twice"));
        let many = (0..=PAGE_MAX).map(|n| Name(n.to_string().into_bytes())).collect();
        assert!(names_of(many).unwrap_err().text.contains("at most"));
    }

    /// Two paths between the same addresses.
    fn two_paths(to: &str, marks: &[Marks]) -> Run {
        Run {
            session: 1,
            collaboration: "cms".into(),
            role: Role::Source,
            here: Name(b"/a".to_vec()),
            there: Name(b"/b".to_vec()),
            addresses: vec![to.parse().unwrap(); 2],
            fingerprint: "ab".repeat(32),
            token: "t".into(),
            other: "b".into(),
            bind: Vec::new(),
            in_order: true,
            marks: marks.to_vec(),
            names: Vec::new(),
            how: How::default(),
            lease: Lease { generation: 1, rates: Vec::new(), length_ms: 1, fall_back_bps: 0 },
        }
    }

    #[test]
    fn marks_belong_to_paths_and_are_such_that_packets_carry_them() {
        let (point, label) = (Marks { dscp: Some(18), flow_label: None }, Marks { dscp: None, flow_label: Some(7) });
        assert!(remote(&two_paths("10.0.0.2:4810", &[point, Marks::NONE])).is_ok());
        assert!(remote(&two_paths("[fd00::2]:4810", &[point, label])).is_ok());
        assert!(remote(&two_paths("10.0.0.2:4810", &[])).is_ok());
        let spread = Run { in_order: false, ..two_paths("10.0.0.2:4810", &[point, point]) };
        let bad = Marks { dscp: Some(64), flow_label: None };
        for (run, why) in [
            (two_paths("10.0.0.2:4810", &[point]), "name as many as addresses"),
            (spread, "marks belong to paths"),
            (two_paths("10.0.0.2:4810", &[point, bad]), "marks: dscp: a mark is 1 to 63"),
            (two_paths("10.0.0.2:4810", &[point, label]), "a path of IPv4 has no flow label"),
        ] {
            let no = remote(&run).err().unwrap();
            assert!(no.cause == Cause::Other && no.text.contains(why), "{no:?}");
        }
    }

    #[test]
    fn how_is_read_or_refused() {
        let good =
            How { protect: "clear".into(), overwrite: "never".into(), checksum: Some("md5".into()), ..How::default() };
        let (options, settings) = how(&good).unwrap();
        assert_eq!((options.overwrite, options.digest), (Overwrite::Never, Some(DigestKind::Md5)));
        assert_eq!((settings.protection, settings.streams_max), (Protection::Clear, 0));
        let streams = |streams, streams_max| how(&How { streams, streams_max, ..good.clone() }).unwrap().1.streams_max;
        assert_eq!([streams(0, 7), streams(128, 7), streams(3, 7), streams(128, 0)], [0, 7, 3, 128]);
        for bad in [
            How { protect: "none".into(), ..good.clone() },
            How { overwrite: "perhaps".into(), ..good.clone() },
            How { checksum: Some("sha1".into()), ..good.clone() },
            How { congestion: Some("a b".into()), ..good.clone() },
        ] {
            assert_eq!(how(&bad).unwrap_err().cause, Cause::Other, "{bad:?}");
        }
    }
}
