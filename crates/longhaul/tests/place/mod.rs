//! A directory of one's own for each test, and programs that run in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long an agent may take to start.
const START_TIME_MAX: Duration = Duration::from_secs(20);

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory that is the whole world of a command: its state, its sockets, where it runs.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory can be made");
        fs::create_dir(dir.path().join("run")).expect("a directory can be made");
        Place { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program, with words that hold no spaces.
    pub(crate) fn longhaul(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(line.split_whitespace()).current_dir(self.dir.path());
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_RUNTIME_DIR", self.path("run"));
        command.env_remove("LONGHAUL_TOKEN").stdin(Stdio::null());
        command
    }
}

/// A running agent with one writable root, `in`.
pub(crate) struct Agent {
    child: Child,
    ready: serde_json::Value,
    root: PathBuf,
}

impl Agent {
    pub(crate) fn start(place: &Place) -> Agent {
        let root = place.path("in");
        fs::create_dir(&root).expect("a directory can be made");
        let ready_file = place.path("ready.json");
        let mut command = place.longhaul("serve --listen 127.0.0.1:0 --state-dir agent --ready-file ready.json --root");
        let log = fs::File::create(place.path("agent.log")).expect("a log can be written");
        let mut child = command.arg(&root).stderr(log).spawn().expect("the program runs");
        let begin = Instant::now();
        while !ready_file.exists() {
            let ended = child.try_wait().expect("a child can be asked").is_some();
            if ended || begin.elapsed() > START_TIME_MAX {
                let _ = child.kill();
                panic!("the agent does not start: {}", fs::read_to_string(place.path("agent.log")).unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let text = fs::read_to_string(&ready_file).expect("the ready file can be read");
        Agent { child, ready: serde_json::from_str(&text).expect("the ready file is JSON"), root }
    }

    fn ready(&self, key: &str) -> &str {
        self.ready[key].as_str().expect("the ready file is complete")
    }

    pub(crate) fn fingerprint(&self) -> &str {
        self.ready("fingerprint")
    }

    /// A place at this agent; `in/` for its root.
    pub(crate) fn location(&self, name: &str) -> String {
        format!("lh://{}{}/{}", self.ready("address"), self.root.display(), name.trim_start_matches("in/"))
    }

    /// The program with this agent's token.
    pub(crate) fn client(&self, place: &Place, line: &str) -> Command {
        let mut command = place.longhaul(line);
        command.env("LONGHAUL_TOKEN", self.ready("token"));
        command
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
