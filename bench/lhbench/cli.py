"""The command line: reads options, runs the scenarios, writes the report.

Exit codes: 0 done · 1 an arm failed or copied wrongly · 2 usage, or this machine cannot run it ·
3 done, but a target is missed.
"""

import argparse
import dataclasses
import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from . import longhaul, machine, place, report
from .bench import Bench
from .disk import own_mounts
from .errors import Unusable
from .link import Link
from .peers import NAMES
from .scenarios import NAMED_CONGESTION, SCENARIOS
from .settings import FULL, QUICK, Settings
from .targets import targets
from .units import parse_bytes

_REQUIRED = ("ip", "sysctl", "mount", "umount", "losetup", "mkfs.ext4", "sync", "cc")


@dataclass(frozen=True)
class Choice:
    settings: Settings
    longhaul: Path
    peers: tuple


def main():
    options = _parser().parse_args()
    os.environ["PATH"] = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"
    # SIGTERM unwinds like Ctrl-C does: namespaces, mounts and processes go.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _check_machine()
        return _run(options)
    except Unusable as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return 2


def _run(options):
    settings = _settings(options)
    choice = Choice(settings, longhaul.find_binary(options.longhaul), options.peers)
    work = options.work or options.out / "work"
    scenarios = []
    own_mounts()
    with Bench(settings, work, options.out / "logs", NAMED_CONGESTION, Link) as bench:
        about = machine.describe(bench.work, choice.longhaul)
        method = _method(bench)
        for letter in options.only:
            scenarios.append(SCENARIOS[letter](choice))
            try:
                scenarios[-1].run(bench)
            except OSError as error:
                scenarios[-1].failure = f"the scenario ended early: {error}"
                print(f"({letter}) {scenarios[-1].failure}", file=sys.stderr)
            finally:
                # After every scenario, so that a run cut short keeps what it has.
                _write(options.out, scenarios, about, settings, method)
    print((options.out / "report.md").read_text(), end="")
    return _exit_code(scenarios)


def _write(out, scenarios, about, settings, method):
    (out / "report.md").write_text(report.markdown(scenarios, about, settings, method))
    results = report.as_json(scenarios, about, settings, method)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")


def _exit_code(scenarios):
    if any(scenario.failure or any(a.problems() for a in scenario.arms) for scenario in scenarios):
        return 1
    return 3 if any(target.verdict == "FAIL" for target in targets(scenarios)) else 0


def _settings(options):
    settings = QUICK if options.quick else FULL
    changes = {"rounds": options.rounds, "file_bytes": options.size, "arm_limit_s": options.limit}
    return dataclasses.replace(settings, **{k: v for k, v in changes.items() if v is not None})


def _method(bench):
    return [
        "One machine, two network namespaces, one veth pair; every arm has a fresh server, started and "
        "stopped outside of the timed part; the order begins elsewhere each round and runs backwards in "
        "every second one.",
        "A rate is the data divided by the wall clock of the client, from its start to its exit; for "
        "iperf3 and `longhaul test throughput` it is what they report as received.",
        f"CPU is user + system time of one cgroup per end ({bench.source.cpu_method}), which holds servers, "
        "clients and all their children, reaped or not, until the server has gone; a GB is 10^9 bytes. "
        "The kernel's own write-back and loop threads belong to nobody; `machine_cpu_s` in the JSON has them.",
        "Peak memory is the largest sum, over the processes of a side alive together, of each one's VmHWM "
        "(sampled every 20 to 100 ms); the largest of all rounds is shown.",
        "Before every timed disk arm, of everybody, all dirty data is synced and the page cache, dentries "
        "and inodes are dropped (echo 3 > /proc/sys/vm/drop_caches).",
        "Durable: after a peer, `sync -f` of the destination is part of its time and its CPU. Longhaul says "
        "it is durable at exit; a sync after it is timed apart (`late_sync_s` in the JSON).",
        "(b) lands on the host's file system; the limit is fio reading the file and writing another of its "
        "size at once, direct, queue depth 8, best of 1 and 4 MiB blocks with and without fallocate, "
        "end_fsync included, fio's own start excluded.",
        "(c) and (d) land in a new directory of an ext4 made anew on a loop device (direct I/O, backing file "
        "written beforehand) before every arm; nothing is ever deleted there; the source is on the host's disk. "
        "The limit is bench/local_tree.c with 8 threads, same procedure.",
        f"In (b) to (d), and for scp in (a), {NAMED_CONGESTION} is the default of both namespaces (by route), so "
        f"nobody pays for the kernel's ({bench.link.kernel_congestion}). ssh uses aes128-gcm unless said otherwise.",
        "After the timed part every copy is compared with the source: names, sizes and SHA-256 of all files, "
        "read from disk. One wrong copy voids its arm.",
    ]


def _check_machine():
    if os.geteuid() != 0:
        raise Unusable("namespaces, loop devices and dropping caches need root")
    absent = [program for program in _REQUIRED if not shutil.which(program)]
    if absent:
        raise Unusable(f"not found: {', '.join(absent)}; "
                       "apt-get install iproute2 procps mount e2fsprogs coreutils gcc")


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Runs Longhaul and its peers in alternation between two network namespaces.",
        epilog="example: bench/run --quick --only a,b --peers iperf3,rsync",
    )
    parser.add_argument("--only", type=_letters, default=tuple(SCENARIOS), metavar="a,b,c,d,e",
                        help="a memory to memory, b one big file, c small files, d a mixed tree, e the set point")
    parser.add_argument("--rounds", type=_count, metavar="N", help="default 5, with --quick 1")
    parser.add_argument("--quick", action="store_true",
                        help="small data, one round: proves that every arm works, measures nothing")
    parser.add_argument("--size", type=_size, metavar="SIZE", help="the file of (b), default 8GiB")
    parser.add_argument("--longhaul", metavar="PATH",
                        help="the binary, default target/release/longhaul, built if absent")
    parser.add_argument("--peers", type=_peers, default=NAMES, metavar="LIST",
                        help=f"of {','.join(NAMES)}; or none")
    parser.add_argument("--limit", type=_count, metavar="SECONDS",
                        help="an arm that takes longer is stopped and not tried again; default 900")
    parser.add_argument("--out", type=place.directory, default=place.RESULTS, metavar="DIR",
                        help="report.md, results.json and the last log of every program, default bench/out")
    parser.add_argument("--work", type=place.directory, metavar="DIR",
                        help="scratch space on the disk to be measured, default bench/out/work; "
                             "(d) needs about 16 GiB free")
    return parser


def _letters(text):
    return _words(text, SCENARIOS, "scenario")


def _peers(text):
    return () if text == "none" else _words(text, NAMES, "peer")


def _words(text, known, what):
    words = tuple(dict.fromkeys(text.split(",")))
    for word in words:
        if word not in known:
            raise argparse.ArgumentTypeError(f"no {what} {word!r}; there are {', '.join(known)}")
    return words


def _count(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _size(text):
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
