"""The command line of `bench/loop`.

Exit codes: 0 every target is met · 1 a row failed to run, or is void · 2 usage, or this machine cannot run it · 3 a
target is missed.
"""

import sys

from .. import groups, over_twin, place
from . import changes, cut, floor, pool, sharing
from .row import HEAD, Row
from .setting import Setting

_GROUPS = {"sharing": sharing.rows, "floor": floor.rows, "changes": changes.rows, "pool": pool.rows, "cut": cut.rows}
_REQUIRED = ("ip", "iperf3", "ss")


def main():
    options = _parser().parse_args()
    return over_twin.run("loop", options, _REQUIRED, "iproute2 iperf3", lambda binary: _run(options, binary))


def _run(options, binary):
    quick = options.quick
    setting = Setting(binary, options.rate * 1e6, 12.0 if quick else options.seconds, 20 if quick else options.changes, options.work)
    ocean = f"An ocean of {options.rate:g} Mb/s, 54 ms there and back, of which 80 % may be reserved."
    report = groups.Report("loop", options, binary, "The loop", HEAD, ocean, rate_bps=setting.ocean_bps)
    for group in options.only:
        report.take(_GROUPS[group](setting), lambda why, group=group: Row(group, "", "", False, void=[why]),
                    sys.stderr if options.json else sys.stdout)
    print(report.json if options.json else "\n" + report.markdown, end="")
    if any(row.void for row in report.rows):
        return 1
    return 0 if all(row.holds for row in report.rows) else 3


def _parser():
    about = "Measures on the links of a twin what a controller and its agents do to them."
    parser = groups.parser("loop", _GROUPS, about, "--only sharing,changes --rate 200")
    parser.add_argument("--rate", type=float, default=200.0, metavar="MBPS", help="rate of the ocean; default 200")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of what is looked at between changes; default 20")
    parser.add_argument("--changes", type=int, default=200, metavar="N", help="changes of a limit; default 200")
    parser.add_argument("--quick", action="store_true", help="shorter, and 20 changes: shows that every row works")
    parser.add_argument("--json", action="store_true", help="the results as JSON on standard output, rows on standard error")
    parser.add_argument("--work", type=place.directory, default="/var/tmp", metavar="DIR",
                        help="where data are made and arrive, some 10 GB; default /var/tmp")
    return parser
