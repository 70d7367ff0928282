"""Tables of what must hold, beside the grid, and their lines."""

from dataclasses import dataclass, field

HEAD = ["| what | goal | measured | |", "|---|---|---|---|"]


@dataclass
class Row:
    what: str
    goal: str
    measured: str
    holds: bool
    # The machine took the emulator's time away: it says nothing of what was measured.
    void: bool = False
    # How often it was measured, the void runs too.
    times: int = 1

    def account(self, ways, stood_still=""):
        """The row once what the emulator counted of all ways is known: nothing is said where it stood still, and it fails where
        packets are missing from the books, whatever else was."""
        if stood_still:
            self.measured += f"; {stood_still}"
            self.void = True
        if not all(way["conserved"] for way in ways):
            self.measured += "; the books do not balance"
            self.holds, self.void = False, False
        return self

    @property
    def line(self):
        verdict = "void" if self.void else "pass" if self.holds else "FAIL"
        often = f" (run {self.times})" if self.times > 1 else ""
        return f"| {self.what} | {self.goal} | {self.measured} | {verdict}{often} |"


@dataclass
class Table:
    """The rows of one part and where they were measured."""

    machine: dict
    rows: list = field(default_factory=list)

    @property
    def has_void(self):
        return any(row.void for row in self.rows)

    @property
    def misses(self):
        return any(not (row.holds or row.void) for row in self.rows)
