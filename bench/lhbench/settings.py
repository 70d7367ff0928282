"""How large a run is: the full one and the quick one that only proves every arm works."""

from dataclasses import dataclass

from .units import GI, KI, MI

# Fixed, so that two runs copy the same bytes.
SEED = 20240917


@dataclass(frozen=True)
class Settings:
    rounds: int
    duration_s: int
    streams: tuple  # of scenario (a)
    memory_file_bytes: int  # scp's file in scenario (a)
    file_bytes: int
    small_files: int
    small_sizes: tuple  # smallest and largest, inclusive
    mixed: tuple  # of (how many files, smallest, largest)
    arm_limit_s: int


FULL = Settings(
    rounds=5,
    duration_s=10,
    streams=(1, 2, 4),
    memory_file_bytes=4 * GI,
    file_bytes=8 * GI,
    small_files=50_000,
    small_sizes=(4 * KI, 64 * KI),
    # Bytes to 1 GiB in about 4,000 files; each class holds about 1 GiB, so none decides alone.
    mixed=(
        (1, GI, GI),
        (2, 512 * MI, 512 * MI),
        (8, 128 * MI, 128 * MI),
        (64, 12 * MI, 20 * MI),
        (512, MI, 3 * MI),
        (1_500, 64 * KI, MI),
        (2_000, 1, 16 * KI),
    ),
    arm_limit_s=900,
)

QUICK = Settings(
    rounds=1,
    duration_s=2,
    streams=(1, 2, 4),
    memory_file_bytes=256 * MI,
    file_bytes=256 * MI,
    small_files=1_000,
    small_sizes=(4 * KI, 64 * KI),
    mixed=(
        (1, 64 * MI, 64 * MI),
        (2, 32 * MI, 32 * MI),
        (8, 4 * MI, 12 * MI),
        (100, 64 * KI, MI),
        (300, 1, 16 * KI),
    ),
    arm_limit_s=300,
)
