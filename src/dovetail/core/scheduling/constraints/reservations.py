"""Capacity that is paid for already, handed out slot by slot.

A claim that uses a reservation is bound to it when it is opened, so slots are
counted exactly and pods beyond them fall back to other capacity at once.
"""

from dovetail.core.scheduling.arrays.claim_states import DEAD, StateSpace
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import Offering
from dovetail.model.kube.requirements import Operator, Requirement, RequirementSpec

_NOT_RESERVED = Requirement.of(
    RequirementSpec(label_keys.CAPACITY_TYPE, Operator.NOT_IN, (label_keys.RESERVED,))
)


class Reservations:
    """How many slots of each reservation are left."""

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._left: dict[str, int] = {}
        self._offered: list[list[tuple[int, Offering]]] = [[] for _ in space.pools]
        self._held: dict[int, str] = {}
        for pool, table in enumerate(space.pools):
            for row, offering in table.reserved:
                slots = offering.reservation_capacity
                known = self._left.get(offering.reservation_id, slots)
                self._left[offering.reservation_id] = min(known, slots)
                self._offered[pool].append((row, offering))

    def offered(self, pool: int) -> bool:
        return bool(self._offered[pool])

    def choices(self, state: int) -> list[tuple[int, int]]:
        """Return (row, state bound to the reservation) for each slot a claim could use."""
        found = []
        for row, offering in self._offered[self._space.states[state].pool]:
            if self._left[offering.reservation_id] > 0:
                bound = self._bind(state, row, offering)
                if bound != DEAD:
                    found.append((row, bound))
        return found

    def _bind(self, state: int, row: int, offering: Offering) -> int:
        space = self._space
        name = space.pools[space.states[state].pool].rows[row].type.name
        for one in (
            Requirement.one_of(label_keys.CAPACITY_TYPE, label_keys.RESERVED),
            Requirement.one_of(label_keys.CAPACITY_RESERVATION_ID, offering.reservation_id),
            Requirement.one_of(label_keys.INSTANCE_TYPE, name),
        ):
            state = space.restrict(state, one)
        if state != DEAD:
            self._held[state] = offering.reservation_id
        return state

    def without(self, state: int) -> int:
        """Return the state in which no reservation is used."""
        if not self._offered[self._space.states[state].pool]:
            return state
        return self._space.restrict(state, _NOT_RESERVED)

    def left(self, state: int) -> float:
        """Return how many claims may be opened in a state."""
        held = self._held.get(state)
        return float("inf") if held is None else self._left[held]

    def slots(self) -> dict[str, int]:
        """Return what is left of each reservation, to begin anew from."""
        return dict(self._left)

    def reopen(self, slots: dict[str, int]) -> None:
        self._left = dict(slots)

    def spend(self, state: int, slots: int) -> None:
        held = self._held.get(state)
        if held is not None:
            self._left[held] -= slots
