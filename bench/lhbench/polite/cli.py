"""The command line of `bench/polite`.

Exit codes: 0 every target is met · 1 a row failed to run, or is void · 2 usage, or this machine cannot run it · 3 a
target is missed.
"""

from .. import groups, over_twin
from . import rows
from .rows import HEAD, Row

_GROUPS = {
    "filled": rows.filled,
    "later": rows.comes_later,
    "there": rows.was_there,
    "impolite": rows.impolite,
}
_REQUIRED = ("ip", "iperf3", "ss")


def main():
    options = _parser().parse_args()
    return over_twin.run("polite", options, _REQUIRED, "iproute2 iperf3", lambda binary: _run(options, binary))


def _run(options, binary):
    setting = f"A link of {options.rate:g} Mb/s, {options.seconds} s each."
    report = groups.Report("polite", options, binary, "Giving way", HEAD, setting)
    for rtt_ms in options.rtt:
        path = rows.Path(binary, options.rate * 1e6, rtt_ms, options.queue or rtt_ms, options.seconds)
        for group in options.only:
            name = f"{path.name}: {group}"
            report.take(_GROUPS[group](path), lambda why, name=name: Row(name, "", broken=[why]))
    print("\n" + report.markdown, end="")
    if any(row.broken for row in report.rows):
        return 1
    return 3 if any(row.holds is False for row in report.rows) else 0


def _parser():
    about = "Measures what --polite leaves to a cubic flow of iperf3, and how far it fills an idle link."
    parser = groups.parser("polite", _GROUPS, about, "--only filled,later --rtt 20")
    parser.add_argument("--rtt", type=_numbers, default=(20.0, 100.0), metavar="MS,MS", help="round trips; default 20,100")
    parser.add_argument("--queue", type=float, metavar="MS", help="queue of the link; default the round trip")
    parser.add_argument("--rate", type=float, default=100.0, metavar="MBPS", help="rate of the link; default 100")
    parser.add_argument("--seconds", type=int, default=30, help="length of what is compared; default 30")
    return parser


def _numbers(text):
    return tuple(float(word) for word in text.split(","))
