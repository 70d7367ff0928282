"""One end of the path: a network namespace, a cgroup, and the processes that live in both."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from .cgroup import Cgroup
from .errors import OVER_LIMIT, ArmFailed, OverLimit

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_LISTEN = "0A"  # the state column of /proc/net/tcp
_READY_LIMIT_S = 20.0
_STOP_LIMIT_S = 20.0
# A high-water mark misses only what grows after the last look: look often at first, for short runs.
_TICKS_S = (0.02, 0.1)
_libc = ctypes.CDLL(None, use_errno=True)


class Side:
    def __init__(self, name, namespace, address, environment, logs):
        self.name = name
        self.address = address
        self._namespace = Path("/run/netns") / namespace
        self._cgroup = Cgroup(namespace)
        self._environment = environment
        self._logs = logs
        self._peak_bytes = 0

    @property
    def cpu_method(self):
        return self._cgroup.method

    def spawn(self, argv, log, extra_environment=None, cwd=None):
        """Starts a program in this namespace and cgroup; its output goes to `log`."""
        with open(self._logs / log, "wb") as output:
            return subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self._environment, **(extra_environment or {})},
                cwd=cwd or "/",
                start_new_session=True,
                preexec_fn=self._enter,
            )

    def log_text(self, log):
        return (self._logs / log).read_text(errors="replace")

    def cpu_seconds(self):
        return self._cgroup.cpu_seconds()

    def reset_peak(self):
        self._peak_bytes = 0

    @property
    def peak_bytes(self):
        """Largest sum, over the processes alive together, of each one's VmHWM: an upper bound."""
        return self._peak_bytes

    def sample_memory(self):
        total = sum(_high_water_bytes(pid) for pid in self._cgroup.pids())
        self._peak_bytes = max(self._peak_bytes, total)

    def wait_listening(self, server, port, log):
        """Returns once `server`'s namespace has a listener on `port`."""
        self.wait_until(lambda: _listens(server.pid, port), server, log, f"a listener on port {port}")

    def wait_until(self, condition, server, log, what):
        deadline = time.monotonic() + _READY_LIMIT_S
        while not condition():
            if server.poll() is not None:
                raise ArmFailed(f"server ended with {server.returncode}: {last_words(self.log_text(log))}")
            if time.monotonic() > deadline:
                raise ArmFailed(f"no {what} after {_READY_LIMIT_S:.0f} s: {last_words(self.log_text(log))}")
            time.sleep(0.01)

    def stop(self, server):
        """SIGTERM to the server and patience; then everything left in the cgroup ends."""
        if server is not None and server.poll() is None:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self._cgroup.end_all()

    def close(self):
        self._cgroup.close()

    def _enter(self):
        # Runs in the child before exec: nothing of the namespace tools is charged to the peer.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with open(self._cgroup.procs_file, "w") as procs:
            procs.write("0")
        handle = os.open(self._namespace, os.O_RDONLY)
        if _libc.setns(handle, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(handle)


def wait_sampling(process, sides, limit_s):
    """Waits for `process`, sampling memory of both sides; its exit code, or OverLimit."""
    start = time.monotonic()
    handle = os.pidfd_open(process.pid)
    try:
        poller = _poller(handle)
        while True:
            for side in sides:
                side.sample_memory()
            elapsed_s = time.monotonic() - start
            if elapsed_s > limit_s:
                raise OverLimit(f"{OVER_LIMIT} {limit_s} s")
            if poller.poll(1000 * _TICKS_S[elapsed_s > 2.0]):
                return process.wait()
    finally:
        os.close(handle)


def last_words(text):
    """The end of a log, short enough for a table's footnote."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-300:] or "no output"


def _poller(handle):
    import select

    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return poller


def _high_water_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def _listens(pid, port):
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        if any(row.split()[1].endswith(wanted) and row.split()[3] == _LISTEN for row in rows):
            return True
    return False
