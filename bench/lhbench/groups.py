"""What the programs that measure rows in groups over twins have in common: options, the machine, a report that is kept after every row."""

import argparse
import json
import sys

from . import machine, place
from .errors import ArmFailed
from .units import binary_size

# What a row may end by without ending the run.
_ROW_ENDS = (ArmFailed, OSError, ValueError, KeyError)


def parser(name, groups, description, example):
    """With --only, --longhaul and --out."""
    def chosen(text):
        words = tuple(dict.fromkeys(text.split(",")))
        for word in words:
            if word not in groups:
                raise argparse.ArgumentTypeError(f"no rows {word!r}; there are {', '.join(groups)}")
        return words

    made = argparse.ArgumentParser(prog=f"bench/{name}", description=description, epilog=f"example: bench/{name} {example}")
    made.add_argument("--only", type=chosen, default=tuple(groups), metavar=",".join(groups),
                      help="these rows, in this order; default all")
    made.add_argument("--longhaul", metavar="PATH", help="the binary, default target/release/longhaul, built if absent")
    made.add_argument("--out", type=place.directory, default=place.RESULTS, metavar="DIR", help=f"{name}.md and {name}.json, default bench/out")
    return made


class Report:
    """Rows as they come. A row has `line`, `verdict` and fields; `head` is the head of their table."""

    def __init__(self, name, options, binary, title, head, setting="", **numbers):
        self._name, self._out, self._title, self._head, self._setting, self._numbers = name, options.out, title, head, setting, numbers
        self.about = machine.describe(options.out, binary)
        self.rows = []

    def take(self, rows, ended_early, to=sys.stdout):
        """All of a group; if it ends early, what `ended_early(text)` makes of that."""
        try:
            for row in rows:
                self._add(row, to)
        except _ROW_ENDS as error:
            self._add(ended_early(f"ended early: {error}"), to)

    def _add(self, row, to):
        self.rows.append(row)
        print(row.line, file=to, flush=True)
        # After every row, so that a run cut short keeps what it has.
        (self._out / f"{self._name}.md").write_text(self.markdown)
        (self._out / f"{self._name}.json").write_text(self.json)

    @property
    def json(self):
        rows = [{**vars(row), "verdict": row.verdict} for row in self.rows]
        return json.dumps({"machine": self.about, **self._numbers, "rows": rows}, indent=1) + "\n"

    @property
    def markdown(self):
        about = self.about
        of_machine = (f"{about['cpus']} × {about['cpu']}, {binary_size(about['memory_bytes'])} of memory, Linux {about['kernel']}; "
                      f"load {about['load_at_start']:.2f} before the start. {self._setting}".rstrip())
        return "\n".join([f"# {self._title}", "", of_machine, "", *self._head, *(row.line for row in self.rows)]) + "\n"
