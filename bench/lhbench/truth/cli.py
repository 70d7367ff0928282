"""The command line of `bench/truth`.

Exit codes: 0 all is true · 1 a row failed to run, or is void · 2 usage, or this machine cannot run it · 3 a row misses
its target.
"""

from .. import groups, over_twin
from . import delay, loss, rate, reno
from .row import HEAD, PASS, VOID, Row, measured

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


def main():
    options = _parser().parse_args()
    return over_twin.run("truth", options, _REQUIRED, "iproute2 iperf3", lambda binary: _run(options, binary))


def _run(options, binary):
    report = groups.Report("truth", options, binary, "Truth of the emulator", HEAD)
    for group in options.only:
        attempts = _GROUPS[group](binary, options.quick)
        report.take(measured(attempts), lambda why, group=group: Row(group, "", "", False, void=[why]))
    print("\n" + report.markdown, end="")
    if any(row.verdict.startswith(VOID) for row in report.rows):
        return 1
    return 0 if all(row.verdict == PASS for row in report.rows) else 3


def _parser():
    parser = groups.parser("truth", _GROUPS, "Measures what the links of a twin do beside what they were told to.", "--only rtt,rate")
    parser.add_argument("--quick", action="store_true", help="fewer cases and packets: shows that every row works")
    return parser
