"""One Reno flow of the kernel's against the formulas for it."""

import json
import math
import re
import subprocess
import time
from functools import partial

from ..errors import ArmFailed
from .row import Row
from ..twin import Twin, finished

# Rate = MSS / RTT x C / sqrt(p) (Mathis, Semke, Mahdavi and Ott 1997). Linux counts the segments that an
# acknowledgement covers, so its window grows by one in each round trip also where acknowledgements are
# delayed: C = sqrt(3/2), not sqrt(3/4).
_MATHIS_C = math.sqrt(1.5)
_TIMESTAMPS_MSS = 1448
_GRID_MS = (10, 50, 100)
_GRID_LOSS = (1e-4, 3e-4, 1e-3, 3e-3)
# Losses of all flows together after which the mean is settled.
_LOSSES = 400
_TOLERANCE = 0.20
# The link has no rate, so flows do not meet: so many are as many runs of one.
_FLOWS = 8
_LEAST_S, _MOST_S, _START_S = 12, 75, 12

# rho = C x RTT^2 / (2 x MSS), MSS = MTU - 40.
_MTU, _FORMULA_MSS = 1500, 1460
_RECOVERIES = ((20e6, 100), (100e6, 40), (100e6, 100))
_RECOVERY_TOLERANCE = 0.15
_OPEN_S, _LOOK_S = 6.0, 0.05
_WINDOW = re.compile(r"\bcwnd:(\d+)")
_SENT = re.compile(r"\bbytes_sent:(\d+)")


def mathis(binary, quick):
    """Mean goodput of a flow over a lossy link without a rate: within 20 % of the formula."""
    cells = [(rtt, loss) for rtt in _GRID_MS for loss in _GRID_LOSS]
    for rtt_ms, loss in cells[2:4] if quick else cells:
        yield partial(_mathis, binary, rtt_ms, loss)


def _mathis(binary, rtt_ms, loss):
    per_rtt = _MATHIS_C / math.sqrt(loss)
    expected_bps = _TIMESTAMPS_MSS * 8 * per_rtt / (rtt_ms / 1e3)
    time_s = _LOSSES / loss / (per_rtt * _FLOWS) * rtt_ms / 1e3
    time_s = math.ceil(min(max(time_s, _LEAST_S), _MOST_S))
    with Twin(binary, delay=f"{rtt_ms / 2:g} ms") as twin:
        twin.change(loss=loss, way="forward")
        server = twin.start("b", ["iperf3", "-s", "-1"])
        twin.wait_listening("b", 5201)
        client = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-C", "reno", "-P", _FLOWS, "-J",
                                  "-O", _START_S, "-t", time_s])
        time.sleep(_START_S)
        started = twin.stats()
        report = json.loads(finished(client, time_s + _START_S + 60))
        finished(server, 10)
        flow_bps = report["end"]["sum_received"]["bits_per_second"] / _FLOWS
        off = flow_bps / expected_bps - 1
        row = Row(f"Reno, RTT {rtt_ms} ms, loss {loss:g}: mean of {_FLOWS} flows over {time_s} s",
                  f"{expected_bps / 1e6:.2f} Mb/s ± 20 %", f"{flow_bps / 1e6:.2f} Mb/s ({off:+.1%})",
                  abs(off) <= _TOLERANCE)
        yield row.account(twin, since=started)


def recovery(binary, quick):
    """From one lost segment until the window is what it was: within 15 % of the formula."""
    for rate_bps, rtt_ms in _RECOVERIES[:1] if quick else _RECOVERIES:
        yield partial(_recovery, binary, rate_bps, rtt_ms)


def _recovery(binary, rate_bps, rtt_ms):
    with Twin(binary, rate=f"{rate_bps / 1e6:g} Mb/s", delay=f"{rtt_ms / 2:g} ms", queue="100 ms") as twin:
        yield _recovered(twin, rate_bps, rtt_ms / 1e3)


def _recovered(twin, rate_bps, rtt_s):
    rho_s = rate_bps * rtt_s**2 / (2 * _FORMULA_MSS * 8)
    # As many full segments as the path holds: no queue before the loss, and none after it.
    window = math.ceil(rate_bps * rtt_s / (_MTU * 8))
    _clamp(twin, window)
    time_s = math.ceil(_OPEN_S + 1.4 * rho_s + 5)
    server = twin.start("b", ["iperf3", "-s", "-1"])
    twin.wait_listening("b", 5201)
    client = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-C", "reno", "-t", time_s])
    time.sleep(_OPEN_S)
    if _window(twin) != window:
        raise ArmFailed(f"the window is {_window(twin)} and not {window} segments after {_OPEN_S:.0f} s")
    before = twin.stats()["a"]
    twin.change(drop=1, way="forward")
    lost_at, halved, least = time.monotonic(), False, window
    recovered_s = None
    while recovered_s is None and client.poll() is None:
        time.sleep(_LOOK_S)
        now = _window(twin)
        least = min(least, now)
        halved = halved or now < 0.6 * window
        if halved and now >= window:
            # The sender hears of the loss a round trip later, and the formula begins there.
            recovered_s = time.monotonic() - lost_at - rtt_s
    time.sleep(1)
    after = twin.stats()["a"]
    finished(client, time_s + 10)
    finished(server, 10)
    if recovered_s is None:
        raise ArmFailed(f"the window, {least} of {window} segments at the least, did not come back")
    # The rate goes from a half to all in a straight line: a quarter of the time's worth is missing.
    due = rate_bps / 8 * (after["at_ns"] - before["at_ns"]) / 1e9
    missing_s = 4 * (due - (after["departed"]["bytes"] - before["departed"]["bytes"])) * 8 / rate_bps
    offs = [seconds / rho_s - 1 for seconds in (recovered_s, missing_s)]
    row = Row(f"Reno after one loss, {rate_bps / 1e6:g} Mb/s, RTT {rtt_s * 1e3:g} ms", f"{rho_s:.1f} s ± 15 %",
              f"window {recovered_s:.1f} s ({offs[0]:+.1%}), missing bytes {missing_s:.1f} s ({offs[1]:+.1%})",
              max(map(abs, offs)) <= _RECOVERY_TOLERANCE)
    dropped = after["dropped"]
    if (dropped["loss"]["packets"], dropped["queue"]["packets"]) != (1, 0):
        row.void.append(f"lost {dropped['loss']['packets']} and {dropped['queue']['packets']} packets, not one")
    return row.account(twin)


def _clamp(twin, window):
    """No flow's window grows beyond so many segments: by the route, as only the kernel can."""
    a = twin.namespace("a")
    shown = _ip("-n", a, "-4", "route", "show", twin.addresses["b"]).split()
    _ip("-n", a, "route", "change", *shown, "cwnd", "lock", str(window))
    # The kernel looks at this with what it remembers of the other host, so it must have something to remember.
    twin.set_sysctl("a", "net.ipv4.tcp_no_metrics_save", 0)
    server = twin.start("b", ["iperf3", "-s", "-1"])
    twin.wait_listening("b", 5201)
    twin.run("a", ["iperf3", "-c", twin.addresses["b"], "-n", "10K"], 20)
    finished(server, 10)


def _window(twin):
    """Segments that the flow with the most data may have in flight."""
    text = twin.run("a", ["ss", "-Htino", "dport = :5201"], 10)
    flows = [(int(sent.group(1)), int(window.group(1)))
             for line in text.splitlines()
             if (window := _WINDOW.search(line)) and (sent := _SENT.search(line))]
    return max(flows, default=(0, 0))[1]


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise ArmFailed(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
