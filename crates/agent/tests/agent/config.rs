//! Configuration: what is read, what is merged, and what bad input is told.

use std::path::Path;

use agent::{Config, Environment, Log, Overrides};

use crate::{Site, chain};

fn load(site: &Site, text: &str, overrides: &Overrides) -> Result<Config, String> {
    let text = text.replace("TOP", &site.text(""));
    let text = text.replace("//", "/");
    Config::parse(Path::new("serve.toml"), &text, overrides, &site.environment()).map_err(|e| site.plain(chain(&e)))
}

fn roots(site: &Site, config: &Config) -> Vec<(String, bool)> {
    config.roots().iter().map(|root| (site.plain(root.path()), root.write())).collect()
}

#[test]
fn everything_can_be_said_in_the_file() {
    let site = Site::new();
    let text = r#"
        listen = "127.0.0.1:4000"
        state_dir = "/srv/state"
        metrics = "127.0.0.1:9810"
        log = "json"
        addresses = ["192.0.2.1", "[2001:db8::1]:4811"]
        [[root]]
        path = "TOP/data"
        [[root]]
        path = "TOP/in"
        write = true
        [limits]
        sessions = 3
        streams = 4
        handshakes = 5
        memory = "1 GiB"
        rate = "10 Gb/s"
        [hooks]
        before_file = "/bin/a"
        after_file = "/bin/b"
        before_dataset = "/bin/c"
        after_dataset = "/bin/d -x"
        [tests]
        allow = false
        [relay]
        allow = false
    "#;
    let config = load(&site, text, &Overrides::default()).unwrap();
    assert_eq!(config.listen().address, "127.0.0.1:4000".parse().unwrap());
    assert!(!config.listen().by_default);
    assert_eq!(config.state_dir(), Path::new("/srv/state"));
    assert_eq!(config.metrics(), Some("127.0.0.1:9810".parse().unwrap()));
    assert_eq!(config.log(), Log::Json);
    let addresses: Vec<_> = config.addresses().iter().map(|a| (a.ip.to_string(), a.port)).collect();
    assert_eq!(addresses, [("192.0.2.1".to_owned(), None), ("2001:db8::1".to_owned(), Some(4811))]);
    assert_eq!(roots(&site, &config), [("TOP/data".to_owned(), false), ("TOP/in".to_owned(), true)]);
    let bounds = config.bounds();
    assert_eq!((bounds.sessions, bounds.streams, bounds.handshakes), (3, 4, 5));
    assert_eq!((bounds.memory_bytes, bounds.rate_bps), (1 << 30, Some(10_000_000_000)));
    let hooks = config.hooks();
    assert_eq!(hooks.before_file.as_deref(), Some("/bin/a"));
    assert_eq!(hooks.after_file.as_deref(), Some("/bin/b"));
    assert_eq!(hooks.before_dataset.as_deref(), Some("/bin/c"));
    assert_eq!(hooks.after_dataset.as_deref(), Some("/bin/d -x"));
    assert_eq!((config.tests(), config.relay()), (false, false));
}

#[test]
fn defaults() {
    let site = Site::new();
    let config = load(&site, "", &Overrides::default()).unwrap();
    assert_eq!(config.listen().address, "[::]:4810".parse().unwrap());
    assert!(config.listen().by_default);
    assert_eq!(config.state_dir(), site.path("xdg/longhaul"));
    assert_eq!((config.metrics(), config.log()), (None, Log::Human));
    let bounds = config.bounds();
    assert_eq!((bounds.sessions, bounds.streams, bounds.handshakes), (64, 256, 64));
    assert_eq!((bounds.memory_bytes, bounds.rate_bps), (512 << 20, None));
    assert!(config.tests() && config.relay() && config.addresses().is_empty() && config.roots().is_empty());
}

#[test]
fn the_command_line_goes_before_the_file() {
    let site = Site::new();
    let overrides = Overrides {
        listen: Some("[::1]:0".into()),
        roots: vec![site.path("in"), site.path("data/x:ro"), site.path("data/y:ro")],
        state_dir: Some("relative/state".into()),
        metrics: Some("127.0.0.1:1".into()),
        log: Some(Log::Json),
        ..Overrides::default()
    };
    let text =
        "listen = '127.0.0.1:1'\nstate_dir = '/s'\nmetrics = '[::1]:1'\nlog = 'human'\n[[root]]\npath = 'TOP/data'";
    let config = load(&site, text, &overrides).unwrap();
    assert_eq!(config.listen().address, "[::1]:0".parse().unwrap());
    assert_eq!(config.state_dir(), Path::new("relative/state"));
    assert_eq!(config.metrics(), Some("127.0.0.1:1".parse().unwrap()));
    assert_eq!(config.log(), Log::Json);
    let expected = [("TOP/in", true), ("TOP/data/x", false), ("TOP/data/y", false)];
    assert_eq!(roots(&site, &config), expected.map(|(path, write)| (path.to_owned(), write)), "instead of the file's");
}

#[test]
fn roots_are_canonical() {
    let site = Site::new();
    std::os::unix::fs::symlink(site.path("data"), site.path("link")).unwrap();
    let config = load(&site, "[[root]]\npath = 'TOP/in/../link/./x'", &Overrides::default()).unwrap();
    assert_eq!(roots(&site, &config), [("TOP/data/x".to_owned(), false)]);
}

#[test]
fn the_packaged_file_is_a_configuration() {
    let text = include_str!("../../../../packaging/serve.toml");
    let site = Site::new();
    let data = format!("path = \"{}\"", site.text("data"));
    let served = text.replace("path = \"/data\"", &data);
    let served = served.replace("root = \"/data/atlas\"", &format!("root = \"{}\"", site.text("data")));
    assert_ne!(served, text, "it serves /data");
    let config =
        Config::parse(Path::new("serve.toml"), &served, &Overrides::default(), &Environment::default()).unwrap();
    assert_eq!(config.state_dir(), Path::new("/var/lib/longhaul"));

    // What it shows as comments is as true as the rest, where there is the user that it names.
    let served = served.replace("user = \"longhaul-door\"", "user = \"0\"");
    let commented: String = served
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| rest.contains(" = ") || rest.starts_with('['))
                .unwrap_or(line)
                .to_owned()
                + "\n"
        })
        .collect();
    let config =
        Config::parse(Path::new("serve.toml"), &commented, &Overrides::default(), &Environment::default()).unwrap();
    assert!(
        config.bounds().rate_bps.is_some() && config.hooks().before_file.is_some() && !config.addresses().is_empty()
    );
    assert_eq!(config.door().map(|door| door.uid), Some(0));
    assert!(config.controller().is_some() && config.grants().iter().count() == 1);
    let keys =
        ["listen", "state_dir", "metrics", "log", "addresses", "sessions", "streams", "handshakes", "memory", "rate"];
    let keys = keys.iter().chain(&["before_file", "after_file", "before_dataset", "after_dataset", "allow", "write"]);
    for key in keys {
        assert!(commented.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key} is not shown");
    }
}

/// Bad input and all that is said about it.
const BAD_FILES: &[(&str, &str)] = &[
    ("listen =", "serve.toml:1:9: string values must be quoted, expected literal string"),
    ("[limits\n", "serve.toml:1:8: unclosed table, expected `]`"),
    ("log = 'loud'", "serve.toml:1:7: log: unknown variant `loud`, expected `human` or `json`"),
    (
        "log = 'json'\nlisten_at = 1",
        "serve.toml:2:1: unknown field `listen_at`, expected one of `listen`, `state_dir`, `metrics`, `log`, `addresses`, `root`, `limits`, `hooks`, `tests`, `relay`, `door`, `controller`, `grant`, `counter`",
    ),
    (
        "[limits]\nsession = 1",
        "serve.toml:2:1: limits: unknown field `session`, expected one of `sessions`, `streams`, `handshakes`, `memory`, `rate`",
    ),
    (
        "[limits]\nmemory = 512",
        "serve.toml:2:10: limits.memory: `512` has no unit: write `512 B`, or for example `512 MiB`",
    ),
    (
        "[limits]\nmemory = '512'",
        "serve.toml:2:10: limits.memory: `512` has no unit: write `512 B`, or for example `512 MiB`",
    ),
    (
        "[limits]\nmemory = '1 MiB'",
        "serve.toml:2:10: limits.memory: 1 MiB is too little to move anything: write at least `64 MiB`",
    ),
    (
        "[limits]\nrate = '0 b/s'",
        "serve.toml:2:8: limits.rate: a rate of 0 moves nothing: leave the key out for no limit",
    ),
    ("[limits]\nsessions = 0", "serve.toml:2:12: limits.sessions: 0 is out of range: write a number from 1 to 4096"),
    (
        "[limits]\nstreams = 100000",
        "serve.toml:2:11: limits.streams: 100000 is out of range: write a number from 1 to 65536",
    ),
    (
        "[limits]\nhandshakes = 'many'",
        "serve.toml:2:14: limits.handshakes: invalid type: string \"many\", expected i64",
    ),
    ("listen = '::1'", "serve.toml:1:10: listen: `::1` has no port: write `[::1]:4810`"),
    (
        "listen = 'localhost:4810'",
        "serve.toml:1:10: listen: `localhost:4810` is no address with a port: write for example `[::]:4810` or `127.0.0.1:4810`",
    ),
    ("metrics = '127.0.0.1'", "serve.toml:1:11: metrics: `127.0.0.1` has no port: write `127.0.0.1:4810`"),
    (
        "addresses = ['192.0.2.1', 'dtn']",
        "serve.toml:1:27: addresses: `dtn` is no IP address: write for example `192.0.2.1` or `[2001:db8::1]:4810`",
    ),
    ("addresses = ['::']", "serve.toml:1:14: addresses: nobody can connect to `::`: name an address of this host"),
    (
        "state_dir = 'state'",
        "serve.toml:1:13: state_dir: `state` is not absolute: write the whole path, beginning with `/`",
    ),
    ("[[root]]\nwrite = true", "serve.toml:1:1: root: missing field `path`"),
    (
        "[[root]]\npath = 'data'",
        "serve.toml:2:8: root.path: `data` is not absolute: write the whole path, beginning with `/`",
    ),
    (
        "[[root]]\npath = 'TOP/none'",
        "serve.toml:2:8: root.path: cannot open the root TOP/none: make it first, or mend the path: No such file or directory (os error 2)",
    ),
    (
        "[[root]]\npath = 'TOP/file'",
        "serve.toml:2:8: root.path: the root TOP/file is no directory: name the directory that it is in",
    ),
    (
        "[[root]]\npath = 'TOP/in'\n[[root]]\npath = 'TOP/in/'",
        "serve.toml:4:8: root.path: the root TOP/in is given twice: leave one",
    ),
    (
        "[[root]]\npath = 'TOP/data/x'\n[[root]]\npath = 'TOP/data'\nwrite = true",
        "serve.toml:4:8: root.path: the root TOP/data/x is read-only, but lies in TOP/data, which is writable, so it could be written to all the same: make both writable, or serve other directories of TOP/data",
    ),
    (
        "[hooks]\nafter_file = 'stage'",
        "serve.toml:2:14: hooks.after_file: `stage` is not absolute: write the whole path of the program",
    ),
    (
        "[tests]\nallow = false\n[relay]\nallow = false",
        "serve.toml: root: nothing is served: give --root DIR, or a [[root]] with `path = \"DIR\"`",
    ),
    ("# ä, with a tab\n\tlog = 'ü'", "serve.toml:2:8: log: unknown variant `ü`, expected `human` or `json`"),
];

#[test]
fn bad_files_are_told_where_what_and_the_way_out() {
    let site = Site::new();
    std::fs::write(site.path("file"), "").unwrap();
    for (text, message) in BAD_FILES {
        let told = load(&site, text, &Overrides::default()).map(|_| "accepted").unwrap_err();
        assert_eq!(told, *message, "\n{text}");
    }
}

#[test]
fn a_door_has_a_socket_a_user_and_a_port() {
    let site = Site::new();
    let root = "[[root]]\npath = \"TOP/data\"\n";
    let config = |door: &str, overrides: &Overrides| load(&site, &format!("{door}\n{root}"), overrides);
    let none = Overrides::default;
    let text = "listen = '[::]:4000'\n[door]\nsocket = '/run/x/door.sock'\nuser = 'root'";
    let found = config(text, &none()).unwrap();
    let door = found.door().unwrap();
    assert_eq!((door.socket.to_str(), door.uid, found.listen().address.port()), (Some("/run/x/door.sock"), 0, 4000));
    let over = Overrides { door: Some("/run/y".into()), door_user: Some("61000".into()), ..none() };
    let found = config(text, &over).unwrap();
    assert_eq!(found.door().map(|door| (door.socket.to_str(), door.uid)), Some((Some("/run/y"), 61_000)));
    let cases = [
        ("[door]\nuser = 'root'", none(), "serve.toml:1:1: door: there is no socket"),
        ("[door]\nsocket = 'x'\nuser = 'root'", none(), "serve.toml:2:10: door.socket: `x` is not absolute"),
        ("[door]\nsocket = '/x'\nuser = 'no such'", none(), "serve.toml:3:8: door.user: there is no user `no such`"),
        ("", Overrides { door_user: Some("0".into()), ..none() }, "--door-user: there is no door"),
        (
            "",
            Overrides { listen: Some("[::]:0".into()), door: Some("/x".into()), door_user: Some("0".into()), ..none() },
            "--door: behind a door `listen` is where the door listens",
        ),
    ];
    for (text, overrides, message) in cases {
        let told = config(text, &overrides).map(|_| "accepted").unwrap_err();
        assert!(told.starts_with(message), "{told}\n{text}");
    }
}

#[test]
fn bad_options_are_told_the_same_way() {
    let site = Site::new();
    let none = Overrides::default;
    let cases = [
        (
            Overrides { listen: Some("4810".into()), ..none() },
            "--listen: `4810` is no address with a port: write for example `[::]:4810` or `127.0.0.1:4810`",
        ),
        (Overrides { metrics: Some("::1".into()), ..none() }, "--metrics: `::1` has no port: write `[::1]:4810`"),
        (
            Overrides { roots: vec![site.path("none:rw")], ..none() },
            "--root: cannot open the root TOP/none: make it first, or mend the path: No such file or directory (os error 2)",
        ),
        (
            Overrides { roots: vec![":ro".into()], ..none() },
            "--root: a directory is missing: write --root DIR or --root DIR:ro: cannot make an empty path absolute",
        ),
    ];
    for (overrides, message) in cases {
        let told = Config::load(None, &overrides, &site.environment()).map(|_| ()).unwrap_err();
        assert_eq!(site.plain(chain(&told)), message);
    }
    let told = Config::load(None, &none(), &Environment::default()).map(|_| ()).unwrap_err();
    assert_eq!(
        told.to_string(),
        "state_dir: there is no home directory to keep keys and tokens in: give --state-dir DIR"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let site = Site::new();
    let load = |name: &str| {
        Config::load(Some(&site.path(name)), &Overrides::default(), &site.environment()).map(|_| ()).unwrap_err()
    };
    assert_eq!(
        site.plain(chain(&load("none.toml"))),
        "TOP/none.toml: cannot read this file: name another with --config, or leave that out: No such file or directory (os error 2)"
    );
    std::fs::write(site.path("bytes.toml"), b"\xff").unwrap();
    assert_eq!(
        site.plain(chain(&load("bytes.toml"))),
        "TOP/bytes.toml: cannot read this file: it must be TOML in UTF-8: stream did not contain valid UTF-8"
    );
}

#[test]
fn the_controller_and_its_grants() {
    let site = Site::new();
    let pin = format!("sha256:{}", "ab".repeat(32));
    let text = format!(
        r#"
        [controller]
        address = "c.example.org:4811"
        fingerprint = "{pin}"
        enrol_token_file = "/run/enrol"
        [[grant]]
        controller = "{pin}"
        collaboration = "atlas"
        root = "TOP/data"
        read = true
        rate = "10 Gb/s"
        [[grant]]
        controller = "*"
        collaboration = "*"
        root = "TOP/in"
        write = true
        hooks = true
    "#
    );
    let config = load(&site, &text, &Overrides::default()).unwrap();
    let controller = config.controller().unwrap();
    assert_eq!((controller.to_string().as_str(), controller.fingerprint), ("c.example.org:4811", pin.parse().ok()));
    assert_eq!(controller.enrol_token_file.as_deref(), Some(Path::new("/run/enrol")));
    let grants: Vec<_> = config.grants().iter().collect();
    assert_eq!((grants[0].collaboration.as_str(), grants[0].read, grants[0].write), ("atlas", true, false));
    assert_eq!((grants[0].controller, grants[0].rate_bps), (pin.parse().ok(), Some(10_000_000_000)));
    assert_eq!((grants[1].controller, grants[1].hooks, grants[1].rate_bps), (None, true, None));
    // The command line's address goes without the file's fingerprint.
    let over = Overrides { controller: Some("[::1]:4812".into()), ..Overrides::default() };
    let config = load(&site, &text, &over).unwrap();
    let controller = config.controller().unwrap();
    assert_eq!((controller.to_string().as_str(), controller.fingerprint), ("[::1]:4812", None));
    let over = Overrides { controller: Some(format!("c:1#{pin}")), ..Overrides::default() };
    assert_eq!(load(&site, "", &over).unwrap().controller().unwrap().fingerprint, pin.parse().ok());
}

#[test]
fn a_controller_is_named_by_address_or_url() {
    let site = Site::new();
    let pin = format!("sha256:{}", "ab".repeat(32));
    for (written, address) in [
        ("c.example.org:4811", "c.example.org:4811"),
        ("https://c.example.org", "c.example.org:4811"),
        ("https://c.example.org/", "c.example.org:4811"),
        ("https://c.example.org:99", "c.example.org:99"),
        ("https://[::1]", "[::1]:4811"),
        (&format!("https://[::1]:7/#{pin}"), "[::1]:7"),
    ] {
        let over = Overrides { controller: Some(written.to_owned()), ..Overrides::default() };
        let config =
            load(&site, "[[root]]\npath = \"TOP/data\"", &over).unwrap_or_else(|error| panic!("{written}: {error}"));
        let controller = config.controller().expect("there is one");
        assert_eq!(controller.to_string(), address, "{written}");
        assert_eq!(controller.fingerprint.is_some(), written.contains('#'));
    }
}

#[test]
fn interfaces_count_for_links_each_once() {
    let site = Site::new();
    let counter = |interface: &str, link: &str, sends: &str| {
        format!("[[counter]]\ninterface = \"{interface}\"\nlink = \"{link}\"\nsends = \"{sends}\"\n")
    };
    let head = "[controller]\naddress = \"c:4811\"\n\n";
    let two = [counter("eth1", "ocean", "forward"), counter("eth1.7", "sea", "backward")].concat();
    let config = load(&site, &format!("{head}{two}"), &Overrides::default()).unwrap();
    let told: Vec<_> = config.counters().iter().map(|of| (of.interface.as_str(), of.link.as_str(), of.sends)).collect();
    assert_eq!(told, [("eth1", "ocean", api::agent::Way::Forward), ("eth1.7", "sea", api::agent::Way::Backward)]);
    let many: String = (0..=api::agent::COUNTS_MAX).map(|n| counter("eth1", &format!("l{n}"), "forward")).collect();
    for (text, says) in [
        (counter("", "ocean", "forward"), "serve.toml:5:13: counter.interface: `` is no name of an interface"),
        (counter("0123456789abcdef", "ocean", "forward"), "`ip link` lists them"),
        (counter("e/1", "ocean", "forward"), "counter.interface: `e/1` is no name"),
        (counter("eth1", "a b", "forward"), "serve.toml:6:8: counter.link: "),
        (counter("eth1", "ocean", "up"), "expected `forward` or `backward`"),
        (counter("eth1", "ocean", "forward").repeat(2), "serve.toml:10:8: counter.link: `ocean` is counted twice"),
        (many, "counter: more than 64 counters"),
    ] {
        let error = load(&site, &format!("{head}{text}"), &Overrides::default()).expect_err(&text);
        assert!(error.contains(says), "{says} in {error}");
    }
}

#[test]
fn what_a_site_cannot_mean_by_a_grant() {
    let site = Site::new();
    let grant = |more: &str| format!("[[grant]]\ncontroller = \"*\"\ncollaboration = \"atlas\"\n{more}");
    for (text, error) in [
        (
            grant("root = \"TOP/data\""),
            "serve.toml:4:8: grant: this grants nothing: write `read = true`, `write = true` or both",
        ),
        (grant("root = \"TOP/none\"\nread = true"), "cannot open the root TOP/none"),
        (grant("root = \"data\"\nread = true"), "serve.toml:4:8: grant.root: `data` is not absolute"),
        (grant("root = \"TOP/data\"\nread = true\nrate = \"0 b/s\""), "serve.toml:6:8: grant.rate: a rate of 0"),
        (grant("root = \"TOP\"\nread = true"), "the agent's own keys in TOP/xdg/longhaul lie in one another"),
        (grant("root = \"TOP/data\"\nread = true\nroute = 1"), "unknown field `route`"),
        (
            "[[grant]]\ncontroller = \"x\"\ncollaboration = \"a\"\nroot = \"TOP/in\"\nread = true".into(),
            "serve.toml:2:14: grant.controller: `x` is no fingerprint",
        ),
        (
            "[[grant]]\ncontroller = \"*\"\ncollaboration = \"\"\nroot = \"TOP/in\"\nread = true".into(),
            "serve.toml:3:17: grant.collaboration",
        ),
        ("[controller]\nenrol_token_file = \"/x\"".into(), "controller: there is no address"),
        (
            "[controller]\naddress = \"c.example.org\"".into(),
            "serve.toml:2:11: controller.address: `c.example.org` is no host with a port: write for example `controller.example.org:4811`",
        ),
        ("[controller]\naddress = \"::1:4811\"".into(), "is no host with a port"),
        ("[controller]\naddress = \"c:0\"".into(), "is no host with a port"),
        ("[controller]\naddress = \"c:1#00\"".into(), "controller.address: `00` is no fingerprint"),
    ] {
        let found = load(&site, &text, &Overrides::default()).unwrap_err();
        assert!(found.contains(error), "{text}: {found}");
    }
    let over = Overrides { enrol_token_file: Some("/x".into()), ..Overrides::default() };
    let found = load(&site, "", &over).unwrap_err();
    assert!(found.contains("give --controller HOST:PORT"), "{found}");
}
