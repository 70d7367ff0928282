"""A controller and the agents of its network, as processes; and what the kernel says of them."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

from ..errors import ArmFailed

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_CORES = 6
# Nothing that is waited for takes longer, s.
PATIENCE_S = 120


def network(hosts, endpoints):
    """A router at each endpoint with its hosts, two ways each into a core where all are joined."""
    lines = ['name = "load"']
    routers = [f"core{number}" for number in range(_CORES)] + [f"r{number}" for number in range(endpoints)]
    lines += [f'\n[[router]]\nname = "{name}"' for name in routers]
    lines += [f'\n[[host]]\nname = "h{number}"' for number in range(hosts)]
    links = [(f"core{one}", f"core{other}", "800 Gb/s") for one in range(_CORES) for other in range(one)]
    links += [(f"r{number}", f"core{(number + way) % _CORES}", "400 Gb/s") for number in range(endpoints) for way in (0, 1)]
    links += [(f"h{number}", f"r{number % endpoints}", "100 Gb/s") for number in range(hosts)]
    lines += [f'\n[[link]]\nname = "{one}-{other}"\nends = ["{one}", "{other}"]\nrate = "{rate}"\nhigh_water = "80 %"'
              for one, other, rate in links]
    return "\n".join(lines) + "\n"


SHARES = "\n".join(f'[[class]]\nname = "{name}"\nweight = {weight}\n' for name, weight in (("cms", 3), ("atlas", 2), ("ligo", 1)))


class Process:
    """A program with what it costs."""

    def __init__(self, argv, log, token=None, stdin=None, stdout=None):
        environment = {**os.environ, "LONGHAUL_LOG": "warn", **({"LONGHAUL_TOKEN": token} if token else {})}
        with open(log, "ab") as out:
            self._popen = subprocess.Popen(
                [str(word) for word in argv], env=environment, stdin=stdin, stdout=stdout or out, stderr=out, text=stdout is not None)
        self.log, self.pid = log, self._popen.pid

    def cpu_s(self):
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) * _TICK_S

    def peak_bytes(self):
        return int(re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())[1]) * 1024

    def now_bytes(self):
        return int(re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())[1]) * 1024

    def is_over(self):
        return self._popen.poll() is not None

    def say(self, line):
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()

    def line(self):
        return json.loads(self._popen.stdout.readline())

    def result(self):
        """What it says at its end."""
        text, _ = self._popen.communicate(timeout=PATIENCE_S * 10)
        if self._popen.returncode != 0:
            raise ArmFailed(f"a program of the load ended with {self._popen.returncode}: {self.log.read_text()[-2000:]}")
        return json.loads(text)

    def kill(self):
        if not self.is_over():
            self._popen.send_signal(signal.SIGKILL)
        self._popen.wait()
        for stream in (self._popen.stdin, self._popen.stdout):
            if stream:
                stream.close()


class Site:
    """A controller with its store, and processes of agents. Everything ends with it."""

    def __init__(self, plan, work, store):
        self.plan, self._work, self._store = plan, work, store
        self.controller, self.agents = None, []
        self._address = f"127.0.0.1:{_free_port()}"
        (work / "network.toml").write_text(network(plan.hosts, plan.endpoints))
        (work / "shares.toml").write_text(SHARES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.agents, self.controller]:
            if process:
                process.kill()

    def start(self):
        """Starts the controller; gives the seconds until it is ready, and until it has answered."""
        ready = self._work / "ready.json"
        ready.unlink(missing_ok=True)
        argv = [self.plan.binary, "controller", "--listen", self._address, "--state-dir", self._work / "state", "--store", self._store]
        argv += ["--network", self._work / "network.toml", "--shares", self._work / "shares.toml", "--ready-file", ready]
        begun = time.monotonic()
        self.controller = Process(argv, self._work / "controller.log")
        said = self.until("the controller to be ready", lambda: _json(ready), pause_s=0.005)
        ready_s = time.monotonic() - begun
        self.address, self.token = said["address"], said["admin_token"]
        self.ask("GET", "/api/v1/transfers?limit=1")
        return ready_s, time.monotonic() - begun

    def enrol(self):
        """Endpoints, one-time tokens, and the processes of the agents; gives the seconds until all are online."""
        for number in range(self.plan.endpoints):
            hosts = [f"h{host}" for host in range(number, self.plan.hosts, self.plan.endpoints)]
            self.ask("PUT", f"/api/v1/endpoints/s{number}", {"hosts": hosts, "root": "/data"})
        hosts = [{"name": f"h{number}", "token": self.ask("POST", "/api/v1/agents/tokens", {"host": f"h{number}"})["token"]}
                 for number in range(self.plan.hosts)]
        begun = time.monotonic()
        for number in range(self.plan.processes):
            file = self._work / f"hosts-{number}.json"
            file.write_text(json.dumps(hosts[number :: self.plan.processes]))
            argv = [self.plan.generator, "agents", "--controller", self.address, "--hosts", file]
            self.agents.append(
                Process(argv, self._work / "agents.log", stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        self.until("all agents to be online", self.all_online)
        return time.monotonic() - begun

    def all_online(self):
        return self.metrics().get('agents{state="online"}', 0) == self.plan.hosts

    def pace(self, files_per_s):
        """What all agents together finish in a second; `None` for as much as they can."""
        share = "max" if files_per_s is None else files_per_s // len(self.agents)
        for process in self.agents:
            process.say(f"pace {share}")

    def tally(self):
        """What the agents did, summed up."""
        for process in self.agents:
            process.say("tally")
        told = [process.line() for process in self.agents]
        return {key: sum(of[key] for of in told) for key in told[0]}

    def client(self, what, **options):
        """A process of clients."""
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        argv = [self.plan.generator, what, "--controller", self.address, *words]
        return Process(argv, self._work / "clients.log", token=self.token, stdout=subprocess.PIPE)

    def ask(self, method, path, content=None):
        address, port = self.address.rsplit(":", 1)
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # It is on this machine, and its certificate is its own.
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        for _ in range(20):
            connection = http.client.HTTPSConnection(address, int(port), context=trust, timeout=PATIENCE_S)
            try:
                headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
                connection.request(method, path, None if content is None else json.dumps(content), headers)
                reply = connection.getresponse()
                body = reply.read().decode()
            except (ConnectionError, ssl.SSLEOFError):
                # Agents that come all at once from one address take its places for handshakes.
                reply = None
            finally:
                connection.close()
            if reply and reply.status != 429:
                break
            time.sleep(0.1)
        if not reply:
            raise ArmFailed(f"{method} {path}: the connection was refused again and again")
        if reply.status >= 300:
            raise ArmFailed(f"{method} {path}: {reply.status} {body[:500]}")
        return json.loads(body) if reply.headers.get_content_type() == "application/json" else body

    def metrics(self):
        lines = self.ask("GET", "/metrics").splitlines()
        pairs = (line.removeprefix("longhaul_controller_").rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def files_done(self):
        """Files in place, as the controller counts them."""
        return int(self.metrics()['files{state="done"}'])

    def until(self, what, is_so, pause_s=0.1):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = is_so()
            if found:
                return found
            if self.controller.is_over():
                raise ArmFailed(f"the controller ended: {self.controller.log.read_text()[-2000:]}")
            time.sleep(pause_s)
        raise ArmFailed(f"it took longer than {PATIENCE_S} s: {what}")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
