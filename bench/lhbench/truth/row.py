"""A row of the truth table: what was set, what came out, and whether the emulator kept up meanwhile."""

from dataclasses import dataclass, field

from ..again import again
from ..twin import LATE_SHARE, late_share

LATE_NS = 1_000_000

PASS, FAIL, VOID = "pass", "FAIL", "void"


@dataclass
class Row:
    what: str
    target: str
    measured: str
    holds: bool
    late_p50_us: float = 0.0
    late_p99_us: float = 0.0
    # Share of the packets later than LATE_NS where the start is not part of what is measured, but of the numbers above.
    late_since: float | None = None
    # Why the run says nothing about the emulator: it was late, or the programs around it did not do their part.
    void: list = field(default_factory=list)
    # What must never be, whatever the machine is doing.
    broken: list = field(default_factory=list)
    # How often it was measured, the void runs too.
    times: int = 1

    @property
    def verdict(self):
        if self.broken:
            return f"{FAIL}: {'; '.join(self.broken)}"
        if self.void:
            return f"{VOID}: {'; '.join(self.void)}"
        return PASS if self.holds else FAIL

    def account(self, twin, since=None):
        """Takes what the twin counted into the row: lateness, conservation, what went wrong beside the link.

        Whether it was late is asked of all packets, or of those that left after the stats `since`, where the start is not part of
        what is measured.
        """
        now = twin.stats()
        for host, stats in now.items():
            late = stats["lateness_ns"]
            self.late_p50_us = max(self.late_p50_us, late["p50"] / 1e3)
            self.late_p99_us = max(self.late_p99_us, late["p99"] / 1e3)
            if not stats["conserved"]:
                self.broken.append(f"the books of {host}'s direction do not balance")
            # What the kernel drops is for want of time: the next run may have it.
            lost = stats["unplanned"].pop("tx_dropped")
            for cause, count in stats["unplanned"].items():
                if count:
                    self.broken.append(f"{count} packets {cause} in {host}'s direction")
            if stats["dropped"]["delay_line"]["packets"]:
                self.broken.append(f"the delay line of {host}'s direction was full")
            if lost:
                self.void.append(f"{lost} packets never reached the link from {host}")
        share = late_share(now, since)
        if since:
            self.late_since = share
        if share > LATE_SHARE:
            self.void.append("emulator late")
        return self

    @property
    def line(self):
        late = f"{self.late_p50_us:.1f} / {self.late_p99_us:.1f}"
        if self.late_since is not None:
            late += f"; after the start {self.late_since:.2%} above 1 ms"
        again = f" (run {self.times})" if self.times > 1 else ""
        return f"| {self.what} | {self.target} | {self.measured} | {late} | {self.verdict}{again} |"


def measured(attempts):
    """The rows of each attempt, a function that gives some; it is called again while one of them is void."""
    for attempt in attempts:
        rows, times = again(lambda: list(attempt()), lambda rows: any(row.void for row in rows))
        for row in rows:
            row.times = times
            yield row


HEAD = [
    "| what | target | measured | lateness p50 / p99, µs | |",
    "|---|---|---|---:|---|",
]
