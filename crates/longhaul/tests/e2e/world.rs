//! A world for one test: directories, an agent, and programs that are never waited for without end.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest that any program of a test may take.
const TIME_MAX: Duration = Duration::from_secs(180);
/// How often something awaited is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Looks until `done` gives something.
pub(crate) fn wait_for<T>(what: &str, done: impl FnMut() -> Option<T>) -> T {
    wait_within(TIME_MAX, what, done)
}

fn wait_within<T>(limit: Duration, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(begin.elapsed() < limit, "waited {limit:?} for {what}");
        sleep(LOOK);
    }
}

/// A child that dies with its test.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// What a program left.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// What it wrote to standard error so far.
    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap_or_default()).into_owned()
    }

    /// SIGINT.
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// A signal by its name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs").success());
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it still runs");
        self.child.wait().expect("it is our child");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// How it ended, if it has.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Whether it has ended, and well.
    pub(crate) fn has_succeeded(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some_and(|status| status.success())
    }

    pub(crate) fn end(self) -> Ended {
        self.end_within(TIME_MAX)
    }

    pub(crate) fn end_within(mut self, limit: Duration) -> Ended {
        let status = wait_within(limit, "a program to end", || self.child.try_wait().expect("it is our child"));
        let err = String::from_utf8_lossy(&fs::read(&self.err).unwrap_or_default()).into_owned();
        Ended { status, out: self.out(), err }
    }

    /// The id of the session, once there is one.
    pub(crate) fn session(&self) -> String {
        wait_for("a session", || {
            let started = events(&self.out()).into_iter().find(|event| event["event"] == "started")?;
            Some(started["session"].as_str().expect("it has a name").to_owned())
        })
    }

    /// Waits until a quarter of the copy is done.
    pub(crate) fn wait_for_progress(&mut self) {
        wait_for("progress", || {
            assert!(!self.has_ended(), "it ended early: {}", self.out());
            let moved = |event: &Value| {
                let (done, total) = (event["bytes_done"].as_u64(), event["bytes_total"].as_u64());
                event["event"] == "progress" && total > Some(0) && done >= total.map(|total| total / 4)
            };
            events(&self.out()).iter().any(moved).then_some(())
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Ended {
        assert_eq!(self.code(), Some(code), "{}{}", self.out, self.err);
        self
    }

    /// The events of a command with `--json`.
    pub(crate) fn events(&self) -> Vec<Value> {
        events(&self.out)
    }

    /// The last event of a command with `--json`.
    #[track_caller]
    pub(crate) fn summary(&self) -> Value {
        let last = events(&self.out).pop().unwrap_or_default();
        assert_eq!(last["event"], "summary", "{}{}", self.out, self.err);
        last
    }
}

/// The whole lines of JSON; the last one of a killed program may be half.
pub(crate) fn events(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Directories of one test, with an agent that serves `rw` and `ro`.
pub(crate) struct World {
    agent: Option<Running>,
    ready: Value,
    programs: std::cell::Cell<u32>,
    dir: tempfile::TempDir,
}

/// The same command as the last arguments of another program, such as `env` or `ip netns exec`.
pub(crate) fn under(prefix: &[&str], command: &Command) -> Command {
    let Some((program, first)) = prefix.split_first() else { panic!("a program is named") };
    let mut whole = Command::new(program);
    whole.args(first).arg(command.get_program()).args(command.get_args());
    whole.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    whole
}

impl World {
    pub(crate) fn new() -> World {
        let mut world = World::still();
        world.start_agent_under(&[], "127.0.0.1:0");
        world
    }

    /// A world whose agent has a configuration file beside its options; `config` is told the world's directory.
    pub(crate) fn configured(config: impl FnOnce(&Path) -> String) -> World {
        let mut world = World::still();
        fs::write(world.path("serve.toml"), config(world.dir.path())).expect("a file can be written");
        world.start_agent_under(&[], "127.0.0.1:0");
        world
    }

    /// With an agent that listens there, in a network namespace.
    pub(crate) fn with_agent_at(listen: &str, namespace: &str) -> World {
        let mut world = World::still();
        world.start_agent_under(&["ip", "netns", "exec", namespace], listen);
        world
    }

    /// The directories, no agent yet.
    pub(crate) fn still() -> World {
        // Not /tmp, which may be in memory and knows no holes or O_DIRECT there.
        let base = std::env::var_os("CARGO_TARGET_TMPDIR").unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
        let dir = tempfile::tempdir_in(base).expect("a directory can be made");
        let world = World { agent: None, ready: Value::Null, programs: 0.into(), dir };
        for name in ["rw", "ro", "run", "state"] {
            fs::create_dir(world.path(name)).expect("a directory can be made");
        }
        fs::write(world.path("serve.toml"), "").expect("a file can be written");
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with content of its own, and the directories above it.
    pub(crate) fn write(&self, name: &str, length: usize) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory can be made");
        let mut state = length as u64 ^ 0x9e37_79b9_7f4a_7c15;
        let content = (0..length.div_ceil(8)).flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        fs::write(&path, content.take(length).collect::<Vec<u8>>()).expect("a file can be written");
        path
    }

    fn spawn(&self, command: &mut Command) -> Running {
        self.spawn_with(command, Stdio::null(), None)
    }

    /// With standard input and output of its own; `None` is a file that [`Ended::out`] shows.
    pub(crate) fn spawn_with(&self, command: &mut Command, input: Stdio, output: Option<Stdio>) -> Running {
        let number = self.programs.replace(self.programs.get() + 1);
        let (out, err) = (self.path(&format!("out-{number}")), self.path(&format!("err-{number}")));
        let file = |path: &Path| fs::File::create(path).expect("a file can be made");
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_RUNTIME_DIR", self.path("run"));
        let output = output.unwrap_or_else(|| file(&out).into());
        command.stdin(input).stdout(output).stderr(file(&err));
        Running { child: command.spawn().expect("the program runs"), out, err }
    }

    /// Starts the agent, as the last arguments of another program if one is named that becomes it.
    pub(crate) fn start_agent_under(&mut self, prefix: &[&str], listen: &str) {
        let ready_file = self.path("ready.json");
        let _ = fs::remove_file(&ready_file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let mut readable: OsString = self.path("ro").into();
        readable.push(":ro");
        command.args(["serve", "--listen", listen, "--root"]).arg(self.path("rw")).arg("--root").arg(readable);
        command.arg("--config").arg(self.path("serve.toml"));
        command.arg("--state-dir").arg(self.path("agent")).arg("--ready-file").arg(&ready_file);
        if !prefix.is_empty() {
            command = under(prefix, &command);
        }
        let mut agent = self.spawn(&mut command);
        self.ready = wait_for("the agent to be ready", || {
            assert!(!agent.has_ended(), "the agent ended: {}", fs::read_to_string(&agent.err).unwrap_or_default());
            serde_json::from_slice(&fs::read(&ready_file).unwrap_or_default()).ok()
        });
        self.agent = Some(agent);
    }

    /// SIGKILL to the agent, and another one at the same port with the same state.
    pub(crate) fn kill_agent(&mut self) {
        self.agent.take().expect("it runs").kill();
    }

    pub(crate) fn restart_agent(&mut self) {
        let address = self.ready("address").to_owned();
        self.start_agent_under(&[], &address);
    }

    pub(crate) fn agent(&mut self) -> &mut Running {
        self.agent.as_mut().expect("it was started")
    }

    fn ready(&self, key: &str) -> &str {
        self.ready[key].as_str().expect("the ready file is complete")
    }

    pub(crate) fn address(&self) -> &str {
        self.ready("address")
    }

    /// A place at the agent: a path of this world, or an absolute one.
    pub(crate) fn there(&self, name: &str) -> OsString {
        self.there_by(self.address(), name)
    }

    /// The same, reached at other addresses.
    pub(crate) fn there_by(&self, addresses: &str, name: &str) -> OsString {
        let mut place: OsString = format!("lh://{addresses}").into();
        place.push(self.path(name));
        place
    }

    /// A place here.
    pub(crate) fn here(&self, name: &str) -> OsString {
        self.path(name).into()
    }

    /// `copy` with options that hold no spaces, not yet started.
    pub(crate) fn copy_command(&self, options: &str, from: &OsStr, to: &OsStr) -> Command {
        let mut command = self.command("copy", options);
        command.args(["--fingerprint", self.ready("fingerprint"), "--json"]).args([from, to]);
        command
    }

    pub(crate) fn command(&self, name: &str, options: &str) -> Command {
        let mut command = self.bare_command(name, options);
        command.env("LONGHAUL_TOKEN", self.ready("token"));
        command
    }

    /// Without the agent's token.
    pub(crate) fn bare_command(&self, name: &str, options: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(name.split(' ')).args(options.split_whitespace()).env_remove("LONGHAUL_TOKEN");
        command
    }

    pub(crate) fn fingerprint(&self) -> &str {
        self.ready("fingerprint")
    }

    pub(crate) fn start(&self, mut command: Command) -> Running {
        self.spawn(&mut command)
    }

    pub(crate) fn run(&self, command: Command) -> Ended {
        self.start(command).end()
    }

    /// Both places are on this host.
    pub(crate) fn copy_here(&self, options: &str, from: &OsStr, to: &OsStr) -> Ended {
        let mut command = self.command("copy", options);
        command.env_remove("LONGHAUL_TOKEN").arg("--json").args([from, to]);
        self.run(command)
    }

    pub(crate) fn copy(&self, options: &str, from: &OsStr, to: &OsStr) -> Ended {
        self.run(self.copy_command(options, from, to))
    }
}
