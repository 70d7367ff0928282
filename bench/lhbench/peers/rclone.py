"""rclone: over HTTP in the clear, over SFTP when encrypted."""

from ..arm import CLEAR, ENCRYPTED
from . import ssh
from .base import Peer

_PORT = 8080
# The destination is empty and the harness checks the contents: no look-ups, no second reading.
_OPTIONS = ("--no-traverse", "--no-check-dest", "--ignore-checksum", "--transfers", "16", "--checkers", "16")


class _Rclone(Peer):
    name = "rclone"
    programs = ("rclone",)
    package = "rclone"

    def _serve(self, side, protocol, directory):
        address = f"{side.address}:{_PORT}"
        self.server = side.spawn(
            ["rclone", "serve", protocol, directory, "--addr", address], self.server_log()
        )
        side.wait_listening(self.server, _PORT, self.server_log())

    def _copy(self, side, source, to, *options):
        argv = ["rclone", "copy", *_OPTIONS, *options, source, to]
        return side.spawn(argv, self.client_log())


class RcloneHttp(_Rclone):
    """The destination pulls: only a download uses several connections for one file, and an upload
    (WebDAV) of a tree took fifteen times as long."""

    label = "rclone (http)"
    protection = CLEAR

    def start_server(self, job):
        self._serve(self.bench.source, "http", job.dataset.root)

    def run_client(self, job):
        what = "" if job.dataset.is_tree else job.dataset.single.name
        return self._copy(
            self.bench.dest, f":http:{what}", job.arrival,
            "--http-url", f"http://{self.bench.source.address}:{_PORT}/",
            "--multi-thread-streams", "4", "--multi-thread-cutoff", "64Mi",
        )


class RcloneSftp(_Rclone):
    label = "rclone (sftp)"
    programs = ("rclone", *ssh.PROGRAMS)
    package = f"rclone {ssh.PACKAGE}"
    protection = ENCRYPTED

    def prepare(self, bench):
        super().prepare(bench)
        self._sshd = ssh.Sshd(bench)

    def start_server(self, job):
        self.server = self._sshd.start(self.server_log())

    def run_client(self, job):
        return self._copy(
            self.bench.source, job.dataset.root, f":sftp:{job.arrival}",
            "--sftp-host", self.bench.dest.address, "--sftp-port", str(ssh.PORT),
            "--sftp-user", self._sshd.user, "--sftp-key-file", str(self._sshd.user_key),
            "--sftp-known-hosts-file", str(self._sshd.known_hosts), "--sftp-disable-hashcheck",
        )
