"""Design of a sweep: every combination of values, or a sample of them."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

from dovetail.errors import DovetailError
from dovetail.simulator.environment import SeededRandomSource

MAX_POINTS: Final = 5_000

Values = tuple[tuple[str, str], ...]
"""Key and value, in the order of the keys."""


def combine(varied: Mapping[str, Sequence[str]]) -> list[Values]:
    """Return every combination; raise ``DovetailError`` if there are too many."""
    count = prod(map(len, varied.values()))
    if count > MAX_POINTS:
        raise DovetailError(
            f"{count:,} combinations are more than {MAX_POINTS:,}; vary fewer values, or take --samples N"
        )
    return [tuple(zip(varied, chosen, strict=True)) for chosen in product(*varied.values())]


def sample(varied: Mapping[str, Sequence[str]], count: int, *, seed: int) -> list[Values]:
    """Return a Latin hypercube sample without repetitions.

    Equal seeds give equal samples. The values of each key are used equally often, give or take
    one, before repetitions are removed.
    """
    random = SeededRandomSource(seed)
    columns = []
    for values in varied.values():
        strata = [values[number * len(values) // count] for number in range(count)]
        if count < len(values):
            offset = random.random()
            strata = [values[int((number + offset) * len(values) / count)] for number in range(count)]
        columns.append(_shuffle(strata, random))
    points = [tuple(zip(varied, chosen, strict=True)) for chosen in zip(*columns, strict=True)]
    return list(dict.fromkeys(points))


def _shuffle(values: list[str], random: SeededRandomSource) -> list[str]:
    remaining = list(values)
    return [remaining.pop(int(random.random() * len(remaining))) for _ in values]
