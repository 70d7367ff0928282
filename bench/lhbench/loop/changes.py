"""How long it takes from a request over the API to the new rate on the wire."""

import random
import time

from .network import CLASSES
from .row import Row
from .setting import Busy, wait_moving, watch

# A change is in force by then, for 99 of 100.
LIMIT_S = 1.0
# A rate is in force when it is so near to what was asked for, in a window of this length and in the mean of what follows.
_NEAR = 0.05
_WINDOW_S, _AFTER_S = 0.2, 0.5
_PERIOD_S = 0.02
_REST_S, _REST_MORE_S = 2.0, 0.3
# What is asked for in turn, in parts of the mark, and a little more than its mean.
_HIGH, _LOW = (0.85, 1.0), (0.4, 0.6)
_MEAN = 0.75
_CLASSES = ("cms", "atlas")
_OCEAN = "ocean:forward"


def rows(setting):
    limit = setting.mark_bps
    random.seed(1)
    with setting.fleet() as fleet, watch(fleet, _PERIOD_S) as counters:
        seconds = setting.changes * (_REST_S + _REST_MORE_S / 2) + 40
        whole = sum(CLASSES[name] for name in _CLASSES)
        for n, name in enumerate(_CLASSES, 1):
            # As long as all changes take, at the mean of what is asked for.
            count, size = setting.files_for(limit * _MEAN * CLASSES[name] / whole, seconds)
            fleet.make(f"w{n}", name, count, size)
        busy = Busy()
        numbers = [fleet.submit(name, f"w{n}", f"e{n}", name) for n, name in enumerate(_CLASSES, 1)]
        wait_moving(fleet, counters, numbers)
        time.sleep(5)
        asked = []
        high = True
        for _ in range(setting.changes):
            high = not high
            rate = limit * random.uniform(*(_HIGH if high else _LOW))
            at = time.monotonic()
            fleet.limit("link:ocean", rate)
            asked.append((at, rate))
            time.sleep(_REST_S + random.uniform(0, _REST_MORE_S))
        used = busy.share
        told = [fleet.transfer(number) for number in numbers]
        ended = [one["id"] for one in told if one["state"] != "moving"]
        for number in set(numbers) - set(ended):
            fleet.client.post(f"/transfers/{number}/cancel", {"reason": "measured"})
    in_turn = [_in_force(counters, at, rate) for at, rate in asked]
    took = sorted(in_turn)
    p50, p99, most = took[len(took) // 2], took[max(0, -(-len(took) * 99 // 100) - 1)], took[-1]
    measured = f"p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, most {most * 1e3:.0f} ms of {len(took)} changes"
    row = Row("a limit by the API to the wire at the far end", f"p99 < {LIMIT_S:g} s", measured, p99 < LIMIT_S,
              numbers={"seconds": in_turn, "asked_bps": [rate for _, rate in asked]})
    row.void += [f"{number} had ended" for number in ended]
    yield row.account(counters, used)


def _in_force(counters, asked_at, rate):
    """Seconds until the wire has the rate; infinite if it never comes."""
    begin = asked_at
    while begin < asked_at + _REST_S - _WINDOW_S - _AFTER_S:
        near = abs(counters.rate(_OCEAN, begin, begin + _WINDOW_S) / rate - 1) <= _NEAR
        stays = abs(counters.rate(_OCEAN, begin + _WINDOW_S, begin + _WINDOW_S + _AFTER_S) / rate - 1) <= _NEAR
        if near and stays:
            return begin - asked_at
        begin += _PERIOD_S
    return float("inf")
