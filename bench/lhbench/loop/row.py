"""A line of the result: what was looked at, what it should be, what it was."""

from dataclasses import dataclass, field

HEAD = ["| what | target | measured | machine | lateness p99, µs | |", "|---|---|---|---:|---:|---|"]
# The emulator's lateness above which numbers say nothing.
LATE_US = 1000.0
# All together may use so much of the machine.
BUSY_MOST = 0.6


@dataclass
class Row:
    what: str
    target: str
    measured: str
    holds: bool
    busy: float = 0.0
    late_p99_us: float = 0.0
    # What was seen, for JSON.
    numbers: dict = field(default_factory=dict)
    # Why it says nothing.
    void: list = field(default_factory=list)

    def account(self, counters, busy):
        """Takes in how the emulator and the machine did meanwhile."""
        self.late_p99_us, self.busy = counters.late_p99_us, busy
        self.void += sorted(counters.broken)
        if counters.late_p99_us > LATE_US:
            self.void.append("emulator late")
        if busy > BUSY_MOST:
            self.void.append(f"the machine is more than {BUSY_MOST:.0%} busy")
        return self

    @property
    def verdict(self):
        if self.void:
            return "void: " + "; ".join(self.void)
        return "pass" if self.holds else "FAIL"

    @property
    def line(self):
        return (f"| {self.what} | {self.target} | {self.measured} | {self.busy:.0%} | {self.late_p99_us:.0f} | "
                f"{self.verdict} |")
