"""Three classes that want more than there is: marks, idle capacity, weights, while things change."""

import time

from . import network
from .row import Row
from .setting import EXCLUDED_S, Busy, wait_moving, watch

# A class in any second may be above its mark by this.
ABOVE = 0.02
# What may be idle over 10 s while somebody could use it.
IDLE = 0.05
# How far from its weight a class may be over 10 s.
WEIGHT = 0.02
_LONG_S, _SECOND_S = 10.0, 1.0
_OCEAN = "ocean:forward"


class Phase:
    """A time between two changes, without what is excluded after the first."""

    def __init__(self, what, counters, seconds, most_bps, parts, ceilings):
        # Of the classes: their parts of the whole by weight, or None where they do not follow from weights alone: what classes used
        # in the last minute moves weights.
        self.what, self.most_bps, self.parts, self.ceilings = what, most_bps, parts, ceilings
        self.counters = counters
        time.sleep(EXCLUDED_S)
        self.begin = time.monotonic()
        time.sleep(seconds)
        self.end = counters.now

    def above(self):
        """The most that a second was above its mark, of everything that has one."""
        marks = {_OCEAN: self.most_bps, **{_access(name): bps for name, bps in self.ceilings.items()}}
        worst = [(bps / mark - 1, of) for of, mark in marks.items()
                 for _, bps in self.counters.windows(of, self.begin, self.end, _SECOND_S)]
        return max(worst)

    def idle(self):
        """The most that was idle over 10 s."""
        windows = self.counters.windows(_OCEAN, self.begin, self.end, _LONG_S)
        return max(1 - bps / self.most_bps for _, bps in windows)

    def unfair(self):
        """The most that a class was away from its part of what all had, over 10 s; None where that is not said."""
        if not self.parts:
            return None
        worst = 0.0
        for begin, all_bps in self.counters.windows(_OCEAN, self.begin, self.end, _LONG_S):
            for name, part in self.parts.items():
                bps = self.counters.rate(_access(name), begin, begin + _LONG_S)
                worst = max(worst, abs(bps / (all_bps * part) - 1))
        return worst


def rows(setting):
    mark, ocean = setting.mark_bps, setting.ocean_bps
    weights = network.CLASSES
    with setting.fleet() as fleet, watch(fleet) as counters:
        # By the third change a class has had at most so long at its highest rate.
        count, size = setting.files_for(mark * 0.55, 8 * (setting.seconds + EXCLUDED_S) + 20)
        numbers = {}
        for name in weights:
            fleet.make(_host(name, "w"), name, count, size)
        busy = Busy()
        for name in weights:
            numbers[name] = fleet.submit(name, _host(name, "w"), _host(name, "e"), name)
        wait_moving(fleet, counters, numbers.values())
        phases = [Phase("three classes, weights 5, 3, 2", counters, setting.seconds, mark, _parts(weights), {})]

        limit = ocean * 0.5
        fleet.limit("link:ocean", limit)
        phases.append(Phase("a limit from outside", counters, setting.seconds, limit, _parts(weights), {}))
        fleet.lift("link:ocean")

        ceiling = mark * 0.3
        fleet.client.put_toml("/shares", network.shares("cms", ceiling))
        rest = {"atlas": 3, "rubin": 2}
        phases.append(Phase("a mark of 30 % for cms", counters, setting.seconds, mark,
                            {"cms": 0.3, **{name: 0.7 * part for name, part in _parts(rest).items()}}, {"cms": ceiling}))
        fleet.client.put_toml("/shares", network.shares())

        fleet.twin.change_link("w2-west", rate=f"{round(mark * 0.1 / 1e3)} kb/s")
        phases.append(Phase("atlas' host can do a third of its share", counters, setting.seconds, mark, None, {}))
        fleet.twin.change_link("w2-west", rate=f"{round(5 * ocean / 1e3)} kb/s")
        phases.append(Phase("it can again", counters, setting.seconds, mark, None, {}))

        fleet.client.post(f"/transfers/{numbers['rubin']}/cancel", {"reason": "no longer wanted"})
        phases.append(Phase("rubin has ended", counters, setting.seconds, mark, None, {}))
        used = busy.share
        for number in numbers.values():
            fleet.client.post(f"/transfers/{number}/cancel", {"reason": "measured"})
    for phase in phases:
        above, of = phase.above()
        yield _row(f"{phase.what}: any second", f"≤ mark + {ABOVE:.0%}", f"{above:+.2%} at {of}", above <= ABOVE, above,
                   counters, used)
        idle = phase.idle()
        yield _row(f"{phase.what}: idle over 10 s", f"< {IDLE:.0%} of the mark", f"{idle:.2%}", idle < IDLE, idle, counters, used)
        unfair = phase.unfair()
        if unfair is not None:
            yield _row(f"{phase.what}: weights over 10 s", f"within {WEIGHT:.0%}", f"{unfair:.2%}", unfair <= WEIGHT, unfair,
                       counters, used)


def _row(what, target, measured, holds, number, counters, busy):
    return Row(what, target, measured, holds, numbers={"worst": number}).account(counters, busy)


def _parts(weights):
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def _host(name, side):
    return f"{side}{list(network.CLASSES).index(name) + 1}"


def _access(name):
    """What a class sends is all that leaves its host."""
    return f"{_host(name, 'w')}-west:forward"
