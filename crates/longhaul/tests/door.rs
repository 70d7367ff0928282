//! One port for several users, through the program: `longhaul door` in front of agents that run as others. Needs root, as only root can become
//! two users; is skipped without.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take to come true.
const PATIENCE: Duration = Duration::from_secs(120);
/// Users that nobody has made: the door's, and those of the instances by their names.
const DOOR: u32 = 61_000;
const USERS: [(&str, u32); 2] = [("cms", 61_001), ("atlas", 61_002)];

fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A child that dies with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// SIGTERM, and its exit code.
    fn stop(mut self) -> Option<i32> {
        sys::process::terminate(self.0.id()).expect("it runs");
        wait_for("a program to end", || self.0.try_wait().expect("it is our child")).code()
    }

    fn end(mut self) -> Option<i32> {
        wait_for("a program to end", || self.0.try_wait().expect("it is our child")).code()
    }
}

/// A directory with instances, each of a user of its own, and a door in front of them.
struct Site {
    dir: tempfile::TempDir,
    instances: BTreeMap<&'static str, (Running, Value)>,
    door: Option<(Running, Value)>,
    /// Where the door listens; port 0 until it has one.
    listen: String,
}

impl Site {
    /// `None`, with a message, without root.
    fn new() -> Option<Site> {
        if sys::process::euid() != 0 {
            eprintln!("skipped: only root can run agents as other users");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory can be made");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).expect("it is ours");
        let mut site = Site { dir, instances: BTreeMap::new(), door: None, listen: "127.0.0.1:0".to_owned() };
        site.directory("door", 0o700, (DOOR, DOOR));
        site.directory("source", 0o755, (0, 0));
        site.directory("runtime", 0o700, (0, 0));
        for number in 0..40 {
            fs::write(site.path("source").join(format!("f{number}")), vec![number; 20_000]).expect("it can be written");
        }
        fs::write(site.path("source/big"), (0..24_000_000_u32).map(|n| (n / 251) as u8).collect::<Vec<_>>())
            .expect("it can");
        for (name, user) in USERS {
            site.directory(name, 0o700, (user, user));
            // The door's group goes through, and has the sockets that are made there.
            site.directory(&format!("run-{name}"), 0o2710, (user, DOOR));
            site.start(name);
        }
        Some(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn directory(&self, name: &str, mode: u32, (user, group): (u32, u32)) {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory can be made");
        chown(&path, Some(user), Some(group)).expect("root may");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("root may");
    }

    fn longhaul(&self, user: u32, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_RUNTIME_DIR", self.path("runtime"));
        command.env_remove("LONGHAUL_TOKEN");
        if user != 0 {
            // Its groups too are those of this user alone.
            command.uid(user).gid(user);
        }
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.longhaul(0, words).output().expect("it runs")
    }

    /// Starts a service that writes a ready file.
    fn service(&self, user: u32, log: &str, ready: &Path, words: &[&str]) -> (Running, Value) {
        let log = fs::File::options().create(true).append(true).open(self.path(log)).expect("a file can be made");
        // One that was killed has left its own.
        let _ = fs::remove_file(ready);
        let ready_file = ready.to_str().expect("it is text");
        let mut command = self.longhaul(user, &[words, &["--ready-file", ready_file]].concat());
        let mut running = Running(command.stderr(log).spawn().expect("it starts"));
        let text = wait_for("a service to be ready", || {
            assert!(running.0.try_wait().expect("it is our child").is_none(), "it ended: {words:?}");
            fs::read_to_string(ready).ok()
        });
        (running, serde_json::from_str(&text).expect("it is JSON"))
    }

    fn socket(&self, name: &str) -> String {
        self.path(&format!("run-{name}/door.sock")).to_str().expect("it is text").to_owned()
    }

    /// Starts an instance, or starts it again.
    fn start(&mut self, name: &'static str) {
        let user = USERS.iter().find(|(known, _)| *known == name).expect("it is one").1;
        let (root, state) = (format!("{name}/data"), format!("{name}/state"));
        if !self.path(&root).exists() {
            self.directory(&root, 0o700, (user, user));
        }
        let (socket, ready, door) = (self.socket(name), self.path(name).join("ready.json"), DOOR.to_string());
        // Nobody asks this one where it listens: no controller is there.
        let words = ["serve", "--listen", "127.0.0.1:4810", "--root", &root, "--state-dir", &state];
        let behind = ["--door", &socket, "--door-user", &door];
        let started = self.service(user, &format!("{name}.log"), &ready, &[&words[..], &behind].concat());
        self.instances.insert(name, started);
    }

    fn said(&self, name: &str, key: &str) -> String {
        self.instances[name].1[key].as_str().expect("it is there").to_owned()
    }

    /// Opens the door, again at the address it had; `more` are further words.
    fn open(&mut self, more: &[&str]) {
        let address = self.listen.clone();
        let instance = |name: &str| format!("{name}={},{}", self.socket(name), self.said(name, "fingerprint"));
        let (cms, atlas) = (instance("cms"), instance("atlas"));
        let words =
            ["door", "--listen", &address, "--metrics", "127.0.0.1:0", "--instance", &cms, "--instance", &atlas];
        let ready = self.path("door/ready.json");
        let (running, ready) = self.service(DOOR, "door.log", &ready, &[&words[..], more].concat());
        self.listen = field(&ready, "address");
        self.door = Some((running, ready));
        wait_for("the instances to be there", || {
            let here =
                |name| self.counter(&format!("longhaul_door_instance_connected{{instance=\"{name}\"}}")) == Some(1);
            (here("cms") && here("atlas")).then_some(())
        });
    }

    fn address(&self) -> String {
        self.listen.clone()
    }

    /// A number of the door.
    fn counter(&self, name: &str) -> Option<u64> {
        let metrics = field(&self.door.as_ref().expect("it is open").1, "metrics");
        let mut page = TcpStream::connect(metrics).ok()?;
        page.write_all(b"GET /metrics HTTP/1.1\r\nHost: door\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        page.read_to_string(&mut text).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line?.trim().parse().ok()
    }

    fn await_counter(&self, name: &str, least: u64) {
        wait_for(name, || self.counter(name).filter(|count| *count >= least));
    }

    /// Where a directory of an instance is, with the fingerprint of another perhaps.
    fn place(&self, name: &str, pinned: &str, to: &str) -> String {
        let (print, path) = (self.said(pinned, "fingerprint"), self.path(&format!("{name}/data/{to}")));
        format!("lh://{print}@{}{}", self.address(), path.display())
    }

    fn token(&self, name: &str) -> String {
        let path = self.path(&format!("{name}.token"));
        fs::write(&path, self.said(name, "token")).expect("it can be written");
        path.to_str().expect("it is text").to_owned()
    }

    /// Copies the tree to an instance.
    fn copy(&self, name: &str, to: &str) -> Output {
        self.run(&["copy", "--json", "--token-file", &self.token(name), "source/", &self.place(name, name, to)])
    }

    /// A copy that takes long enough to do something meanwhile, once it moves bytes.
    fn slow_copy(&self, name: &str, to: &str) -> (Running, String) {
        let log = self.path(&format!("{name}-{to}.json"));
        let (token, place) = (self.token(name), self.place(name, name, to));
        let words = ["copy", "--json", "--rate", "40Mb/s", "--streams", "2", "--token-file", &token, "source/", &place];
        let mut command = self.longhaul(0, &words);
        command.stdout(fs::File::create(&log).expect("a file can be made"));
        let running = Running(command.spawn().expect("it starts"));
        let events = || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>()
        };
        let session = wait_for("a session", || {
            let started = events().into_iter().find(|event| event["event"] == "started")?;
            Some(field(&started, "session"))
        });
        let moves = |event: &Value| event["event"] == "progress" && event["bytes_done"].as_u64() > Some(0);
        wait_for("progress", || events().iter().any(moves).then_some(()));
        (running, session)
    }

    /// Checks that all of the tree is there, and whose it is.
    #[track_caller]
    fn has_arrived(&self, name: &str, to: &str, user: u32) {
        let dir = self.path(&format!("{name}/data/{to}"));
        let names = fs::read_dir(self.path("source")).expect("it can be listed");
        for file in names.map(|entry| entry.expect("it is listed").file_name()) {
            let (there, here) = (dir.join(&file), self.path("source").join(&file));
            assert_eq!(fs::metadata(&there).expect("it has arrived").uid(), user, "{}", there.display());
            assert!(fs::read(&there).expect("root may") == fs::read(&here).expect("it is ours"), "{}", there.display());
        }
    }
}

fn field(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_else(|| panic!("{key} in {of}")).to_owned()
}

#[track_caller]
fn expect(output: &Output, code: i32) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

#[test]
fn files_belong_to_the_user_of_the_instance_that_is_meant() {
    let Some(mut site) = Site::new() else { return };
    site.open(&[]);
    for (name, user) in USERS {
        expect(&site.copy(name, "in"), 0);
        site.has_arrived(name, "in", user);
    }
    // Control connections and data streams, each to its own.
    assert!(site.counter("longhaul_door_handed_total{instance=\"cms\"}") >= Some(2));

    // A token of the one opens nothing of the other, and neither can reach into the other's directory.
    let (token, place) = (site.token("cms"), site.place("atlas", "atlas", "other"));
    let text = expect(&site.run(&["copy", "--token-file", &token, "source/", &place]), 2);
    assert!(text.contains("does not take this token"), "{text}");
    let place = site.place("atlas", "cms", "other");
    let text = expect(&site.run(&["copy", "--token-file", &token, "source/", &place]), 2);
    assert!(text.contains("cannot be written at this agent"), "{text}");
    assert!(!site.path("atlas/data/other").exists());

    // Sent elsewhere than it meant, it would see another key than it knows.
    let wrong = format!("sha256:{}", "ab".repeat(32));
    let path = site.path("atlas/data/other");
    let place = format!("lh://{wrong}@{}{}", site.address(), path.display());
    let text = expect(&site.run(&["copy", "--token-file", &token, "source/", &place]), 75);
    assert!(text.contains("connection was lost"), "{text}");
    site.await_counter("longhaul_door_closed_total{reason=\"nobody\"}", 1);
    assert_eq!(site.door.take().expect("it is open").0.stop(), Some(0));
}

#[test]
fn an_instance_that_dies_does_not_disturb_the_other() {
    let Some(mut site) = Site::new() else { return };
    site.open(&[]);
    let (atlas, _) = site.slow_copy("atlas", "in");
    drop(site.instances.remove("cms").expect("it runs").0);
    site.await_counter("longhaul_door_instance_connected{instance=\"atlas\"}", 1);
    wait_for("the door to notice", || {
        (site.counter("longhaul_door_instance_connected{instance=\"cms\"}") == Some(0)).then_some(())
    });
    let mut late = TcpStream::connect(site.address()).expect("the port is open");
    late.write_all(&[b"LHD1\x01\0\0\0", &[0; 12][..], &fingerprint_start(&site, "atlas"), &[0; 48]].concat())
        .expect("it is taken");
    assert_eq!(atlas.end(), Some(0));
    site.has_arrived("atlas", "in", USERS[1].1);
    // It comes again, by the socket that the killed one left, and is found.
    let print = site_print(&site.path("cms.log"));
    site.start("cms");
    assert_eq!(site.said("cms", "fingerprint"), print);
    wait_for("the instance to be back", || {
        (site.counter("longhaul_door_instance_connected{instance=\"cms\"}") == Some(1)).then_some(())
    });
    expect(&site.copy("cms", "in"), 0);
    site.has_arrived("cms", "in", USERS[0].1);
}

/// The fingerprint in a log.
fn site_print(log: &Path) -> String {
    let text = fs::read_to_string(log).expect("it is there");
    let (_, rest) = text.split_once("fingerprint=").expect("it is said");
    rest.split_whitespace().next().expect("it is said").to_owned()
}

/// The first four bytes of an instance's fingerprint.
fn fingerprint_start(site: &Site, name: &str) -> Vec<u8> {
    let print = site.said(name, "fingerprint");
    let hex = print.strip_prefix("sha256:").expect("it begins so");
    (0..4).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).expect("it is hexadecimal")).collect()
}

#[test]
fn sessions_outlive_the_door_and_their_streams_find_them_behind_the_next() {
    let Some(mut site) = Site::new() else { return };
    site.open(&[]);
    let (copy, session) = site.slow_copy("atlas", "in");
    // The session has what it was handed, and goes on.
    drop(site.door.take().expect("it is open"));
    site.open(&[]);
    assert_eq!(site.counter("longhaul_door_handed_total{instance=\"atlas\"}"), Some(0));
    let more = site.run(&["session", "set", &session, "--streams", "6"]);
    expect(&more, 0);
    site.await_counter("longhaul_door_handed_total{instance=\"atlas\"}", 1);
    assert_eq!(site.counter("longhaul_door_handed_total{instance=\"cms\"}"), Some(0));
    expect(&site.run(&["session", "set", &session, "--rate", "off"]), 0);
    assert_eq!(copy.end(), Some(0));
    site.has_arrived("atlas", "in", USERS[1].1);
}

#[test]
fn strangers_are_closed_and_counted_and_whoever_names_nobody_gets_the_default() {
    let Some(mut site) = Site::new() else { return };
    site.open(&["--default", "atlas"]);
    let address: SocketAddr = site.address().parse().expect("it is an address");
    // One that says a little and then nothing takes a place for its time, while others come and go.
    let mut slow = TcpStream::connect(address).expect("the port is open");
    slow.write_all(&[0x16, 3, 1, 2]).expect("it is taken");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"SSH-2.0-x\r\n", &[0x16, 3, 1, 0, 4, 2, 0, 0, 0], &[0; 200]] {
        let mut stream = TcpStream::connect(address).expect("the port is open");
        // The end may come before all is written.
        let _ = stream.write_all(garbage);
        assert!(matches!(stream.read(&mut [0; 10]), Ok(0) | Err(_)), "{garbage:?} was answered");
    }
    assert_eq!(site.counter("longhaul_door_closed_total{reason=\"unreadable\"}"), Some(4));
    drop(TcpStream::connect(address).expect("the port is open"));
    site.await_counter("longhaul_door_closed_total{reason=\"silent\"}", 1);

    // Who knows no fingerprint gets the default, pins it, and is sent to the same again.
    let (token, path) = (site.token("atlas"), site.path("atlas/data/in"));
    let place = format!("lh://{address}{}", path.display());
    for _ in 0..2 {
        expect(&site.run(&["copy", "--token-file", &token, "source/", &place]), 0);
    }
    site.has_arrived("atlas", "in", USERS[1].1);
    assert_eq!(site.counter("longhaul_door_handed_total{instance=\"cms\"}"), Some(0));
    assert!(matches!(slow.read(&mut [0; 10]), Ok(0) | Err(_)), "it was answered");
    site.await_counter("longhaul_door_closed_total{reason=\"silent\"}", 2);
}

#[test]
fn an_instance_listens_to_its_door_alone() {
    let Some(site) = Site::new() else { return };
    // Root may connect, and is not the door.
    let stranger = sys::socket::connect_local(Path::new(&site.socket("cms"))).expect("root may");
    wait_for("the stranger to be turned away", || {
        let log = fs::read_to_string(site.path("cms.log")).expect("it is there");
        (log.contains("turned away") && log.contains("uid=0")).then_some(())
    });
    let mut space = [0; 8];
    let closed = wait_for("the end", || match sys::socket::recv_message(&stranger, &mut space) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
        other => Some(matches!(other, Ok((0, None)) | Err(_))),
    });
    assert!(closed);
    // A second agent does not take the socket of the first.
    let words = ["serve", "--root", "cms/data", "--state-dir", "cms/state", "--listen", "127.0.0.1:4810"];
    let socket = site.socket("cms");
    let second = [&words[..], &["--door", &socket, "--door-user", "0"]].concat();
    let text = expect(&site.longhaul(USERS[0].1, &second).output().expect("it runs"), 1);
    assert!(text.contains("another agent waits there"), "{text}");
}

#[test]
fn a_configuration_that_cannot_be_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let print = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let instance = |name: &str, socket: &str, print: &str| {
        format!("[[instance]]\nname = \"{name}\"\nsocket = \"{socket}\"\nfingerprint = \"{print}\"\n")
    };
    let good = instance("cms", "/run/x/cms", &print("a"));
    let cases = [
        (String::new(), "nobody is behind this door"),
        (format!("default = \"atlas\"\n{good}"), "there is no instance `atlas`"),
        (good.clone() + &instance("cms", "/run/x/b", &print("b")), "has the name or the socket of `cms`"),
        (good.clone() + &instance("b", "/run/x/b", &print("a")), "begins as that of `cms`"),
        (instance("c ms", "/run/x", &print("a")), "is no name of an instance"),
        (instance("cms", "run/x", &print("a")), "is not absolute"),
        (instance("cms", &format!("/{}", "x".repeat(120)), &print("a")), "is too long for a socket"),
        (instance("cms", "/run/x", "ab"), "is no fingerprint"),
        (good.clone() + "[limits]\nconnections = 0\n", "0 is out of range"),
        (good.clone() + "[limits]\nstreams = 3\n", "unknown field `streams`"),
    ];
    let check = |text: &str| {
        let path = dir.path().join("door.toml");
        fs::write(&path, text).expect("it can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["door", "--check", "--config"]).arg(path).output().expect("it runs")
    };
    for (text, why) in cases {
        let said = expect(&check(&text), 2);
        assert!(said.contains(why) && said.lines().count() == 1, "{why}: {said}");
    }
    expect(&check(include_str!("../../../packaging/door.toml")), 0);
    let said = expect(&check(&format!("listen = \"[::]:4810\"\ndefault = \"cms\"\n{good}")), 0);
    assert!(said.contains("instance   cms sha256:aaaa") && said.contains("default    cms"), "{said}");
}
