"""What is lost, by the numbers that the receiver misses."""

import itertools
import json
import math
import sys
from functools import partial
from pathlib import Path

from .row import Row
from ..twin import Twin, finished

_PROGRAM = Path(__file__).with_name("datagrams.py")
_PORT = 4801
_PER_SECOND = 12_000
# 99 % of all runs are within so many standard deviations.
_Z = 2.576
_LOSSES = (0.1, 0.01, 0.001)
_BURST_LOSS, _BURST = 0.05, 4


def loss_ratio(binary, quick):
    """The share that is lost, within the binomial interval of 99 %."""
    count = 20_000 if quick else 100_000
    for seed, share in enumerate(_LOSSES, start=1):
        yield partial(_loss_ratio, binary, seed, share, count)


def _loss_ratio(binary, seed, share, count):
    with Twin(binary, seed, delay="1 ms") as twin:
        twin.change(loss=share, way="forward")
        missing, row_of = _missing(twin, count)
        sigma = math.sqrt(count * share * (1 - share))
        low, high = (count * share + way * _Z * sigma for way in (-1, 1))
        lost = len(missing)
        yield row_of(f"loss {share:g}, {count:,} datagrams", f"{low:.0f} to {high:.0f} lost", f"{lost} lost", low <= lost <= high)


def bursts(binary, quick):
    """Mean length of the bursts of a Gilbert-Elliott chain, and how many are of each length."""
    yield partial(_bursts, binary, 20_000 if quick else 100_000)


def _bursts(binary, count):
    with Twin(binary, 7, delay="1 ms") as twin:
        twin.change(loss=f"{_BURST_LOSS:g} in bursts of {_BURST}", way="forward")
        missing, row_of = _missing(twin, count)
        lengths = _lengths(missing)
        # Spells are geometric: of mean B and of variance B (B - 1).
        off = _Z * math.sqrt(_BURST * (_BURST - 1) / len(lengths))
        mean = sum(lengths) / len(lengths)
        yield row_of(f"bursts of {_BURST} in the mean, {len(lengths):,} of them", f"{_BURST} ± {off:.2f}",
                     f"{mean:.2f}", abs(mean - _BURST) <= off)
        for least in (2, 4, 8):
            expected = (1 - 1 / _BURST) ** (least - 1)
            off = _Z * math.sqrt(expected * (1 - expected) / len(lengths))
            share = sum(length >= least for length in lengths) / len(lengths)
            yield row_of(f"bursts of {least} or more", f"{expected:.1%} ± {off:.1%}", f"{share:.1%}",
                         abs(share - expected) <= off)


def _missing(twin, count):
    """The numbers that did not arrive, and a maker of rows that know what the twin counted."""
    receiver = twin.start("b", [sys.executable, _PROGRAM, "receive", _PORT, count])
    receiver.stdout.readline()
    came = lambda: twin.udp_counter("b", "InDatagrams", "InErrors")
    before = came()
    sender = twin.start("a", [sys.executable, _PROGRAM, "send", twin.addresses["b"], _PORT, count, _PER_SECOND])
    finished(sender, count / _PER_SECOND + 60)
    report = json.loads(finished(receiver, 60))
    missing = report["missing"]
    # The kernel's own count of what arrived, also where it had no room for it, and the link's of what it lost, say the same.
    kernel = came() - before
    link = twin.stats()["a"]["dropped"]["loss"]["packets"]

    def row_of(*columns):
        row = Row(*columns)
        if report["wrong"]:
            row.broken.append(f"{report['wrong']} datagrams came twice or were never sent")
        # A packet of the kernel's own, such as a router solicitation, may be among the link's.
        if not 0 <= link - len(missing) <= 5:
            row.broken.append(f"the link says that it lost {link}, the receiver misses {len(missing)}")
        if kernel != count - len(missing):
            row.broken.append(f"the kernel has had {kernel} datagrams, the receiver {count - len(missing)}")
        return row.account(twin)

    return missing, row_of


def _lengths(missing):
    """Lengths of the runs of neighbours."""
    runs = itertools.groupby(enumerate(missing), key=lambda pair: pair[1] - pair[0])
    return [len(list(run)) for _, run in runs]
