"""(e) How exactly `--rate` is held, measured on the wire: IP packets, headers and all."""

import json
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass

from .errors import ArmFailed
from .longhaul import LonghaulThroughput
from .peers.base import StreamJob
from .wire import Wire, count_real_packets

# Of what is asked, b/s, over how many streams.
_CASES = [(rate, streams) for rate in (50e6, 200e6, 1e9, 4e9) for streams in (1, 4)]
_CHANGES = [(500e6, 1e9), (1e9, 200e6), (200e6, 2e9)]
# The session's own begin is not the set point's fault.
_SETTLING_S = 0.3
_CHANGE_S = 0.2
_MEAN_S, _SHORT_S = 10.0, 1.0


@dataclass
class Held:
    asked_bps: float
    streams: int
    mean_error: float  # of the worst 10 s, as a share
    excess: float  # of the worst second
    limited_by: str


@dataclass
class Changed:
    before_bps: float
    after_bps: float
    error: float  # of the second that begins 200 ms after the command returned
    command_s: float


class SetPoint:
    letter = "e"
    title = "set point"

    def __init__(self, chosen):
        self.arms, self.skipped, self.facts, self.failure = [], {}, {}, ""
        self.held, self.changed = [], []
        self._chosen = chosen

    def run(self, bench):
        peer = LonghaulThroughput(self._chosen.longhaul, "private")
        reason = peer.missing()
        if reason:
            self.skipped[peer.label] = reason
            return
        peer.prepare(bench)
        for namespace, device in bench.link.devices():
            count_real_packets(namespace, device)
        quick = self._chosen.settings.rounds == 1
        for rate, streams in _CASES[2:4] if quick else _CASES:
            self.held.append(self._hold(bench, peer, rate, streams))
            print(f"(e) {self.held[-1]}", flush=True)
        for before, after in _CHANGES[:1] if quick else _CHANGES:
            self.changed.append(self._change(bench, peer, before, after))
            print(f"(e) {self.changed[-1]}", flush=True)

    def _hold(self, bench, peer, rate, streams):
        duration_s = _MEAN_S + 3
        with self._running(bench, peer, rate, streams, duration_s) as (wire, client):
            if client.wait(duration_s + 20) != 0:
                raise ArmFailed(bench.source.log_text(peer.client_log()))
        begin, end = wire.begin() + _SETTLING_S, wire.end()
        means = wire.windows(begin, end, _MEAN_S)
        short = wire.windows(begin, end, _SHORT_S)
        mean_error = max((mean / rate - 1 for mean in means), key=abs)
        summary = json.loads(bench.source.log_text(peer.client_log()).splitlines()[-1])
        return Held(rate, streams, mean_error, max(short) / rate - 1, summary["limited_by"])

    def _change(self, bench, peer, before, after):
        with self._running(bench, peer, before, 2, 8) as (wire, client):
            time.sleep(4)
            session = json.loads(peer.session("ls", "--json"))["sessions"][0]["session"]
            asked = time.monotonic()
            peer.session("set", session, "--rate", f"{after / 1e6:g}Mb/s")
            done = time.monotonic()
            client.wait(30)
        begin = done + _CHANGE_S
        return Changed(before, after, wire.rate(begin, begin + _SHORT_S) / after - 1, done - asked)

    def _running(self, bench, peer, rate, streams, duration_s):
        return _Running(bench, peer, StreamJob(streams, "cubic", duration_s, f"{rate / 1e6:g}Mb/s"))

    def table(self):
        lines = ["| asked, Mb/s | streams | worst 10 s mean | worst 1 s over | limited by |", "|---:|---:|---:|---:|---|"]
        lines += [
            f"| {h.asked_bps / 1e6:g} | {h.streams} | {h.mean_error:+.2%} | {h.excess:+.2%} | {h.limited_by} |"
            for h in self.held
        ]
        lines += ["", "| changed while running, Mb/s | the second from 200 ms after it | command, ms |", "|---|---:|---:|"]
        lines += [
            f"| {c.before_bps / 1e6:g} to {c.after_bps / 1e6:g} | {c.error:+.2%} | {c.command_s * 1e3:.0f} |"
            for c in self.changed
        ]
        return lines

    def figures(self):
        return {"held": [vars(h) for h in self.held], "changed": [vars(c) for c in self.changed]}


class _Running:
    """A throughput test with its server, and a look at the wire."""

    def __init__(self, bench, peer, job):
        self._bench, self._peer, self._job = bench, peer, job
        self._wire = Wire(*bench.link.devices()[0])

    def __enter__(self):
        self._peer.start_server(self._job)
        self._wire.__enter__()
        self._client = self._peer.run_client(self._job)
        return self._wire, self._client

    def __exit__(self, *failure):
        if self._client.poll() is None:
            self._client.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._client.wait(10)
        self._wire.__exit__(*failure)
        self._bench.dest.stop(self._peer.server)
