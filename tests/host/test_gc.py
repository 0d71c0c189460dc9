"""Memory that goes back to the operating system."""

import ctypes
import gc
import subprocess
import sys

import pytest

from dovetail.host.gc import FreedMemory

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
needs_glibc = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc"
)


@needs_glibc
def test_freed_memory_between_blocks_in_use_is_returned() -> None:
    result = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    before, freed, trimmed = map(float, result.stdout.split())
    assert freed > before + 80
    assert trimmed < before + 20


def test_full_collection_runs_only_after_many_objects_were_freed() -> None:
    runs = 0

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal runs
        runs += phase == "start" and info["generation"] == 2

    freed = FreedMemory()
    objects = [{number: str(number)} for number in range(sys.getallocatedblocks() // 2)]
    freed.release()
    gc.callbacks.append(count)
    try:
        del objects[len(objects) // 10 * 9 :]
        freed.release()
        after_few = runs
        objects.clear()
        freed.release()
        after_many = runs
        freed.release()
    finally:
        gc.callbacks.remove(count)

    assert (after_few, after_many, runs) == (0, 1, 1)
