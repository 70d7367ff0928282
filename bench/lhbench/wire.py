"""What is on the wire: IP bytes that leave a device, read often from another thread."""

import bisect
import ctypes
import os
import subprocess
import time

from .sampler import Sampler

_CLONE_NEWNET = 0x40000000
_ETHERNET_BYTES = 14
_PERIOD_S = 0.01
_libc = ctypes.CDLL(None, use_errno=True)


def count_real_packets(namespace, device):
    """Makes the kernel cut packets before the device, so that every one of them has its headers counted."""
    words = ["ip", "netns", "exec", namespace, "ethtool", "-K", device, "tso", "off", "gso", "off"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ethtool cannot turn segmentation off at {device}: {done.stderr.strip()}")


class Wire(Sampler):
    """Samples until it is left; then windows can be asked for."""

    def __init__(self, namespace, device):
        super().__init__()
        self._namespace, self._device = namespace, device
        self._times, self._bytes = [], []

    def begin(self):
        """When the first data left."""
        start = self._bytes[0]
        # Greetings and handshakes are less than this.
        return next(t for t, n in zip(self._times, self._bytes) if n > start + 100_000)

    def end(self):
        """When the last data left."""
        return next(t for t, n in zip(reversed(self._times), reversed(self._bytes)) if n < self._bytes[-1] - 100_000)

    def rate(self, begin, end):
        """Mean in b/s between two times."""
        return 8 * (self._at(end) - self._at(begin)) / (end - begin)

    def windows(self, begin, end, length_s):
        """The mean of every window of that length, one for each sample."""
        starts = [t for t in self._times if begin <= t <= end - length_s]
        return [self.rate(t, t + length_s) for t in starts]

    def _at(self, moment):
        after = min(max(bisect.bisect_left(self._times, moment), 1), len(self._times) - 1)
        t0, t1 = self._times[after - 1], self._times[after]
        b0, b1 = self._bytes[after - 1], self._bytes[after]
        return b0 + (b1 - b0) * (moment - t0) / (t1 - t0)

    def _look(self):
        # A namespace is a thread's own, and so is its view of /proc/thread-self/net.
        handle = os.open(f"/run/netns/{self._namespace}", os.O_RDONLY)
        if _libc.setns(handle, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(handle)
        while not self._over.wait(_PERIOD_S):
            with open("/proc/thread-self/net/dev") as table:
                row = next(line for line in table if line.strip().startswith(f"{self._device}:"))
            sent = row.split(":")[1].split()[8:10]
            self._times.append(time.monotonic())
            self._bytes.append(int(sent[0]) - _ETHERNET_BYTES * int(sent[1]))
