"""One timed run over a path: what `measure.py` does, with the link's own counters beside it."""

import threading
import time

from ..errors import ArmFailed
from ..measure import measure_copy, measure_stream
from ..twin import late_share

# The start of a connection is over by then, also over 200 ms with the loss of its first overshoot.
_STEADY_FROM = 1 / 3


def over_path(bench, measure):
    """The sample of `measure()`, and what the link counted meanwhile: bits of IP packets that left it."""
    twin = bench.link.twin
    before = twin.stats()
    sample = measure()
    after = twin.stats()
    sample.extra["sent_packets_bytes"] = after["a"]["arrived"]["bytes"] - before["a"]["arrived"]["bytes"]
    sample.extra["late_share"] = late_share(after, before)
    if not all(way["conserved"] for way in after.values()):
        raise ArmFailed("the books of the link do not balance")
    return sample


def stream_over_path(bench, peer, job, round_number):
    """Memory to memory; also the link's rate in the later part of the run."""
    looks = []
    over = threading.Event()

    def look():
        # The session is up within some round trips of the client's start.
        for at in (_STEADY_FROM * job.duration_s, job.duration_s - 0.5):
            if over.wait(max(0.0, begin + at - time.monotonic())):
                return
            looks.append(bench.link.twin.stats()["a"])

    begin = time.monotonic()
    looker = threading.Thread(target=look)
    looker.start()
    try:
        sample = over_path(bench, lambda: measure_stream(bench, peer, job, round_number))
    finally:
        over.set()
        looker.join()
    if len(looks) == 2:
        time_ns = looks[1]["at_ns"] - looks[0]["at_ns"]
        sample.extra["steady_bps"] = 8e9 * (looks[1]["departed"]["bytes"] - looks[0]["departed"]["bytes"]) / time_ns
    return sample


def copy_over_path(bench, peer, dataset, place, round_number):
    return over_path(bench, lambda: measure_copy(bench, peer, dataset, place, round_number))
