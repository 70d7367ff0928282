"""rsync: to its own daemon in the clear, and through ssh."""

from ..arm import CLEAR, ENCRYPTED
from . import ssh
from .base import Peer

_PORT = 8730
# Nothing is there yet, so whole files go without the delta algorithm.
_OPTIONS = ("-a", "--whole-file", "--inplace")


class RsyncDaemon(Peer):
    name = "rsync"
    label = "rsync (daemon)"
    programs = ("rsync",)
    package = "rsync"
    protection = CLEAR

    def start_server(self, job):
        config = self.bench.directory("rsync") / "rsyncd.conf"
        config.write_text(
            "use chroot = no\nuid = 0\ngid = 0\nread only = no\n"
            f"[arrival]\npath = {job.arrival}\n"
        )
        argv = ["rsync", "--daemon", "--no-detach", f"--config={config}", f"--port={_PORT}"]
        argv += [f"--address={self.bench.dest.address}", "--log-file=/dev/stderr"]
        self.server = self.bench.dest.spawn(argv, self.server_log())
        self.bench.dest.wait_listening(self.server, _PORT, self.server_log())

    def run_client(self, job):
        url = f"rsync://{self.bench.dest.address}:{_PORT}/arrival/"
        return self.bench.source.spawn(["rsync", *_OPTIONS, _source(job), url], self.client_log())


class RsyncSsh(Peer):
    name = "rsync"
    label = "rsync (ssh)"
    programs = ("rsync", *ssh.PROGRAMS)
    package = f"rsync {ssh.PACKAGE}"
    protection = ENCRYPTED

    def prepare(self, bench):
        super().prepare(bench)
        self._sshd = ssh.Sshd(bench)
        self._config = self._sshd.client_config(ssh.FAST_CIPHER)

    def start_server(self, job):
        self.server = self._sshd.start(self.server_log())

    def run_client(self, job):
        argv = ["rsync", *_OPTIONS, "-e", f"ssh -F {self._config}", _source(job)]
        argv += [f"{self.bench.dest.address}:{job.arrival}/"]
        return self.bench.source.spawn(argv, self.client_log())


def _source(job):
    return f"{job.dataset.root}/" if job.dataset.is_tree else job.dataset.single
