"""Memory that goes back to the operating system."""

import ctypes
import gc
import os
import subprocess
import sys

import pytest

from dovetail.host.gc import FreedMemory, ShortPauses

_PROGRAM = """
import os
from pathlib import Path

from dovetail.host.gc import trim_heap


def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


before = megabytes()
blocks = [bytes(1000 + number % 4000) for number in range(40_000)]
kept = blocks[::50]
del blocks
freed = megabytes()
trim_heap()
print(before, freed, megabytes())
"""
_THREADS = """
import re, sys, threading
from pathlib import Path

from dovetail.host.gc import use_one_heap

if sys.argv[1] == "one":
    use_one_heap()
barrier = threading.Barrier(8)
kept = []


def allocate():
    kept.extend(bytes(4000) for _ in range(1000))
    barrier.wait()


threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# A heap of a thread is reserved with 64 MiB, of which little is in use at first.
sizes = [int(end, 16) - int(start, 16) for start, end in re.findall(
    r"^([0-9a-f]+)-([0-9a-f]+) ---p 00000000 00:00 0", Path("/proc/self/maps").read_text(), re.MULTILINE
)]
print(sum(2**25 < size <= 2**26 for size in sizes))
"""
needs_glibc = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc"
)


@needs_glibc
def test_freed_memory_between_blocks_in_use_is_returned() -> None:
    result = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    before, freed, trimmed = map(float, result.stdout.split())
    assert freed > before + 80
    assert trimmed < before + 20


@needs_glibc
def test_threads_share_one_heap() -> None:
    def count_heaps(option: str) -> int:
        command = [sys.executable, "-c", _THREADS, option]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert count_heaps("default") > 0
    assert count_heaps("one") == 0


@pytest.mark.parametrize(("blocks", "collections"), [(900, 0), (760, 0), (740, 1)])
def test_full_collection_runs_only_after_many_objects_were_freed(blocks: int, collections: int) -> None:
    counts = iter([1000, blocks, blocks])
    freed = FreedMemory(lambda: next(counts))
    runs = 0

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal runs
        runs += phase == "start" and info["generation"] == 2

    freed.release()
    gc.callbacks.append(count)
    try:
        freed.release()
        freed.release()  # Nothing more was freed.
    finally:
        gc.callbacks.remove(count)

    assert runs == collections


def test_short_pauses_collect_neither_all_objects_nor_those_that_existed() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    thresholds, collected = gc.get_threshold(), []

    def record(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collected.append(info["generation"])

    gc.callbacks.append(record)
    try:
        with ShortPauses() as pauses:
            pauses.exempt_existing()
            exempt = gc.get_freeze_count()
            kept = [Cycle() for _ in range(600_000)]
            automatic = set(collected)
            del kept
            pauses.collect()
            remaining = sum(isinstance(obj, Cycle) for obj in gc.get_objects())
    finally:
        gc.callbacks.remove(record)

    assert exempt > 0
    assert automatic == {0, 1}
    assert remaining == 0
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0


@needs_glibc
@pytest.mark.parametrize("allocator", ["pymalloc", "malloc"])
def test_allocated_memory_is_counted_with_either_allocator(allocator: str) -> None:
    program = """
from dovetail.host.gc import count_allocated

before = count_allocated()
kept = [str(number) for number in range(100_000)]
print(before, count_allocated())
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONMALLOC": allocator},
        capture_output=True,
        text=True,
        check=True,
    )

    before, after = map(int, result.stdout.split())
    assert before > 0
    assert after >= before + 90_000
