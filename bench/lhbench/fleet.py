"""A controller with its agents on the hosts of a twin, and who submits transfers to it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from .controller_client import Client
from .errors import ArmFailed
from .twin import Network

_PORT = 4811
_READY_LIMIT_S = 20.0
_TERM_LIMIT_S = 5.0
_BLOCK = 1 << 20

_SERVE = """\
addresses = ["{address}"]
metrics = "127.0.0.1:9810"

[controller]
address = "{controller}"
fingerprint = "{fingerprint}"
enrol_token_file = "{token}"

[[grant]]
controller = "*"
collaboration = "*"
root = "{root}"
read = true
write = true
"""


class Fleet:
    """A context manager. `endpoints` are names with their hosts; each has a directory of its own that they share. The controller is on
    host `noc`; a host from which a path `control-HOST` leads there reaches it over that. `hold_s` is the first hold-down of links."""

    def __init__(self, binary, network, shares, endpoints, beneath=None, scale="1", name=None, hold_s=None):
        self.binary, self.endpoints = binary, endpoints
        self.twin = Network(binary, network, scale, name)
        self._network, self._shares, self._beneath = network, shares, beneath
        self._hold_s = hold_s
        self.dir = self.client = self.controller = None
        self.agents = {}

    def __enter__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="longhaul-fleet-", dir=self._beneath))
        try:
            self.twin.__enter__()
            try:
                self._begin()
            except BaseException:
                self._end_programs()
                self.twin.__exit__()
                raise
        except BaseException:
            shutil.rmtree(self.dir, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_):
        try:
            self._end_programs()
        finally:
            try:
                self.twin.__exit__()
            finally:
                shutil.rmtree(self.dir, ignore_errors=True)

    def _begin(self):
        self.start_controller()
        for endpoint, hosts in self.endpoints.items():
            self.root(endpoint).mkdir()
            self.client.put(f"/endpoints/{endpoint}", {"hosts": hosts, "root": str(self.root(endpoint))})
            for host in hosts:
                self._enrol(host, endpoint)
        for host in self.agents:
            self._wait_online(host)

    def start_controller(self):
        network = self.dir / "network.toml"
        network.write_text(self.twin.description())
        config = self.dir / "controller.toml"
        config.write_text(f'[paths]\nhold = "{self._hold_s} s"\n' if self._hold_s else "")
        (self.dir / "shares.toml").write_text(self._shares)
        ready = self.dir / "controller.json"
        ready.unlink(missing_ok=True)
        words = ["controller", "--config", config, "--listen", f"[::]:{_PORT}", "--state-dir", self.dir / "controller", "--network", network,
                 "--shares", self.dir / "shares.toml", "--ready-file", ready]
        self.controller = self._start("noc", words, "controller.log")
        said = self._wait("the controller", self.controller, "controller.log", lambda: _read(ready))
        self.fingerprint, self.token = said["fingerprint"], said["admin_token"]
        self.client = self.new_client()

    def new_client(self):
        """A connection of its own to the controller, from its own host."""
        def connect():
            return self.twin.inside("noc", lambda: socket.create_connection(("127.0.0.1", _PORT), 5))
        return Client(connect, self.fingerprint, self.token)

    def _enrol(self, host, endpoint):
        own = self.dir / host
        own.mkdir()
        token = self.client.post("/agents/tokens", {"host": host})["token"]
        (own / "token").write_text(token)
        by = f"noc.control-{host}" if f'"control-{host}"' in self._network else "noc"
        (own / "serve.toml").write_text(_SERVE.format(
            address=self.twin.addresses[host], controller=f"{by}:{_PORT}", fingerprint=self.fingerprint,
            token=own / "token", root=self.root(endpoint),
        ))
        self.start_agent(host)

    def start_agent(self, host):
        own = self.dir / host
        words = ["serve", "--listen", "[::]:4810", "--config", own / "serve.toml", "--state-dir", own / "state"]
        self.agents[host] = self._start(host, words, f"{host}.log")

    def kill_agent(self, host):
        """SIGKILL."""
        self.agents[host].kill()
        self.agents[host].wait()

    def command(self, *words, limit_s=60.0):
        """What a command of Longhaul prints that asks the controller, as its user sees it."""
        words = [*words, "--controller", f"https://127.0.0.1:{_PORT}", "--fingerprint", self.fingerprint]
        argv = [self.binary, "twin", "exec", "noc", "--twin", self.twin.name, "--", self.binary, *words]
        environment = {"LONGHAUL_TOKEN": self.token, "PATH": "/usr/bin:/bin", "COLUMNS": "100", "HOME": str(self.dir)}
        done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=limit_s, env=environment)
        if done.returncode != 0:
            raise ArmFailed(f"longhaul {' '.join(map(str, words[:3]))}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def root(self, endpoint):
        """The directory of an endpoint."""
        return self.dir / f"data-{endpoint}"

    def make(self, endpoint, name, files, size_bytes):
        """A dataset of files that hold a repeated block of random bytes each."""
        at = self.root(endpoint) / name
        at.mkdir(parents=True)
        with open("/dev/urandom", "rb") as random:
            block = random.read(_BLOCK)
        for number in range(files):
            head = number.to_bytes(8, "big")
            with open(at / f"file-{number:04}", "wb") as file:
                file.write((head + block[8:]) * (size_bytes // _BLOCK) + block[:size_bytes % _BLOCK])
        # Gigabytes that are still to be written back would hold up those who write meanwhile.
        os.sync()

    def submit(self, name, source, destination, of_class, to=None, **more):
        """Submits a dataset; its number. Data go unencrypted but for `protect`, so that less of the machine is used."""
        asked = {
            "name": name, "collaboration": of_class, "class": of_class, "protect": "clear",
            "sources": [f"{source}:{self.root(source)}/{name}"],
            "destination": f"{destination}:{self.root(destination)}/{to or name}", **more,
        }
        return self.client.post("/transfers", asked)["id"]

    def transfer(self, number):
        return self.client.get(f"/transfers/{number}")

    def wait(self, number, limit_s):
        """A transfer that has ended."""
        until = time.monotonic() + limit_s
        while True:
            told = self.transfer(number)
            if told["state"] in ("done", "partly", "failed", "cancelled"):
                return told
            if time.monotonic() > until:
                raise ArmFailed(f"{number} is {told['state']} after {limit_s:.0f} s: {told['reason']}")
            time.sleep(0.2)

    def limit(self, resource, rate_bps, why="measured", seconds=3600):
        asked = {"rate_bps": round(rate_bps), "for_seconds": seconds, "why": why}
        return self.client.put(f"/limits/{resource}", asked)

    def wait_link(self, direction, states, limit_s):
        """Looks at a direction of a link every 10 ms until it is in one of these states; how it is then, and when that was seen."""
        until = time.monotonic() + limit_s
        while True:
            told = self.client.get(f"/links/{direction}")
            at = time.monotonic()
            if told["state"] in states:
                return told, at
            if at > until:
                raise ArmFailed(f"{direction} is {told['state']} after {limit_s:.0f} s")
            time.sleep(0.01)

    def lift(self, resource):
        self.client.delete(f"/limits/{resource}")

    def _start(self, host, words, log):
        with open(self.dir / log, "a") as file:
            return self.twin.start(host, [self.binary, *words], file, {"LONGHAUL_LOG": "info"})

    def _wait_online(self, host):
        def is_online():
            return any(agent["host"] == host and agent["state"] == "online" for agent in self.client.get("/agents"))
        self._wait(f"the agent of {host}", self.agents[host], f"{host}.log", is_online)

    def _wait(self, what, program, log, done):
        until = time.monotonic() + _READY_LIMIT_S
        while True:
            result = done()
            if result:
                return result
            if program.poll() is not None or time.monotonic() > until:
                said = (self.dir / log).read_text().strip().splitlines()[-5:]
                raise ArmFailed(f"{what} is not ready: {' / '.join(said)}")
            time.sleep(0.05)

    def _end_programs(self):
        programs = [self.controller, *self.agents.values()]
        running = [program for program in programs if program is not None and program.poll() is None]
        for program in running:
            program.send_signal(signal.SIGTERM)
        until = time.monotonic() + _TERM_LIMIT_S
        for program in running:
            try:
                program.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def _read(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None
