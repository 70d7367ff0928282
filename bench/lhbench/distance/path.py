"""The path of a cell: a twin of two hosts and one link, in the place of a veth pair."""

from dataclasses import dataclass

from ..link import ip, sysctl
from ..twin import Twin

# A socket may hold four times what the path does: a sender keeps what is not acknowledged, also while it repairs.
_BUFFERS, _BUFFER_LEAST = 4, 64 << 20


@dataclass(frozen=True)
class Cell:
    """A path: rate in b/s of IP packets, round trip, share of packets lost on the way there."""

    rate_bps: float
    rtt_ms: float
    loss: float

    @property
    def in_flight_bytes(self):
        return int(self.rate_bps / 8 * self.rtt_ms / 1e3)

    def is_no_harder_than(self, other):
        return self.rate_bps == other.rate_bps and self.rtt_ms <= other.rtt_ms and self.loss <= other.loss

    def __str__(self):
        return f"{self.rate_bps / 1e9:g} Gb/s, {self.rtt_ms:g} ms, loss {self.loss:g}"


class Path:
    """A twin with what `bench.Bench` wants of a link."""

    def __init__(self, binary, cell):
        # A queue of the path's bandwidth times its round trip, as routers on long paths have it, and 1 MB at least.
        keys = {"rate": f"{cell.rate_bps / 1e9:g} Gb/s", "delay": f"{cell.rtt_ms / 2:g} ms",
                "queue": f"{max(cell.in_flight_bytes, 1_000_000)} B"}
        self.cell = cell
        self.twin = Twin(binary, **keys)
        self.twin.__enter__()
        try:
            if cell.loss:
                self.twin.change(loss=f"{100 * cell.loss:g}%", way="forward")
            self.twin.raise_buffers(max(_BUFFERS * cell.in_flight_bytes, _BUFFER_LEAST))
            self.namespaces = tuple(self.twin.namespace(host) for host in "ab")
            self.addresses = tuple(self.twin.addresses[host] for host in "ab")
            self._routes = [self._route(*ends) for ends in ((0, 1), (1, 0))]
            self.kernel_congestion = sysctl(self.namespaces[0], "-n", "net.ipv4.tcp_congestion_control").strip()
        except BaseException:
            self.close()
            raise

    def use_congestion(self, name):
        """Makes `name` the choice of programs that make none; None is the kernel's default."""
        for namespace, route in zip(self.namespaces, self._routes):
            ip("-n", namespace, "route", "replace", *route, *(["congctl", name] if name else []))

    def close(self):
        self.twin.__exit__()

    def _route(self, here, there):
        route = ip("-n", self.namespaces[here], "route", "show", self.addresses[there])
        return route.split()
