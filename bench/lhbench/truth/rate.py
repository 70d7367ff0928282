"""The rate of a saturated link, by its own counters and by what the receiver got."""

import json
import time
from functools import partial

from .row import LATE_NS, Row
from ..twin import Twin, finished

# Gb/s, streams that saturate it, bytes that each may have on the way: together more than the path holds and less than
# its queue. Where nothing is dropped, what has arrived is not held back by a hole before it.
_RATES = ((0.01, 1, 150_000), (1.0, 1, 6_000_000), (5.0, 1, 40_000_000))
_TOLERANCE = 0.005
_FILL_S, _LOOK_S = 4.0, 8.0
# iperf3 counts whole blocks: they are to be small beside what is carried in 8 s, and dear where they are too small.
_BLOCK_S, _BLOCK_MOST = 0.005, 128 << 10
# A packet of 1500 bytes carries 1448 of TCP's with timestamps.
_PACKET, _PAYLOAD = 1500, 1448
# Less than this is the programs' rate and not the link's.
_SATURATED = 0.9995


def rate(binary, quick):
    """Departed bytes over 8 s within 0.5 % of what was set; p99 of lateness at most 1 ms."""
    for gbps, streams, flight in _RATES[:2] if quick else _RATES:
        yield partial(_rate, binary, gbps, streams, flight)


def _rate(binary, gbps, streams, flight):
    with Twin(binary, rate=f"{gbps:g} Gb/s", delay="1 ms") as twin:
        twin.set_sysctl("a", "net.ipv4.tcp_wmem", f"4096 65536 {flight}")
        yield _saturated(twin, gbps * 1e9, streams)


def _saturated(twin, set_bps, streams):
    server = twin.start("b", ["iperf3", "-s", "-1", "-J"])
    twin.wait_listening("b", 5201)
    block = min(int(set_bps / 8 * _BLOCK_S), _BLOCK_MOST)
    client = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-P", streams, "-C", "cubic", "-J", "-Z", "-l", block,
                              "-t", int(_FILL_S + _LOOK_S + 2)])
    time.sleep(_FILL_S)
    started = twin.stats()
    before = started["a"]
    time.sleep(_LOOK_S)
    after = twin.stats()["a"]
    finished(client, 30)
    report = json.loads(finished(server, 10))
    time_ns = after["at_ns"] - before["at_ns"]
    link_bps = 8e9 * (after["departed"]["bytes"] - before["departed"]["bytes"]) / time_ns
    busy = (after["busy_ns"] - before["busy_ns"]) / time_ns
    # The receiver's own clock and its own count, of the seconds in the middle.
    seconds = [part["sum"] for part in report["intervals"]][int(_FILL_S):int(_FILL_S + _LOOK_S)]
    got_bps = 8 * sum(s["bytes"] for s in seconds) / sum(s["seconds"] for s in seconds) * _PACKET / _PAYLOAD
    offs = [bps / set_bps - 1 for bps in (link_bps, got_bps)]
    dropped = after["dropped"]["queue"]["packets"] - before["dropped"]["queue"]["packets"]
    row = Row(f"rate {set_bps / 1e9:g} Gb/s" if set_bps >= 1e9 else f"rate {set_bps / 1e6:g} Mb/s", "± 0.5 %",
              f"link {offs[0]:+.3%}, receiver {offs[1]:+.3%}", max(map(abs, offs)) <= _TOLERANCE)
    if busy < _SATURATED:
        row.void.append(f"not saturated: busy {busy:.2%} of the time")
    if dropped:
        row.void.append(f"{dropped} packets were dropped")
    row.account(twin, since=started)
    if set_bps >= 1e9:
        row.target += f", lateness p99 ≤ {LATE_NS / 1e6:g} ms"
    return row
