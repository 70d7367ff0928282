"""iperf3: raw TCP, memory to memory."""

import json

from ..arm import CLEAR
from ..errors import ArmFailed
from .base import Peer

_PORT = 5201


class Iperf3(Peer):
    name = "iperf3"
    programs = ("iperf3",)
    package = "iperf3"
    protection = CLEAR

    def __init__(self, zero_copy=False, told=()):
        """`told` are words for the label: what its jobs say."""
        self._zero_copy = zero_copy
        self.label = " ".join(["iperf3 -Z" if zero_copy else "iperf3", *map(str, told)])

    def start_server(self, job):
        self.server = self.bench.dest.spawn(
            ["iperf3", "-s", "-1", "-p", _PORT, "-B", self.bench.dest.address], self.server_log()
        )
        self.bench.dest.wait_listening(self.server, _PORT, self.server_log())

    def run_client(self, job):
        argv = ["iperf3", "-c", self.bench.dest.address, "-p", _PORT, "-J"]
        argv += ["-t", job.duration_s, "-P", job.streams]
        argv += ["-C", job.congestion] if job.congestion else []
        argv += ["-Z"] if self._zero_copy else []
        return self.bench.source.spawn(argv, self.client_log())

    def result(self, job, seconds):
        try:
            end = json.loads(self.bench.source.log_text(self.client_log()))["end"]
            received, sent = end["sum_received"], end["sum_sent"]
        except (ValueError, KeyError) as error:
            raise ArmFailed(f"iperf3's report is not as expected: {error!r}") from error
        return received["bytes"], received["seconds"], {"retransmits": sent.get("retransmits")}
