"""What one controller carries: agents as processes of their own that speak the real protocol over TLS and move no bytes, submissions,
completions and reads at the same time, and a restart after kill -9.

Exit codes: 0 done · 1 a program failed, or files were lost · 2 usage, or this machine cannot run it · 3 a target is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from .. import longhaul, machine, place
from ..errors import ArmFailed, Unusable
from .postgres import Postgres
from .report import judged, markdown
from .run import Plan, limits, measure


def main():
    options = _parser().parse_args()
    try:
        return _run(options)
    except Unusable as error:
        print(f"bench/load: {error}", file=sys.stderr)
        return 2
    except ArmFailed as error:
        print(f"bench/load: {error}", file=sys.stderr)
        return 1


def _run(options):
    binary = longhaul.find_binary(options.longhaul)
    if not binary.is_file():
        raise Unusable(f"binary not found: {binary}; cargo build --release, or --longhaul PATH")
    plan = Plan(
        binary=binary, generator=_generator(binary), hosts=options.hosts, endpoints=options.hosts // 2, processes=options.processes,
        files=options.files, pace=options.pace, reads=options.reads, seconds=options.seconds,
    )
    results = {"plan": plan.told(), "stores": {}}
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lhb-load-", dir=options.work)))
        work.chmod(0o755)  # another user runs PostgreSQL in it
        results["machine"] = machine.describe(work, binary)
        results["limits"] = limits(work)
        for store in options.stores.split(","):
            place = work / store
            place.mkdir()
            server = stack.enter_context(Postgres(work / "server")) if store == "postgres" else None
            if server and server.missing():
                print(f"bench/load: postgres is left out: {server.missing()}", file=sys.stderr)
                continue
            results["stores"][store] = measure(plan, place, server.url() if server else place / "store")
    report = markdown(results)
    (options.out / "load.md").write_text(report)
    (options.out / "load.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report, end="")
    # Targets are of the store that is there by default.
    first = next(iter(results["stores"].values()))
    return 0 if all(passed for *_, passed in judged(plan.told(), first)) else 3


def _generator(binary):
    """The example `load` beside the binary, built when it is not there."""
    generator = binary.parent / "examples/load"
    if not generator.is_file():
        print("building the load generator (release)", file=sys.stderr)
        # With the program, so that what both are made of is built once.
        argv = ["cargo", "build", "--release", "--package", "longhaul", "--bin", "longhaul", "--package", "controller",
                "--example", "load", "--target-dir", binary.parent.parent]
        subprocess.run(argv, cwd=longhaul.REPOSITORY, check=False)
    if not generator.is_file():
        raise Unusable("no load generator: cargo build --release -p longhaul --bin longhaul -p controller --example load")
    return generator


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/load",
        description="Agents over TLS, submissions, completions and reads at once, and a restart: what one controller carries.",
        epilog="example: bench/load --files 100000 --seconds 10",
    )
    parser.add_argument("--longhaul", help="the binary (target/release/longhaul)")
    parser.add_argument("--stores", default="sqlite", help="sqlite, postgres or both with a comma; targets are of the first (sqlite)")
    parser.add_argument("--hosts", type=int, default=300, help="agents, two to an endpoint (300)")
    parser.add_argument("--processes", type=int, default=6, help="processes that share them (6)")
    parser.add_argument("--files", type=int, default=1_000_000, help="files queued, half in requests of 200, half of 10,000 (1,000,000)")
    parser.add_argument("--pace", type=int, default=2_500, help="files/s that the agents finish together (2,500)")
    parser.add_argument("--reads", type=int, default=100, help="reads/s of clients meanwhile (100)")
    parser.add_argument("--seconds", type=int, default=30, help="how long completions are measured (30)")
    parser.add_argument("--work", type=place.directory, default="/var/tmp", help="scratch space, on the disk that is to be measured (/var/tmp)")
    parser.add_argument("--out", type=place.directory, default=place.RESULTS, help="where the report goes (bench/out)")
    return parser
