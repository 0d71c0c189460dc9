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
