"""A copy over paths that are cut in its middle."""

import json
import shutil
import time
from contextlib import contextmanager

from ..agent import Agent
from ..errors import ArmFailed
from ..twin import LATE_SHARE, Twin, finished, late_share
from .counted import Counted
from .row import Row

_RATE_BPS, _RTT_S = 1e9, 0.1
_BYTES = 2_000_000_000
_CUT_AT = 0.35
_LIMIT_S = 180
_BUFFER_BYTES = 64 << 20
_LINKS = ("one", "two")
# Of each of the two: as much together as the one that is alone.
_EACH_BPS = _RATE_BPS / 2
_GOAL, _BACK_S, _RESUMED_S = 0.9, 3.0, 2.0
_TIMEOUT_S = 10
# As often as a copy connects anew before it ends, with pauses between.
_ATTEMPTS = 6


def cut(binary, work):
    """For each row a function that measures it."""
    source, root = work / "cut/source", work / "cut/root"
    for directory in (source, root):
        directory.mkdir(parents=True)
    try:
        _fill(source / "big")
        for what in (_one_of_two, _the_only_one, _for_too_long):
            yield lambda: _row(what, binary, source, root)
    finally:
        shutil.rmtree(work / "cut", ignore_errors=True)


def _row(what, binary, source, root):
    try:
        return what(binary, source, root)
    finally:
        shutil.rmtree(root / "copy", ignore_errors=True)


def _one_of_two(binary, source, root):
    with _path(binary, _LINKS, root, _EACH_BPS) as (twin, agent), Counted(twin, "two") as other:
        copy = agent.copy(source, root / "copy")
        _until_the_middle(other, 2)
        at = _cut(twin, ("one",))
        in_flight = _unacknowledged(twin)
        summary = _ended(copy, source, root)
        ways = _ways(twin)
    back = next((begin for begin, rate in other.windows(other.at(at), other.end(), 0.5) if rate >= _GOAL * _EACH_BPS), None)
    back_s = float("inf") if back is None else back - other.at(at)
    twice = summary["bytes_sent"] - _BYTES
    holds = back_s <= _BACK_S and summary["ok"] and twice <= in_flight
    row = Row(f"2 GB over two paths of {_EACH_BPS / 1e6:.0f} Mb/s, 100 ms; one is cut",
              "≥ 90 % of the other within 3 s, nothing sent twice but what was in flight (not acknowledged)",
              f"{_GOAL:.0%} after {back_s:.1f} s, {twice / 1e6:.1f} MB of files twice (not acknowledged: "
              f"{in_flight / 1e6:.1f})", holds)
    return _judged(row, ways)


def _the_only_one(binary, source, root):
    with _path(binary, ("ab",), root) as (twin, agent), Counted(twin) as counted:
        copy = agent.copy(source, root / "copy")
        _until_the_middle(counted, 1)
        _cut(twin, ("ab",))
        time.sleep(5)
        healed = time.monotonic()
        twin.heal("ab")
        summary = _ended(copy, source, root)
        ways = _ways(twin)
    begin = counted.at(healed)
    flows = next((at for at, rate in counted.windows(begin, counted.end(), 0.2) if rate > 0.1 * _RATE_BPS), None)
    resumed_s = float("inf") if flows is None else flows - begin
    row = Row("2 GB over one path, cut for 5 s", "goes on within 2 s of the heal", f"after {resumed_s:.1f} s",
              resumed_s <= _RESUMED_S and summary["ok"])
    return _judged(row, ways)


def _for_too_long(binary, source, root):
    with _path(binary, ("ab",), root) as (twin, agent):
        with Counted(twin) as counted:
            copy = agent.copy(source, root / "copy", "--timeout", f"{_TIMEOUT_S}s")
            _until_the_middle(counted, 1)
            at = _cut(twin, ("ab",))
            output, said = copy.communicate(timeout=_LIMIT_S)
        ended_s, why = time.monotonic() - at, said.strip().splitlines()[-1:]
        twin.heal("ab")
        if copy.returncode == 0:
            raise ArmFailed("a copy over a path that is gone ended well")
        summary = _ended(agent.copy(source, root / "copy"), source, root)
        ways = _ways(twin)
    again = summary["bytes_sent"] / _BYTES
    holds = ended_s <= (_ATTEMPTS + 2) * _TIMEOUT_S and bool(why) and again < 1 - _CUT_AT + 0.1 and summary["ok"]
    row = Row(f"2 GB over one path, cut for longer than `--timeout {_TIMEOUT_S}s`", "ends, says why, and is resumed",
              f"ended with {copy.returncode} after {ended_s:.0f} s ({' '.join(why)}); the next run sent {again:.0%}", holds)
    return _judged(row, ways)


def _ways(twin):
    """What each way of all links has counted, while the twin is there."""
    return {(link, host): stats for link in twin.links for host, stats in twin.stats(link).items()}


def _judged(row, ways):
    late = late_share(ways)
    return row.account(ways.values(), f"emulator late: {late:.1%} of the packets" if late > LATE_SHARE else "")


@contextmanager
def _path(binary, links, root, rate_bps=_RATE_BPS):
    keys = {"rate": f"{rate_bps / 1e9:g} Gb/s", "delay": f"{_RTT_S * 500:g} ms", "queue": f"{rate_bps / 8 * _RTT_S:.0f} B"}
    with Twin(binary, links=links, **keys) as twin:
        twin.raise_buffers(_BUFFER_BYTES)
        with Agent(twin, root) as agent:
            yield twin, agent


def _fill(path):
    piece = open("/dev/urandom", "rb").read(1 << 20)
    with open(path, "wb") as file:
        while file.tell() < _BYTES:
            # No two pieces are alike, so that a place that was missed or taken twice shows.
            file.write((file.tell().to_bytes(8, "big") + piece)[:min(len(piece), _BYTES - file.tell())])


def _until_the_middle(counted, ways):
    until = time.monotonic() + _LIMIT_S
    while not counted.bits or counted.bits[-1] < 8 * _BYTES * _CUT_AT / ways:
        if time.monotonic() > until:
            raise ArmFailed("the copy does not get on")
        time.sleep(0.02)


def _cut(twin, links):
    """When it was cut."""
    at = time.monotonic()
    for link in links:
        twin.cut(link)
    return at


def _unacknowledged(twin):
    """Bytes that the sender's kernel has for the first path: they are on it, lost on it, arrived behind what was lost, or wait to
    be sent. Nobody at the other end has read any of them."""
    there = twin.link_addresses("b")[0]
    sockets = twin.run("a", ["ss", "-tnH", "dst", there], _LIMIT_S)
    return sum(int(line.split()[2]) for line in sockets.splitlines())


def _ended(copy, source, root):
    """The last record of a copy that must have copied everything."""
    summary = json.loads(finished(copy, _LIMIT_S).splitlines()[-1])
    with open(source / "big", "rb") as one, open(root / "copy/big", "rb") as other:
        while piece := one.read(1 << 22):
            if piece != other.read(len(piece)):
                raise ArmFailed("the copy is not what was copied")
    return summary
