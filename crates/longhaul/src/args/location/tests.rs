//! Tables of what is read as what.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::{HOSTS_MAX, Location};

/// A location in one line: the kind and its parts.
fn shown(location: &Location) -> String {
    match location {
        Location::Pipe => "pipe".into(),
        Location::Local(path) => format!("local {}", path.display()),
        Location::Agent(agent, path) => {
            let hosts: Vec<String> = agent.hosts.iter().map(|at| format!("{}|{}", at.host, at.port)).collect();
            let pin = if agent.pin.is_some() { "pinned " } else { "" };
            format!("agent {pin}{} {}", hosts.join(" "), String::from_utf8_lossy(path))
        }
        Location::Ssh(host, path) => {
            format!("ssh {}|{} {}", host.user.as_deref().unwrap_or(""), host.host, String::from_utf8_lossy(path))
        }
    }
}

#[test]
fn places_of_a_copy() {
    let pin = "ab".repeat(32);
    let pinned = format!("lh://sha256:{pin}@host:5000/x");
    let cases = [
        ("-", "pipe"),
        ("./-", "local ./-"),
        (".", "local ."),
        ("dir/", "local dir/"),
        ("/a b", "local /a b"),
        ("./a:b", "local ./a:b"),
        ("/a:b", "local /a:b"),
        ("dir/a:b", "local dir/a:b"),
        ("user@host", "local user@host"),
        ("lh://host/x", "agent host|4810 /x"),
        ("lh://host/", "agent host|4810 /"),
        ("lh://host:5000/x/y/", "agent host|5000 /x/y/"),
        ("lh://host/a%20b?c#d:e@f", "agent host|4810 /a%20b?c#d:e@f"),
        ("lh://192.0.2.1:1/x", "agent 192.0.2.1|1 /x"),
        ("lh://[2001:db8::1]/x", "agent 2001:db8::1|4810 /x"),
        ("lh://[fe80::1%eth0]:5000/x", "agent fe80::1%eth0|5000 /x"),
        ("lh://a,b/x", "agent a|4810 b|4810 /x"),
        ("lh://a:5000,b,[::1]:6000,c/x", "agent a|5000 b|5000 ::1|6000 c|6000 /x"),
        (&pinned, "agent pinned host|5000 /x"),
        ("host:/x", "ssh |host /x"),
        ("host:/x:y", "ssh |host /x:y"),
        ("user@host:/x/", "ssh user|host /x/"),
        ("user@realm@host:/x", "ssh user@realm|host /x"),
        ("user@[::1]:/x", "ssh user|::1 /x"),
        ("[2001:db8::1]:/x", "ssh |2001:db8::1 /x"),
        ("host:x/y", "ssh |host x/y"),
        ("host:~/x", "ssh |host x"),
        ("host:", "ssh |host ./"),
        ("host:~", "ssh |host ./"),
    ];
    for (text, expected) in cases {
        let found = Location::parse(OsString::from(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shown(&found), expected, "{text}");
    }
}

#[test]
fn what_is_refused_and_why() {
    let many = format!("lh://{}/x", vec!["h"; HOSTS_MAX + 1].join(","));
    let cases = [
        ("", "an empty path"),
        ("lh://host", "a path is missing: write lh://host:4810/path"),
        ("lh:///x", "a host name is missing"),
        ("lh://a,/x", "a host name is missing"),
        ("lh://host:/x", "is no port"),
        ("lh://host:0/x", "is no port"),
        ("lh://host:65536/x", "is no port"),
        ("lh://::1/x", "in brackets: [::1]"),
        ("lh://[::1/x", "no closing bracket"),
        ("lh://user@host/x", "is no fingerprint"),
        ("lh://sha256:12@host/x", "is no fingerprint"),
        ("lh://-x/x", "is no host name"),
        ("lh://a b/x", "is no host name"),
        ("lh:/x", "lh://host/path"),
        (many.as_str(), "more than 16 addresses"),
        ("http://host/x", "http:// is not known here"),
        ("host:~user/x", "no shell looks up ~"),
        (":/x", "a host name is missing"),
        // What ssh would take for an option.
        ("-oProxyCommand=x:/x", "is no host name"),
        ("-oProxyCommand=x@host:/x", "is no login name"),
        ("@host:/x", "is no login name"),
    ];
    for (text, why) in cases {
        let error = Location::parse(OsString::from(text)).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn paths_need_not_be_utf8_but_hosts_must() {
    let bytes = |prefix: &str| OsString::from_vec([prefix.as_bytes(), b"\xff\n"].concat());
    match Location::parse(bytes("lh://host/")).unwrap() {
        Location::Agent(_, path) => assert_eq!(path, b"/\xff\n"),
        other => panic!("{other:?}"),
    }
    match Location::parse(bytes("host:/")).unwrap() {
        Location::Ssh(_, path) => assert_eq!(path, b"/\xff\n"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Location::parse(bytes("a")).unwrap(), Location::Local(_)));
    let host = OsString::from_vec(b"h\xff:/x".to_vec());
    assert!(Location::parse(host).unwrap_err().to_string().contains("not UTF-8"));
}

#[test]
fn the_far_end_of_a_test() {
    let cases = [
        ("host", "agent host|4810 "),
        ("host:5000", "agent host|5000 "),
        ("192.0.2.1", "agent 192.0.2.1|4810 "),
        ("::1", "agent ::1|4810 "),
        ("[::1]:5000", "agent ::1|5000 "),
        ("a:5000,b", "agent a|5000 b|5000 "),
        ("lh://host:5000", "agent host|5000 "),
        ("lh://host/", "agent host|4810 /"),
        ("user@host:", "ssh user|host "),
        ("host:", "ssh |host "),
        ("user@[::1]:", "ssh user|::1 "),
    ];
    for (text, expected) in cases {
        let found = Location::parse_host(OsString::from(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shown(&found), expected, "{text}");
    }
    for (text, why) in
        [("user@host", "write user@host:"), ("", "missing"), ("host:x", "no port"), ("-", "no host name")]
    {
        let error = Location::parse_host(OsString::from(text)).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn printing_gives_the_same_place_and_forges_no_line() {
    for text in ["-", "dir/x", "lh://host:5000/x", "lh://[::1]:4810,b:1/x", "user@[::1]:/x", "host:/x"] {
        assert_eq!(Location::parse(OsString::from(text)).unwrap().to_string(), text);
    }
    assert_eq!(Location::parse(OsString::from("a\nb")).unwrap().to_string(), "a\\nb");
}
