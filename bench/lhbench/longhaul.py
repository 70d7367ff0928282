"""Everything this harness knows about Longhaul's command line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from .arm import LONGHAUL
from .errors import ArmFailed
from .peers.base import Peer

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_BINARY = REPOSITORY / "target/release/longhaul"
# Ways of storage I/O that LONGHAUL_IO can force.
FALLBACKS = ("threads", "posix", "posix-old")
_PORT = 4810


def find_binary(asked):
    """The binary to run, built when it is the default one and absent; None when there is none."""
    binary = Path(asked).resolve() if asked else DEFAULT_BINARY
    if not asked and not binary.exists() and shutil.which("cargo"):
        print("building longhaul (release)", file=sys.stderr)
        subprocess.run(["cargo", "build", "--release", "--bin", "longhaul"], cwd=REPOSITORY, check=False)
    return binary


class _Longhaul(Peer):
    name = "longhaul"
    kind = LONGHAUL
    durable = True

    def __init__(self, binary, protection, io=None):
        self._binary = binary
        self.protection = protection
        self._environment = {"LONGHAUL_IO": io} if io else {}
        self.label = f"longhaul {protection}" + (f" ({io})" if io else "")

    def missing(self):
        if not self._binary.is_file():
            return f"binary not found: {self._binary.name}; cargo build --release, or --longhaul PATH"
        return None

    def _serve(self, root):
        """Starts the agent over `root` and learns its token and fingerprint."""
        state = self.bench.directory("longhaul")
        shutil.rmtree(state)
        state.mkdir(mode=0o700)
        ready = state / "ready.json"
        argv = [self._binary, "serve", "--listen", f"{self.bench.dest.address}:{_PORT}"]
        argv += ["--root", root, "--ready-file", ready, "--state-dir", state / "agent"]
        self.server = self.bench.dest.spawn(argv, self.server_log(), self._environment)
        self.bench.dest.wait_until(
            lambda: _ready(ready), self.server, self.server_log(), "complete ready file"
        )
        self._ready = _ready(ready)
        self._report = state / "report.json"

    def _client(self, *words):
        secret = {"LONGHAUL_TOKEN": self._ready["token"]}
        argv = [self._binary, *words]
        return self.bench.source.spawn(argv, self.client_log(), {**self._environment, **secret})


class LonghaulCopy(_Longhaul):
    """`longhaul copy` as a user would type it: streams, unless they are told, and congestion control are its own choice."""

    def __init__(self, binary, protection, io=None, streams=None):
        super().__init__(binary, protection, io)
        self._told = _told(self, streams=streams)

    def start_server(self, job):
        self._serve(job.arrival)

    def run_client(self, job):
        source = f"{job.dataset.root}/" if job.dataset.is_tree else job.dataset.single
        return self._client(
            "copy", "--fingerprint", self._ready["fingerprint"], "--protect", self.protection,
            *self._told, "--quiet", "--report", self._report, source, f"lh://{self._ready['address']}{job.arrival}/",
        )

    def result(self, job, seconds):
        try:
            report = json.loads(self._report.read_text())
        except (OSError, ValueError) as error:
            raise ArmFailed(f"no report: {error}") from error
        return job.dataset.total_bytes, seconds, {"report": report, **_said(report.get("summary", {}))}


class LonghaulThroughput(_Longhaul):
    """As iperf3 is told: streams and congestion control. A program that is told none has the kernel's default."""

    def start_server(self, job):
        self._serve(self.bench.directory("empty"))

    def run_client(self, job):
        return self._client(
            "test", "throughput", self._ready["address"], "--fingerprint", self._ready["fingerprint"],
            *self._choices(job), "--duration", f"{job.duration_s}s",
            "--protect", self.protection, "--json", *(["--rate", job.rate] if job.rate else []),
        )

    def _choices(self, job):
        # Told nothing Longhaul would choose for itself.
        congestion = job.congestion or self.bench.link.kernel_congestion
        return ["--streams", job.streams, "--congestion", congestion]

    def session(self, *words):
        """What `longhaul session …` says at the source."""
        log = "longhaul-session.log"
        process = self.bench.source.spawn([self._binary, "session", *words], log)
        if process.wait(20) != 0:
            raise ArmFailed(f"longhaul session {' '.join(words)}: {self.bench.source.log_text(log)}")
        return self.bench.source.log_text(log)

    def result(self, job, seconds):
        summary = _summary(self.bench.source.log_text(self.client_log()))
        took_s = float(summary.get("seconds", job.duration_s))
        return int(float(summary["rate_bps"]) * took_s / 8), took_s, {"summary": summary, **_said(summary)}


class LonghaulChoosing(LonghaulThroughput):
    """As a user would type it: what is not told here is its own choice."""

    def __init__(self, binary, protection, streams=None, congestion=None):
        super().__init__(binary, protection)
        self._told = _told(self, streams=streams, congestion=congestion)

    def _choices(self, job):
        return self._told


def _told(peer, **options):
    """The words for those options that have a value; the label names them."""
    words = [word for key, value in options.items() if value for word in (f"--{key}", value)]
    peer.label += f" ({' '.join(map(str, words))})" if words else ""
    return words


def _ready(path):
    """What the agent says of itself; None while it has not said all of it."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if {"address", "token", "fingerprint"} <= record.keys() else None


# Of a summary, what explains a run that is unlike the others.
_SAID = ("streams", "streams_lost", "congestion", "limited_by", "retransmits")


def _said(summary):
    return {key: summary[key] for key in _SAID if key in summary}


def _summary(text):
    """The last JSON line, which must be the summary."""
    for line in reversed(text.splitlines()):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("event") == "summary" and "rate_bps" in record:
            return record
    raise ArmFailed("no summary record with a rate_bps in the output")
