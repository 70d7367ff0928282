"""Who sends over the link: iperf3 with cubic, and Longhaul from memory to memory."""

import json
import shutil
import tempfile
import time
from pathlib import Path

from ..errors import ArmFailed
from ..twin import finished

# A packet of 1500 bytes carries 1448 of TCP's with timestamps.
_PACKET, _PAYLOAD = 1500, 1448
_READY_LIMIT_S = 20.0
_MARGIN_S = 30.0


class Iperf:
    """Flows with cubic from host a to host b, counted by the receiver second by second."""

    def __init__(self, twin, flows, seconds):
        self._server = twin.start("b", ["iperf3", "-s", "-1", "-J"])
        twin.wait_listening("b", 5201)
        self.begin = time.monotonic()
        self._client = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-P", flows, "-C", "cubic", "-J",
                                        "-t", seconds])
        self._seconds = seconds

    def rates(self):
        """Rate of each second in IP packets, b/s, once it has ended."""
        finished(self._client, self._seconds + _MARGIN_S)
        report = json.loads(finished(self._server, _MARGIN_S))
        return [part["sum"]["bits_per_second"] * _PACKET / _PAYLOAD for part in report["intervals"]][:self._seconds]


class Longhaul:
    """An agent on host b, and tests from host a to it."""

    def __init__(self, twin, binary):
        self._twin, self._binary = twin, binary
        self._state = Path(tempfile.mkdtemp(prefix="lhbench-polite-"))
        ready = self._state / "ready.json"
        (self._state / "empty").mkdir()
        twin.start("b", [binary, "serve", "--listen", f"{twin.addresses['b']}:4810", "--root", self._state / "empty",
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
        self._to = ["--token-file", self._state / "token", "--fingerprint", said["fingerprint"]]
        self._address = said["address"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self._state, ignore_errors=True)

    def start(self, seconds, *options):
        """Begins a test; `outcome` takes what this gives."""
        argv = [self._binary, "test", "throughput", self._address, *self._to, "--duration", f"{seconds}s",
                "--protect", "clear", "--json", *options]
        return self._twin.start("a", argv)


def outcome(program, limit_s):
    """Of a test: the rate of each second in IP packets, b/s, and its last record."""
    records = [json.loads(line) for line in finished(program, limit_s + _MARGIN_S).splitlines()]
    seconds = [record["rate_bps"] * _PACKET / _PAYLOAD for record in records if record["event"] == "interval"]
    return seconds, records[-1]
