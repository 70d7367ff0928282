"""What `bench/distance` has measured so far: what of it is kept from an earlier run, what is measured anew, and what is written."""

import dataclasses
import json
import sys

from ..again import again
from ..errors import ArmFailed
from .capacity import capacity
from .cells import FILE, FILES, MEMORY, hopeless, lacks, run_cell
from .cut import cut
from .held import held
from .kept import goes_on, kept
from .report import as_json, markdown
from .row import Table
from .targets import targets

# What is no cell of the grid, by the rows that it gives of a binary and a place to work.
ROWS = {
    "capacity": capacity,
    "rate": held,
    "cut": cut,
}
WHAT = (*ROWS, MEMORY, FILE, FILES)


class Measured:
    """What has been measured, and what is written of it after every part, so that a run cut short keeps what it has."""

    def __init__(self, choice, out, about):
        self.runs, self.tables = [], {}
        self._choice, self._out, self._about = choice, out, about
        self._failure = None

    def keep(self):
        """Takes over what an earlier run has written."""
        self.runs, self.tables = kept(self._out / "distance.json")

    def table(self, what, work):
        """Measures the rows of a part that is no cell, unless they are there and none is void."""
        if what in self.tables and not self.tables[what].has_void:
            print(f"{what}: kept", file=sys.stderr)
            return
        table = Table(self._about)
        try:
            for attempt in ROWS[what](self._choice.longhaul, work):
                row, row.times = again(attempt, lambda row: row.void)
                table.rows.append(row)
                print(row.line, file=sys.stderr, flush=True)
        except (ArmFailed, OSError) as error:
            self._failure = f"{what} ended early: {error}"
            print(self._failure, file=sys.stderr)
            return
        self.tables[what] = table
        self.write()

    def cell(self, what, cell, scratch):
        """Measures what a cell lacks."""
        before = next((run for run in self.runs if (run.what, run.cell) == (what, cell)), None)
        here = dataclasses.replace(self._choice, hopeless=hopeless(what, cell, self.runs))
        if before and not lacks(before, here):
            print(f"({cell}) {what}: kept", file=sys.stderr)
            return
        same = before if before and goes_on(before, self._about) else None
        run = run_cell(what, cell, here, scratch, self._out / "logs", self._about, same)
        if before and run.failure:
            run = before
        self.runs = [other for other in self.runs if other is not before] + [run]
        self.write()

    def write(self):
        """Writes `distance.md` and `distance.json` of what there is."""
        self.runs.sort(key=lambda run: (WHAT.index(run.what), run.cell.rate_bps, run.cell.rtt_ms, run.cell.loss))
        shown = (self.runs, self.tables, self._about, self._choice.settings)
        (self._out / "distance.md").write_text(markdown(*shown))
        (self._out / "distance.json").write_text(json.dumps(as_json(*shown), indent=1) + "\n")

    def has_failed(self):
        """Whether something that was to be measured was not, or broke."""
        failed = any(run.failure or any(arm.problems() for arm in run.arms) for run in self.runs)
        return bool(self._failure) or failed

    def misses(self):
        """Whether a target is missed."""
        missed = any(target.verdict == "FAIL" for target in targets(self.runs))
        return missed or any(table.misses for table in self.tables.values())
