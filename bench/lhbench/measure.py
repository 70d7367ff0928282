"""One timed run of one program: server up, caches cold, clock, server down, copy checked."""

import time

from .dataset import differences
from .disk import drop_caches, sync_file_system
from .errors import ArmFailed
from .peers.base import CopyJob
from .sample import Meter
from .side import last_words, wait_sampling


def measure_stream(bench, peer, job, round_number):
    bench.link.use_congestion(None)
    sample, _ = _timed(bench, peer, job, round_number)
    return sample


def measure_copy(bench, peer, dataset, place, round_number):
    arrival = place.fresh(f"round-{round_number + 1}")
    bench.link.use_congestion(bench.congestion)
    sample, late_sync_s = _timed(bench, peer, CopyJob(dataset, arrival), round_number, place)
    if peer.durable:
        # What a program that says its data is durable had left to the kernel: should be nothing.
        sample.extra["late_sync_s"] = late_sync_s
    if not place.in_memory:
        drop_caches()  # so that the check reads the disk
    wrong = differences(dataset, arrival)
    if wrong:
        sample.wrong_copy = True
        sample.problem = f"WRONG COPY: {len(wrong)} differences, first: {wrong[0]}"
    return sample


def _timed(bench, peer, job, round_number, place=None):
    meter = Meter(*bench.sides)
    late_sync_s = None
    on_disk = place is not None and not place.in_memory
    try:
        peer.start_server(job)
        if on_disk:
            drop_caches()
        meter.start()
        _to_the_end(bench, peer.run_client(job), peer.label, peer.client_log())
        if on_disk and not peer.durable:
            _to_the_end(bench, bench.dest.spawn(["sync", "-f", job.arrival], "sync.log"), "sync", "sync.log")
        meter.stop()
        if on_disk and peer.durable:
            late_sync_s = _late_sync(job.arrival)
    finally:
        peer.stop()
    sample = meter.close(round_number)
    sample.moved_bytes, sample.seconds, sample.extra = peer.result(job, sample.seconds)
    if sample.moved_bytes <= 0 or sample.seconds <= 0:
        raise ArmFailed(f"{sample.moved_bytes} bytes in {sample.seconds} s")
    return sample, late_sync_s


def _to_the_end(bench, process, what, log):
    code = wait_sampling(process, bench.sides, bench.settings.arm_limit_s)
    if code != 0:
        raise ArmFailed(f"{what} ended with {code}: {last_words(bench.source.log_text(log))}")


def _late_sync(arrival):
    start = time.monotonic()
    sync_file_system(arrival)
    return round(time.monotonic() - start, 3)
