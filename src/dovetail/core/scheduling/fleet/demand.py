"""What a fleet is asked for, and what it is made of."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

DEFAULT_EFFORT = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods to house, as classes of equal pods, and the machine types for sale.

    Amounts are whole numbers below 2**53 held as float64, so that sums,
    differences and floored quotients are exact.
    """

    sizes: Floats
    """[K, R]: what one pod of each class requests."""
    counts: Ints
    """[K]: how many pods each class has."""
    alloc: Floats
    """[T, R]: what pods can have of a node of each type."""
    price: Floats
    """[T]: USD per hour of a node, whatever else a node costs included."""
    max_per_node: Ints | None = None
    """[K]: how many pods of a class may share a node; None: any number."""
    effort: int = DEFAULT_EFFORT
    """Rounds of improvement: a count, not a time, so that equal input gives equal output."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Nodes of one type that hold the same pods."""

    type_index: int
    counts: Ints
    """[K]: pods of each class on one node."""
    copies: int
