"""One cgroup per end: its CPU time holds every process of that end, also children nobody reaped.

`wait4` would miss the children of a server that double-forks (sshd, rsync, gridftp); the kernel's
own account of a cgroup does not. A cgroup of version 2 has `cpu.stat` whichever controllers are on,
so it works on hybrid hosts too; the cpuacct hierarchy of version 1 is the fallback.
"""

import os
import signal
import time
from pathlib import Path

from .errors import Unusable

_KILL_WAIT_S = 5.0


class Cgroup:
    def __init__(self, name):
        self._v2, root = _hierarchy()
        self.path = root / name
        self.path.mkdir()

    @property
    def procs_file(self):
        return self.path / "cgroup.procs"

    @property
    def method(self):
        return "cgroup v2 cpu.stat" if self._v2 else "cgroup v1 cpuacct.usage"

    def cpu_seconds(self):
        """User plus system time of every process that is or was in the cgroup."""
        if not self._v2:
            return int((self.path / "cpuacct.usage").read_text()) / 1e9
        for line in (self.path / "cpu.stat").read_text().splitlines():
            key, value = line.split()
            if key == "usage_usec":
                return int(value) / 1e6
        raise Unusable(f"{self.path}/cpu.stat has no usage_usec")

    def pids(self):
        return [int(pid) for pid in self.procs_file.read_text().split()]

    def end_all(self):
        """Ends whatever is left in this cgroup, by process id: first politely, then not."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + _KILL_WAIT_S
            for pid in self.pids():
                _signal(pid, number)
            while self.pids() and time.monotonic() < deadline:
                _reap()
                time.sleep(0.01)
            if not self.pids():
                return

    def close(self):
        self.end_all()
        self.path.rmdir()


def _hierarchy():
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup2":
            return True, Path(where)
    for _, where, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpuacct" in options.split(","):
            return False, Path(where)
    raise Unusable("neither a cgroup v2 nor a cpuacct hierarchy is mounted")


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _reap():
    """Collects our own dead children; a zombie would stay listed in its cgroup."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
