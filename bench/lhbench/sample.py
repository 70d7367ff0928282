"""One run of one arm, what it cost, and how many of them become a row."""

import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from .twin import LATE_SHARE


@dataclass
class Sample:
    round: int
    seconds: float = 0.0
    moved_bytes: int = 0
    cpu_source_s: float = 0.0
    cpu_dest_s: float = 0.0
    machine_cpu_s: float = 0.0
    peak_source_bytes: int = 0
    peak_dest_bytes: int = 0
    problem: str = ""
    wrong_copy: bool = False
    extra: dict = field(default_factory=dict)

    @property
    def late_share(self):
        """Of the packets of a run over a twin, those that the emulator let go more than 1 ms late."""
        return self.extra.get("late_share", 0.0)

    @property
    def is_late(self):
        return self.late_share > LATE_SHARE

    @property
    def valid(self):
        return not (self.problem or self.is_late)

    @property
    def rate_bps(self):
        return 8 * self.moved_bytes / self.seconds if self.seconds else 0.0

    @property
    def cpu_s_per_gb(self):
        """Both ends together; a GB is 10^9 bytes."""
        return (self.cpu_source_s + self.cpu_dest_s) / (self.moved_bytes / 1e9)


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values):
        values = list(values)
        return cls(statistics.median(values), min(values), max(values)) if values else None


class Meter:
    """Seconds, CPU and peak memory between `with` and `stop`; CPU until `close`.

    The clock stops when the client is done (and the data durable). The CPU account runs on until
    the server has gone, so that what it still does for this arm is its own cost.
    """

    def __init__(self, source, dest):
        self._sides = (source, dest)

    def start(self):
        for side in self._sides:
            side.reset_peak()
        self._cpu = [side.cpu_seconds() for side in self._sides]
        self._machine = machine_cpu_seconds()
        self._start = time.monotonic()

    def stop(self):
        self.seconds = time.monotonic() - self._start
        self._machine = machine_cpu_seconds() - self._machine

    def close(self, round_number):
        cpu = [side.cpu_seconds() - before for side, before in zip(self._sides, self._cpu)]
        return Sample(
            round=round_number,
            seconds=self.seconds,
            cpu_source_s=cpu[0],
            cpu_dest_s=cpu[1],
            machine_cpu_s=self._machine,
            peak_source_bytes=self._sides[0].peak_bytes,
            peak_dest_bytes=self._sides[1].peak_bytes,
        )


def machine_cpu_seconds():
    """Busy time of all processors: also the kernel's own threads, which belong to no side."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, waiting = ticks[3], ticks[4]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK")
