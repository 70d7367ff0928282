"""A TCP flow that is nobody's beside ten times its floor of Longhaul's."""

import json
import time

from ..twin import finished
from . import network
from .row import Row
from .setting import EXCLUDED_S, Busy, wait_moving, watch

# Of its floor it may lose this.
LOSES = 0.05
_TRANSFERS = 9
_LEAD_S = 5.0
_MARGIN_S = 30.0


def rows(setting):
    floor = setting.ocean_bps - setting.mark_bps
    # Each host can send half of the ocean and more: together they offer ten times the floor at least.
    access = max(setting.ocean_bps, 10 * floor / len(network.HOSTS))
    with setting.fleet(access_bps=access) as fleet, watch(fleet) as counters:
        count, size = setting.files_for(setting.mark_bps / _TRANSFERS, 4 * setting.seconds + 30)
        for number in range(_TRANSFERS):
            fleet.make(f"w{number % 3 + 1}", f"set-{number}", count, size)
        busy = Busy()
        numbers = []
        for number in range(_TRANSFERS):
            pair = number % 3 + 1
            of_class = list(network.CLASSES)[number % 3]
            numbers.append(fleet.submit(f"set-{number}", f"w{pair}", f"e{pair}", of_class))
        wait_moving(fleet, counters, numbers)
        server = fleet.twin.start("campus-e", ["iperf3", "-s", "-1", "-J"])
        fleet.twin.wait_listening("campus-e", 5201)
        seconds = round(2 * setting.seconds + _LEAD_S)
        client = fleet.twin.start("campus-w", ["iperf3", "-c", fleet.twin.addresses["campus-e"], "-C", "cubic", "-J", "-t", seconds])
        time.sleep(_LEAD_S + EXCLUDED_S)
        begin = time.monotonic()
        report = json.loads(finished(client, seconds + _MARGIN_S))
        end = begin + seconds - _LEAD_S - EXCLUDED_S - 1.0
        finished(server, _MARGIN_S)
        used = busy.share
        at_large = counters.rate("campus-w-west:forward", begin, end)
        ours = counters.rate("ocean:forward", begin, end) - at_large
        again = report["end"]["sum_sent"]["retransmits"]
        for number in numbers:
            fleet.client.post(f"/transfers/{number}/cancel", {"reason": "measured"})
    kept = at_large / floor
    measured = (f"{kept:.1%} of its floor ({at_large / 1e6:.1f} of {floor / 1e6:.1f} Mb/s), {again} segments sent again; "
                f"Longhaul {ours / 1e6:.1f} Mb/s with {_TRANSFERS} transfers")
    yield Row("one cubic flow at large, equal RTT", f"≥ floor − {LOSES:.0%}", measured, kept >= 1 - LOSES,
              numbers={"at_large_bps": at_large, "floor_bps": floor, "longhaul_bps": ours}).account(counters, used)
