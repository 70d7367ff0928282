"""An agent of Longhaul on a host of a twin, and commands that use it from the other host."""

import json
import shutil
import tempfile
import time
from pathlib import Path

from .errors import ArmFailed

_PORT = 4810
_READY_LIMIT_S = 20.0


class Agent:
    """A context manager: listens on host b for host a. Without a root it serves an empty directory."""

    def __init__(self, twin, root=None):
        self._twin = twin
        self._state = Path(tempfile.mkdtemp(prefix="lhbench-agent-"))
        ready, empty = self._state / "ready.json", self._state / "empty"
        empty.mkdir()
        # Without a name for who may come: all addresses of the host are its.
        twin.start("b", [twin.binary, "serve", "--listen", f"[::]:{_PORT}", "--root", root or empty,
                         "--ready-file", ready, "--state-dir", self._state / "agent"])
        until = time.monotonic() + _READY_LIMIT_S
        while True:
            try:
                said = json.loads(ready.read_text())
                break
            except (OSError, ValueError):
                if time.monotonic() > until:
                    raise ArmFailed("the agent is not ready") from None
                time.sleep(0.05)
        (self._state / "token").write_text(said["token"])
        (self._state / "token").chmod(0o600)
        self._options = ["--token-file", self._state / "token", "--fingerprint", said["fingerprint"]]
        self._home = ["env", f"XDG_STATE_HOME={self._state}/state", f"XDG_RUNTIME_DIR={self._state}/runtime"]
        (self._state / "runtime").mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self._state, ignore_errors=True)

    @property
    def address(self):
        """Its first address with the port."""
        return f"{self._twin.addresses['b']}:{_PORT}"

    def location(self, path):
        """A path at the agent, by its addresses at all links."""
        first, *others = self._twin.link_addresses("b")
        return f"lh://{','.join([f'{first}:{_PORT}', *others])}{path}"

    def test(self, seconds, *options):
        """Begins a test from memory to memory."""
        return self._start("test", "throughput", self.address, "--duration", f"{seconds}s", "--json", *options)

    def copy(self, source, path, *options):
        """Begins a copy to a path of the agent."""
        return self._start("copy", "--json", *options, f"{source}/", self.location(path))

    def session(self, *words):
        """What `longhaul session` prints on host a."""
        return self._twin.run("a", [*self._home, self._twin.binary, "session", *words], _READY_LIMIT_S)

    def _start(self, *words):
        # Options of a command come behind its words, before its places.
        command, places = (words[:2], words[2:]) if words[0] == "test" else (words[:1], words[1:])
        return self._twin.start("a", [*self._home, self._twin.binary, *command, *self._options, *places])
