"""The command line of `bench/truth`.

Exit codes: 0 all is true · 1 a row failed to run, or is void · 2 usage, or this machine cannot run it · 3 a row misses
its target.
"""

import argparse
import json
from pathlib import Path

from .. import longhaul, machine, over_twin
from ..errors import ArmFailed
from ..units import binary_size
from . import delay, loss, rate, reno
from .row import HEAD, PASS, VOID, Row

_GROUPS = {
    "rtt": delay.idle_rtt,
    "rate": rate.rate,
    "queue": delay.queue_delay,
    "loss": loss.loss_ratio,
    "bursts": loss.bursts,
    "mathis": reno.mathis,
    "recovery": reno.recovery,
}
_REQUIRED = ("ip", "iperf3", "ss")
_DEFAULT_OUT = longhaul.REPOSITORY / "bench/out"


def main():
    options = _parser().parse_args()
    return over_twin.run("truth", options, _REQUIRED, "iproute2 iperf3", lambda binary: _run(options, binary))


def _run(options, binary):
    options.out.mkdir(parents=True, exist_ok=True)
    about = machine.describe(options.out, binary)
    rows = []
    for group in options.only:
        for row in _rows(group, binary, options.quick):
            rows.append(row)
            print(row.line, flush=True)
            # After every row, so that a run cut short keeps what it has.
            (options.out / "truth.md").write_text(_markdown(about, rows))
            results = {"machine": about, "rows": [{**vars(row), "verdict": row.verdict} for row in rows]}
            (options.out / "truth.json").write_text(json.dumps(results, indent=1) + "\n")
    print("\n" + _markdown(about, rows), end="")
    if any(row.verdict.startswith(VOID) for row in rows):
        return 1
    return 0 if all(row.verdict == PASS for row in rows) else 3


def _rows(group, binary, quick):
    try:
        yield from _GROUPS[group](binary, quick)
    except (ArmFailed, OSError) as error:
        yield Row(group, "", "", False, void=[f"ended early: {error}"])


def _markdown(about, rows):
    head = [
        "# Truth of the emulator",
        "",
        f"{about['cpus']} × {about['cpu']}, {binary_size(about['memory_bytes'])} of memory, Linux {about['kernel']}; "
        f"load {about['load_at_start']:.2f} before the start.",
        "",
    ]
    return "\n".join([*head, *HEAD, *(row.line for row in rows)]) + "\n"


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/truth",
        description="Measures what the links of a twin do beside what they were told to.",
        epilog="example: bench/truth --only rtt,rate",
    )
    parser.add_argument("--only", type=_groups, default=tuple(_GROUPS), metavar=",".join(_GROUPS),
                        help="these rows, in this order; default all")
    parser.add_argument("--quick", action="store_true", help="fewer cases and packets: shows that every row works")
    parser.add_argument("--longhaul", metavar="PATH",
                        help="the binary, default target/release/longhaul, built if absent")
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT, metavar="DIR",
                        help="truth.md and truth.json, default bench/out")
    return parser


def _groups(text):
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in _GROUPS:
            raise argparse.ArgumentTypeError(f"no rows {word!r}; there are {', '.join(_GROUPS)}")
    return words
