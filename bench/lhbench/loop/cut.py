"""The ocean is cut while a second one is there: who notices when, and when the second one carries the traffic."""

import time

from .row import Row
from .setting import Busy, wait_moving, watch

# From the cut to the word of the controller, and until the other path carries nine tenths of what was carried before.
DETECTED_S, MOVED_S = 1.0, 2.0
_CARRIES, _WINDOW_S = 0.9, 0.2
_PERIOD_S = 0.02
_CUTS = 3
_HOLD_S = 2
_LIMIT_S = 20.0
_BACK_LIMIT_S = 60.0


def rows(setting):
    detected, moved, back, seen = [], [], [], []
    with setting.fleet(crossings=True, hold_s=_HOLD_S) as fleet, watch(fleet, _PERIOD_S) as counters:
        count, size = setting.files_for(setting.mark_bps, 180)
        fleet.make("w1", "run", count, size)
        busy = Busy()
        number = fleet.submit("run", "w1", "e1", "cms")
        wait_moving(fleet, counters, [number])
        time.sleep(5)
        for _ in range(_CUTS):
            link, other = _by_load(counters)
            before = counters.rate(f"{link}:forward", counters.now - 2, counters.now)
            at = time.monotonic()
            fleet.twin.cut(link)
            told, when = fleet.wait_link(f"{link}:forward", ("down",), _LIMIT_S)
            detected.append(when - at)
            seen.append(told["reason"])
            time.sleep(max(0.0, at + 5 - time.monotonic()))
            moved.append(_carried(counters, f"{other}:forward", at, at + 5 - _WINDOW_S, before * _CARRIES))
            healed = time.monotonic()
            fleet.twin.heal(link)
            fleet.wait_link(f"{link}:forward", ("up",), _BACK_LIMIT_S)
            back.append(time.monotonic() - healed)
            time.sleep(4)
        used = busy.share
        state = fleet.transfer(number)["state"]
        fleet.client.post(f"/transfers/{number}/cancel", {"reason": "measured"})
    void = [] if state == "moving" else [f"the transfer is {state}"]
    yield Row("a cut until the controller says which link", f"< {DETECTED_S:g} s", _said(detected) + f"; {seen[0]}",
              max(detected) < DETECTED_S, numbers={"seconds": detected, "said": seen}, void=list(void)).account(counters, used)
    yield Row("a cut until the other path carries 90 %", f"< {MOVED_S:g} s",
              _said(moved) + f"; used again {min(back):.1f} to {max(back):.1f} s after the repair, with a hold-down of {_HOLD_S} s "
              "that doubles", max(moved) < MOVED_S, numbers={"seconds": moved, "back": back}, void=list(void)).account(counters, used)


def _by_load(counters):
    """The ocean that carries more, and the other."""
    load = {link: counters.rate(f"{link}:forward", counters.now - 2, counters.now) for link in ("ocean", "second")}
    return sorted(load, key=load.get, reverse=True)


def _carried(counters, direction, begin, end, bps):
    """Seconds until a direction carries so much; infinite if it never does."""
    starts = (at for at, rate in counters.windows(direction, begin, end, _WINDOW_S) if rate >= bps)
    return next(starts, float("inf")) - begin


def _said(seconds):
    return f"{', '.join(f'{one:.2f}' for one in seconds)} s"
