"""The command line of `bench/distance`.

Exit codes: 0 done · 1 an arm or cell failed, or copied wrongly · 2 usage, or this machine cannot run it · 3 done, but a
target is missed.
"""

import argparse
import dataclasses
import shutil
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from .. import longhaul, machine, over_twin, place
from ..disk import FreshFileSystem, own_mounts
from ..errors import Unusable
from ..peers import NAMES
from ..settings import FULL, QUICK, Settings
from ..units import GI, KI, MI
from .cells import FILE, FILES, labels
from .measured import ROWS, WHAT, Measured
from .path import Cell

# What of the disk they get that copy: a source and an arrival of 2 GiB. The file system says that it may hold files with fs-verity, so that ext4
# keeps their page cache in single pages: a kernel without preemption copies a folio of megabytes in one go, 2 to 3 ms in which no emulator runs. It
# reads ahead by what is most kernels' default for a disk: of a loop device it is up to 5 MiB in one read (rclone's), 1.3 ms of the same.
_ROOM_BYTES, _SINGLE_PAGES, _READ_AHEAD_KB = 6 * GI, ("verity",), 128
_REQUIRED = ("ip", "sysctl", "ss", "iperf3", "cc")
_FULL = dataclasses.replace(FULL, rounds=3, duration_s=30, file_bytes=2 * GI, small_files=20_000, arm_limit_s=300)
_QUICK = dataclasses.replace(QUICK, duration_s=3, file_bytes=32 * MI, small_files=200, small_sizes=(4 * KI, 64 * KI))
_LOSSES = (0.0, 1e-5, 1e-4, 1e-3)
_GRID = [Cell(1e9, rtt_ms, loss) for rtt_ms in (0.2, 20.0, 100.0, 200.0) for loss in _LOSSES]
_GRID += [Cell(5e9, 100.0, loss) for loss in _LOSSES[:2]]


@dataclass(frozen=True)
class Choice:
    settings: Settings
    longhaul: Path
    peers: tuple
    # Labels; none means all arms.
    arms: tuple
    # Labels of those that are not tried over a path, each with the reason.
    hopeless: dict = field(default_factory=dict)

    def wants(self, peer):
        return (not self.arms or peer.label in self.arms) and peer.label not in self.hopeless


def main():
    options = _parser().parse_args()
    return over_twin.run("distance", options, _REQUIRED, "iproute2 procps iperf3 gcc", lambda binary: _run(options, binary))


def _run(options, binary):
    cells = [cell for cell in _GRID if cell.rtt_ms in options.rtt and cell.loss in options.loss
             and cell.rate_bps in options.rate]
    if not cells:
        raise Unusable("the grid has no such cell; see --help for what it has")
    settings = _QUICK if options.quick else _FULL
    changes = {"rounds": options.rounds, "duration_s": options.duration, "arm_limit_s": options.limit}
    settings = dataclasses.replace(settings, **{key: value for key, value in changes.items() if value is not None})
    choice = Choice(settings, binary, options.peers, options.arms)
    _check_arms(choice, [what for what in options.only if what not in ROWS])
    out = options.out
    work = options.work or out / "work"
    own_mounts()
    work.mkdir(parents=True, exist_ok=True)
    about = machine.describe(work, binary)
    measured = Measured(choice, out, about)
    if options.go_on:
        measured.keep()
    with ExitStack() as stack:
        scratch = work
        if {FILE, FILES} & set(options.only):
            scratch = stack.enter_context(closing(FreshFileSystem(work, _ROOM_BYTES, _SINGLE_PAGES, _READ_AHEAD_KB))).fresh("cells")
        for what in options.only:
            if what in ROWS:
                measured.table(what, work)
            else:
                for cell in cells:
                    measured.cell(what, cell, scratch)
    measured.write()
    shutil.rmtree(work, ignore_errors=True)
    print((out / "distance.md").read_text(), end="")
    if measured.has_failed():
        return 1
    return 3 if measured.misses() else 0


def _check_arms(choice, ways):
    """Those that are wanted are called as arms are in some way that is measured."""
    known = list(dict.fromkeys(label for what in ways for label in labels(what, choice)))
    unknown = [label for label in choice.arms if label not in known]
    if unknown and ways:
        raise Unusable(f"no arm is called '{unknown[0]}' in {', '.join(ways)}; there are: {', '.join(known)}")


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/distance",
        description="Runs Longhaul and its peers in alternation over emulated long paths; measures what the emulator carries, how "
                    "`--rate` is held and how a copy survives cuts.",
        epilog="example: bench/distance --only memory --rtt 100 --loss 0,1e-4 --rate 1 --rounds 1 --duration 10",
    )
    parser.add_argument("--only", type=_choice("part", WHAT), default=WHAT, metavar=",".join(WHAT),
                        help="memory to memory, one big file, many small files; the emulator's capacity, set points, cuts; default all")
    parser.add_argument("--rtt", type=_choice("round trip", _values("rtt_ms")), default=_values("rtt_ms"), metavar="MS",
                        help=f"of {_listed('rtt_ms')} ms; default all")
    parser.add_argument("--loss", type=_choice("loss", _values("loss")), default=_values("loss"), metavar="SHARE",
                        help=f"of {_listed('loss')}; default all")
    parser.add_argument("--rate", type=_rates, default=_values("rate_bps"), metavar="GBPS",
                        help="of 1,5 Gb/s; default both; 5 only with 100 ms and loss of at most 1e-5")
    parser.add_argument("--rounds", type=_count, metavar="N", help="default 3, with --quick 1")
    parser.add_argument("--duration", type=_count, metavar="SECONDS", help="of a run from memory to memory; default 30")
    parser.add_argument("--quick", action="store_true", help="small data, one round: proves that every arm works")
    parser.add_argument("--longhaul", metavar="PATH", help="the binary, default target/release/longhaul, built if absent")
    parser.add_argument("--peers", type=lambda text: () if text == "none" else _choice("peer", NAMES)(text), default=NAMES,
                        metavar="LIST", help=f"of {','.join(NAMES)}; or none")
    parser.add_argument("--arms", type=lambda text: tuple(text.split(",")), default=(), metavar="LABEL,…",
                        help="only these, as the report names them: 'longhaul clear,iperf3 8 bbr'; default all")
    parser.add_argument("--continue", dest="go_on", action="store_true",
                        help="keep the cells that DIR/distance.json has whole and in time, wherever they are from, and measure what is "
                             "missing; a cell of another machine or build that lacks something is measured anew")
    parser.add_argument("--limit", type=_count, metavar="SECONDS",
                        help="an arm that takes longer is stopped and not tried again; default 300")
    parser.add_argument("--out", type=place.directory, default=place.RESULTS, metavar="DIR",
                        help="distance.md, distance.json and the last log of every program, default bench/out")
    parser.add_argument("--work", type=place.directory, metavar="DIR", help="scratch space, default bench/out/work")
    return parser


def _values(key):
    return tuple(dict.fromkeys(getattr(cell, key) for cell in _GRID))


def _listed(key):
    return ",".join(f"{value:g}" for value in _values(key))


def _choice(what, known):
    def parse(text):
        words = tuple(dict.fromkeys(text.split(",")))
        try:
            values = tuple(type(known[0])(word) for word in words)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from error
        for value in values:
            if value not in known:
                raise argparse.ArgumentTypeError(f"no {what} {value}; there are {', '.join(map(str, known))}")
        return values

    return parse


def _rates(text):
    return tuple(rate * 1e9 for rate in _choice("rate", (1.0, 5.0))(text))


def _count(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)
