"""What the grid must show, each line computed from its medians."""

from ..arm import CLEAR, LONGHAUL, PEER, PRIVATE
from ..targets import Target
from .cells import FILES, MEMORY

# A packet of 1500 bytes carries 1448 of TCP's with timestamps.
PACKET_PER_PAYLOAD = 1500 / 1448
_DEFAULT = f"longhaul {CLEAR}"
_NEAR_RTT_MS, _FAR_RTT_MS = 0.2, 100.0


def share(run, goodput_bps):
    """Of the path's rate, in bits of IP packets."""
    return None if goodput_bps is None else goodput_bps * PACKET_PER_PAYLOAD / run.cell.rate_bps


def targets(runs):
    lines = []
    for run in runs:
        lines += _memory(run) if run.what == MEMORY else []
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
    hand_set = [arm.rate().median for arm in run.arms if "(--streams" in arm.label and arm.rate()]
    if hand_set and ours:
        lines.append(Target(f"{name}: default beside the best number of streams", ours / max(hand_set), 0.95))
    return lines


def _against_peers(run):
    """Ahead where the path is long or loses, equal elsewhere; like with like in encryption where there are such peers."""
    goal = 1.0 if run.cell.loss >= 1e-5 or run.cell.rtt_ms >= 20 else 0.97
    best, label = run.best(PEER)
    if best is None:
        return []
    lines = []
    for protection in (CLEAR, PRIVATE):
        ours = run.rate_of(f"longhaul {protection}")
        if ours:
            lines.append(Target(f"{run.what}, {run.cell}: {protection} beside the best peer ({label})", ours / best, goal))
    return lines


def _small_files(runs):
    """Over 100 ms at most 1.2 times the time at 0.2 ms."""
    rates = {run.cell: run.rate_of(_DEFAULT) for run in runs if run.what == FILES}
    lines = []
    for cell, far in rates.items():
        near = next((rate for other, rate in rates.items() if other.rtt_ms == _NEAR_RTT_MS
                     and (other.rate_bps, other.loss) == (cell.rate_bps, cell.loss)), None)
        if cell.rtt_ms == _FAR_RTT_MS and near and far:
            lines.append(Target(f"files, {cell}: time beside that at {_NEAR_RTT_MS:g} ms", near / far, 1.2, at_most=True))
    return lines


def _steady(run, label):
    steady = [sample.extra["steady_bps"] for arm in run.arms if arm.label == label and arm.kind == LONGHAUL
              for sample in arm.valid if "steady_bps" in sample.extra]
    return sorted(steady)[len(steady) // 2] / run.cell.rate_bps if steady else None
