"""What was found, for people."""

from ..units import binary_size

_FILES_PER_S = 2_000
_READ_S = 0.020
_MEMORY_BYTES = 500e6
_RESTART_S = 2
# What the LHC's grid moves in a day: the target is twice as much and more.
_GRID_PER_DAY = 75e6


def judged(plan, found):
    """Words, goal, what was found, and whether that is within it."""
    submit, paced, restart = ("submit_small", "submit_large"), found["paced"], found["restart"]
    least = min(found[key]["files_per_s"] for key in submit)
    p99 = paced["reads"]["all"]["p99_s"]
    peak = max(found[key]["peak_bytes"] for key in ("queued", "paced", "flat_out", "memory"))
    return [
        (f"submission, {plan['files']:,} files in requests of 200 and of 10,000, durable", f"≥ {_FILES_PER_S:,} files/s",
         f"{least:,.0f} files/s", least >= _FILES_PER_S),
        (f"completions, {plan['hosts']} agents", f"≥ {_FILES_PER_S:,} files/s",
         f"{paced['files_per_s']:,.0f} files/s = {paced['files_per_s'] * 86_400 / _GRID_PER_DAY:.1f} × the LHC's grid",
         paced["files_per_s"] >= _FILES_PER_S),
        ("an API read while files are submitted and finished, explanations apart, p99", f"< {_ms(_READ_S)}", _ms(p99), p99 < _READ_S),
        ("memory of the controller, most", f"< {_MEMORY_BYTES / 1e6:.0f} MB", f"{peak / 1e6:.0f} MB", peak < _MEMORY_BYTES),
        ("kill -9 to an answer of the API", f"< {_RESTART_S} s", f"{restart['answers_s']:.2f} s", restart["answers_s"] < _RESTART_S),
    ]


def markdown(results):
    plan, about, limits = results["plan"], results["machine"], results["limits"]
    lines = [
        "# One controller under load",
        "",
        f"{about['cpus']} × {about['cpu']}, {binary_size(about['memory_bytes'])} of memory, Linux {about['kernel']}; store on "
        f"{about['file_system']}, {limits['fsync_per_s']:,.0f} durable writes/s one after the other; load {about['load_at_start']:.2f} "
        f"before the start. {plan['hosts']} agents in {plan['processes']} processes, {plan['reads']} reads/s by the clock, clients and "
        "agents on the same machine.",
    ]
    for store, found in results["stores"].items():
        lines += ["", f"## {store}", "", *_table(found), "", *_reads(found), "", *_targets(plan, found)]
    return "\n".join(lines) + "\n"


def _table(found):
    phases = [("requests of 200 files", "submit_small"), ("requests of 10,000 files", "submit_large"),
              ("completions at a pace", "paced"), ("completions, flat out", "flat_out"), ("completions after the restart", "after")]
    rows = [
        f"| {words} | {found[key]['files_per_s']:,.0f} | {_latency(found[key])} | {found[key]['controller_cpus']:.2f} "
        f"| {found[key]['agents_cpus']:.2f} | {found[key]['peak_bytes'] / 1e6:.0f} MB |"
        for words, key in phases
    ]
    moved, restart = found["paced"]["agents_per_s"], found["restart"]
    submitted = ", ".join(f"{of['files']:,} files in requests of {of['files_each']:,} ({_latency(of)})" for of in found["paced"]["submitted"])
    return [
        "| | files/s | a request, p50 / p99 / most | controller, CPUs | agents, CPUs | controller's memory, most |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"Submitted at that pace: {submitted}. In a second {moved['begun']:.0f} sessions, {moved['said']:,.0f} messages of agents, {moved['heard']:,.0f} to them, "
        f"{moved['leases']:,.0f} leases. {found['handshakes_per_s']:,.0f} TLS handshakes/s, both ends here; all agents enrolled and online "
        f"after {found['enrol_s']:.1f} s. After kill -9 ready in {restart['ready_s']:.2f} s, all agents back in "
        f"{restart['agents_back_s']:.1f} s; {found['events']:,} events in the log at the end.",
    ]


def _latency(of):
    times = of.get("latency") or of["reads"]["all"]
    return f"{_ms(times['p50_s'])} / {_ms(times['p99_s'])} / {_ms(times['most_s'])}"


def _reads(found):
    reads = found["paced"]["reads"]
    kinds = {**reads["by_kind"], "all but explanations": reads["all"], "all": reads["with_explanations"]}
    return [
        "| read at the pace | count | p50 | p99 | most |",
        "|---|---|---|---|---|",
        *(f"| {kind} | {of['count']} | {_ms(of['p50_s'])} | {_ms(of['p99_s'])} | {_ms(of['most_s'])} |" for kind, of in kinds.items()),
    ]


def _targets(plan, found):
    return [
        "| target | goal | here | verdict |",
        "|---|---|---|---|",
        *(f"| {words} | {goal} | {here} | {'pass' if passed else 'MISSED'} |" for words, goal, here, passed in judged(plan, found)),
    ]


def _ms(seconds):
    return f"{seconds * 1e3:.1f} ms"
