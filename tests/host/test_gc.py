"""Memory that goes back to the operating system."""

import ctypes
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc"
)
def test_freed_memory_between_blocks_in_use_is_returned() -> None:
    result = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    before, freed, trimmed = map(float, result.stdout.split())
    assert freed > before + 80
    assert trimmed < before + 20
