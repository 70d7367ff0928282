"""Longhaul's planner: calendars, slots and shares by themselves, and the k shortest loop-free paths between all pairs of a network of
the size of ESnet beside networkx.

Exit codes: 0 done · 1 a program failed, or the two do not find the same · 2 usage, or this machine cannot run it · 3 a
target is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

from . import longhaul, machine
from .errors import ArmFailed, Unusable
from .units import binary_size

_DEFAULT_OUT = longhaul.REPOSITORY / "bench/out"
_GOAL_S = 0.1
# What crates/plan/benches/slots.rs measures: its key, in words, and the ns that 99 % of the calls may take.
_SLOTS = [
    ("query", "calendar of 100,000 bookings: the least within a window", 2_000),
    ("update", "the same: a booking is taken or given back", 5_000),
    ("first", "the same: the first change after a snapshot", None),
    ("all_slots", "40 questions for all slots: 504 links, 2,500 bookings", 30_000_000),
]


# What crates/plan/benches/shares.rs measures: its key, in words, and the seconds that the solver may take.
_SHARES = [
    ("many", "10,000 flows over 8 of 504 links", 0.020),
    ("million", "10⁶ flows over 4 to 12 of 10,000 links", 3.0),
]
_SHARES_BYTES = 2e9


def main():
    options = _parser().parse_args()
    try:
        return _run(options)
    except Unusable as error:
        print(f"bench/plan: {error}", file=sys.stderr)
        return 2
    except ArmFailed as error:
        print(f"bench/plan: {error}", file=sys.stderr)
        return 1


def _run(options):
    networkx = _networkx()
    about = machine.describe(longhaul.REPOSITORY, Path("longhaul"))
    slots = _cargo_bench("slots")
    shares = _cargo_bench("shares")
    ours = _cargo_bench("paths")
    theirs = _peer(networkx, ours, options.seconds)
    options.out.mkdir(parents=True, exist_ok=True)
    targets = [_slots_target(slots, *row) for row in _SLOTS if row[2]]
    for key, words, goal in _SHARES:
        seconds = shares[key]["solve"]
        targets.append((f"shares of {words}", f"< {_time(goal * 1e9)}", _time(seconds * 1e9), seconds < goal))
    memory = shares["peak_bytes"]
    targets.append(("shares: memory", f"< {_SHARES_BYTES / 1e9:g} GB", f"{memory / 1e9:.2f} GB", memory < _SHARES_BYTES))
    best = min(ours["seconds"])
    targets.append(("paths: all pairs", f"< {_GOAL_S * 1e3:.0f} ms", f"{best * 1e3:.0f} ms", best < _GOAL_S))
    report = _markdown(about, slots, shares, ours, theirs, targets)
    (options.out / "plan.md").write_text(report)
    results = {"machine": about, "slots": slots, "shares": shares, "seconds": ours["seconds"], "networkx": theirs}
    (options.out / "plan.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report, end="")
    return 0 if all(passed for *_, passed in targets) else 3


def _networkx():
    try:
        import networkx
    except ImportError:
        raise Unusable("no networkx for this python3: apt-get install python3-networkx, or scripts/bootstrap bench")
    return networkx


def _cargo_bench(name):
    """What crates/plan/benches/NAME.rs prints."""
    argv = [os.environ.get("CARGO", "cargo"), "bench", "--quiet", "--package", "plan", "--bench", name]
    done = subprocess.run(argv, cwd=longhaul.REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise ArmFailed(f"cargo bench -p plan --bench {name} failed")
    return json.loads(done.stdout)


def _slots_target(slots, key, words, goal):
    p99 = slots[key]["p99"]
    return words, f"p99 < {_time(goal)}", _time(p99), p99 < goal


def _time(nanos):
    return f"{nanos / 1e6:.2f} ms" if nanos >= 1e6 else f"{nanos / 1e3:.2f} µs"


def _peer(networkx, ours, seconds):
    """As many pairs as the time is for, spread over all, each compared with what Longhaul found."""
    graph = networkx.DiGraph()
    graph.add_weighted_edges_from(ours["edges"], weight="cost")
    nodes, k = ours["nodes"], ours["k"]
    pairs = [(begin, end) for begin in range(nodes) for end in range(nodes) if begin != end]
    # The step has no divisor in common with the number of pairs: every pair comes once.
    step = next(n for n in range(len(pairs) * 5 // 8, len(pairs)) if _coprime(n, len(pairs)))
    done, spent = 0, 0.0
    while spent < seconds and done < len(pairs):
        begin, end = pairs[done * step % len(pairs)]
        start = time.process_time()
        paths = list(islice(networkx.shortest_simple_paths(graph, begin, end, weight="cost"), k))
        spent += time.process_time() - start
        done += 1
        costs = [sum(graph[u][v]["cost"] for u, v in zip(path, path[1:])) for path in paths]
        if costs != ours["costs"][end][begin]:
            raise ArmFailed(f"from {begin} to {end}: networkx {costs}, Longhaul {ours['costs'][end][begin]}")
    return {"version": networkx.__version__, "pairs": done, "seconds": spent, "all_pairs_s": spent / done * len(pairs)}


def _coprime(one, other):
    while other:
        one, other = other, one % other
    return one == 1


def _markdown(about, slots, shares, ours, theirs, targets):
    nodes, best, rounds = ours["nodes"], min(ours["seconds"]), len(ours["seconds"])
    pairs = nodes * (nodes - 1)
    return "\n".join([
        "# Planner",
        "",
        f"{about['cpus']} × {about['cpu']}, {binary_size(about['memory_bytes'])} of memory, Linux {about['kernel']}; "
        f"load {about['load_at_start']:.2f} before the start.",
        "",
        "| time of | calls | p50 | p99 | p99.9 | most |",
        "|---|---|---|---|---|---|",
        *(f"| {words} | {slots[key]['count']} | "
          + " | ".join(_time(slots[key][at]) for at in ("p50", "p99", "p999", "most")) + " |"
          for key, words, _ in _SLOTS),
        "",
        "| shares, best round | solver | certificate | links that are full |",
        "|---|---|---|---|",
        *(f"| {words} | {_time(shares[key]['solve'] * 1e9)} | {_time(shares[key]['check'] * 1e9)} | {shares[key]['full']} |"
          for key, words, _ in _SHARES),
        "",
        f"The k = {ours['k']} shortest loop-free paths between all {pairs} pairs of {nodes} routers with "
        f"{len(ours['edges'])} directed links:",
        "",
        "| | all pairs | a pair | ratio |",
        "|---|---|---|---|",
        f"| Longhaul, best of {rounds} rounds | {best * 1e3:.0f} ms | {best / pairs * 1e6:.1f} µs | 1 |",
        f"| networkx {theirs['version']}, by {theirs['pairs']} of the pairs | {theirs['all_pairs_s']:.0f} s "
        f"| {theirs['all_pairs_s'] / pairs * 1e6:.0f} µs | {theirs['all_pairs_s'] / best:.0f} |",
        "",
        f"Of {theirs['pairs']} pairs both found paths of the same costs. One thread each, by its CPU time.",
        "",
        "| target | goal | here | verdict |",
        "|---|---|---|---|",
        *(f"| {words} | {goal} | {here} | {'pass' if passed else 'MISSED'} |" for words, goal, here, passed in targets),
    ]) + "\n"


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/plan",
        description="Calendars, slots, shares and paths of the planner, the paths beside networkx.",
        epilog="example: bench/plan --seconds 5",
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="time for networkx (15)")
    parser.add_argument("--out", type=Path, default=_DEFAULT_OUT, help="where the report goes (bench/out)")
    return parser
