"""Sizes in, rates out. `k` is 10^3, `Ki` is 2^10, and a bare number is refused."""

import re

_FACTORS = {"B": 1}
for _power, _letter in enumerate("kMGT", start=1):
    _FACTORS[_letter + "B"] = 1000**_power
    _FACTORS[_letter.upper() + "iB"] = 1024**_power

KI, MI, GI = 1024, 1024**2, 1024**3


def parse_bytes(text):
    """`8GiB` → 8589934592."""
    match = re.fullmatch(r"(\d+) ?([A-Za-z]+)", text.strip())
    if not match or match.group(2) not in _FACTORS:
        raise ValueError(f"size {text!r} needs a number and a unit: 500MB, 8GiB")
    return int(match.group(1)) * _FACTORS[match.group(2)]


def gigabits(rate_bps):
    return f"{rate_bps / 1e9:.2f}"


def megabytes(rate_bps):
    return f"{rate_bps / 8e6:.0f}"


def mebibytes(size_bytes):
    return f"{size_bytes / MI:.0f}"


def binary_size(size_bytes):
    for unit, factor in (("GiB", GI), ("MiB", MI), ("KiB", KI)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes} B"
