"""globus-url-copy to a GridFTP server, in the clear, four data connections."""

import platform

from ..arm import CLEAR
from .base import Peer

_PORT = 2811


class GridFtp(Peer):
    name = "globus-url-copy"
    label = "globus-url-copy -p 4"
    programs = ("globus-gridftp-server", "globus-url-copy", "unshare")
    package = "globus-gridftp-server-progs globus-gass-copy-progs util-linux"
    protection = CLEAR

    def start_server(self, job):
        address = self.bench.dest.address
        self.server = self.bench.dest.spawn(
            self._with_names(self.bench.dest, [
                "globus-gridftp-server", "-aa", "-allow-root", "-anonymous-user", "root", "-home-dir", "/",
                "-p", _PORT, "-control-interface", address, "-data-interface", address,
            ]),
            self.server_log(),
        )
        self.bench.dest.wait_listening(self.server, _PORT, self.server_log())

    def run_client(self, job):
        url = f"ftp://{self.bench.dest.address}:{_PORT}{job.arrival}/"
        argv = ["globus-url-copy", "-fast", "-p", "4"]
        if job.dataset.is_tree:
            argv += ["-r", "-cd", "-cc", "4", "-pp", f"file://{job.dataset.root}/", url]
        else:
            argv += [f"file://{job.dataset.single}", f"{url}{job.dataset.single.name}"]
        return self.bench.source.spawn(self._with_names(self.bench.source, argv), self.client_log())

    def _with_names(self, side, argv):
        """Both programs insist on names: of every address, and of the host they run on.

        They get an /etc/hosts of their own, in a mount namespace of their own.
        """
        hosts = self.bench.directory("gridftp") / f"hosts-{side.name}"
        lines = [f"{end.address} {end.name}.invalid" for end in self.bench.sides if end is not side]
        lines += [f"{side.address} {platform.node()}", "127.0.0.1 localhost"]
        hosts.write_text("\n".join(lines) + "\n")
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, hosts, *argv]
