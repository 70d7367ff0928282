"""What an earlier run of the grid has measured: a campaign of most of a day goes on where it was cut short."""

import json

from ..arm import Arm
from ..errors import Unusable
from ..sample import Sample
from . import capacity
from .cells import CellRun
from .path import Cell
from .row import Row, Table

_FIELDS = ("rate_bps", "rtt_ms", "loss")
_SAME = ("cpu", "cpus", "kernel", "build")


def kept(report):
    """What can be used of a `distance.json`: (cells, tables by the name of the part). Of cells those that ended, with every
    arm that does."""
    if not report.exists():
        return [], {}
    try:
        told = json.loads(report.read_text())
        runs = [_run(cell) for cell in told["cells"]]
        tables = {what: _table(what, table) for what, table in told["tables"].items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{report} is not a report of this program ({error!r}): move it away, or go without --continue") from error
    return [run for run in runs if not (run.failure or any(map(_failed, run.arms)))], tables


def goes_on(run, about):
    """Whether rounds of this machine and this build of Longhaul are more of the same, or may be compared with it."""
    return all(what in about and run.machine.get(what) == about[what] for what in _SAME)


def _failed(arm):
    """Whether another run may do better: not where it took too long. What was late is measured again by itself."""
    return not arm.valid and not arm.is_over_limit and bool(arm.problems())


def _table(what, table):
    row = capacity.Row if what == "capacity" else Row
    return Table(table["machine"], [row(**of) for of in table["rows"]])


def _run(cell):
    arms = [Arm(arm["group"], arm["arm"], arm["kind"], arm["protection"], None, [_sample(one) for one in arm["runs"]])
            for arm in cell["arms"]]
    return CellRun(cell["what"], Cell(*(cell[name] for name in _FIELDS)), arms, cell["skipped"], cell["failure"],
                   cell["machine"])


def _sample(run):
    return Sample(**{name: value for name, value in run.items() if name != "rate_bps"})
