"""What the comparison must show, each line computed from the medians of this run."""

from dataclasses import dataclass

from .arm import ENCRYPTED, LONGHAUL, PEER
from .limits import FIO_LABEL, LOCAL_TREE_LABEL
from .longhaul import FALLBACKS
from .scenarios import MEMORY_COPY_GROUP, NAMED_CONGESTION, stream_group
from .units import MI

MEMORY_LIMIT_BYTES = 512 * MI  # Longhaul's own default limit, a side


@dataclass(frozen=True)
class Target:
    text: str
    value: object  # None when an arm is missing, failed or void
    goal: float
    at_most: bool = False
    unit: str = "×"

    @property
    def verdict(self):
        if self.value is None:
            return "not measured"
        met = self.value <= self.goal if self.at_most else self.value >= self.goal
        return "pass" if met else "FAIL"

    @property
    def line(self):
        sign = "≤" if self.at_most else "≥"
        value = "–" if self.value is None else f"{self.value:.2f}"
        return f"| {self.text} | {sign} {self.goal:g} {self.unit} | {value} | {self.verdict} |"


def targets(scenarios):
    lines = []
    for scenario in scenarios:
        lines += {"a": _memory, "b": _file, "c": _small, "d": _mixed, "e": _set_point}[scenario.letter](scenario)
        if scenario.letter != "e":
            lines.append(_resident(scenario))
    return lines


def _memory(scenario):
    rate, cpu = _rates(scenario), _cpus(scenario)
    lines = []
    for streams in (1, 2, 4):
        group = stream_group(NAMED_CONGESTION, streams)
        ours, theirs = (group, "longhaul clear"), (group, "iperf3")
        name = f"(a) clear, {streams} stream{'s' * (streams > 1)}, {NAMED_CONGESTION}"
        lines.append(Target(f"{name}: rate beside iperf3", _ratio(rate(ours), rate(theirs)), 1.0))
        lines.append(Target(f"{name}: CPU per GB beside iperf3", _ratio(cpu(ours), cpu(theirs)), 1.0,
                            at_most=True))
    group = stream_group(NAMED_CONGESTION, 2)
    private = rate((group, "longhaul private"))
    scp = _best(arm for arm in scenario.arms if arm.group == MEMORY_COPY_GROUP)
    lines.append(Target("(a) private beside clear, 2 streams",
                        _ratio(private, rate((group, "longhaul clear"))), 0.35))
    lines.append(Target("(a) private, 2 streams, beside the faster scp", _ratio(private, scp), 2.0))
    lines.append(Target("(a) share of Longhaul runs whose summary counts chunks_verified",
                        _verified_share(scenario), 1.0, unit=""))
    return lines


def _file(scenario):
    rate = _rates(scenario)
    limit = rate(("", FIO_LABEL))
    lines = [
        Target(f"(b) {protection} beside fio", _ratio(rate(("", f"longhaul {protection}")), limit), 0.85)
        for protection in ("clear", "private")
    ]
    return lines + _against_peers(scenario, 1.0) + _fallback(scenario)


def _small(scenario):
    rate = _rates(scenario)
    limit = rate(("", LOCAL_TREE_LABEL))
    lines = [
        Target(f"(c) {protection} beside the local tree",
               _ratio(rate(("", f"longhaul {protection}")), limit), 0.8)
        for protection in ("clear", "private")
    ]
    return lines + _against_peers(scenario, 1.5) + _fallback(scenario)


def _mixed(scenario):
    return _against_peers(scenario, 1.0) + _fallback(scenario)


def _set_point(scenario):
    worst = lambda values: max(values, default=None)
    return [
        Target("(e) error of the worst 10 s mean", worst(100 * abs(h.mean_error) for h in scenario.held), 1.0,
               at_most=True, unit="%"),
        Target("(e) excess of the worst second", worst(100 * h.excess for h in scenario.held), 1.0,
               at_most=True, unit="%"),
        Target("(e) error of the second that begins 200 ms after a change",
               worst(100 * abs(c.error) for c in scenario.changed), 1.0, at_most=True, unit="%"),
        Target("(e) share of runs attributed to the rate limit", scenario.held and sum(
            h.limited_by == "rate_limit" for h in scenario.held) / len(scenario.held) or None, 1.0, unit=""),
    ]


def _against_peers(scenario, goal):
    """Like with like, and the hard line too: encrypted Longhaul against peers that encrypt nothing."""
    rate = _rates(scenario)
    anyone = _best(arm for arm in scenario.arms if arm.kind == PEER)
    encrypted = _best(arm for arm in scenario.arms if arm.kind == PEER and arm.protection == ENCRYPTED)
    clear, private = rate(("", "longhaul clear")), rate(("", "longhaul private"))
    name = f"({scenario.letter})"
    return [
        Target(f"{name} clear beside the best peer", _ratio(clear, anyone), goal),
        Target(f"{name} private beside the best encrypted peer", _ratio(private, encrypted), goal),
        Target(f"{name} private beside the best peer, clear ones too", _ratio(private, anyone), goal),
    ]


def _fallback(scenario):
    rate = _rates(scenario)
    return [
        Target(f"({scenario.letter}) {protection}: LONGHAUL_IO={io} beside io_uring",
               _ratio(rate(("", f"longhaul {protection} ({io})")), rate(("", f"longhaul {protection}"))),
               0.8)
        for io in FALLBACKS
        for protection in ("clear", "private")
    ]


def _resident(scenario):
    peaks = [max(arm.peak()) for arm in scenario.arms if arm.kind == LONGHAUL and arm.peak()]
    value = max(peaks) / MI if peaks else None
    return Target(f"({scenario.letter}) Longhaul's largest peak memory of a side", value,
                  MEMORY_LIMIT_BYTES / MI, at_most=True, unit="MiB")


def _rates(scenario):
    arms = {(arm.group, arm.label): arm.rate() for arm in scenario.arms}
    return lambda key: arms[key].median if arms.get(key) else None


def _cpus(scenario):
    arms = {(arm.group, arm.label): arm.cpu() for arm in scenario.arms}
    return lambda key: arms[key].median if arms.get(key) else None


def _best(arms):
    return max((arm.rate().median for arm in arms if arm.rate()), default=None)


def _ratio(value, base):
    return value / base if value is not None and base else None


def _verified_share(scenario):
    """Share of Longhaul's runs that say they verified chunks at the receiver."""
    runs = [sample for arm in scenario.arms if arm.kind == LONGHAUL for sample in arm.valid]
    if not runs:
        return None
    return sum(bool(run.extra["summary"].get("chunks_verified")) for run in runs) / len(runs)
