"""The machine's own limits, measured as arms among the others: direct disk I/O and a local tree."""

import itertools
import json
import shutil
import subprocess
from pathlib import Path

from .arm import LIMIT, NONE, Arm
from .errors import ArmFailed
from .disk import drop_caches
from .peers.base import Peer
from .sample import Meter
from .side import last_words, wait_sampling

_LOCAL_TREE_SOURCE = Path(__file__).resolve().parents[1] / "local_tree.c"
_LOCAL_TREE_THREADS = 8
_FIO_BLOCKS = ("1M", "4M")
_FIO_FALLOCATE = ("none", "native")
_FIO_DEPTH = 8
FIO_LABEL = "limit: fio direct read + write"
LOCAL_TREE_LABEL = "limit: local read + write + rename"


def fio_arm(bench, dataset, place):
    """The best of four ways to read the file and write another of its size at the same time."""
    return Arm("", FIO_LABEL, LIMIT, NONE, lambda n: _best_of_fio(bench, dataset, place, n))


def fio_missing():
    return None if shutil.which("fio") else "fio not found: apt-get install fio"


def local_tree(bench):
    """Compiles the baseline; a peer like any other, but without a server or a network."""
    program = bench.work / "local_tree"
    subprocess.run(["cc", "-O2", "-pthread", "-o", program, _LOCAL_TREE_SOURCE], check=True)
    return _LocalTree(program)


class _LocalTree(Peer):
    name = "local"
    label = LOCAL_TREE_LABEL
    kind = LIMIT
    protection = NONE
    durable = True  # by its own syncfs

    def __init__(self, program):
        self._program = program

    def start_server(self, job):
        pass

    def run_client(self, job):
        argv = [self._program, job.dataset.root, job.arrival, _LOCAL_TREE_THREADS]
        return self.bench.dest.spawn(argv, self.client_log())


def _best_of_fio(bench, dataset, place, round_number):
    samples = [
        _fio(bench, dataset, place, round_number, block, fallocate)
        for block, fallocate in itertools.product(_FIO_BLOCKS, _FIO_FALLOCATE)
    ]
    best = max(samples, key=lambda sample: sample.rate_bps)
    best.extra["all"] = [{**sample.extra["fio"], "rate_bps": sample.rate_bps} for sample in samples]
    return best


def _fio(bench, dataset, place, round_number, block, fallocate):
    arrival = place.fresh(f"fio-{round_number + 1}")
    size_bytes = dataset.total_bytes
    common = [f"--bs={block}", "--direct=1", "--ioengine=libaio", f"--iodepth={_FIO_DEPTH}",
              f"--size={size_bytes}"]
    argv = ["fio", "--output-format=json", "--thread"]
    argv += ["--name=read", f"--filename={dataset.single}", "--rw=read", *common]
    argv += ["--name=write", f"--filename={arrival}/fio.bin", "--rw=write", "--end_fsync=1",
             f"--fallocate={fallocate}", *common]
    log = "fio.log"
    drop_caches()
    meter = Meter(*bench.sides)
    meter.start()
    try:
        code = wait_sampling(bench.dest.spawn(argv, log), bench.sides, bench.settings.arm_limit_s)
        meter.stop()
    finally:
        bench.dest.stop(None)
    text = bench.dest.log_text(log)
    if code != 0:
        raise ArmFailed(f"fio ended with {code}: {last_words(text)}")
    sample = meter.close(round_number)
    sample.moved_bytes = size_bytes
    sample.seconds = _slower_job_s(text)
    sample.extra["fio"] = {"block": block, "fallocate": fallocate}
    return sample


def _slower_job_s(text):
    """Run time of the job that ended last, end_fsync included, fio's own start excluded."""
    try:
        report = json.loads(text[text.index("{"):])
        read, write = report["jobs"]
        return max(read["read"]["runtime"], write["write"]["runtime"]) / 1000
    except (ValueError, KeyError) as error:
        raise ArmFailed(f"fio's report is not as expected: {error!r}") from error
