"""What the grid must show, each line computed from its medians."""

from dataclasses import replace

from ..arm import CLEAR, LONGHAUL, PEER, PRIVATE
from ..targets import Target
from .cells import FILES, MEMORY
from .kept import goes_on

# A packet of 1500 bytes carries 1448 of TCP's with timestamps.
PACKET_PER_PAYLOAD = 1500 / 1448
# Of the path's rate: what is left is its start and the noise of a run.
_FULL = 0.995
_DEFAULT = f"longhaul {CLEAR}"
_NEAR_RTT_MS, _FAR_RTT_MS = 0.2, 100.0


def share(run, goodput_bps):
    """Of the path's rate, in bits of IP packets."""
    return None if goodput_bps is None else goodput_bps * PACKET_PER_PAYLOAD / run.cell.rate_bps


def targets(runs):
    """Of runs in which the emulator was in time: what others say is not to be published, and not to be judged."""
    lines = []
    for run in runs:
        lines += _memory(run) if run.what == MEMORY else []
        lines += _hand_set(run)
        lines += _against_peers(run)
    return lines + _small_files(runs)


def _memory(run):
    name = f"memory, {run.cell}"
    ours = run.rate_of(_DEFAULT)
    lines = []
    if run.cell.loss == 0:
        lines.append(Target(f"{name}: share of the path, steady", _steady(run, _DEFAULT), 0.95, unit=""))
        lines.append(Target(f"{name}: share of the path, with the start", share(run, ours), 0.90, unit=""))
    if run.cell.loss == 1e-4:
        lines.append(Target(f"{name}: share of the path", share(run, ours), 0.80, unit=""))
    return lines


def _hand_set(run):
    ours = run.rate_of(_DEFAULT)
    hand_set = [arm.rate().median for arm in run.arms if "(--streams" in arm.label and arm.rate()]
    if not (ours and hand_set):
        return []
    return [Target(f"{run.what}, {run.cell}: default beside the best number of streams", ours / max(hand_set), 0.95)]


def _against_peers(run):
    """Ahead where the path is long or loses, equal elsewhere, and beside a peer that fills it: nobody gets ahead of that."""
    best, label = run.best(PEER)
    if best is None:
        return []
    is_full = share(run, best) >= _FULL
    goal = 1.0 if (run.cell.loss >= 1e-5 or run.cell.rtt_ms >= 20) and not is_full else 0.97
    lines = []
    late = [arm.label for arm in run.arms if arm.kind == PEER and arm.late_share]
    of_peers = "; ".join([label, *(f"{other} late" for other in late)])
    for protection in (CLEAR, PRIVATE):
        ours = run.rate_of(f"longhaul {protection}")
        if ours:
            lines.append(Target(f"{run.what}, {run.cell}: {protection} beside the best peer ({of_peers})", ours / best, goal))
    return lines


def _small_files(runs):
    """Over 100 ms at most 1.2 times the time at 0.2 ms, of one machine and one build."""
    of_files = [run for run in runs if run.what == FILES]
    lines = []
    for run in of_files:
        cell = run.cell
        near_run = next((other for other in of_files if other.cell == replace(cell, rtt_ms=_NEAR_RTT_MS)), None)
        if cell.rtt_ms != _FAR_RTT_MS or near_run is None or not goes_on(near_run, run.machine):
            continue
        for protection in (CLEAR, PRIVATE):
            near, far = (of.rate_of(f"longhaul {protection}") for of in (near_run, run))
            if near and far:
                lines.append(Target(f"files, {cell}: {protection}, time beside that at {_NEAR_RTT_MS:g} ms", near / far, 1.2, at_most=True))
    return lines


def _steady(run, label):
    steady = [sample.extra["steady_bps"] for arm in run.arms if arm.label == label and arm.kind == LONGHAUL
              for sample in arm.valid if "steady_bps" in sample.extra]
    return sorted(steady)[len(steady) // 2] / run.cell.rate_bps if steady else None
