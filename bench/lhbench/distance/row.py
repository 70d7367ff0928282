"""A line of a table of what must hold, beside the grid."""

from dataclasses import dataclass

HEAD = ["| what | goal | measured | |", "|---|---|---|---|"]


@dataclass
class Row:
    what: str
    goal: str
    measured: str
    holds: bool
    # The machine took the emulator's time away: it says nothing of what was measured.
    void: bool = False

    @property
    def line(self):
        verdict = "void" if self.void else "pass" if self.holds else "FAIL"
        return f"| {self.what} | {self.goal} | {self.measured} | {verdict} |"
