"""A twin of two hosts and one link or several, under a name of its own; gone at the end."""

import ctypes
import itertools
import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from .errors import ArmFailed

_CLONE_NEWNET = 0x40000000
_COMMAND_LIMIT_S = 30.0
_LISTEN_LIMIT_S = 10.0
_numbers = itertools.count(1)
_libc = ctypes.CDLL(None, use_errno=True)

_NETWORK = """\
name = "bench"
hosts = ["a", "b"]
"""
_LINK = """
[[link]]
name = "{name}"
ends = ["a", "b"]
{keys}
"""


class Twin:
    """A context manager. `keys` are those of each link in a network description: rate, delay, queue."""

    device = "ab"

    def __init__(self, binary, seed=1, links=(device,), **keys):
        self.name = f"bench-{os.getpid()}-{next(_numbers)}"
        self.addresses = {}
        # All of them, in the order of the network.
        self.links = []
        self.binary = binary
        self._seed, self._links, self._keys = seed, links, keys
        self._options = []
        self._running = []

    def __enter__(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as description:
            description.write(self._description())
            description.flush()
            words = ["up", description.name, "--name", self.name, "--seed", str(self._seed), "--json", *self._options]
            up = json.loads(self._longhaul(*words))
        self.addresses = {host["name"]: host["addresses"][0] for host in up["hosts"]}
        self.links = [link["name"] for link in up["links"]]
        return self

    def __exit__(self, *_):
        for program in self._running:
            if program.poll() is None:
                program.kill()
            program.wait()
        self._longhaul("down", self.name)

    def _description(self):
        """The network, as its file has it."""
        # Numbers and texts are written alike in JSON and in TOML.
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in self._keys.items())
        return _NETWORK + "".join(_LINK.format(name=name, keys=lines) for name in self._links)

    def namespace(self, host):
        return f"twin.{self.name}.{host}"

    def change(self, **options):
        """`change(loss="1%", way="forward")` is `longhaul twin link ab --loss 1% --way forward`."""
        self.change_link(self.device, **options)

    def change_link(self, link, **options):
        """The same of any link."""
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        self._longhaul("link", link, "--twin", self.name, *words)

    def link_addresses(self, host):
        """The IPv4 addresses of a host at its links: what goes to one of them goes over that link."""
        words = ["ip", "-n", self.namespace(host), "-4", "-j", "addr", "show", "dev"]
        shown = (json.loads(subprocess.run([*words, link], capture_output=True, check=True).stdout) for link in self._links)
        return [one["local"] for devices in shown for device in devices for one in device["addr_info"]]

    def cut(self, link):
        self._longhaul("link", link, "--twin", self.name, "--cut")

    def heal(self, link):
        self._longhaul("link", link, "--twin", self.name, "--heal")

    def raise_buffers(self, most_bytes):
        """Both hosts let a socket of whoever connects grow to this, as hosts for long paths are set up to."""
        for host in self.addresses:
            self.set_sysctl(host, "net.ipv4.tcp_rmem", f"4096 131072 {most_bytes}")
            self.set_sysctl(host, "net.ipv4.tcp_wmem", f"4096 65536 {most_bytes}")
            # What one program learned about the path must not start the next one.
            self.set_sysctl(host, "net.ipv4.tcp_no_metrics_save", 1)

    def set_sysctl(self, host, name, value):
        words = ["ip", "netns", "exec", self.namespace(host), "sysctl", "-qw", f"{name}={value}"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise ArmFailed(f"{name} of {host} cannot be set: {done.stderr.strip()}")

    def start(self, host, argv, log=None, environment=None):
        """A program on a host; it ends with the twin at the latest. What it says goes into a file, or waits to be read."""
        words = [self.binary, "twin", "exec", host, "--twin", self.name, "--", *map(str, argv)]
        out, err = (log, subprocess.STDOUT) if log else (subprocess.PIPE, subprocess.PIPE)
        program = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True,
            env={**os.environ, **(environment or {})},
        )
        self._running.append(program)
        return program

    def run(self, host, argv, limit_s):
        """Output of a program that ends by itself."""
        return finished(self.start(host, argv), limit_s)

    def wait_listening(self, host, port):
        """Returns once something on a host listens on a TCP port."""
        until = time.monotonic() + _LISTEN_LIMIT_S
        while f":{port}" not in self.run(host, ["ss", "-Hltn", f"sport = :{port}"], _COMMAND_LIMIT_S):
            if time.monotonic() > until:
                raise ArmFailed(f"nothing listens on port {port} after {_LISTEN_LIMIT_S:.0f} s")
            time.sleep(0.02)

    def stats(self, link=device):
        """Counters of both directions of a link, by the host that sends."""
        text = self._longhaul("stats", "--twin", self.name, "--json", unbalanced=True)
        return {way["from"]: way["stats"] for way in json.loads(text)["directions"] if way["link"] == link}

    def emulator_cpu_s(self):
        """User and system time of the twin's emulator so far."""
        pid = Path(f"/run/longhaul/twin/{self.name}/lock").read_text().strip()
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def udp_counter(self, host, *counters):
        """What a host's kernel says of UDP, such as `InDatagrams`, summed: each datagram for itself, however it was handed to the kernel."""
        table = self.inside(host, lambda: Path("/proc/thread-self/net/snmp").read_text())
        names, values = (line.split() for line in table.splitlines() if line.startswith("Udp:"))
        return sum(int(values[names.index(counter)]) for counter in counters)

    def inside(self, host, work):
        """What `work` gives in the namespace of a host: a thread of its own goes there and ends."""
        result = []

        def go():
            handle = os.open(f"/run/netns/{self.namespace(host)}", os.O_RDONLY)
            try:
                if _libc.setns(handle, _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
                result.append(work())
            finally:
                os.close(handle)

        thread = threading.Thread(target=go)
        thread.start()
        thread.join()
        if not result:
            raise ArmFailed(f"the namespace of {host} cannot be entered")
        return result[0]

    def _longhaul(self, *words, unbalanced=False):
        """What a command prints. Stats with books that do not balance are a failure that prints them: who wants them says so, and
        looks at `conserved`."""
        argv = [str(self.binary), "twin", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_LIMIT_S)
        if done.returncode != 0 and not (unbalanced and done.stdout):
            raise ArmFailed(f"longhaul twin {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


class Network(Twin):
    """A twin of a network that is written as a file."""

    def __init__(self, binary, text, scale="1", name=None):
        super().__init__(binary)
        self.name = name or self.name
        self._text, self._options = text, ["--scale", scale]

    @property
    def place(self):
        """Where what others must know of it is."""
        return Path(f"/run/longhaul/twin/{self.name}")

    def description(self):
        """As it was brought up: with its scaled rates, and the addresses of its named paths."""
        return self._longhaul("topology", "--twin", self.name)

    def _description(self):
        return self._text


# More than this share of packets later than a millisecond, and nothing is to be said of what was measured: its p99 is above that.
LATE_SHARE = 0.01


def late_share(after, before=None):
    """Share of the packets that left later than 1 ms between two `Twin.stats`, or since the twin came up, or of those that may have waited
    longer before they were read; of the worse direction."""
    def late(stats):
        read = sum(count for _, count in stats["ingress_wait_ns"]["histogram"])
        return (stats["late_packets"], stats["departed"]["packets"]), (stats["ingress_late"], read)

    shares = [0.0]
    for host, stats in after.items():
        earlier = late(before[host]) if before else ((0, 0), (0, 0))
        for (some, all_), (some_then, all_then) in zip(late(stats), earlier):
            shares.append((some - some_then) / max(all_ - all_then, 1))
    return max(shares)


def finished(program, limit_s):
    """Output of a program that is to end by itself within a time."""
    try:
        output, said = program.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        program.kill()
        raise ArmFailed(f"{program.args[7]} did not end within {limit_s:.0f} s") from error
    if program.returncode != 0:
        words = (said.strip() or output.strip()).splitlines()[-3:]
        raise ArmFailed(f"{program.args[7]} ended with {program.returncode}: {' / '.join(words)}")
    return output
