"""Memory of a soak: what is allocated, and whether it grows."""

import gc
import resource
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from dovetail.host.gc import get_heap_bytes

MAX_GROWTH: Mapping[str, float] = {"objects": 1.10, "blocks": 1.10, "heap_mib": 1.10, "rss_mib": 1.25}
"""Least amount in the last third of the days, relative to the first third.

What is allocated must not grow. Resident memory follows the largest amount that was ever
allocated: Python returns an arena of 1 MiB to the operating system only once it is empty.
"""
MIN_DAYS = 15
"""In fewer days the loads of single days differ more than a leak would."""
_SAMPLES_OF_FIRST_DAY = 4


class MemorySample(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the process at a time of the run."""

    day: float
    objects: int
    """Objects that the garbage collector tracks, which depends on the seed only."""
    blocks: int
    """Blocks of Python's allocator in use: all objects, also those without references."""
    heap_mib: float
    """C heap in use: values of more than 512 bytes, and arrays."""
    rss_mib: float


def sample_memory(day: float) -> MemorySample:
    """Measure after a full collection."""
    gc.collect()
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return MemorySample(
        day=round(day, 2),
        objects=len(gc.get_objects()),
        blocks=sys.getallocatedblocks(),
        heap_mib=round(get_heap_bytes() / 2**20, 2),
        rss_mib=round(pages * resource.getpagesize() / 2**20, 1),
    )


def measure_growth(samples: Sequence[MemorySample], duration: timedelta) -> dict[str, float]:
    """Return how much each measure grew: least of the last third over the first.

    The first day does not count. All follow the number of pods; what is never freed
    remains when there are few. Empty if the run was too short.
    """
    if duration < timedelta(days=MIN_DAYS):
        return {}
    settled = samples[_SAMPLES_OF_FIRST_DAY:]
    third = len(settled) // 3
    return {
        name: round(_least(name, settled[-third:]) / _least(name, settled[:third]), 3) for name in MAX_GROWTH
    }


def find_leaks(growth: Mapping[str, float]) -> list[str]:
    """Return a text for each measure that grew too much."""
    return [f"{name} grew to {value:.0%}" for name, value in growth.items() if value > MAX_GROWTH[name]]


def _least(name: str, samples: Sequence[MemorySample]) -> float:
    return min(float(getattr(sample, name)) for sample in samples)
