"""Consolidation policy: which of the evaluated moves to take, and in which order.

A policy is a function of an ``Offer``. Each move of an offer is valid: its nodes may be
disrupted, all moves together are within the budgets, and each assumes those before it. A
policy can therefore only decline moves or change their order. ``check_choice`` rejects
anything else. Values are plain and immutable, so that they can be sent to another process.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec

from dovetail.errors import DovetailError

_MAX_ERROR: Final = 300
"""Characters of a plug-in's error message that are reported."""


class PolicyError(DovetailError):
    """A policy failed, or its answer is not a choice from the offered moves."""


class EvictedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that a move evicts."""

    namespace: str
    name: str
    owner: str = ""
    """``kind/name``; empty: none."""
    priority: int = 0
    eviction_cost: float = 1.0
    """1.0 for an ordinary pod; deletion cost and priority change it, from -10 to 10."""
    age: timedelta | None = None


class RemovedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a move deletes."""

    name: str
    nodepool: str
    instance_type: str = ""
    capacity_type: str = ""
    zone: str = ""
    cost: float = 0.0
    """USD per hour of the instance and its node cost; 0 if the price is unknown."""
    age: timedelta | None = None
    pods: tuple[EvictedPod, ...] = ()


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a move launches."""

    nodepool: str
    instance_type: str
    """The cheapest type that it may be launched as."""
    cost: float = 0.0
    """USD per hour of the instance and its node cost."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes to delete together, and the nodes to launch for their pods."""

    number: int
    """Its position in the offer."""
    nodes: tuple[RemovedNode, ...]
    replacements: tuple[NewNode, ...] = ()
    saving: float = 0.0
    """USD per hour."""
    disruption_cost: float = 1.0
    """1.0 for each node plus the eviction costs of its pods."""

    @property
    def pods(self) -> tuple[EvictedPod, ...]:
        """Pods that the move evicts."""
        return tuple(pod for node in self.nodes for pod in node.pods)

    @property
    def evictions(self) -> int:
        """Number of pods that the move evicts."""
        return sum(len(node.pods) for node in self.nodes)


class NodePoolState(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool of which moves remove nodes."""

    consolidation_policy: str
    """``WhenEmptyOrUnderutilized`` or ``Balanced``."""
    budget: int = 0
    """Nodes that its budgets allow to disrupt now; the offered moves are within it."""
    price: float = 0.0
    """USD per hour of all of its nodes."""
    disruption_cost: float = 0.0
    """Disruption cost of all of its nodes."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """Input of a policy: the moves of one consolidation pass."""

    now: datetime
    moves: tuple[Move, ...]
    """Highest saving per disruption cost first, as far as one does not depend on another."""
    nodepools: Mapping[str, NodePoolState] = {}
    """By name; those of the nodes that moves remove."""


Choose = Callable[[Offer], tuple[int, ...]]
"""Returns the numbers of the moves to take, in order; raises ``PolicyError``."""


class Search(StrEnum):
    """Way in which moves are found."""

    BEST = "best"
    """Highest saving per disruption cost: single nodes, sets and fleets."""
    KARPENTER = "karpenter"
    """As in Karpenter: the longest list of nodes with one replacement, else the first node."""


class Policy(msgspec.Struct, frozen=True):
    """A consolidation policy: finds moves, and chooses those to take."""

    name: str = "dovetail"
    search: Search = Search.BEST
    choose: Choose | None = None
    """None: every move is taken, in the order in which the search found them."""


DEFAULT_POLICY: Final = Policy()


def ask_policy(function: Callable[[Offer], Iterable[Move]], offer: Offer) -> tuple[int, ...]:
    """Call the function of a plug-in; raise ``PolicyError`` for whatever goes wrong."""
    try:
        # One more than offered is an error already; a generator may be endless.
        chosen = list(islice(function(offer), len(offer.moves) + 1))
    except Exception as error:
        described = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise PolicyError(f"it raised {described}"[:_MAX_ERROR]) from error
    for move in chosen:
        if not isinstance(move, Move) or move not in offer.moves:
            raise PolicyError(f"it returned {move!r}"[:_MAX_ERROR] + ", which is not an offered move")
    return check_choice([move.number for move in chosen], offer)


def check_choice(numbers: Iterable[int], offer: Offer) -> tuple[int, ...]:
    """Return the numbers if they are offered moves, each at most once; else raise ``PolicyError``."""
    chosen = tuple(numbers)
    for number in chosen:
        if not 0 <= number < len(offer.moves):
            raise PolicyError(f"it chose move {number} of {len(offer.moves)}")
    if len(set(chosen)) < len(chosen):
        raise PolicyError("it chose a move twice")
    return chosen
