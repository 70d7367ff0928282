"""A line of a table of what must hold, beside the grid."""

from dataclasses import dataclass

HEAD = ["| what | goal | measured | |", "|---|---|---|---|"]


@dataclass
class Row:
    what: str
    goal: str
    measured: str
    holds: bool

    @property
    def line(self):
        return f"| {self.what} | {self.goal} | {self.measured} | {'pass' if self.holds else 'FAIL'} |"
