//! A controller and agents on the hosts of a twin, each program in the namespace of its host.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::world::{Ended, Running, World, wait_for};

/// The port of the controller, and of agents: namespaces have all ports for themselves.
const CONTROLLER: &str = "0.0.0.0:4811";
const AGENT: &str = "[::]:4810";

/// Two twins at once make each other late on a small machine: questions are lost then, and paths suspect that work.
static ONE: Mutex<()> = Mutex::new(());

/// All of it; it goes with this.
pub(crate) struct Twinned {
    pub(crate) world: World,
    name: String,
    /// The controller's host.
    host: String,
    address: String,
    fingerprint: String,
    token: String,
    up: Cell<bool>,
    controller: Option<Running>,
    agents: Vec<(String, Running)>,
    /// Given back when all else is gone.
    _one: MutexGuard<'static, ()>,
}

impl Twinned {
    /// A twin with a controller at one of its hosts, configured like that. None, with a message, where twins cannot be made.
    pub(crate) fn new(topic: &str, network: &str, shares: &str, host: &str, config: &str) -> Option<Twinned> {
        let is_root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
        if !is_root || !Command::new("ip").args(["netns", "list"]).output().is_ok_and(|told| told.status.success()) {
            eprintln!("skipped: twins need root, network namespaces and iproute2");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let world = World::still();
        let name = format!("lh{}-{topic}", std::process::id());
        for (file, text) in [("up.toml", network), ("shares.toml", shares), ("controller.toml", config)] {
            fs::write(world.path(file), text).expect("a file can be written");
        }
        let mut all = Twinned {
            world,
            name,
            host: host.to_owned(),
            address: String::new(),
            fingerprint: String::new(),
            token: String::new(),
            up: Cell::new(false),
            controller: None,
            agents: Vec::new(),
            _one: one,
        };
        all.bring_up();
        all.start_controller();
        Some(all)
    }

    fn bring_up(&self) {
        self.up.set(true);
        let mut up = self.program();
        up.args(["twin", "up"]).arg(self.world.path("up.toml")).args(["--name", &self.name]);
        self.world.run(up).expect_code(0);
        let mut topology = self.program();
        topology.args(["twin", "topology", "--twin", &self.name]);
        let text = self.world.run(topology).expect_code(0).out;
        fs::write(self.world.path("network.toml"), text).expect("a file can be written");
    }

    fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.env_remove("LONGHAUL_TWIN").env("LONGHAUL_LOG", "info,agent=debug,controller=debug,mover=debug");
        command
    }

    /// The program, on a host.
    fn at(&self, host: &str) -> Command {
        let mut command = self.program();
        command.args(["twin", "exec", "--twin", &self.name, host, "--", env!("CARGO_BIN_EXE_longhaul")]);
        command
    }

    fn start_controller(&mut self) {
        let ready_file = self.world.path("controller.json");
        let mut command = self.at(&self.host);
        command.args(["controller", "--listen", CONTROLLER, "--config"]).arg(self.world.path("controller.toml"));
        command.arg("--state-dir").arg(self.world.path("controller"));
        command.arg("--network").arg(self.world.path("network.toml"));
        command.arg("--shares").arg(self.world.path("shares.toml")).arg("--ready-file").arg(&ready_file);
        let mut controller = self.world.start(command);
        let ready: Value = wait_for("the controller to be ready", || {
            assert!(!controller.has_ended(), "the controller ended: {}", controller.err());
            serde_json::from_slice(&fs::read(&ready_file).unwrap_or_default()).ok()
        });
        let text = |key: &str| ready[key].as_str().expect("the ready file is complete").to_owned();
        (self.fingerprint, self.token) = (text("fingerprint"), text("admin_token"));
        self.address = format!("{}:4811", self.address_of(&self.host));
        self.controller = Some(controller);
    }

    /// The first address of a host.
    fn address_of(&self, host: &str) -> String {
        let mut list = self.program();
        list.args(["twin", "ls", "--json"]);
        let told: Value = serde_json::from_str(&self.world.run(list).expect_code(0).out).expect("it is JSON");
        let twin = told["twins"].as_array().expect("a list").iter().find(|twin| twin["name"] == self.name.as_str());
        let hosts = twin.expect("it is up")["hosts"].as_array().expect("a list").clone();
        let found = hosts.into_iter().find(|of| of["name"] == host).expect("it is one of them");
        found["addresses"][0].as_str().expect("it has one").to_owned()
    }

    /// Where the files of a host are.
    pub(crate) fn data(&self, host: &str) -> PathBuf {
        self.world.path(&format!("{host}-data"))
    }

    /// Enrols and starts the agent of a host, which may read and write its files.
    pub(crate) fn agent(&mut self, host: &str) {
        self.agent_with(host, "");
    }

    /// The same with more in its configuration.
    pub(crate) fn agent_with(&mut self, host: &str, more: &str) {
        let made = self.json(&["agent", "token", host]);
        let dir = self.world.path(host);
        fs::create_dir_all(&dir).expect("a directory can be made");
        fs::create_dir_all(self.data(host)).expect("a directory can be made");
        fs::write(dir.join("enrol"), made["token"].as_str().expect("it is shown")).expect("a file can be written");
        let config = format!(
            "[controller]\naddress = \"{}\"\nfingerprint = \"{}\"\nenrol_token_file = \"{}\"\n\n[[grant]]\ncontroller = \"*\"\ncollaboration = \"*\"\nroot = \"{}\"\nread = true\nwrite = true\n{more}",
            self.address,
            self.fingerprint,
            dir.join("enrol").display(),
            self.data(host).display(),
        );
        fs::write(dir.join("serve.toml"), config).expect("a file can be written");
        let mut command = self.at(host);
        command.args(["serve", "--listen", AGENT, "--config"]).arg(dir.join("serve.toml"));
        command.arg("--state-dir").arg(dir.join("state"));
        let mut agent = self.world.start(command);
        wait_for("the agent to be there", || {
            assert!(!agent.has_ended(), "the agent ended: {}", agent.err());
            let agents = self.json(&["agent", "ls"]);
            let mut known = agents["agents"].as_array().expect("a list").iter();
            known.any(|known| known["host"] == host && known["state"] == "online").then_some(())
        });
        self.agents.push((host.to_owned(), agent));
    }

    /// An endpoint of these hosts, beneath the files of its name.
    pub(crate) fn endpoint(&self, name: &str, hosts: &[&str]) {
        let root = self.data(name).display().to_string();
        let mut arguments = vec!["endpoint", "set", name, "--root", &root];
        hosts.iter().for_each(|host| arguments.extend(["--host", host]));
        self.ask(&arguments).expect_code(0);
    }

    fn asking(&self, arguments: &[&str]) -> Command {
        let mut command = self.at(&self.host);
        command.args(arguments).args(["--controller", &format!("https://{}", self.address)]);
        command.args(["--fingerprint", &self.fingerprint]).env("LONGHAUL_TOKEN", &self.token);
        command
    }

    /// A command that asks the controller.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Ended {
        self.world.run(self.asking(arguments))
    }

    /// What a command with `--json` says.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.ask(&[arguments, &["--json"]].concat()).expect_code(0);
        serde_json::from_str(ended.out.trim()).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ended.out))
    }

    /// Tells the controller what the links of the twin carry, as long as it runs.
    pub(crate) fn counting(&self) -> Running {
        let mut command = self.at(&self.host);
        let to = format!("https://{}#{}", self.address, self.fingerprint);
        command.args(["twin", "stats", "--twin", &self.name, "--to", &to]).env("LONGHAUL_TOKEN", &self.token);
        self.world.start(command)
    }

    /// Traffic that is no transfer, from a host to another one with an agent, as long as it runs.
    pub(crate) fn at_large(&self, from: &str, to: &str, rate: &str) -> Running {
        let mut command = self.at(from);
        command.args(["test", "throughput", to, "--rate", rate, "--duration", "10m", "--streams", "1"]);
        command.arg("--token-file").arg(self.world.path(to).join("state/token"));
        self.world.start(command)
    }

    /// Follows what happens, from the begin on; one object a line.
    pub(crate) fn follow(&self) -> Running {
        self.world.start(self.asking(&["event", "--since", "0", "--json"]))
    }

    /// Submits a transfer; its number.
    #[track_caller]
    pub(crate) fn submit(&self, from: &str, to: &str, class: &str) -> String {
        let told = self.json(&["transfer", "submit", from, to, "--class", class, "--collaboration", class]);
        told["id"].as_str().expect("it has a number").to_owned()
    }

    /// Waits until a transfer has ended; what it is then.
    #[track_caller]
    pub(crate) fn end_of(&self, id: &str) -> Value {
        wait_for("the transfer to end", || {
            let told = self.json(&["transfer", "show", id]);
            let state = told["state"].as_str().expect("it has one");
            matches!(state, "done" | "partly" | "failed" | "cancelled").then_some(told)
        })
    }

    /// Changes a link of the twin.
    pub(crate) fn link(&self, link: &str, change: &str) {
        let mut command = self.program();
        command.args(["twin", "link", "--twin", &self.name, link, change]);
        self.world.run(command).expect_code(0);
    }

    /// Sets a value beneath `/proc/sys` of a host.
    pub(crate) fn sysctl(&self, host: &str, file: &str, value: &str) {
        let mut command = self.program();
        command.args(["twin", "exec", "--twin", &self.name, host, "--", "sh", "-c"]);
        command.arg(format!("echo {value} > /proc/sys/{file}"));
        self.world.run(command).expect_code(0);
    }

    /// Bytes that the twin delivered over a link, both ways.
    pub(crate) fn carried(&self, link: &str) -> u64 {
        let mut command = self.program();
        command.args(["twin", "stats", "--twin", &self.name, link, "--json"]);
        let told: Value = serde_json::from_str(&self.world.run(command).expect_code(0).out).expect("it is JSON");
        delivered(&told)
    }

    /// What the agent of a host logged.
    pub(crate) fn log_of(&self, host: &str) -> String {
        self.agents.iter().filter(|(of, _)| of == host).map(|(_, agent)| agent.err()).collect()
    }

    /// Logs of all, for a test that fails.
    fn logs(&self) -> String {
        let all = self.agents.iter().map(|(host, agent)| (host.as_str(), agent.err()));
        let controller = self.controller.iter().map(|running| ("controller", running.err()));
        all.chain(controller).map(|(who, text)| format!("== {who}\n{text}\n")).collect()
    }
}

/// The sum of what left links, wherever it stands.
fn delivered(told: &Value) -> u64 {
    match told {
        Value::Object(all) => {
            let of = |(key, value): (&String, &Value)| match key.as_str() {
                "departed" => value["bytes"].as_u64().unwrap_or(0),
                _ => delivered(value),
            };
            all.iter().map(of).sum()
        }
        Value::Array(all) => all.iter().map(delivered).sum(),
        _ => 0,
    }
}

impl Drop for Twinned {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        self.agents.clear();
        self.controller = None;
        if self.up.get() {
            let _ = self.program().args(["twin", "down", &self.name]).output();
        }
    }
}
