"""Three hosts at each site that fill together what no pair can, and one of them that dies."""

import filecmp
import time

from .row import Row
from .setting import EXCLUDED_S, Busy, wait_moving, watch

# Of the mark, over 10 s.
FILLS = 0.95
_WINDOW_S = 10.0
_END_LIMIT_S = 240.0


def rows(setting):
    # A host can do three eighths of the mark.
    access = setting.mark_bps * 0.375
    with setting.fleet(access_bps=access, pools=True) as fleet, watch(fleet) as counters:
        count, size = setting.files_for(setting.mark_bps, 2.5 * setting.seconds + 20)
        # Smaller files, so that many are whole when the host dies.
        count, size = count * 4, size // 4
        fleet.make("west", "run", count, size)
        busy = Busy()
        number = fleet.submit("run", "west", "east", "cms", checksum="xxh3")
        wait_moving(fleet, counters, [number])
        time.sleep(EXCLUDED_S)
        begin = time.monotonic()
        time.sleep(max(setting.seconds, _WINDOW_S + 1))
        windows = [bps for _, bps in counters.windows("ocean:forward", begin, counters.now, _WINDOW_S)]
        filled = min(windows) / setting.mark_bps
        host = max(counters.rate(f"w{n}-west:forward", begin, counters.now) for n in (1, 2, 3))
        yield Row("3 × 3 agents fill the mark", f"≥ {FILLS:.0%} of it over 10 s",
                  f"{filled:.1%}; a host has {access / setting.mark_bps:.0%} of it, the busiest sent {host / setting.mark_bps:.0%}",
                  filled >= FILLS, numbers={"worst": filled}).account(counters, busy.share)

        fleet.kill_agent("w2")
        told = fleet.wait(number, _END_LIMIT_S)
        used = busy.share
        lost = _different(fleet, count)
    measured = (f"{told['state']}: {told['files_done']} of {told['files_total']} files, {told['files_failed']} failed, "
                f"{lost} differ")
    holds = told["state"] == "done" and told["files_done"] == count and lost == 0
    yield Row("one of them is killed", "no file lost", measured, holds, numbers={"lost": lost}).account(counters, used)


def _different(fleet, count):
    """Files that are not at the destination as they are at the source, and what is there beside them."""
    source, destination = fleet.root("west") / "run", fleet.root("east") / "run"
    names = sorted(file.name for file in source.iterdir())
    _, different, absent = filecmp.cmpfiles(source, destination, names, shallow=False)
    beside = [file for file in destination.iterdir() if file.name not in names]
    return len(different) + len(absent) + len(beside) + abs(len(names) - count)
