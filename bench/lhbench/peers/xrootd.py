"""xrootd: xrdcp over root://, in the clear."""

import os
import pwd

from ..arm import CLEAR
from .base import Peer

_PORT = 1094
_USER = "nobody"  # xrootd refuses to serve as root


class Xrootd(Peer):
    name = "xrootd"
    label = "xrdcp (4 streams)"
    programs = ("xrootd", "xrdcp", "setpriv")
    package = "xrootd-server xrootd-client util-linux"
    protection = CLEAR

    def start_server(self, job):
        user = pwd.getpwnam(_USER)
        directory = self.bench.directory("xrootd")
        for path in (directory, job.arrival):
            os.chown(path, user.pw_uid, user.pw_gid)
        config = directory / "xrootd.cf"
        config.write_text(
            f"all.export {job.arrival}\nall.adminpath {directory}\nall.pidpath {directory}\n"
            f"xrd.port {_PORT}\nxrd.network nodnr\n"
        )
        argv = ["setpriv", "--reuid", _USER, "--regid", str(user.pw_gid), "--clear-groups"]
        argv += ["xrootd", "-c", config, "-I", "v4"]
        self.server = self.bench.dest.spawn(argv, self.server_log(), cwd=directory)
        self.bench.dest.wait_listening(self.server, _PORT, self.server_log())

    def run_client(self, job):
        url = f"root://{self.bench.dest.address}:{_PORT}/{job.arrival}/"
        argv = ["xrdcp", "--nopbar", "--silent", "--streams", "4"]
        if job.dataset.is_tree:
            # One by one: the name of a directory given is always kept.
            argv += ["--recursive", "--parallel", "4", *sorted(job.dataset.root.iterdir())]
        else:
            argv += [job.dataset.single]
        return self.bench.source.spawn([*argv, url], self.client_log())
