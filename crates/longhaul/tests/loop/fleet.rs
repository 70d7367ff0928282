//! A controller and agents, each with its own directories beneath one world.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::proxy::Proxy;
use crate::volatile::Disk;
use crate::world::{Ended, Running, World, under, wait_for};

/// Hosts at two sites, with a link between them that is the narrowest of all.
const NETWORK: &str = r#"
name = "two-sites"

[[router]]
name = "west"

[[router]]
name = "east"

[[link]]
name = "ocean"
ends = ["west", "east"]
rate = "RATE"
high_water = "80 %"
"#;

/// Two collaborations and what is below them.
const SHARES: &str = r#"
[[class]]
name = "cms"
weight = 3

[[class]]
name = "atlas"
weight = 1

[[class]]
name = "spare"
scavenger = true
"#;

/// What a fleet stands on, where that is not the usual.
#[derive(Default)]
pub(crate) struct Ground {
    /// The controller's state directory.
    pub(crate) controller: Option<PathBuf>,
    /// By site: a directory for its data and the states of its agents.
    pub(crate) sites: BTreeMap<String, PathBuf>,
    /// Agents reach the controller over wires of their own, which can be cut.
    pub(crate) wires: bool,
    /// What the environment of an agent has in addition, by host.
    pub(crate) environments: BTreeMap<String, Vec<(String, String)>>,
    /// Network namespaces and addresses of hosts, and of `controller` with those who ask it.
    pub(crate) places: BTreeMap<String, (String, String)>,
    /// Mounted in the world.
    pub(crate) disks: BTreeMap<String, Disk>,
}

/// All of it; programs end with it, then disks, then the world.
pub(crate) struct Fleet {
    controller: Option<Running>,
    agents: Vec<(String, Option<Running>)>,
    wires: BTreeMap<String, Proxy>,
    pub(crate) address: String,
    pub(crate) fingerprint: String,
    pub(crate) token: String,
    pub(crate) ground: Ground,
    pub(crate) world: World,
}

impl Fleet {
    /// A controller whose ocean has that rate, and an agent at each of these hosts; those at the west and the east are told by the first
    /// letter. Each site is an endpoint, `west` or `east`, of all its hosts, which share a directory.
    pub(crate) fn new(rate: &str, hosts: &[&str]) -> Fleet {
        Fleet::on(World::still(), rate, hosts, Ground::default())
    }

    /// The same in a world that is there, on a ground of its own.
    pub(crate) fn on(world: World, rate: &str, hosts: &[&str], ground: Ground) -> Fleet {
        let mut network = NETWORK.replace("RATE", rate);
        for host in hosts {
            let site = site_of(host);
            network.push_str(&format!("\n[[host]]\nname = \"{host}\"\n"));
            network.push_str(&format!(
                "\n[[link]]\nname = \"{host}-{site}\"\nends = [\"{host}\", \"{site}\"]\nrate = \"40 Gb/s\"\n"
            ));
        }
        fs::write(world.path("network.toml"), network).expect("a file can be written");
        fs::write(world.path("shares.toml"), SHARES).expect("a file can be written");
        let mut fleet = Fleet {
            world,
            controller: None,
            agents: Vec::new(),
            wires: BTreeMap::new(),
            address: String::new(),
            fingerprint: String::new(),
            token: String::new(),
            ground,
        };
        fleet.start_controller();
        for site in ["west", "east"] {
            fs::create_dir_all(fleet.data(site)).expect("a directory can be made");
            let at: Vec<&&str> = hosts.iter().filter(|host| host.starts_with(&site[..1])).collect();
            if at.is_empty() {
                continue;
            }
            let mut arguments = vec!["endpoint".to_owned(), "set".to_owned(), site.to_owned()];
            at.iter().for_each(|host| arguments.extend(["--host".to_owned(), (**host).to_owned()]));
            arguments.extend(["--root".to_owned(), fleet.data(site).display().to_string()]);
            fleet.ask_owned(&arguments).expect_code(0);
        }
        for host in hosts {
            fleet.enrol(host);
        }
        fleet
    }

    /// Where the files of a site are.
    pub(crate) fn data(&self, site: &str) -> PathBuf {
        match self.ground.sites.get(site) {
            Some(dir) => dir.join("data"),
            None => self.world.path(&format!("{site}-data")),
        }
    }

    /// Where an agent keeps what it needs after a restart.
    pub(crate) fn state_of(&self, host: &str) -> PathBuf {
        match self.ground.sites.get(site_of(host)) {
            Some(dir) => dir.join(host),
            None => self.world.path(host).join("state"),
        }
    }

    /// Where the controller does.
    pub(crate) fn state_of_controller(&self) -> PathBuf {
        self.ground.controller.clone().unwrap_or_else(|| self.world.path("controller"))
    }

    /// Starts the controller, at the port of before if there was one and agents are not led to it.
    pub(crate) fn start_controller(&mut self) {
        let ready_file = self.world.path("controller.json");
        let _ = fs::remove_file(&ready_file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let is_new = self.ground.wires || self.fingerprint.is_empty();
        let address = if is_new { self.listens("controller") } else { self.address.clone() };
        command.args(["controller", "--listen", &address, "--state-dir"]).arg(self.state_of_controller());
        command.arg("--network").arg(self.world.path("network.toml"));
        command.arg("--shares").arg(self.world.path("shares.toml"));
        command.arg("--ready-file").arg(&ready_file).env("LONGHAUL_LOG", "info,controller=debug");
        let mut controller = self.world.start(self.placed("controller", command));
        let ready: Value = wait_for("the controller to be ready", || {
            assert!(!controller.has_ended(), "the controller ended: {}", controller.err());
            serde_json::from_slice(&fs::read(&ready_file).unwrap_or_default()).ok()
        });
        let text = |key: &str| ready[key].as_str().expect("the ready file is complete").to_owned();
        (self.address, self.fingerprint, self.token) = (text("address"), text("fingerprint"), text("admin_token"));
        self.wires.values().for_each(|wire| wire.lead_to(&self.address));
        self.controller = Some(controller);
    }

    /// Its process.
    pub(crate) fn controller(&self) -> &Running {
        self.controller.as_ref().expect("it runs")
    }

    /// The controller has not ended by itself.
    pub(crate) fn must_run(&mut self) {
        let status = self.controller.as_mut().expect("it was started").status();
        assert!(status.is_none(), "the controller ended: {status:?}");
    }

    /// What an agent reaches the controller by, where it has that of its own.
    pub(crate) fn wire(&self, host: &str) -> &Proxy {
        &self.wires[host]
    }

    /// SIGKILL.
    pub(crate) fn kill_controller(&mut self) {
        self.controller.take().expect("it runs").kill();
    }

    /// SIGTERM, and its end.
    pub(crate) fn stop_controller(&mut self) -> Ended {
        let controller = self.controller.take().expect("it runs");
        controller.signal("TERM");
        controller.end()
    }

    fn enrol(&mut self, host: &str) {
        let made = self.json(&["agent", "token", host]);
        let token = made["token"].as_str().expect("it is shown").to_owned();
        let dir = self.world.path(host);
        fs::create_dir_all(&dir).expect("a directory can be made");
        fs::write(dir.join("enrol"), token).expect("a file can be written");
        let address = if self.ground.wires {
            let wire = Proxy::sound(&self.address);
            self.wires.insert(host.to_owned(), wire);
            self.wires[host].address()
        } else {
            self.address.clone()
        };
        let config = format!(
            "[controller]\naddress = \"{}\"\nfingerprint = \"{}\"\nenrol_token_file = \"{}\"\n\n[[grant]]\ncontroller = \"*\"\ncollaboration = \"*\"\nroot = \"{}\"\nread = true\nwrite = true\n",
            address,
            self.fingerprint,
            dir.join("enrol").display(),
            self.data(site_of(host)).display(),
        );
        fs::write(dir.join("serve.toml"), config).expect("a file can be written");
        self.agents.push((host.to_owned(), None));
        self.start_agent(host);
    }

    /// Writes lines more into what an agent has of its controller, and starts it anew.
    pub(crate) fn configure(&mut self, host: &str, lines: &str) {
        let path = self.world.path(host).join("serve.toml");
        let written = fs::read_to_string(&path).expect("it was written");
        fs::write(&path, written.replace("[controller]\n", &format!("[controller]\n{lines}\n")))
            .expect("a file can be written");
        self.kill_agent(host);
        self.start_agent(host);
    }

    /// Starts the agent of a host, and waits until the controller knows it.
    pub(crate) fn start_agent(&mut self, host: &str) {
        self.launch_agent(host);
        wait_for("the agent to be there", || {
            let agent = self.slot(host).as_mut().expect("just started");
            assert!(!agent.has_ended(), "the agent ended: {}", agent.err());
            let agents = self.json(&["agent", "ls"]);
            let mut known = agents["agents"].as_array().expect("a list").iter();
            known.any(|known| known["host"] == host && known["state"] == "online").then_some(())
        });
    }

    /// Starts it, wherever the controller is.
    pub(crate) fn launch_agent(&mut self, host: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["serve", "--listen", &self.listens(host), "--config"]);
        command.arg(self.world.path(host).join("serve.toml"));
        command.arg("--state-dir").arg(self.state_of(host)).env("LONGHAUL_LOG", "info,agent=debug");
        let more = self.ground.environments.get(host).into_iter().flatten();
        command.envs(more.map(|(name, value)| (name, value)));
        let agent = self.world.start(self.placed(host, command));
        self.slot(host).replace(agent);
    }

    /// Starts the agents that do not run.
    pub(crate) fn launch_missing(&mut self) {
        let missing = self.agents.iter().filter(|(_, agent)| agent.is_none()).map(|(host, _)| host.clone());
        for host in missing.collect::<Vec<_>>() {
            self.launch_agent(&host);
        }
    }

    /// The hosts whose agents run.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.agents.iter().filter(|(_, agent)| agent.is_some()).map(|(host, _)| host.clone()).collect()
    }

    /// SIGKILL.
    pub(crate) fn kill_agent(&mut self, host: &str) {
        self.slot(host).take().expect("it runs").kill();
    }

    fn slot(&mut self, host: &str) -> &mut Option<Running> {
        let of = self.agents.iter_mut().find(|(name, _)| name == host);
        &mut of.expect("it is one of them").1
    }

    /// A command that asks the controller, with the admin's token.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Ended {
        self.ask_owned(&arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    fn ask_owned(&self, arguments: &[String]) -> Ended {
        self.world.run(self.asking(arguments))
    }

    /// An address with any port.
    fn listens(&self, who: &str) -> String {
        format!("{}:0", self.ground.places.get(who).map_or("127.0.0.1", |(_, address)| address))
    }

    /// A command in its namespace.
    fn placed(&self, who: &str, command: Command) -> Command {
        match self.ground.places.get(who) {
            Some((namespace, _)) => under(&["ip", "netns", "exec", namespace], &command),
            None => command,
        }
    }

    /// The same, not yet started.
    pub(crate) fn asking(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(arguments).args(["--controller", &format!("https://{}", self.address)]);
        command.args(["--fingerprint", &self.fingerprint]).env("LONGHAUL_TOKEN", &self.token);
        self.placed("controller", command)
    }

    /// `twin up` of the controller's network.
    pub(crate) fn from(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args([
            "twin",
            "up",
            "--from",
            &format!("https://{}", self.address),
            "--fingerprint",
            &self.fingerprint,
        ]);
        command.env("LONGHAUL_TOKEN", &self.token);
        command
    }

    /// What a command with `--json` says.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ended = self.ask(&[arguments, &["--json"]].concat()).expect_code(0);
        serde_json::from_str(ended.out.trim()).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", ended.out))
    }

    /// Submits a transfer; its number.
    #[track_caller]
    pub(crate) fn submit(&self, from: &str, to: &str, class: &str, options: &[&str]) -> String {
        let places = [self.place(from), self.place(to)];
        let arguments = ["transfer", "submit", &places[0], &places[1], "--class", class, "--collaboration", class];
        let told = self.json(&[&arguments, options].concat());
        told["id"].as_str().expect("it has a number").to_owned()
    }

    /// `west:name` as a place of the endpoint.
    pub(crate) fn place(&self, text: &str) -> String {
        let (site, name) = text.split_once(':').expect("a site and a name");
        format!("{site}:{}/{name}", self.data(site).display())
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

    /// Logs of all, for a test that fails.
    pub(crate) fn logs(&self) -> String {
        let all = self.agents.iter().filter_map(|(host, agent)| Some((host.as_str(), agent.as_ref()?.err())));
        let controller = self.controller.iter().map(|running| ("controller", running.err()));
        all.chain(controller).map(|(who, text)| format!("== {who}\n{text}\n")).collect()
    }
}

/// The site of a host.
pub(crate) fn site_of(host: &str) -> &'static str {
    if host.starts_with('w') { "west" } else { "east" }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.controller.as_mut().and_then(Running::status);
            eprintln!("{}the controller's end: {ended:?}", self.logs());
        }
    }
}
