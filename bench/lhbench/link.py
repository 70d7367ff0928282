"""The path: two network namespaces of our own and the veth pair between them."""

import os
import subprocess

# RFC 2544 keeps 198.18.0.0/15 for benchmarks; nobody routes it.
_SOURCE_ADDRESS = "198.18.0.1"
_DEST_ADDRESS = "198.18.0.2"
_NETWORK = "198.18.0.0/30"


class Link:
    """Namespaces named after this process, so that two runs never meet."""

    addresses = (_SOURCE_ADDRESS, _DEST_ADDRESS)

    def __init__(self):
        self.namespaces = tuple(f"lhb-{os.getpid()}-{end}" for end in "ab")
        self._devices = tuple(f"lhb{os.getpid()}{end}" for end in "ab")
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        self.kernel_congestion = sysctl(
            self.namespaces[0], "-n", "net.ipv4.tcp_congestion_control"
        ).strip()

    def use_congestion(self, name):
        """Makes `name` the choice of programs that make none; None is the kernel's default.

        By the route, since a namespace's sysctl refuses what the host does not list as allowed. The
        kernel applies it when a connection opens, so a program's own choice stands if made after.
        """
        choice = ["congctl", name] if name else []
        for namespace, device, address in self._ends():
            ip("-n", namespace, "route", "replace", _NETWORK, "dev", device, "proto", "kernel",
                "scope", "link", "src", address, *choice)

    def close(self):
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL, check=False)

    def _build(self):
        a, b = self.namespaces
        for namespace in self.namespaces:
            ip("netns", "add", namespace)
        ip("link", "add", self._devices[0], "netns", a, "type", "veth",
            "peer", "name", self._devices[1], "netns", b)
        for namespace, device, address in self._ends():
            ip("-n", namespace, "address", "add", f"{address}/30", "dev", device)
            ip("-n", namespace, "link", "set", "lo", "up")
            ip("-n", namespace, "link", "set", device, "up")
            # What one arm learned about the path must not start the next one.
            sysctl(namespace, "-qw", "net.ipv4.tcp_no_metrics_save=1")

    def devices(self):
        """Namespace and device of each end."""
        return list(zip(self.namespaces, self._devices))

    def _ends(self):
        return zip(self.namespaces, self._devices, self.addresses)


def sysctl(namespace, *words):
    return ip("netns", "exec", namespace, "sysctl", *words)


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
