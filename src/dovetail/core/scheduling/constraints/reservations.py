"""Capacity reservations and capacity blocks, with a limited number of slots.

A claim that uses a reservation is bound to it when it is opened. So slots are
counted exactly, and further pods use other capacity at once.
"""

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE, ClaimStateSpace
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import Offering
from dovetail.model.kube.requirements import Operator, Requirement, RequirementSpec

_NOT_RESERVED = Requirement.from_spec(
    RequirementSpec(label_keys.CAPACITY_TYPE, Operator.NOT_IN, (label_keys.RESERVED,))
)


class Reservations:
    """Remaining slots of each capacity reservation."""

    def __init__(self, space: ClaimStateSpace) -> None:
        self._space = space
        self._remaining: dict[str, int] = {}
        self._offerings: list[list[tuple[int, Offering]]] = [[] for _ in space.tables]
        self._reservation_by_state: dict[int, str] = {}
        for pool, table in enumerate(space.tables):
            for row, offering in table.reserved:
                slots = offering.reservation_capacity
                remaining = self._remaining.get(offering.reservation_id, slots)
                self._remaining[offering.reservation_id] = min(remaining, slots)
                self._offerings[pool].append((row, offering))

    def is_offered(self, pool: int) -> bool:
        """Return True if a NodePool has reservations with free slots at the start."""
        return bool(self._offerings[pool])

    def options(self, state: int) -> list[tuple[int, int]]:
        """Return (row, claim state bound to the reservation) for each usable one."""
        options = []
        for row, offering in self._offerings[self._space.states[state].pool]:
            if self._remaining[offering.reservation_id] > 0:
                bound_state = self._bind(state, row, offering)
                if bound_state != INFEASIBLE:
                    options.append((row, bound_state))
        return options

    def _bind(self, state: int, row: int, offering: Offering) -> int:
        """Return the claim state narrowed to one reservation and one type."""
        space = self._space
        name = space.tables[space.states[state].pool].rows[row].type.name
        for requirement in (
            Requirement.one_of(label_keys.CAPACITY_TYPE, label_keys.RESERVED),
            Requirement.one_of(label_keys.CAPACITY_RESERVATION_ID, offering.reservation_id),
            Requirement.one_of(label_keys.INSTANCE_TYPE, name),
        ):
            state = space.add_requirement(state, requirement)
        if state != INFEASIBLE:
            self._reservation_by_state[state] = offering.reservation_id
        return state

    def exclude_reserved(self, state: int) -> int:
        """Return the claim state without reserved capacity."""
        if not self._offerings[self._space.states[state].pool]:
            return state
        return self._space.add_requirement(state, _NOT_RESERVED)

    def max_claims(self, state: int) -> float:
        """Return how many claims may be opened in a claim state; may be infinite."""
        reservation_id = self._reservation_by_state.get(state)
        return float("inf") if reservation_id is None else self._remaining[reservation_id]

    def remaining_slots(self) -> dict[str, int]:
        """Return the remaining slots by reservation id, for ``restore``."""
        return dict(self._remaining)

    def restore(self, slots: dict[str, int]) -> None:
        self._remaining = dict(slots)

    def consume(self, state: int, slots: int) -> None:
        """Use slots of the reservation that a claim state is bound to, if any."""
        reservation_id = self._reservation_by_state.get(state)
        if reservation_id is not None:
            self._remaining[reservation_id] -= slots
