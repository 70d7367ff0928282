"""The four scenarios: which data, which place, which arms."""

from contextlib import closing

from . import peers
from .arm import CLEAR, INTEGRITY, PEER, PRIVATE, Arm, run_rounds
from .dataset import mixed_tree, one_file, small_files
from .disk import FreshFileSystem, HostDirectory, Tmpfs
from .limits import fio_arm, fio_missing, local_tree
from .longhaul import FALLBACKS, LonghaulCopy, LonghaulThroughput
from .measure import measure_copy, measure_stream
from .peers.base import StreamJob
from .setpoint import SetPoint
from .units import GI, binary_size

PROTECTIONS = (CLEAR, INTEGRITY, PRIVATE)
NAMED_CONGESTION = "cubic"
MEMORY_COPY_GROUP = "memory copy"
# Room of the fresh file system beside the data: journal, inode tables, temporary names.
_SPARE_BYTES = GI


class Scenario:
    """Its arms with their samples, and who was left out and why."""

    letter = ""
    title = ""

    def __init__(self, chosen):
        self.arms = []
        self.skipped = {}
        self.facts = {}
        self.failure = ""  # what ended the scenario itself before its time
        self._chosen = chosen

    def run(self, bench):
        raise NotImplementedError

    def _usable(self, candidates, bench):
        """Those asked for and present, prepared; the others are remembered with the reason."""
        usable = []
        for peer in candidates:
            if peer.kind == PEER and peer.name not in self._chosen.peers:
                continue
            reason = peer.missing()
            if reason:
                self.skipped[peer.label] = reason
                continue
            peer.prepare(bench)
            usable.append(peer)
        return usable

    def _add_copies(self, bench, candidates, dataset, place, group=""):
        for peer in self._usable(candidates, bench):
            self.arms.append(Arm(
                group, peer.label, peer.kind, peer.protection,
                lambda n, peer=peer: measure_copy(bench, peer, dataset, place, n),
            ))

    def _copies_of_longhaul(self):
        binary = self._chosen.longhaul
        usual = [LonghaulCopy(binary, p) for p in PROTECTIONS]
        return usual + [LonghaulCopy(binary, p, io) for io in FALLBACKS for p in (CLEAR, PRIVATE)]

    def _describe(self, dataset):
        self.facts["files"] = len(dataset.files)
        self.facts["bytes"] = dataset.total_bytes


class Memory(Scenario):
    letter = "a"
    title = "memory to memory"

    def run(self, bench):
        settings = bench.settings
        kernel = bench.link.kernel_congestion
        self.facts["congestion"] = [NAMED_CONGESTION] + [kernel] * (kernel != NAMED_CONGESTION)
        candidates = peers.stream_peers()
        candidates += [LonghaulThroughput(self._chosen.longhaul, p) for p in PROTECTIONS]
        usable = self._usable(candidates, bench)
        for congestion in self.facts["congestion"]:
            named = congestion if congestion == NAMED_CONGESTION else None
            for streams in settings.streams:
                job = StreamJob(streams, named, settings.duration_s)
                for peer in usable:
                    self.arms.append(Arm(
                        stream_group(congestion, streams), peer.label, peer.kind, peer.protection,
                        lambda n, peer=peer, job=job: measure_stream(bench, peer, job, n),
                    ))
        # The file and its copy, and nothing else, live in memory.
        room_bytes = 2 * settings.memory_file_bytes + _SPARE_BYTES
        with closing(Tmpfs(bench.work / "memory", room_bytes)) as memory:
            dataset = one_file(memory.path / "source", settings.memory_file_bytes)
            place = HostDirectory(memory.path / "arrival", in_memory=True)
            self._add_copies(bench, peers.memory_copy_peers(), dataset, place, MEMORY_COPY_GROUP)
            run_rounds(self.arms, settings.rounds, self.letter)


class File(Scenario):
    letter = "b"

    @property
    def title(self):
        return f"one file of {binary_size(self._chosen.settings.file_bytes)}, disk to disk, durable"

    def run(self, bench):
        with bench.scratch("source") as source:
            dataset = one_file(source, bench.settings.file_bytes)
            self._describe(dataset)
            with closing(HostDirectory(bench.work / "arrival")) as place:
                if fio_missing():
                    self.skipped["fio (the limit)"] = fio_missing()
                else:
                    self.arms.append(fio_arm(bench, dataset, place))
                candidates = self._copies_of_longhaul() + peers.copy_peers()
                self._add_copies(bench, candidates, dataset, place)
                run_rounds(self.arms, bench.settings.rounds, self.letter)


class _Tree(Scenario):
    def run(self, bench):
        with bench.scratch("source") as source:
            dataset = self._make(source, bench.settings)
            self._describe(dataset)
            room_bytes = 3 * dataset.total_bytes // 2 + _SPARE_BYTES
            with closing(FreshFileSystem(bench.work, room_bytes)) as place:
                candidates = [local_tree(bench)] + self._copies_of_longhaul() + peers.copy_peers()
                self._add_copies(bench, candidates, dataset, place)
                run_rounds(self.arms, bench.settings.rounds, self.letter)


class SmallFiles(_Tree):
    letter = "c"

    @property
    def title(self):
        settings = self._chosen.settings
        low, high = (binary_size(size) for size in settings.small_sizes)
        return f"{settings.small_files:,} files of {low} to {high}"

    def _make(self, root, settings):
        return small_files(root, settings.small_files, *settings.small_sizes)


class MixedTree(_Tree):
    letter = "d"
    title = "a mixed tree"

    def _make(self, root, settings):
        return mixed_tree(root, settings.mixed)


SCENARIOS = {scenario.letter: scenario for scenario in (Memory, File, SmallFiles, MixedTree, SetPoint)}


def stream_group(congestion, streams):
    return f"{congestion} {streams}"
