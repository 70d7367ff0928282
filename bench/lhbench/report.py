"""Markdown for people, JSON with every single run for everybody else."""

import dataclasses

from .arm import PEER
from .limits import FIO_LABEL, LOCAL_TREE_LABEL
from .scenarios import MEMORY_COPY_GROUP, NAMED_CONGESTION, stream_group
from .targets import targets
from .units import binary_size, gigabits, mebibytes, megabytes

VOID = "**WRONG COPY**"
NOTHING = "–"


def markdown(scenarios, machine, settings, method):
    parts = [head("Longhaul beside its peers", machine, settings.rounds)]
    for scenario in scenarios:
        table = _TABLES.get(scenario.letter, _copy_table)(scenario)
        title = f"## ({scenario.letter}) {scenario.title}"
        parts.append("\n".join([title, "", *table, *_footnotes(scenario)]))
    parts.append("\n".join(["## Method", "", *(f"- {line}" for line in method)]))
    rows = [target.line for target in targets(scenarios)]
    parts.append("\n".join(["## Targets", "", "| target | goal | here | verdict |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def as_json(scenarios, machine, settings, method):
    return {
        "machine": machine,
        "settings": dataclasses.asdict(settings),
        "method": method,
        "scenarios": [
            {
                "scenario": scenario.letter,
                "title": scenario.title,
                "facts": scenario.facts,
                "skipped": scenario.skipped,
                "failure": scenario.failure,
                **(scenario.figures() if scenario.letter == "e" else {}),
                "arms": [arm_json(arm) for arm in scenario.arms],
            }
            for scenario in scenarios
        ],
        "targets": [
            {**dataclasses.asdict(target), "verdict": target.verdict} for target in targets(scenarios)
        ],
    }


def arm_json(arm):
    peak = arm.peak()
    return {
        "group": arm.group,
        "arm": arm.label,
        "kind": arm.kind,
        "protection": arm.protection,
        "void": arm.void,
        "rate_bps": _spread_json(arm.rate()),
        "cpu_s_per_gb": _spread_json(arm.cpu()),
        "peak_bytes": {"source": peak[0], "dest": peak[1]} if peak else None,
        "runs": [{**dataclasses.asdict(sample), "rate_bps": sample.rate_bps} for sample in arm.samples],
    }


def _spread_json(spread):
    return dataclasses.asdict(spread) if spread else None


def head(title, machine, rounds):
    versions = ", ".join(f"{name} ({text})" for name, text in machine["versions"].items())
    return "\n".join([
        f"# {title}",
        "",
        f"{machine['cpus']} × {machine['cpu']}, {binary_size(machine['memory_bytes'])} of memory, "
        f"Linux {machine['kernel']}, {machine['file_system']}; rounds: {rounds}; "
        f"load {machine['load_at_start']:.2f} before the start.",
        "",
        f"Programs: {versions}.",
    ])


def _memory_tables(scenario):
    columns = scenario.facts["congestion"]
    head, rule = "| streams | arm |", "|---|---|"
    for congestion in columns:
        name = congestion if congestion == NAMED_CONGESTION else f"kernel default ({congestion})"
        head += f" {name}: Gb/s | min..max | × iperf3 | CPU s/GB |"
        rule += "---:|---:|---:|---:|"
    lines = [f"{head} peak MiB source / dest |", f"{rule}---:|"]
    by_key = {(arm.group, arm.label): arm for arm in scenario.arms}
    labels = list(dict.fromkeys(arm.label for arm in scenario.arms if arm.group != MEMORY_COPY_GROUP))
    streams_seen = sorted({int(a.group.split()[1]) for a in scenario.arms if a.group != MEMORY_COPY_GROUP})
    for streams in streams_seen:
        for label in labels:
            arms = [by_key[stream_group(congestion, streams), label] for congestion in columns]
            cells = [
                _stream_cells(arm, by_key.get((arm.group, "iperf3"))) for arm in arms
            ]
            lines.append(f"| {streams} | {label} | {' | '.join(cells)} | {_peak(arms)} |")
    copies = [arm for arm in scenario.arms if arm.group == MEMORY_COPY_GROUP]
    if copies:
        lines += ["", "| encrypted copy, tmpfs to tmpfs | Gb/s | min..max | CPU s/GB | peak MiB source / dest |",
                  "|---|---:|---:|---:|---:|"]
        lines += [f"| {arm.label} | {_rate(arm, gigabits)} | {_cpu(arm)} | {_peak([arm])} |" for arm in copies]
    return lines


def _stream_cells(arm, iperf3):
    base = iperf3.rate() if iperf3 else None
    return f"{_rate(arm, gigabits)} | {_ratio(arm.rate(), base and base.median)} | {_cpu(arm)}"


def _copy_table(scenario):
    limit = next((a.rate() for a in scenario.arms if a.label in (FIO_LABEL, LOCAL_TREE_LABEL)), None)
    rates = [arm.rate().median for arm in scenario.arms if arm.kind == PEER and arm.rate()]
    best_peer = max(rates, default=None)
    lines = [
        "| arm | data | MB/s | min..max | × limit | × best peer | s | CPU s/GB | peak MiB source / dest | runs |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for arm in scenario.arms:
        rate = arm.rate()
        seconds = f"{8 * arm.valid[0].moved_bytes / rate.median:.2f}" if rate else NOTHING
        lines.append(
            f"| {arm.label} | {arm.protection} | {_rate(arm, megabytes)} "
            f"| {_ratio(rate, limit and limit.median)} | {_ratio(rate, best_peer)} | {seconds} "
            f"| {_cpu(arm)} | {_peak([arm])} | {len(arm.valid)} of {len(arm.samples)} |"
        )
    return lines


_TABLES = {"a": _memory_tables, "e": lambda scenario: scenario.table()}


def _footnotes(scenario):
    notes = [scenario.failure] if scenario.failure else []
    if "files" in scenario.facts:
        notes.append(f"files: {scenario.facts['files']:,}; bytes: {scenario.facts['bytes']:,}")
    late = [s.extra["late_sync_s"] for a in scenario.arms for s in a.valid if s.extra.get("late_sync_s")]
    if late:
        notes.append(f"largest sync after a program that said its data was durable: {max(late):.2f} s")
    notes += [f"{arm.group} {arm.label}: {text}".strip() for arm in scenario.arms for text in arm.problems()]
    for reason in dict.fromkeys(scenario.skipped.values()):
        labels = [label for label, why in scenario.skipped.items() if why == reason]
        notes.append(f"skipped {', '.join(labels)}: {reason}")
    return ["", *(f"- {note}" for note in notes)] if notes else []


def _rate(arm, shown):
    """Two cells: median and spread."""
    if arm.void:
        return f"{VOID} | {NOTHING}"
    rate = arm.rate()
    if rate is None:
        return f"{NOTHING} | {NOTHING}"
    return f"{shown(rate.median)} | {shown(rate.least)}..{shown(rate.most)}"


def _ratio(rate, base):
    return f"{rate.median / base:.2f}" if rate and base else NOTHING


def _cpu(arm):
    cpu = arm.cpu()
    return f"{cpu.median:.2f}" if cpu else NOTHING


def _peak(arms):
    peaks = [arm.peak() for arm in arms if arm.peak()]
    if not peaks:
        return NOTHING
    return " / ".join(mebibytes(max(peak[end] for peak in peaks)) for end in (0, 1))
