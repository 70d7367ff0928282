"""A cell of the grid: its arms, run in rounds over one path."""

import sys
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from .. import peers
from ..arm import CLEAR, PRIVATE, Arm, run_rounds
from ..bench import Bench
from ..dataset import one_file, small_files
from ..disk import HostDirectory
from ..longhaul import LonghaulChoosing, LonghaulCopy
from ..peers.base import StreamJob
from ..peers.iperf3 import Iperf3
from .measure import copy_over_path, stream_over_path
from .path import Path

MEMORY, FILE, FILES = "memory", "file", "files"
_DEFAULTS = tuple(f"longhaul {protection}" for protection in (CLEAR, PRIVATE))
_CONGESTIONS = ("cubic", "bbr", "reno")
# Streams: one, what guides for hosts on long paths recommend (4 to 8), and more than that.
_PEER_STREAMS = (1, 8)
_HAND_SET = (1, 2, 4, 8, 16)
_COMPARED = 8
# What others than the default got of the best in their first round, to be run again: less decides nothing, and a round of the
# grid takes hours.
_CONTENDS = 0.75


@dataclass
class CellRun:
    """What was measured of a cell, in one of the three ways."""

    what: str
    cell: object
    arms: list = field(default_factory=list)
    skipped: dict = field(default_factory=dict)
    failure: str = ""
    # Where it was measured, as `machine.describe` has it.
    machine: dict = field(default_factory=dict)

    def best(self, kind):
        """The fastest arm of a kind: (label, rate in b/s of goodput)."""
        rates = [(arm.rate().median, arm.label) for arm in self.arms if arm.kind == kind and arm.rate()]
        return max(rates, default=(None, None))

    def is_decided(self, arm):
        """One round of it is enough: it is far behind, and none of those that the targets are about."""
        best = max((other.rate().median for other in self.arms if other.rate()), default=0)
        return arm.label not in _DEFAULTS and arm.rate() is not None and arm.rate().median < _CONTENDS * best

    def rate_of(self, label):
        return next((arm.rate().median for arm in self.arms if arm.label == label and arm.rate()), None)


def run_cell(what, cell, choice, work, logs, about, before=None):
    """The rounds of a cell over one twin; those that `before` has are not measured again, and stay if this goes wrong."""
    run = deepcopy(before) if before else CellRun(what, cell, machine=about)
    run.skipped.update(choice.hopeless)
    settings = choice.settings
    try:
        with Bench(settings, work, logs, None, lambda: Path(choice.longhaul, cell)) as bench:
            _RUNS[what](run, bench, choice)
            if not run.arms:
                run.failure = "no arm is called so, or none can run here"
    except OSError as error:
        run.failure = f"ended early: {error}"
    if before and run.failure:
        print(f"({cell}) {what}: nothing was added: {run.failure}", file=sys.stderr)
        return before
    return run


def hopeless(what, cell, runs):
    """Arms that took too long over a path that is no longer and loses no more, as {label: reason}: they are not tried over this one."""
    easier = [run for run in runs if run.what == what and run.cell != cell and run.cell.is_no_harder_than(cell)]
    return {arm.label: f"took too long over {run.cell}" for run in easier for arm in run.arms if arm.is_over_limit}


def lacks(run, choice):
    """Whether an arm that is wanted has fewer rounds than are wanted."""
    arms = {arm.label: arm for arm in run.arms}
    wanted = [peer.label for peer, *_ in _CANDIDATES[run.what](choice) if choice.wants(peer) and peer.label not in run.skipped]
    def is_short(arm):
        return len(arm.valid) < choice.settings.rounds and not (arm.is_over_limit or run.is_decided(arm))

    return any(label not in arms or is_short(arms[label]) for label in wanted)


def _streams(choice):
    """Who sends from memory to memory, with its job."""
    binary, seconds = choice.longhaul, choice.settings.duration_s
    ours = [LonghaulChoosing(binary, protection) for protection in (CLEAR, PRIVATE)]
    ours += [LonghaulChoosing(binary, CLEAR, streams=n) for n in _HAND_SET]
    ours += [LonghaulChoosing(binary, CLEAR, streams=_COMPARED, congestion=name) for name in _CONGESTIONS]
    jobs = [(peer, StreamJob(None, None, seconds)) for peer in ours]
    return jobs + [(Iperf3(told=(streams, name)), StreamJob(streams, name, seconds))
                   for name in _CONGESTIONS for streams in _PEER_STREAMS if Iperf3.name in choice.peers]


def _copiers(choice):
    """Who copies."""
    ours = [LonghaulCopy(choice.longhaul, protection) for protection in (CLEAR, PRIVATE)]
    ours += [LonghaulCopy(choice.longhaul, CLEAR, streams=n) for n in _HAND_SET]
    return [(peer,) for peer in [*ours, *(peer for peer in peers.copy_peers() if peer.name in choice.peers)]]


def labels(what, choice):
    """What the arms are called of one of the three ways."""
    return [peer.label for peer, *_ in _CANDIDATES[what](choice)]


def _memory(run, bench, choice):
    _rounds(run, bench, choice, lambda n, peer, job: stream_over_path(bench, peer, job, n))


def _copies(run, bench, choice, dataset):
    with closing(HostDirectory(bench.work / "arrival")) as place:
        _rounds(run, bench, choice, lambda n, peer: copy_over_path(bench, peer, dataset, place, n))


def _rounds(run, bench, choice, measure):
    """Runs the arms of all candidates; `measure` takes the number of the round and what the list of candidates has."""
    arms = []
    for peer, *job in _CANDIDATES[run.what](choice):
        if not (choice.wants(peer) and _prepared(run, peer, bench)):
            continue
        arm = next((arm for arm in run.arms if arm.label == peer.label), None)
        if arm is None:
            arm = Arm("", peer.label, peer.kind, peer.protection, None)
            run.arms.append(arm)
        arm.measure = partial(_measured, measure, peer, job)
        arms.append(arm)
    run_rounds(arms, choice.settings.rounds, str(run.cell), run.is_decided)


def _measured(measure, peer, job, round_number):
    return measure(round_number, peer, *job)


def _file(run, bench, choice):
    with bench.scratch("source") as source:
        _copies(run, bench, choice, one_file(source, choice.settings.file_bytes))


def _files(run, bench, choice):
    with bench.scratch("source") as source:
        dataset = small_files(source, choice.settings.small_files, *choice.settings.small_sizes)
        _copies(run, bench, choice, dataset)


def _prepared(run, peer, bench):
    reason = peer.missing()
    if reason:
        run.skipped[peer.label] = reason
        return False
    peer.prepare(bench)
    return True


_CANDIDATES = {MEMORY: _streams, FILE: _copiers, FILES: _copiers}
_RUNS = {MEMORY: _memory, FILE: _file, FILES: _files}
