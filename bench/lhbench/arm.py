"""An arm: one program in one setting. The arms of a scenario take turns."""

import sys
from dataclasses import dataclass, field
from typing import Callable

from .errors import OVER_LIMIT, ArmFailed, OverLimit
from .sample import Sample, Spread

LIMIT, LONGHAUL, PEER = "limit", "longhaul", "peer"
# A run over a twin that was late by the weather of the machine is run again, so often at most in all; one that was later than this is late by what
# it does.
_LATE_RUNS, _HOPELESS_SHARE = 3, 0.10
CLEAR, INTEGRITY, PRIVATE, ENCRYPTED, NONE = "clear", "integrity", "private", "encrypted", "-"


@dataclass
class Arm:
    group: str
    label: str
    kind: str
    protection: str
    measure: Callable
    samples: list = field(default_factory=list)

    @property
    def valid(self):
        return [sample for sample in self.samples if sample.valid]

    @property
    def void(self):
        """One wrong copy makes every number of the arm worthless."""
        return any(sample.wrong_copy for sample in self.samples)

    def rate(self):
        return None if self.void else Spread.of(sample.rate_bps for sample in self.valid)

    def cpu(self):
        return None if self.void else Spread.of(sample.cpu_s_per_gb for sample in self.valid)

    def peak(self):
        """Largest peak of (source, destination) over all rounds, in bytes."""
        if self.void or not self.valid:
            return None
        return (max(s.peak_source_bytes for s in self.valid), max(s.peak_dest_bytes for s in self.valid))

    @property
    def is_over_limit(self):
        """It took too long once, and is not tried again."""
        return any(OVER_LIMIT in problem for problem in self.problems())

    @property
    def late_share(self):
        """Of its latest run, where the emulator was late in it and no run was in time: nothing is to be said of the arm then."""
        late = [sample for sample in self.samples if sample.is_late]
        return late[-1].late_share if late and not self.valid else None

    def problems(self):
        return sorted({sample.problem for sample in self.samples if sample.problem})


def run_rounds(arms, rounds, scenario, has_enough=lambda arm: False):
    """Measures each arm until it has so many rounds, or enough; an arm may have some from before."""
    for round_number in range(rounds):
        for arm in turn(arms, round_number, rounds):
            if arm.is_over_limit or len(arm.valid) > round_number or has_enough(arm):
                continue
            for _ in range(_LATE_RUNS):
                sample = _sample(arm, round_number)
                arm.samples.append(sample)
                _say(scenario, round_number, arm, sample)
                if not sample.is_late or sample.late_share > _HOPELESS_SHARE:
                    break


def _sample(arm, round_number):
    try:
        return arm.measure(round_number)
    except OverLimit as error:
        return Sample(round_number, problem=str(error))
    except (ArmFailed, OSError) as error:
        return Sample(round_number, problem=f"failed: {error}")


def turn(arms, round_number, rounds):
    """The order of a round: begins elsewhere each time and runs backwards in odd rounds.

    Neighbours stay neighbours, so arms that are compared share the machine's weather.
    """
    start = round_number * max(1, len(arms) // rounds) % len(arms) if arms else 0
    order = arms[start:] + arms[:start]
    return order[::-1] if round_number % 2 else order


def _say(scenario, round_number, arm, sample):
    name = " ".join(word for word in (arm.group, arm.label) if word)
    outcome = sample.problem or f"{sample.rate_bps / 1e9:.2f} Gb/s in {sample.seconds:.2f} s"
    if sample.is_late:
        outcome += f", the emulator late for {sample.late_share:.1%} of the packets"
    print(f"({scenario}) round {round_number + 1}: {name}: {outcome}", file=sys.stderr, flush=True)
