"""Longhaul's planner: calendars and slots by themselves, shares also beside the linear programs of scipy (HiGHS), and the k shortest
loop-free paths between all pairs of a network of the size of ESnet beside networkx.

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

from . import longhaul, machine, place
from .errors import ArmFailed, Unusable
from .units import binary_size

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
# The same with the certificate: key, words, and the seconds that both may take.
_TUNNELS = [
    ("ordered", "10,000 flows in three tiers with 3 tunnels each, in order, certificate included", 0.2),
    ("adaptive", "the same, tunnels without an order", 0.2),
    ("tree", "10,000 flows with 3 tunnels each in three tiers, in a tree of classes of depth 4 with 500 marks, certificate included", 0.2),
]
# Problems for scipy beside: key, words.
_BESIDE = [("beside", "{} flows over 8 of {} links"), ("beside_adaptive", "{} flows with 3 tunnels each, without an order")]
# Rates of flows over one tunnel agree to this, relatively.
_AGREE = 1e-6
# What HiGHS is asked for, and what counts as a price. Rates are in Gb/s.
_FEASIBLE = 1e-10
# What who has stopped may lose again, relatively, lest rounding makes the next program infeasible.
_GIVES = 1e-8
_PRICE = 1e-7
_SHARES_BYTES = 2e9
# What crates/plan/benches/structure.rs measures: the key of a problem, in words, and the seconds that the structure may take.
_STRUCTURES = [
    ("many", "10,000 flows over 8 of 504 links", None),
    ("million", "10⁶ flows over 4 to 12 of 10,000 links", 2.0),
]
# One arrival or departure, in ns.
_CHANGE_NS = 50_000


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
    networkx, scipy = _networkx(), _scipy()
    about = machine.describe(longhaul.REPOSITORY, Path("longhaul"))
    slots = _cargo_bench("slots")
    shares = _cargo_bench("shares")
    structure = _cargo_bench("structure")
    beside = {key: _programs(scipy, shares.pop(key)) for key, _ in _BESIDE}
    if beside["beside"]["gap"] > _AGREE:
        raise ArmFailed(f"shares: scipy finds other rates than Longhaul, by {beside['beside']['gap']:.1e} of a rate")
    ours = _cargo_bench("paths")
    theirs = _peer(networkx, ours, options.seconds)
    targets = [_slots_target(slots, *row) for row in _SLOTS if row[2]]
    for key, words, goal in _SHARES:
        seconds = shares[key]["solve"]
        targets.append((f"shares of {words}", f"< {_time(goal * 1e9)}", _time(seconds * 1e9), seconds < goal))
    for key, words, goal in _TUNNELS:
        seconds = shares[key]["solve"] + shares[key]["check"]
        targets.append((f"shares of {words}", f"< {_time(goal * 1e9)}", _time(seconds * 1e9), seconds < goal))
    memory = shares["peak_bytes"]
    targets.append(("shares: memory", f"< {_SHARES_BYTES / 1e9:g} GB", f"{memory / 1e9:.2f} GB", memory < _SHARES_BYTES))
    for key, words, goal in _STRUCTURES:
        if goal:
            seconds = structure[key]["structure"]
            targets.append((f"structure of {words}", f"< {_time(goal * 1e9)}", _time(seconds * 1e9), seconds < goal))
    change = structure["change"]["p50"]
    targets.append(("one arrival or departure", f"p50 < {_time(_CHANGE_NS)}", _time(change), change < _CHANGE_NS))
    best = min(ours["seconds"])
    targets.append(("paths: all pairs", f"< {_GOAL_S * 1e3:.0f} ms", f"{best * 1e3:.0f} ms", best < _GOAL_S))
    report = _markdown(about, slots, shares, beside, structure, ours, theirs, targets)
    (options.out / "plan.md").write_text(report)
    shares["scipy"] = beside
    results = {"machine": about, "slots": slots, "shares": shares, "structure": structure, "seconds": ours["seconds"], "networkx": theirs}
    (options.out / "plan.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report, end="")
    return 0 if all(passed for *_, passed in targets) else 3


def _networkx():
    try:
        import networkx
    except ImportError:
        raise Unusable("no networkx for this python3: apt-get install python3-networkx, or scripts/bootstrap bench")
    return networkx


def _scipy():
    try:
        import scipy.optimize
        import scipy.sparse
    except ImportError:
        raise Unusable("no scipy for this python3: apt-get install python3-scipy, or scripts/bootstrap bench")
    return scipy


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


def _programs(scipy, problem):
    """Weighted max-min as a sequence of linear programs by HiGHS: how long it took beside Longhaul, and how far the two are apart.

    The most that a level t can be with x ≥ weight · t for every flow that still rises; whose row has a price stops there, and so on.
    """
    flows = problem["flows"]
    owner = [flow for flow, about in enumerate(flows) for _ in about["tunnels"]]
    uses = [of for about in flows for of in about["tunnels"]]
    tunnels, resources = len(owner), len(problem["capacities"])
    # Rows are resources, then caps, then flows; the last column is the level.
    entries = [(of, tunnel, 1.0) for tunnel, used in enumerate(uses) for of in used]
    entries += [(resources + flow, tunnel, 1.0) for tunnel, flow in enumerate(owner)]
    entries += [(resources + len(flows) + flow, tunnel, -1.0) for tunnel, flow in enumerate(owner)]
    caps = [about["most"] for about in flows]
    limits = [capacity / 1e9 for capacity in problem["capacities"] + caps]
    levels, level, count = [None] * len(flows), 0.0, 0
    start = time.process_time()
    while None in levels:
        rows = [(resources + len(flows) + flow, tunnels, float(about["weight"]))
                for flow, about in enumerate(flows) if levels[flow] is None]
        row, column, value = zip(*entries, *rows)
        matrix = scipy.sparse.csr_matrix((value, (row, column)), shape=(len(limits) + len(flows), tunnels + 1))
        stopped = [0.0 if at is None else -at * about["weight"] * (1 - _GIVES) for at, about in zip(levels, flows)]
        options = {"primal_feasibility_tolerance": _FEASIBLE, "dual_feasibility_tolerance": _FEASIBLE}
        found = scipy.optimize.linprog([0.0] * tunnels + [-1.0], A_ub=matrix, b_ub=limits + stopped, method="highs",
                                       bounds=(0, None), options=options)
        if not found.success:
            raise ArmFailed(f"scipy: {found.message}")
        count += 1
        level = max(level, found.x[-1])
        prices = found.ineqlin.marginals[len(limits):]
        now = [flow for flow in range(len(flows)) if levels[flow] is None and prices[flow] < -_PRICE]
        if not now:
            raise ArmFailed("scipy: a linear program without a price")
        for flow in now:
            levels[flow] = level
    seconds = time.process_time() - start
    rates = [0] * len(flows)
    for flow, rate in zip(owner, problem["rates"]):
        rates[flow] += rate
    ours = [rate / about["weight"] / 1e9 for rate, about in zip(rates, flows)]
    if tunnels > len(flows):
        # Over several tunnels it is the sorted levels that are unique.
        ours, levels = sorted(ours), sorted(levels)
    gaps = [abs(one - other) / other for one, other in zip(ours, levels)]
    return {"version": scipy.__version__, "flows": len(flows), "links": resources, "programs": count, "seconds": seconds,
            "longhaul_s": problem["timed"]["solve"], "gap": max(gaps), "gap_median": sorted(gaps)[len(gaps) // 2]}


def _coprime(one, other):
    while other:
        one, other = other, one % other
    return one == 1


def _markdown(about, slots, shares, beside, structure, ours, theirs, targets):
    change = structure["change"]
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
          for key, words, _ in _SHARES + _TUNNELS),
        "",
        f"Weighted max-min beside the same as a sequence of linear programs by HiGHS (scipy {beside['beside']['version']}):",
        "",
        "| shares | Longhaul | HiGHS | programs | ratio | levels apart, median | most |",
        "|---|---|---|---|---|---|---|",
        *(_beside_row(words, beside[key]) for key, words in _BESIDE),
        "",
        "| bottleneck structure, best round | structure | all gradients | bottlenecks whose gradient is not 0 |",
        "|---|---|---|---|",
        *(f"| {words} | {_time(structure[key]['structure'] * 1e9)} | {_time(structure[key]['gradients'] * 1e9)} "
          f"| {structure[key]['bottlenecks']} |"
          for key, words, _ in _STRUCTURES),
        "",
        "| 10,000 flows over 8 of 504 links | changes | p50 | p99 | p99.9 | most | solved anew |",
        "|---|---|---|---|---|---|---|",
        f"| one arrival or departure | {change['count']} | "
        + " | ".join(_time(change[at]) for at in ("p50", "p99", "p999", "most")) + f" | {change['anew']} |",
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


def _beside_row(words, found):
    words = words.format(found["flows"], found["links"])
    return (f"| {words} | {_time(found['longhaul_s'] * 1e9)} | {found['seconds']:.1f} s | {found['programs']} "
            f"| {found['seconds'] / found['longhaul_s']:.0f} | {found['gap_median']:.1e} | {found['gap']:.1e} |")


def _parser():
    parser = argparse.ArgumentParser(
        prog="bench/plan",
        description="Calendars, slots, shares and paths of the planner, shares beside scipy, paths beside networkx.",
        epilog="example: bench/plan --seconds 5",
    )
    parser.add_argument("--seconds", type=float, default=15.0, help="time for networkx (15)")
    parser.add_argument("--out", type=place.directory, default=place.RESULTS, help="where the report goes (bench/out)")
    return parser
