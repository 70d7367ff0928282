"""Who sends over the link: iperf3 with cubic, and what a test of Longhaul says."""

import json
import time

from ..twin import finished

# A packet of 1500 bytes carries 1448 of TCP's with timestamps.
_PACKET, _PAYLOAD = 1500, 1448
_MARGIN_S = 30.0


class Iperf:
    """Flows with cubic from host a to host b, counted by the receiver second by second."""

    def __init__(self, twin, flows, seconds):
        self._server = twin.start("b", ["iperf3", "-s", "-1", "-J"])
        twin.wait_listening("b", 5201)
        self.begin = time.monotonic()
        self._client = twin.start("a", ["iperf3", "-c", twin.addresses["b"], "-P", flows, "-C", "cubic", "-J",
                                        "-t", seconds])
        self._seconds = seconds

    def rates(self):
        """Rate of each second in IP packets, b/s, once it has ended."""
        finished(self._client, self._seconds + _MARGIN_S)
        report = json.loads(finished(self._server, _MARGIN_S))
        return [part["sum"]["bits_per_second"] * _PACKET / _PAYLOAD for part in report["intervals"]][:self._seconds]


def outcome(program, limit_s):
    """Of a test: the rate of each second in IP packets, b/s, and its last record."""
    records = [json.loads(line) for line in finished(program, limit_s + _MARGIN_S).splitlines()]
    seconds = [record["rate_bps"] * _PACKET / _PAYLOAD for record in records if record["event"] == "interval"]
    return seconds, records[-1]
