"""What a link of a twin counts over a time."""

import time

from ..sampler import Sampler

_PERIOD_S = 0.1


class Counted(Sampler):
    """Looks at what left a link towards host b until it is left; then windows can be asked for."""

    def __init__(self, twin, link="ab"):
        super().__init__()
        self._twin, self._link = twin, link
        # Seconds of the emulator's clock, bits, and of our clock.
        self.times, self.bits, self._ours = [], [], []

    def begin(self):
        """When the first data had left."""
        # Greetings and handshakes are less than this.
        return next(at for at, bits in zip(self.times, self.bits) if bits > self.bits[0] + 1e6)

    def end(self):
        """When the last data had not left yet."""
        return next(at for at, bits in zip(reversed(self.times), reversed(self.bits)) if bits < self.bits[-1] - 1e6)

    def windows(self, begin, end, length_s):
        """Begin and rate in b/s of every window of that length, a look's time longer at most, one for each look."""
        found = []
        later = 0
        for first, at in enumerate(self.times):
            if at < begin:
                continue
            later = max(later, first)
            while later < len(self.times) and self.times[later] < at + length_s:
                later += 1
            if later == len(self.times) or self.times[later] > end:
                break
            found.append((at, (self.bits[later] - self.bits[first]) / (self.times[later] - at)))
        return found

    def at(self, moment):
        """A moment of `time.monotonic()` on the emulator's clock."""
        nearest = min(range(len(self._ours)), key=lambda n: abs(self._ours[n] - moment))
        return self.times[nearest] + moment - self._ours[nearest]

    def _look(self):
        while not self._over.wait(_PERIOD_S):
            stats = self._twin.stats(self._link)["a"]
            self._ours.append(time.monotonic())
            self.times.append(stats["at_ns"] / 1e9)
            self.bits.append(8 * stats["departed"]["bytes"])
