//! A controller and agents, each with its own directories beneath one world.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::world::{Ended, Running, World, wait_for};

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

/// All of it; programs end with it.
pub(crate) struct Fleet {
    pub(crate) world: World,
    controller: Option<Running>,
    agents: Vec<(String, Option<Running>)>,
    address: String,
    fingerprint: String,
    token: String,
}

impl Fleet {
    /// A controller whose ocean has that rate, and an agent at each of these hosts; those at the west and the east are told by the first
    /// letter. Each site is an endpoint, `west` or `east`, of all its hosts, which share a directory.
    pub(crate) fn new(rate: &str, hosts: &[&str]) -> Fleet {
        let world = World::still();
        let mut network = NETWORK.replace("RATE", rate);
        for host in hosts {
            let site = if host.starts_with('w') { "west" } else { "east" };
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
            address: "127.0.0.1:0".to_owned(),
            fingerprint: String::new(),
            token: String::new(),
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
        self.world.path(&format!("{site}-data"))
    }

    /// Starts the controller, at the port of before if there was one.
    pub(crate) fn start_controller(&mut self) {
        let ready_file = self.world.path("controller.json");
        let _ = fs::remove_file(&ready_file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["controller", "--listen", &self.address, "--state-dir"]).arg(self.world.path("controller"));
        command.arg("--network").arg(self.world.path("network.toml"));
        command.arg("--shares").arg(self.world.path("shares.toml"));
        command.arg("--ready-file").arg(&ready_file).env("LONGHAUL_LOG", "info,controller=debug");
        let mut controller = self.world.start(command);
        let ready: Value = wait_for("the controller to be ready", || {
            assert!(!controller.has_ended(), "the controller ended: {}", controller.err());
            serde_json::from_slice(&fs::read(&ready_file).unwrap_or_default()).ok()
        });
        let text = |key: &str| ready[key].as_str().expect("the ready file is complete").to_owned();
        (self.address, self.fingerprint, self.token) = (text("address"), text("fingerprint"), text("admin_token"));
        self.controller = Some(controller);
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
        let site = if host.starts_with('w') { "west" } else { "east" };
        let config = format!(
            "[controller]\naddress = \"{}\"\nfingerprint = \"{}\"\nenrol_token_file = \"{}\"\n\n[[grant]]\ncontroller = \"*\"\ncollaboration = \"*\"\nroot = \"{}\"\nread = true\nwrite = true\n",
            self.address,
            self.fingerprint,
            dir.join("enrol").display(),
            self.data(site).display(),
        );
        fs::write(dir.join("serve.toml"), config).expect("a file can be written");
        self.agents.push((host.to_owned(), None));
        self.start_agent(host);
    }

    /// Starts the agent of a host, and waits until the controller knows it.
    pub(crate) fn start_agent(&mut self, host: &str) {
        let dir = self.world.path(host);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(dir.join("serve.toml"));
        command.arg("--state-dir").arg(dir.join("state")).env("LONGHAUL_LOG", "info,agent=debug");
        let mut agent = self.world.start(command);
        wait_for("the agent to be there", || {
            assert!(!agent.has_ended(), "the agent ended: {}", agent.err());
            let agents = self.json(&["agent", "ls"]);
            let mut known = agents["agents"].as_array().expect("a list").iter();
            known.any(|known| known["host"] == host && known["state"] == "online").then_some(())
        });
        self.slot(host).replace(agent);
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

    /// The same, not yet started.
    pub(crate) fn asking(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(arguments).args(["--controller", &format!("https://{}", self.address)]);
        command.args(["--fingerprint", &self.fingerprint]).env("LONGHAUL_TOKEN", &self.token);
        command
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

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}
