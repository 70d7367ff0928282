"""An sshd of our own in the destination's namespace: throw-away keys, no passwords."""

import getpass
import shutil
import subprocess
from pathlib import Path

PORT = 2222
# Usually faster than the default chacha20-poly1305 where the processor has AES instructions.
FAST_CIPHER = "aes128-gcm@openssh.com"
PROGRAMS = ("ssh", "sshd", "ssh-keygen")
PACKAGE = "openssh-server openssh-client"
_PRIVILEGE_SEPARATION = Path("/run/sshd")


class Sshd:
    def __init__(self, bench):
        self._bench = bench
        self.user = getpass.getuser()
        self.directory = bench.directory("ssh")
        self.user_key = self.directory / "user_key"
        self.known_hosts = self.directory / "known_hosts"
        self.server_config = self.directory / "sshd_config"
        if not self.server_config.exists():
            self._make_keys()
            self._write_server_config()

    def client_config(self, cipher=None):
        """Path of an ssh_config that reaches this sshd and reads nothing of the user's."""
        path = self.directory / f"ssh_config-{cipher or 'default'}"
        lines = [
            "Host *",
            f"Port {PORT}",
            f"User {self.user}",
            f"IdentityFile {self.user_key}",
            "IdentitiesOnly yes",
            "BatchMode yes",
            "PreferredAuthentications publickey",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile /dev/null",
            "StrictHostKeyChecking yes",
        ]
        path.write_text("\n".join(lines + ([f"Ciphers {cipher}"] if cipher else [])) + "\n")
        return path

    def start(self, log):
        # Left in place, as the distribution's own service does: another sshd may use it by now.
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        # sshd re-executes itself and wants an absolute path.
        argv = [shutil.which("sshd"), "-D", "-e", "-f", self.server_config]
        server = self._bench.dest.spawn(argv, log)
        self._bench.dest.wait_listening(server, PORT, log)
        return server

    def _make_keys(self):
        for name in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", self.directory / name],
                check=True, stdin=subprocess.DEVNULL,
            )
        host_key = (self.directory / "host_key.pub").read_text()
        self.known_hosts.write_text(f"[{self._bench.dest.address}]:{PORT} {host_key}")
        shutil.copy(f"{self.user_key}.pub", self.directory / "authorized_keys")

    def _write_server_config(self):
        lines = [
            f"Port {PORT}",
            f"ListenAddress {self._bench.dest.address}",
            f"HostKey {self.directory}/host_key",
            f"AuthorizedKeysFile {self.directory}/authorized_keys",
            "PidFile none",
            "StrictModes no",
            # PAM could move a session into a cgroup of the system's, away from our account.
            "UsePAM no",
            "UseDNS no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "Subsystem sftp internal-sftp",
        ]
        self.server_config.write_text("\n".join(lines) + "\n")
