"""The phases of a run over one store."""

import dataclasses
import os
import sys
import time
from pathlib import Path

from ..errors import ArmFailed
from .site import Site

_SMALL, _LARGE = 200, 10_000
# What agents are given to do before anything is measured, s.
_SETTLE_S = 4
# How long agents that finish all at once are looked at, s: some of a million files are to be left for what comes after.
_FLAT_OUT_S = 5
# Files that are submitted in a second while agents finish others and clients read.
_MEANWHILE_FILES_PER_S = 2_000
# Connections of clients that submit.
_SUBMITTERS = 8


@dataclasses.dataclass(frozen=True)
class Plan:
    binary: Path
    generator: Path
    hosts: int
    endpoints: int
    processes: int
    files: int
    pace: int
    reads: int
    seconds: int

    def told(self):
        return {key: value for key, value in dataclasses.asdict(self).items() if not isinstance(value, Path)}


def limits(work):
    """Writes of 4 KiB that the disk of the store makes durable in a second, one after the other."""
    path = work / "fsync"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    count, begun = 0, time.monotonic()
    try:
        while time.monotonic() - begun < 2:
            os.pwrite(descriptor, bytes(4096), count % 1024 * 4096)
            os.fdatasync(descriptor)
            count += 1
    finally:
        os.close(descriptor)
        path.unlink()
    return {"fsync_per_s": count / (time.monotonic() - begun)}


def measure(plan, work, store):
    """All phases; gives what each showed."""
    with Site(plan, work, store) as site:
        _say("start, enrol")
        results = {"start": dict(zip(("ready_s", "answers_s"), site.start())), "enrol_s": site.enrol()}
        results["handshakes_per_s"] = site.client("shake", seconds=2, connections=2).result()["per_s"]
        # Sessions begin and stand still, so that all files are queued while more come.
        site.pace(0)
        results["submit_small"] = _submit(site, _SMALL)
        results["submit_large"] = _submit(site, _LARGE)
        results["queued"] = _memory(site)
        results["paced"] = _complete(site, plan.pace, plan.seconds, "completions at a pace, submissions meanwhile", _submitting)
        results["flat_out"] = _complete(site, None, _FLAT_OUT_S, "completions, flat out")
        results["restart"] = _restart(site)
        results["after"] = _complete(site, plan.pace, min(plan.seconds, 10), "completions after the restart")
        results["memory"] = _memory(site)
        results["agents"] = site.tally()
        results["events"] = int(site.metrics().get("log_events_total", 0))
        return results


def _say(what):
    print(f"bench/load: {what}", file=sys.stderr)


def _submit(site, each):
    requests = site.plan.files // 2 // each
    _say(f"{requests} requests of {each} files")
    meanwhile = _Meanwhile(site)
    submitting = site.client("submit", files=each, requests=requests, endpoints=site.plan.endpoints, connections=_SUBMITTERS)
    told = submitting.result()
    return {**told, **meanwhile.costs()}


def _submitting(site, seconds):
    """Clients that submit at the pace of the target, half in small requests and half in large ones, for so long."""
    done = site.plan.files // 2
    return [
        site.client("submit", files=each, requests=max(1, seconds * _MEANWHILE_FILES_PER_S // 2 // each), endpoints=site.plan.endpoints,
                    connections=2, first=done // each, **{"every-ms": 2_000 * each // _MEANWHILE_FILES_PER_S})
        for each in (_SMALL, _LARGE)
    ]


def _complete(site, pace, seconds, what, others=None):
    _say(what)
    site.pace(pace)
    time.sleep(_SETTLE_S)
    meanwhile = _Meanwhile(site)
    before = site.tally()
    clients = others(site, seconds) if others else []
    reading = site.client("read", seconds=seconds, rate=site.plan.reads, connections=8)
    begun, done = time.monotonic(), site.files_done()
    reads = reading.result()
    took, now = time.monotonic() - begun, site.files_done()
    after = site.tally()
    moved = {key: (after[key] - before[key]) / took for key in ("heard", "said", "leases", "begun", "files")}
    costs = meanwhile.costs()
    return {"files": now - done, "seconds": took, "files_per_s": (now - done) / took, "reads": reads, "agents_per_s": moved,
            "submitted": [client.result() for client in clients], **costs}


def _restart(site):
    """kill -9 with all that is queued, and again."""
    _say("kill -9, restart")
    site.pace(0)
    time.sleep(2)
    before = _counts(site)
    site.controller.kill()
    ready_s, answers_s = site.start()
    after = _counts(site)
    begun = time.monotonic()
    site.until("all agents to be back", site.all_online)
    # What was told and not acknowledged is told again, so more may be done and never less.
    if after["done"] < before["done"] or sum(after.values()) != sum(before.values()):
        raise ArmFailed(f"files before the restart: {before}, after it: {after}")
    return {"ready_s": ready_s, "answers_s": answers_s, "agents_back_s": answers_s + time.monotonic() - begun, "files": after}


def _counts(site):
    metrics = site.metrics()
    return {state: int(metrics.get(f'files{{state="{state}"}}', 0)) for state in ("open", "given", "done", "failed")}


def _memory(site):
    return {"now_bytes": site.controller.now_bytes(), "peak_bytes": site.controller.peak_bytes()}


class _Meanwhile:
    """CPU of the controller and of the agents over a time, in processors."""

    def __init__(self, site):
        self._site, self._begun = site, time.monotonic()
        self._before = self._now()

    def _now(self):
        return self._site.controller.cpu_s(), sum(process.cpu_s() for process in self._site.agents)

    def costs(self):
        took = time.monotonic() - self._begun
        controller, agents = ((now - before) / took for now, before in zip(self._now(), self._before))
        return {"controller_cpus": controller, "agents_cpus": agents, "peak_bytes": self._site.controller.peak_bytes()}
