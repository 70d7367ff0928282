"""scp, over its default SFTP protocol."""

from ..arm import ENCRYPTED
from . import ssh
from .base import Peer


class Scp(Peer):
    name = "scp"
    programs = ("scp", *ssh.PROGRAMS)
    package = ssh.PACKAGE
    protection = ENCRYPTED

    def __init__(self, cipher=ssh.FAST_CIPHER):
        self._cipher = cipher
        self.label = f"scp ({cipher.split('@')[0] if cipher else 'default cipher'})"

    def prepare(self, bench):
        super().prepare(bench)
        self._sshd = ssh.Sshd(bench)
        self._config = self._sshd.client_config(self._cipher)

    def start_server(self, job):
        self.server = self._sshd.start(self.server_log())

    def run_client(self, job):
        argv = ["scp", "-q", "-F", self._config]
        if job.dataset.is_tree:
            argv += ["-r", *sorted(job.dataset.root.iterdir())]
        else:
            argv += [job.dataset.single]
        argv += [f"{self.bench.dest.address}:{job.arrival}/"]
        return self.bench.source.spawn(argv, self.client_log())
