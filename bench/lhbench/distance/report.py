"""Markdown for people, JSON with every single run for everybody else."""

import dataclasses

from ..report import NOTHING, arm_json, head
from .capacity import HEAD as CAPACITY_HEAD
from .cells import MEMORY
from .row import HEAD
from .targets import share, targets

_TITLES = {
    "capacity": ("What the emulator carries", CAPACITY_HEAD),
    "rate": ("Set point, by the counters of the link", HEAD),
    "cut": ("Cuts", HEAD),
}


def markdown(runs, tables, machine, settings):
    parts = [head("Longhaul over an emulated ocean", machine, settings.rounds)]
    for what, table in tables.items():
        title, columns = _TITLES[what]
        parts.append("\n".join([f"## {title}", "", *columns, *(row.line for row in table.rows), "", f"- {_where(table.machine)}"]))
    parts += [_cell(run) for run in runs]
    parts.append("\n".join(["## Method", "", *(f"- {line}" for line in _METHOD)]))
    lines = [target.line for target in targets(runs)]
    if lines:
        parts.append("\n".join(["## Targets", "", "| target | goal | here | verdict |", "|---|---|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def as_json(runs, tables, machine, settings):
    return {
        "machine": machine,
        "settings": dataclasses.asdict(settings),
        "method": _METHOD,
        "tables": {what: {"machine": table.machine, "rows": [vars(row) for row in table.rows]} for what, table in tables.items()},
        "cells": [
            {"what": run.what, **dataclasses.asdict(run.cell), "failure": run.failure,
             "skipped": run.skipped, "machine": run.machine, "arms": [_arm_json(arm) for arm in run.arms]}
            for run in runs
        ],
        "targets": [{**dataclasses.asdict(target), "verdict": target.verdict} for target in targets(runs)],
    }


def _arm_json(arm):
    """Without what programs reported of themselves, which is the most of it: the file is kept with the sources."""
    told = arm_json(arm)
    for run in told["runs"]:
        run["extra"] = {key: value for key, value in run["extra"].items() if not isinstance(value, dict)}
    return told


def _cell(run):
    steady = run.what == MEMORY
    lines = [f"## {run.what}: {run.cell}", ""]
    lines += ["| arm | data | rounds | Mb/s | min..max | of the path |" + (" steady |" if steady else "")
              + " sent × needed | CPU s/GB |",
              "|---|---|---:|---:|---:|---:|" + ("---:|" if steady else "") + "---:|---:|"]
    for arm in sorted(run.arms, key=lambda arm: -(arm.rate().median if arm.rate() else 0)):
        lines.append(_row(run, arm, steady))
    notes = [run.failure] if run.failure else []
    notes.append(_where(run.machine))
    notes += [f"{arm.label}: **emulator late**, {arm.late_share:.1%} of the packets of its run by more than 1 ms, so it has no number"
              for arm in run.arms if arm.late_share]
    notes += [f"{arm.label}: {text}" for arm in run.arms for text in arm.problems()]
    notes += [f"skipped {label}: {reason}" for label, reason in run.skipped.items()]
    return "\n".join([*lines, *([""] if notes else []), *(f"- {note}" for note in notes)])


def _where(machine):
    return f"{machine['cpus']} × {machine['cpu']}, Linux {machine['kernel']}, Longhaul {machine['commit']}"


def _row(run, arm, steady):
    rate, cpu = arm.rate(), arm.cpu()
    cells = [arm.label, arm.protection, str(len(arm.valid))]
    if rate is None:
        cells += ["late" if arm.late_share else NOTHING] + [NOTHING] * (4 + steady)
    else:
        cells += [f"{rate.median / 1e6:.0f}", f"{rate.least / 1e6:.0f}..{rate.most / 1e6:.0f}",
                  f"{share(run, rate.median):.1%}"]
        if steady:
            cells.append(_median(arm, "steady_bps", lambda bps: f"{bps / run.cell.rate_bps:.1%}"))
        needed = arm.valid[0].moved_bytes
        cells.append(_median(arm, "sent_packets_bytes", lambda sent: f"{sent / needed:.3f}"))
        cells.append(f"{cpu.median:.2f}")
    return "| " + " | ".join(cells) + " |"


def _median(arm, key, shown):
    values = sorted(sample.extra[key] for sample in arm.valid if key in sample.extra)
    return shown(values[len(values) // 2]) if values else NOTHING


_METHOD = [
    "A cell is a twin of two hosts and one link, with the rate in IP packets, half of the round trip each way, loss in the "
    "direction of the data, a drop-tail queue of one bandwidth × round trip (1 MB at least) and MTU 1500.",
    "Both hosts let sockets grow to four times bandwidth × round trip (64 MB at least), for everybody; metrics of earlier "
    "connections are not kept.",
    "Memory: goodput over the whole run as the program reports it, from its start on; `of the path` adds the headers of IP "
    "and TCP. `steady` is the link's own counter from a third of the run on.",
    "Copies: the data divided by the wall clock of the client from start to exit; a peer is followed by `sync -f`. Congestion control "
    "is what the kernel and the program choose. Every copy is compared with its source, by SHA-256.",
    "`sent × needed` is what entered the link, headers and what was lost or sent again included, over the data.",
    "Copies are from and to a new ext4 on a loop device with direct I/O, with the feature `verity`, which keeps its page cache in single pages: a kernel "
    "without preemption copies larger ones in one go, and the emulator waits meanwhile; for the same reason the kernel reads ahead by 128 KiB there.",
    "The arms of a cell take turns over one twin. An arm that got less than three quarters of the best in its first round has that one "
    "round, but for Longhaul by itself; one that took too long over a path that is no longer and loses no more is not tried. A run in which the emulator was "
    "late (p99 above 1 ms) is no number: it is kept in the JSON, and measured again twice, and by --continue.",
]
