"""The one interface of everything that moves bytes here, Longhaul included."""

import shutil
from dataclasses import dataclass

from ..arm import PEER
from ..dataset import Dataset


@dataclass(frozen=True)
class CopyJob:
    """`dataset` must arrive beneath `arrival`, a new and empty directory of the destination."""

    dataset: Dataset
    arrival: object


@dataclass(frozen=True)
class StreamJob:
    """Memory to memory; `congestion` None means the program is told nothing."""

    streams: int
    congestion: object
    duration_s: int
    rate: object = None  # the set point, for those who can hold one


class Peer:
    """A subclass is one way to run one program. Servers start and stop outside the timed part."""

    name = ""  # as --peers has it
    label = ""  # as the table has it
    programs = ()
    package = ""
    protection = ""
    kind = PEER
    durable = False  # makes its own data durable, so no `sync -f` follows it in the timed part

    def missing(self):
        """Why this peer cannot run here, with the way out; None when it can."""
        absent = [program for program in self.programs if not shutil.which(program)]
        if absent:
            return f"{', '.join(absent)} not found: apt-get install {self.package}"
        return None

    def prepare(self, bench):
        """Once: keys, configuration. Keeps `bench` for the sides and the work directory."""
        self.bench = bench
        self.server = None

    def start_server(self, job):
        raise NotImplementedError

    def run_client(self, job):
        """Starts the client on its side and returns the process."""
        raise NotImplementedError

    def client_log(self):
        return f"{self.name}-client.log"

    def server_log(self):
        return f"{self.name}-server.log"

    def result(self, job, seconds):
        """(bytes moved, seconds they took, more for the JSON) after the client ended well."""
        return job.dataset.total_bytes, seconds, {}

    def stop(self):
        for side in self.bench.sides:
            side.stop(self.server)
        self.server = None
