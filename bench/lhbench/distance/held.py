"""How exactly `--rate` is held over a long path, by the counters of its link."""

import json
import time
from contextlib import contextmanager

from ..agent import Agent
from ..twin import Twin, finished
from .counted import Counted
from .row import Row

_RATE_BPS, _RTT_S = 1e9, 0.1
_SHARES = (0.1, 0.5, 0.9)
_CHANGES = ((100e6, 500e6), (900e6, 200e6))
# The start of a session: a window that grows over 100 ms round by round.
_SETTLING_S = 2.0
_MEAN_S, _SHORT_S, _TOLERANCE = 10.0, 1.0, 0.01
_CHANGE_S = 0.2 + _RTT_S
_TAIL_S = 0.5
# An emulator that stood still for longer lets a second have what the one before lost.
_LATE_MS = 5
_BUFFER_BYTES = 64 << 20


def held(binary, _):
    """For each row a function that measures it."""
    for share in _SHARES:
        yield lambda: _row(binary, _hold, share * _RATE_BPS)
    for before, after in _CHANGES:
        yield lambda: _row(binary, _change, before, after)


def _row(binary, measure, *rates_bps):
    with _path(binary) as (twin, agent):
        return _judged(measure(twin, agent, *rates_bps), twin)


@contextmanager
def _path(binary):
    with Twin(binary, rate=f"{_RATE_BPS / 1e9:g} Gb/s", delay=f"{_RTT_S * 500:g} ms", queue="12500000 B") as twin:
        twin.raise_buffers(_BUFFER_BYTES)
        with Agent(twin) as agent:
            yield twin, agent


def _judged(row, twin):
    ways = twin.stats().values()
    late_ms = max(way["lateness_ns"]["max"] for way in ways) / 1e6
    return row.account(ways, f"the emulator stood still for {late_ms:.0f} ms" if late_ms > _LATE_MS else "")


def _hold(twin, agent, asked_bps):
    seconds = int(_SETTLING_S + _MEAN_S + 4)
    with Counted(twin) as counted:
        test = agent.test(seconds, "--rate", f"{asked_bps / 1e6:g}Mb/s")
        finished(test, seconds + 30)
    begin, end = counted.begin() + _SETTLING_S, counted.end() - _TAIL_S
    means = [rate / asked_bps - 1 for _, rate in counted.windows(begin, end, _MEAN_S)]
    excess = max(rate / asked_bps - 1 for _, rate in counted.windows(begin, end, _SHORT_S))
    worst = max(means, key=abs)
    return Row(f"`--rate {asked_bps / 1e6:g}Mb/s` over 1 Gb/s, 100 ms", "any 10 s within 1 %, no second over by more than 1 %",
               f"worst 10 s {worst:+.2%}, worst second {excess:+.2%}", abs(worst) <= _TOLERANCE and excess <= _TOLERANCE)


def _change(twin, agent, before_bps, after_bps):
    with Counted(twin) as counted:
        test = agent.test(12, "--rate", f"{before_bps / 1e6:g}Mb/s")
        time.sleep(5)
        session = json.loads(agent.session("ls", "--json"))["sessions"][0]["session"]
        asked = time.monotonic()
        agent.session("set", session, "--rate", f"{after_bps / 1e6:g}Mb/s")
        done = time.monotonic()
        finished(test, 40)
    begin = counted.at(done) + _CHANGE_S
    error = counted.windows(begin, counted.end(), _SHORT_S)[0][1] / after_bps - 1
    return Row(f"{before_bps / 1e6:g} to {after_bps / 1e6:g} Mb/s while it runs",
               "the second from 200 ms + 1 RTT after the command within 1 %",
               f"{error:+.2%}; the command took {1e3 * (done - asked):.0f} ms", abs(error) <= _TOLERANCE)
