"""Delays by ICMP echo: of an idle link, and of a full queue."""

import statistics
import sys
import time
from functools import partial
from pathlib import Path

from ..errors import ArmFailed
from ..link import Link, ip
from .row import Row
from ..twin import Twin, finished

_PROGRAM = Path(__file__).with_name("echo.py")
# Set one way, ms. Between the pings the machine falls asleep, as it does in an idle network.
_ONE_WAY_MS = (0.1, 0.5, 5, 50, 100)
_PERIOD_S = 0.02
_FLOOD_S, _FILL_S, _PINGS = 22, 3, 60
# Rate, what the queue holds, what that takes at the rate with the datagrams of the flood, ms.
_DATAGRAM = 1400
_PACKET = _DATAGRAM + 28
_QUEUES = (
    ("100 ms", 100.0),
    ("1 MB", 80.0),
    ("500 packets", 500 * _PACKET * 8 / 100e6 * 1e3),
)


def idle_rtt(binary, quick):
    """Median of 200 pings for each round trip: within 50 µs + 0.1 % from 1 ms up, within 150 µs below."""
    for one_way_ms in _ONE_WAY_MS:
        yield partial(_idle_rtt, binary, one_way_ms, 50 if quick else 200)


def _idle_rtt(binary, one_way_ms, pings):
    rtt_ms = 2 * one_way_ms
    tolerance_us = 50 + rtt_ms if rtt_ms >= 1 else 150
    plain = _Plain(rtt_ms)
    try:
        plain.ping(pings // 4)
        with Twin(binary, delay=f"{one_way_ms:g} ms") as twin:
            off_us = (statistics.median(_ping(twin, pings)) - rtt_ms) * 1e3
            row = Row(f"idle RTT {rtt_ms:g} ms", f"± {tolerance_us:.0f} µs", "", abs(off_us) <= tolerance_us)
            row.account(twin)
        plain.ping(pings // 4)
    finally:
        plain.close()
    row.measured = f"{off_us:+.0f} µs (plain pair {plain.median_us:.0f})"
    yield row


class _Plain:
    """Pings over a plain pair of devices that follow each other as slowly as those over a path of `rtt_ms`: what this machine takes by itself, before any
    delay. Processors that sleep between them, and neighbours that fill the caches, make it hundreds of microseconds.
    """

    def __init__(self, rtt_ms):
        self._link = Link()
        self._period_s = _PERIOD_S + rtt_ms / 1e3
        self._took_ms = []

    def ping(self, count):
        argv = [sys.executable, _PROGRAM, self._link.addresses[1], str(count), str(self._period_s)]
        echoes = ip("netns", "exec", self._link.namespaces[0], *argv).split()
        if len(echoes) < count / 10:
            raise ArmFailed(f"{len(echoes)} of {count} echoes came back over a plain pair of devices")
        self._took_ms += [float(echo) / 1e3 for echo in echoes]

    @property
    def median_us(self):
        return statistics.median(self._took_ms) * 1e3

    def close(self):
        self._link.close()


def queue_delay(binary, quick):
    """What a ping waits for behind a flood, more than on the idle link: within 2 %."""
    for limit, expected_ms in _QUEUES[:1] if quick else _QUEUES:
        yield partial(_queue_delay, binary, limit, expected_ms)


def _queue_delay(binary, limit, expected_ms):
    with Twin(binary, rate="100 Mb/s", delay="5 ms", queue=limit) as twin:
        idle_ms = statistics.median(_ping(twin, 40))
        server = twin.start("b", ["iperf3", "-s", "-1"])
        twin.wait_listening("b", 5201)
        flood = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-u", "-b", "110M", "-l", _DATAGRAM, "-t", _FLOOD_S])
        time.sleep(_FILL_S)
        waited_ms = statistics.median(_ping(twin, _PINGS)) - idle_ms
        if flood.poll() is not None:
            raise ArmFailed("the flood ended before the last ping")
        finished(flood, _FLOOD_S + 10)
        finished(server, 10)
        off = waited_ms / expected_ms - 1
        row = Row(f"delay of a full queue of {limit} at 100 Mb/s", f"{expected_ms:.1f} ms ± 2 %",
                  f"{waited_ms:.2f} ms ({off:+.2%})", abs(off) <= 0.02)
        if not twin.stats()["a"]["dropped"]["queue"]["packets"]:
            row.void.append("the queue was not full")
        yield row.account(twin)


def _ping(twin, count):
    """Round-trip times in ms of what came back."""
    argv = [sys.executable, _PROGRAM, twin.addresses["b"], count, _PERIOD_S]
    lines = twin.run("a", argv, count + 60).splitlines()
    if len(lines) < count / 10:
        raise ArmFailed(f"{len(lines)} of {count} echoes came back")
    return [float(line) / 1e3 for line in lines]
