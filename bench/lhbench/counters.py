"""What the links of a twin carried, read often from another thread."""

import bisect
import json
import socket
import time

from .sampler import Sampler

_PATIENCE_S = 10.0
# A link of fewer packets says nothing of the emulator's lateness: one late one of the first hundred is its p99.
_TELLING_PACKETS = 10_000


class Counters(Sampler):
    """Samples all links until it is left. A direction is named as the controller does: `ocean:forward`. Bytes are those that left
    the link at its far end, with IP headers; times are those of `time.monotonic`."""

    def __init__(self, twin, period_s=0.05):
        super().__init__()
        self._control = str(twin.place / "control")
        self._names = twin.links
        self._period_s = period_s
        self._times, self._bytes = [], {}
        self._late, self.broken = {}, set()

    def __enter__(self):
        self._sample()
        return super().__enter__()

    @property
    def now(self):
        """When it was last looked."""
        return self._times[-1]

    @property
    def begin(self):
        return self._times[0]

    @property
    def late_p99_us(self):
        """Of the links that carried enough to tell, since they are up, that which was late most."""
        return max((late for packets, late in self._late.values() if packets >= _TELLING_PACKETS), default=0.0)

    def rate(self, direction, begin, end):
        """Mean in b/s between two times."""
        return 8 * (self._at(direction, end) - self._at(direction, begin)) / (end - begin)

    def total(self, direction):
        """Bytes since it is looked."""
        return self._bytes[direction][-1] - self._bytes[direction][0]

    def windows(self, direction, begin, end, length_s):
        """(begin, mean) of every window of that length, one for each sample."""
        starts = [t for t in self._times if begin <= t <= end - length_s]
        return [(t, self.rate(direction, t, t + length_s)) for t in starts]

    def _at(self, direction, moment):
        times, counts = self._times, self._bytes[direction]
        after = min(max(bisect.bisect_left(times, moment), 1), len(times) - 1)
        t0, t1 = times[after - 1], times[after]
        b0, b1 = counts[after - 1], counts[after]
        return b0 + (b1 - b0) * (moment - t0) / (t1 - t0)

    def _look(self):
        while not self._over.wait(self._period_s):
            self._sample()

    def _sample(self):
        links = self._ask()
        # Of the answer: the counters are read as it is written.
        at = time.monotonic()
        for name, link in zip(self._names, links):
            if link is None:
                continue
            for way, stats in zip(("forward", "backward"), link["stats"]):
                self._bytes.setdefault(f"{name}:{way}", []).append(stats["departed"]["bytes"])
                self._late[name, way] = stats["departed"]["packets"], stats["lateness_ns"]["p99"] / 1e3
                if not stats["conserved"]:
                    self.broken.add(f"the books of {name} do not balance")
        self._times.append(at)

    def _ask(self):
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(_PATIENCE_S)
            control.connect(self._control)
            control.sendall(b'{"ask":"links"}\n')
            with control.makefile() as answer:
                return json.loads(answer.readline())["links"]
