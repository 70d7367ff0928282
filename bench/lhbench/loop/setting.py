"""How large things are, and a fleet over the two sites with its counters."""

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..counters import Counters
from ..fleet import Fleet
from ..sample import machine_cpu_seconds
from . import network

# Nothing is looked at for so long after a change.
EXCLUDED_S = 3.0
_MOVING_LIMIT_S = 30.0
_FILE_BYTES = 32 << 20


@dataclass(frozen=True)
class Setting:
    binary: Path
    ocean_bps: float
    seconds: float
    changes: int
    beneath: Path

    @property
    def mark_bps(self):
        return self.ocean_bps * network.HIGH_WATER

    @contextmanager
    def fleet(self, access_bps=None, pools=False, crossings=False, **more):
        """A fleet with an endpoint for each host, or one for each site."""
        text = network.network(self.ocean_bps, access_bps or 5 * self.ocean_bps, crossings)
        hosts = {f"{side}{n}": [f"{side}{n}"] for side in "we" for n in network.HOSTS}
        sites = {"west": ["w1", "w2", "w3"], "east": ["e1", "e2", "e3"]}
        with Fleet(self.binary, text, network.shares(), sites if pools else hosts, self.beneath, **more) as fleet:
            yield fleet

    def files_for(self, bps, seconds):
        """Files, and their size, that last at least so long at that rate."""
        return int(bps * seconds / 8 / _FILE_BYTES) + 2, _FILE_BYTES


class Busy:
    """The part of the machine that is used, from its making on."""

    def __init__(self):
        self._at, self._used = time.monotonic(), machine_cpu_seconds()

    @property
    def share(self):
        return (machine_cpu_seconds() - self._used) / (time.monotonic() - self._at) / os.cpu_count()


def watch(fleet, period_s=0.05):
    return Counters(fleet.twin, period_s)


def wait_moving(fleet, counters, numbers):
    """Returns once all of these transfers move on the wire."""
    until = time.monotonic() + _MOVING_LIMIT_S
    while time.monotonic() < until:
        told = [fleet.transfer(number) for number in numbers]
        if all(one["allocated_bps"] > 0 and one["rate_bps"] > 0 for one in told):
            return
        time.sleep(0.1)
    from ..errors import ArmFailed
    raise ArmFailed("; ".join(f"{one['id']} does not move: {one['state']}: {one['reason']}" for one in told))
