"""The command line of `bench/polite`.

Exit codes: 0 every target is met · 1 a row failed to run, or is void · 2 usage, or this machine cannot run it · 3 a
target is missed.
"""

import argparse
import json
from pathlib import Path

from .. import longhaul, machine, over_twin
from ..errors import ArmFailed
from ..units import binary_size
from . import rows
from .rows import HEAD, Row

_GROUPS = {
    "filled": rows.filled,
    "later": rows.comes_later,
    "there": rows.was_there,
    "impolite": rows.impolite,
}
_REQUIRED = ("ip", "iperf3", "ss")
_DEFAULT_OUT = longhaul.REPOSITORY / "bench/out"


def main():
    options = _parser().parse_args()
    return over_twin.run("polite", options, _REQUIRED, "iproute2 iperf3", lambda binary: _run(options, binary))


def _run(options, binary):
    options.out.mkdir(parents=True, exist_ok=True)
    about = machine.describe(options.out, binary)
    done = []
    for rtt_ms in options.rtt:
        queue_ms = options.queue or rtt_ms
        path = rows.Path(binary, options.rate * 1e6, rtt_ms, queue_ms, options.seconds)
        for group in options.only:
            for row in _rows(group, path):
                done.append(row)
                print(row.line, flush=True)
                # After every row, so that a run cut short keeps what it has.
                (options.out / "polite.md").write_text(_markdown(about, options, done))
                results = {"machine": about, "rows": [{**vars(row), "verdict": row.verdict} for row in done]}
                (options.out / "polite.json").write_text(json.dumps(results, indent=1) + "\n")
    print("\n" + _markdown(about, options, done), end="")
    if any(row.broken for row in done):
        return 1
    return 3 if any(row.holds is False for row in done) else 0


def _rows(group, path):
    try:
        yield from _GROUPS[group](path)
    except (ArmFailed, OSError, ValueError) as error:
        yield Row(f"{path.name}: {group}", "", broken=[f"ended early: {error}"])


def _markdown(about, options, done):
    head = [
        "# Giving way",
        "",
        f"{about['cpus']} × {about['cpu']}, {binary_size(about['memory_bytes'])} of memory, Linux {about['kernel']}; "
        f"load {about['load_at_start']:.2f} before the start. A link of {options.rate:g} Mb/s, {options.seconds} s each.",
        "",
    ]
    return "\n".join([*head, *HEAD, *(row.line for row in done)]) + "\n"


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/polite",
        description="Measures what --polite leaves to a cubic flow of iperf3, and how far it fills an idle link.",
        epilog="example: bench/polite --only filled,later --rtt 20",
    )
    parser.add_argument("--only", type=_groups, default=tuple(_GROUPS), metavar=",".join(_GROUPS),
                        help="these rows, in this order; default all")
    parser.add_argument("--rtt", type=_numbers, default=(20.0, 100.0), metavar="MS,MS", help="round trips; default 20,100")
    parser.add_argument("--queue", type=float, metavar="MS", help="queue of the link; default the round trip")
    parser.add_argument("--rate", type=float, default=100.0, metavar="MBPS", help="rate of the link; default 100")
    parser.add_argument("--seconds", type=int, default=30, help="length of what is compared; default 30")
    parser.add_argument("--longhaul", metavar="PATH",
                        help="the binary, default target/release/longhaul, built if absent")
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT, metavar="DIR",
                        help="polite.md and polite.json, default bench/out")
    return parser


def _numbers(text):
    return tuple(float(word) for word in text.split(","))


def _groups(text):
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in _GROUPS:
            raise argparse.ArgumentTypeError(f"no rows {word!r}; there are {', '.join(_GROUPS)}")
    return words
