"""What one emulated link carries: TCP at 10 Gb/s over 100 ms, and small UDP datagrams."""

import json
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ArmFailed
from ..twin import Twin, finished

_RATE_BPS, _ONE_WAY_MS, _STREAMS = 10e9, 50, 4
# With the queue of the link, as long as the path is. BBR keeps as much in it again, and more where it begins, and sends again for seconds what is dropped of
# that; of CUBIC a queue four times as long drops so much at once that the machine is busy with it.
_QUEUES = {"cubic": "125 MB", "bbr": "500 MB"}
_MTUS = (1500, 9000)
# What is carried for so long in a row counts: BBR lets the path run empty each 10 s, for 200 ms and two round trips or so, to see how long it is
# (ProbeRTT), and nothing is carried that is not sent. The mean over all of it is told beside it.
_FILL_S, _LOOK_S, _ROW_S = 6, 20, 8
_BUFFER_BYTES = 512 << 20
# IP and TCP headers with timestamps.
_HEADERS = 52
_DATAGRAM_BYTES, _DATAGRAMS_PER_S, _DATAGRAM_S, _UNPLANNED = 64, 210_000, 8, 0.001
_DATAGRAMS_GOAL = 200_000
_SOURCE = Path(__file__).resolve().parents[2] / "datagrams.c"
_PORT = 4801
HEAD = ["| what | goal | measured | lateness p50 / p99, µs | emulator: cores | cores per Gb/s | |",
        "|---|---|---|---:|---:|---:|---|"]


@dataclass
class Row:
    what: str
    goal: str
    measured: str
    holds: bool
    late_us: tuple
    cores: float
    per_gbps: float
    broken: list = field(default_factory=list)
    # Measured once, whatever it is: late or not, it is what the machine can do.
    times: int = 1
    void = False

    @property
    def line(self):
        verdict = f"FAIL: {'; '.join(self.broken)}" if self.broken else "pass" if self.holds else "FAIL"
        return (f"| {self.what} | {self.goal} | {self.measured} | {self.late_us[0]:.0f} / {self.late_us[1]:.0f} "
                f"| {self.cores:.2f} | {self.per_gbps:.3f} | {verdict} |")


def capacity(binary, work):
    """For each row a function that measures it."""
    for mtu in _MTUS:
        for congestion in _QUEUES:
            yield lambda: _tcp(binary, mtu, congestion)
    yield lambda: _datagrams(binary, work)


def _tcp(binary, mtu, congestion):
    keys = {"rate": f"{_RATE_BPS / 1e9:g} Gb/s", "delay": f"{_ONE_WAY_MS} ms", "queue": _QUEUES[congestion]}
    with Twin(binary, mtu=mtu, **keys) as twin:
        twin.raise_buffers(_BUFFER_BYTES)
        server = twin.start("b", ["iperf3", "-s", "-1", "-J"])
        twin.wait_listening("b", 5201)
        client = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-P", _STREAMS, "-C", congestion, "-J", "-Z",
                                  "-t", _FILL_S + _LOOK_S + 2])
        time.sleep(_FILL_S)
        with _Look(twin) as look:
            look.watch(_LOOK_S)
        finished(client, 60)
        report = json.loads(finished(server, 20))
        got_bps = report["end"]["sum_received"]["bits_per_second"]
        bps = look.bits / look.seconds
        starts = range(len(look.each_bps) - _ROW_S + 1)
        row_bps = max(statistics.mean(look.each_bps[n:n + _ROW_S]) for n in starts)
        # What TCP has of it when every packet is full.
        row = Row(f"TCP, {_STREAMS} streams of iperf3, {congestion}, MTU {mtu}, 100 ms, queue {_QUEUES[congestion]}", f"≥ {_RATE_BPS / 1e9:g} Gb/s of packets for {_ROW_S} s",
                  f"{row_bps / 1e9:.2f} Gb/s ({row_bps * (1 - _HEADERS / mtu) / 1e9:.2f} of data) for {_ROW_S} s in a row; {bps / 1e9:.2f} in the "
                  f"mean of {_LOOK_S} s, {got_bps / 1e9:.2f} of data with the start",
                  row_bps >= 0.999 * _RATE_BPS, look.late_us, look.cores, look.cores / (bps / 1e9), look.broken)
        if look.late_us[1] > 1000:
            row.measured += ", emulator late"
        return row


def _datagrams(binary, work):
    program = work / "datagrams"
    built = subprocess.run(["cc", "-O2", "-o", str(program), str(_SOURCE)], capture_output=True, text=True)
    if built.returncode != 0:
        raise ArmFailed(f"datagrams.c does not compile: {built.stderr.strip()}")
    with Twin(binary, rate="1 Gb/s", delay="10 ms") as twin:
        receiver = twin.start("b", [program, "receive", _PORT])
        time.sleep(0.3)
        with _Look(twin) as look:
            words = [program, "send", twin.addresses["b"], _PORT, _DATAGRAM_BYTES, _DATAGRAMS_PER_S, _DATAGRAM_S]
            sent = int(twin.run("a", words, _DATAGRAM_S + 20))
        got = int(finished(receiver, 30))
        per_s, lost = got / _DATAGRAM_S, 1 - got / sent
        return Row(f"UDP, packets of {_DATAGRAM_BYTES} bytes", f"≥ {_DATAGRAMS_GOAL:,} a second, < {_UNPLANNED:.1%} lost",
                   f"{per_s:,.0f} a second, {lost:.3%} lost{look.unread}", per_s >= _DATAGRAMS_GOAL and lost < _UNPLANNED, look.late_us,
                   look.cores, look.cores / (per_s * _DATAGRAM_BYTES * 8 / 1e9), look.broken)


class _Look:
    """What the link and the emulator did meanwhile."""

    def __init__(self, twin):
        self._twin = twin

    def __enter__(self):
        self._before, self._cpu = self._twin.stats()["a"], self._twin.emulator_cpu_s()
        return self

    def watch(self, seconds):
        """The rate of each second, b/s."""
        self.each_bps, was, begin = [], self._before, time.monotonic()
        for n in range(1, seconds + 1):
            time.sleep(max(0, begin + n - time.monotonic()))
            now = self._twin.stats()["a"]
            bits = 8 * (now["departed"]["bytes"] - was["departed"]["bytes"])
            self.each_bps.append(bits / (now["at_ns"] - was["at_ns"]) * 1e9)
            was = now

    def __exit__(self, *_):
        stats = self._twin.stats()
        after, self.broken = stats["a"], []
        self.seconds = (after["at_ns"] - self._before["at_ns"]) / 1e9
        self.bits = 8 * (after["departed"]["bytes"] - self._before["departed"]["bytes"])
        self.cores = (self._twin.emulator_cpu_s() - self._cpu) / self.seconds
        late = [way["lateness_ns"] for way in stats.values()]
        self.late_us = tuple(max(way[key] for way in late) / 1e3 for key in ("p50", "p99"))
        # A device holds 48 ms of the datagrams below.
        dropped = sum(way["unplanned"]["tx_dropped"] for way in stats.values())
        longest_ms = max(way["ingress_wait_ns"]["max"] for way in stats.values()) / 1e6
        self.unread = f"; the kernel dropped {dropped:,} before the emulator read them, after at most {longest_ms:.0f} ms" if dropped else ""
        if not all(way["conserved"] for way in stats.values()):
            self.broken.append("the books do not balance")
