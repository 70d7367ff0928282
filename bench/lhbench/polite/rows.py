"""What is measured: shares of a link, alone and beside each other."""

import time
from dataclasses import dataclass, field

from ..truth.row import LATE_NS
from ..twin import Twin
from ..agent import Agent
from .flows import Iperf, outcome

# A flow beside --polite keeps so much of what it gets alone, and an idle link is filled so far.
KEEPS = FILLS = 0.9
# Who is there first has so long to find its rate.
LEAD_S = 10
# Whether a test takes a full link for one that loses packets is chance: it must not in so many.
_CHANCES = 4


@dataclass
class Row:
    what: str
    measured: str
    # None where nothing is promised.
    holds: bool | None = None
    late_p99_us: float = 0.0
    broken: list = field(default_factory=list)

    @property
    def verdict(self):
        if self.broken:
            return "void: " + "; ".join(self.broken)
        return {True: "pass", False: "FAIL", None: ""}[self.holds]

    @property
    def line(self):
        return f"| {self.what} | {self.measured} | {self.late_p99_us:.0f} | {self.verdict} |"


HEAD = ["| what | measured | lateness p99, µs | |", "|---|---|---:|---|"]


class Path:
    """A link with a queue, new for each row."""

    def __init__(self, binary, rate_bps, rtt_ms, queue_ms, seconds):
        self.binary, self.rate_bps, self.seconds = binary, rate_bps, seconds
        self._keys = {"rate": f"{rate_bps / 1e6:g} Mb/s", "delay": f"{rtt_ms / 2:g} ms", "queue": f"{queue_ms:g} ms"}
        self.name = f"RTT {rtt_ms:g} ms, queue {queue_ms:g} ms"
        self._alone = {}

    def twin(self):
        return Twin(self.binary, **self._keys)

    def row(self, what, measured, holds, twin):
        row = Row(f"{self.name}: {what}", measured, holds)
        for stats in twin.stats().values():
            row.late_p99_us = max(row.late_p99_us, stats["lateness_ns"]["p99"] / 1e3)
            if not stats["conserved"]:
                row.broken.append("the books of the link do not balance")
        if row.late_p99_us * 1e3 > LATE_NS:
            row.broken.append("emulator late")
        return row

    def share(self, bps):
        return bps / self.rate_bps

    def alone(self, flows):
        """Rates of the seconds of flows that have the link to themselves; measured once, before anything else is started."""
        if flows not in self._alone:
            with self.twin() as twin:
                self._alone[flows] = Iperf(twin, flows, LEAD_S + self.seconds).rates()
        return self._alone[flows]


def filled(path):
    """--polite on an idle link."""
    with path.twin() as twin, Agent(twin) as agent:
        test = agent.test(LEAD_S + path.seconds, "--protect", "clear", "--polite")
        seconds, end = outcome(test, LEAD_S + path.seconds)
        whole, later = _mean(seconds), _mean(seconds[LEAD_S:])
        dropped = twin.stats()["a"]["dropped"]["queue"]["packets"]
        measured = (f"{path.share(later):.1%} of the link after {LEAD_S} s, {path.share(whole):.1%} with them; "
                    f"limited by {end['limited_by']}; {dropped} packets dropped")
        yield path.row("--polite alone", measured, path.share(later) >= FILLS, twin)


def comes_later(path):
    """A cubic flow that comes to a link which --polite fills."""
    path.alone(1)
    with path.twin() as twin, Agent(twin) as agent:
        test = agent.test(LEAD_S + path.seconds + 2, "--protect", "clear", "--polite")
        time.sleep(LEAD_S)
        yield _beside(path, "cubic comes to --polite", twin, 1, test, 0)


def was_there(path):
    """--polite comes to a link that a cubic flow fills."""
    path.alone(1)
    with path.twin() as twin, Agent(twin) as agent:
        yield _beside(path, "--polite comes to cubic", twin, 1, lambda: agent.test(path.seconds, "--protect", "clear", "--polite"), LEAD_S)


def impolite(path):
    """A test without the option, with one stream and with as many as it chooses, beside cubic flows. How much it takes is not promised; that it
    stays with cubic is."""
    for flows in (1, 8):
        path.alone(flows)
        for options in (("--congestion", "cubic", "--streams", "1"), ("--congestion", "cubic"), *_CHANCES * ((),)):
            with path.twin() as twin, Agent(twin) as agent:
                name = f"{' '.join(options) or 'no option'} comes to {flows} cubic"
                row, end = _compared(path, name, twin, flows, lambda: agent.test(path.seconds, "--protect", "clear", *options), LEAD_S)
                row.measured += f" with {end['streams']} of {end['congestion']}"
                row.holds = None if options else end["congestion"] == "cubic"
                yield row


def _beside(*what):
    """The row alone, where only what the flows keep is asked."""
    return _compared(*what)[0]


def _compared(path, name, twin, flows, test, lead_s):
    """Flows from now on, compared with the same seconds of such flows alone; a test that is there or comes later. The row, and
    the test's last record."""
    alone = _mean(path.alone(flows)[lead_s:lead_s + path.seconds])
    iperf = Iperf(twin, flows, lead_s + path.seconds)
    if callable(test):
        time.sleep(lead_s)
        test = test()
    beside = _mean(iperf.rates()[lead_s:])
    seconds, end = outcome(test, path.seconds)
    # A test that was there first has its lead to itself.
    gets = _mean(seconds[LEAD_S - lead_s:][:path.seconds])
    kept = beside / alone
    measured = (f"cubic keeps {kept:.1%} ({beside / 1e6:.1f} of {alone / 1e6:.1f} Mb/s); "
                f"the test gets {path.share(gets):.1%} of the link")
    return path.row(name, measured, kept >= KEEPS, twin), end


def _mean(rates):
    return sum(rates) / len(rates)
