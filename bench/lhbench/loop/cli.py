"""The command line of `bench/loop`.

Exit codes: 0 every target is met · 1 a row failed to run, or is void · 2 usage, or this machine cannot run it · 3 a
target is missed.
"""

import argparse
import json
import sys
from pathlib import Path

from .. import longhaul, machine, over_twin
from ..errors import ArmFailed
from ..units import binary_size
from . import changes, cut, floor, pool, sharing
from .row import HEAD, Row
from .setting import Setting

_GROUPS = {"sharing": sharing.rows, "floor": floor.rows, "changes": changes.rows, "pool": pool.rows, "cut": cut.rows}
_REQUIRED = ("ip", "iperf3", "ss")
_DEFAULT_OUT = longhaul.REPOSITORY / "bench/out"


def main():
    options = _parser().parse_args()
    return over_twin.run("loop", options, _REQUIRED, "iproute2 iperf3", lambda binary: _run(options, binary))


def _run(options, binary):
    options.out.mkdir(parents=True, exist_ok=True)
    about = machine.describe(options.out, binary)
    quick = options.quick
    setting = Setting(binary, options.rate * 1e6, 12.0 if quick else options.seconds, 20 if quick else options.changes, options.work)
    done = []
    for group in options.only:
        for row in _rows(group, setting):
            done.append(row)
            print(row.line, file=sys.stderr if options.json else sys.stdout, flush=True)
            # After every row, so that a run cut short keeps what it has.
            (options.out / "loop.md").write_text(_markdown(about, options, done))
            results = {"machine": about, "rate_bps": setting.ocean_bps,
                       "rows": [{**vars(row), "verdict": row.verdict} for row in done]}
            (options.out / "loop.json").write_text(json.dumps(results, indent=1) + "\n")
    print((options.out / "loop.json").read_text() if options.json else "\n" + _markdown(about, options, done), end="")
    if any(row.void for row in done):
        return 1
    return 0 if all(row.holds for row in done) else 3


def _rows(group, setting):
    try:
        yield from _GROUPS[group](setting)
    except (ArmFailed, OSError, ValueError, KeyError) as error:
        yield Row(group, "", "", False, void=[f"ended early: {error}"])


def _markdown(about, options, done):
    head = [
        "# The loop",
        "",
        f"{about['cpus']} × {about['cpu']}, {binary_size(about['memory_bytes'])} of memory, Linux {about['kernel']}; "
        f"load {about['load_at_start']:.2f} before the start. An ocean of {options.rate:g} Mb/s, 54 ms there and back, "
        f"of which 80 % may be reserved. {about['versions'].get('longhaul', '')}",
        "",
    ]
    return "\n".join([*head, *HEAD, *(row.line for row in done)]) + "\n"


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/loop",
        description="Measures on the links of a twin what a controller and its agents do to them.",
        epilog="example: bench/loop --only sharing,changes --rate 200",
    )
    parser.add_argument("--only", type=_groups, default=tuple(_GROUPS), metavar=",".join(_GROUPS),
                        help="these groups, in this order; default all")
    parser.add_argument("--rate", type=float, default=200.0, metavar="MBPS", help="rate of the ocean; default 200")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of what is looked at between changes; default 20")
    parser.add_argument("--changes", type=int, default=200, metavar="N", help="changes of a limit; default 200")
    parser.add_argument("--quick", action="store_true", help="shorter, and 20 changes: shows that every row works")
    parser.add_argument("--json", action="store_true", help="the results as JSON on standard output, rows on standard error")
    parser.add_argument("--longhaul", metavar="PATH",
                        help="the binary, default target/release/longhaul, built if absent")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="DIR",
                        help="where data are made and arrive, some 10 GB; default /var/tmp")
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT, metavar="DIR",
                        help="loop.md and loop.json, default bench/out")
    return parser


def _groups(text):
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in _GROUPS:
            raise argparse.ArgumentTypeError(f"no rows {word!r}; there are {', '.join(_GROUPS)}")
    return words
