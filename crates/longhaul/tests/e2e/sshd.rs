//! An ssh server of a test's own: keys, configuration and home in the directory of its world.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::world::{World, wait_for};

/// Where sshd lives where a user's PATH does not look.
const SSHD_PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd"];
/// What sshd of a system that separates privileges wants to be there, when root starts it.
const PRIVILEGE_DIR: &str = "/run/sshd";
/// Another program may take a free port before sshd does.
const START_TRIES: u32 = 5;
/// Levels of processes below sshd: a monitor, the login, its shell, and what that runs.
const DEPTH_MAX: u32 = 6;

/// A server at a port of 127.0.0.1 that lets one key in. Logins start in `home` of the world.
pub(crate) struct Sshd {
    child: Child,
    program: &'static str,
    port: u16,
    dir: PathBuf,
    user: String,
}

impl Sshd {
    /// `None`, with a message, where there is no sshd or it lets this user in by no means.
    pub(crate) fn start(world: &World) -> Option<Sshd> {
        let Some(program) = SSHD_PLACES.iter().find(|path| Path::new(path).exists()) else {
            eprintln!("skipped: there is no sshd; scripts/bootstrap installs it");
            return None;
        };
        let dir = world.path("sshd");
        for path in [dir.as_path(), &world.path("home"), &world.path("far-run")] {
            fs::create_dir(path).expect("a directory can be made");
        }
        // Only root can make it, and only root's sshd wants it.
        let _ = fs::create_dir_all(PRIVILEGE_DIR);
        for name in ["host", "key", "stranger"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join(name));
            assert!(command.status().expect("ssh-keygen comes with ssh").success());
        }
        fs::copy(dir.join("key.pub"), dir.join("authorized")).expect("a key can be copied");
        let user = Command::new("id").arg("-un").output().expect("id runs").stdout;
        let user = String::from_utf8(user).expect("the name of a user is text").trim().to_owned();
        write_login(world);
        for _ in 0..START_TRIES {
            let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
            let port = socket.local_addr().expect("it has an address").port();
            drop(socket);
            let child = serve(world, program, port);
            let mut sshd = Sshd { child, program, port, dir: dir.clone(), user: user.clone() };
            if sshd.answers() {
                return sshd.lets_in().then_some(sshd);
            }
        }
        panic!("sshd does not start: {}", fs::read_to_string(dir.join("log")).unwrap_or_default());
    }

    /// At the same port, after [`Sshd::kill`].
    pub(crate) fn restart(&mut self, world: &World) {
        self.child = serve(world, self.program, self.port);
        assert!(self.answers(), "sshd does not start again");
    }

    /// False if it ended, as when its port was taken.
    fn answers(&mut self) -> bool {
        let mut ended = false;
        wait_for("sshd to answer", || {
            ended = self.child.try_wait().expect("it is our child").is_some();
            (ended || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()).then_some(())
        });
        !ended
    }

    /// A locked account, as in some containers, gets in nowhere.
    fn lets_in(&self) -> bool {
        let words = self.command("key");
        let output = Command::new("sh").arg("-c").arg(format!("{words} 127.0.0.1 true")).output().expect("sh runs");
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let locked = log.contains("account is locked");
        if locked {
            eprintln!("skipped: the account {} is locked, sshd lets nobody in", self.user);
        }
        assert!(locked || output.status.success(), "{}{log}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }

    /// What `--ssh` is given, with one of the keys: `key`, or `stranger`, which is not let in.
    pub(crate) fn command(&self, key: &str) -> String {
        let at = |name: &str| self.dir.join(name).display().to_string();
        format!(
            "ssh -F none -p {} -i '{}' -o BatchMode=yes -o IdentitiesOnly=yes -o 'UserKnownHostsFile=\"{}\"'",
            self.port,
            at(key),
            at("known_hosts")
        )
    }

    /// A place at the far end, as the user writes it.
    pub(crate) fn there(&self, path: impl AsRef<OsStr>) -> OsString {
        OsString::from_vec([b"127.0.0.1:", path.as_ref().as_bytes()].concat())
    }

    /// The same with the name of the user.
    pub(crate) fn user_there(&self, path: impl AsRef<OsStr>) -> OsString {
        OsString::from_vec([self.user.as_bytes(), b"@", self.there(path).as_bytes()].concat())
    }

    /// `copy` to or from this server, as JSON lines.
    pub(crate) fn copy_command(&self, world: &World, options: &str, from: &OsStr, to: &OsStr) -> Command {
        let mut command = world.bare_command("copy", options);
        command.args(["--json", "--remote-longhaul", "longhaul", "--ssh", &self.command("key")]).args([from, to]);
        command
    }

    /// SIGKILL to the server and to what it runs for logins, but not to the programs of the logins.
    pub(crate) fn kill(&mut self) {
        let mut servers = vec![self.child.id()];
        let mut level = servers.clone();
        for _ in 0..DEPTH_MAX {
            level = level.into_iter().flat_map(children_of).filter(|id| is_sshd(*id)).collect();
            servers.extend(&level);
        }
        assert!(servers.len() > 1, "nobody was logged in");
        for id in servers {
            // By its id; the parent may have ended it already.
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).stderr(Stdio::null()).status();
        }
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn children_of(id: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The name is `sshd` or, since OpenSSH 9.8, also `sshd-session`.
fn is_sshd(id: u32) -> bool {
    fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.starts_with("sshd"))
}

/// What a login runs: the command that ssh was given, with `longhaul` in the path and a home of the test's own.
fn write_login(world: &World) {
    let bin = world.path("bin");
    fs::create_dir(&bin).expect("a directory can be made");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_longhaul"), bin.join("longhaul")).expect("a link can be made");
    let (home, run) = (world.path("home"), world.path("far-run"));
    let login = format!(
        "#!/bin/sh\nexport HOME='{home}' PATH='{}':\"$PATH\" XDG_STATE_HOME='{home}' XDG_RUNTIME_DIR='{}'\n\
         cd && exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
        bin.display(),
        run.display(),
        home = home.display(),
    );
    let path = world.path("sshd/login");
    fs::write(&path, login).expect("a script can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("modes can be set");
}

fn serve(world: &World, program: &str, port: u16) -> Child {
    let at = |name: &str| world.path("sshd").join(name).display().to_string();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey \"{}\"\nAuthorizedKeysFile \"{}\"\nForceCommand '{}'\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nPidFile none\nPrintMotd no\n",
        at("host"),
        at("authorized"),
        at("login"),
    );
    fs::write(at("config"), config).expect("a configuration can be written");
    let host = fs::read_to_string(at("host.pub")).expect("there is a host key");
    fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {host}")).expect("a list of hosts can be written");
    let log = File::create(at("log")).expect("a log can be made");
    // sshd starts itself again for each login and so wants its whole name.
    let mut command = Command::new(program);
    command.args(["-D", "-e", "-f", &at("config")]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("sshd runs")
}
