"""Leaks of every kind, and what the check of a soak finds of them.

``python -m tests.support.soak.leaks`` prints it as JSON. A test has its process for itself
that way: beside the objects of thousands of other tests, a leak of a month is nothing.
"""

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import chain

import numpy as np

from tests.support.soak.memory import MemorySample, find_leaks, measure_growth, sample_memory

MONTH = timedelta(days=30)
FREED = "freed"
"""Name of the run that frees what it allocates."""
LEAKS: dict[str, Callable[[int], object]] = {
    "lists": lambda number: [number],
    "strings": lambda number: f"pod-{number}",
    "instants": lambda number: timedelta(seconds=number),
    "arrays": lambda number: np.ones(256) if number % 10 == 0 else None,
    "large arrays": lambda number: np.ones(4_000) if number % 600 == 0 else None,
    "buffers": lambda number: bytearray(2_000) if number % 10 == 0 else None,
}
_SAMPLES = 13
"""Four of the first day, and three in each third of the others."""
_OBJECTS = 12_000
"""Of a day."""


def find_each_leak() -> dict[str, list[str]]:
    """Return the violations of a month with each leak, and of one without."""
    violations = {name: find_leaks(measure_growth(_leak(create), MONTH)) for name, create in LEAKS.items()}
    return {**violations, FREED: find_leaks(measure_growth(_allocate_and_free(), MONTH))}


def _leak(create: Callable[[int], object]) -> list[MemorySample]:
    leaked: list[object] = []
    samples = []
    for day in range(_SAMPLES):
        leaked += [create(number) for number in range(_OBJECTS)]
        samples.append(sample_memory(day))
    return samples


def _allocate_and_free() -> list[MemorySample]:
    samples = []
    for day in range(_SAMPLES):
        freed = list(chain.from_iterable(map(create, range(_OBJECTS)) for create in LEAKS.values()))
        freed.clear()
        samples.append(sample_memory(day))
    return samples


if __name__ == "__main__":
    sys.stdout.write(json.dumps(find_each_leak()))
