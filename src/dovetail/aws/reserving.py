"""Which of several capacity reservations to launch into."""

from collections.abc import Iterable, Sequence

from dovetail.core.machines.launching import Choice
from dovetail.model.nodeclass import CapacityReservation

_PLAIN, _BLOCK, _INTERRUPTIBLE = range(3)
"""In the order of preference."""


def of_one_kind(
    choices: Sequence[Choice], reservations: Iterable[CapacityReservation]
) -> tuple[Choice, ...]:
    """Return the reserved choices that one order can hold, cheapest first.

    EC2 launches into plain reservations, capacity blocks and interruptible ones
    by requests of different forms, so the kind that has the cheapest choice is
    kept; of equals the plain ones, then blocks. A block is one type in one place.
    Of several reservations for a type and zone the one with most room is kept.
    """
    kinds = {one.id: _kind(one) for one in reservations}
    known = [one for one in choices if one.offering.reservation_id in kinds]
    if not known:
        return tuple(choices)
    cheapest = min(known, key=lambda one: (one.offering.price, kinds[one.offering.reservation_id]))
    kind = kinds[cheapest.offering.reservation_id]
    if kind == _BLOCK:
        return (cheapest,)
    roomiest: dict[tuple[str, str], Choice] = {}
    for one in known:
        if kinds[one.offering.reservation_id] == kind:
            place = (one.instance_type.name, one.offering.zone)
            best = roomiest.setdefault(place, one)
            if one.offering.reservation_capacity > best.offering.reservation_capacity:
                roomiest[place] = one
    return tuple(roomiest.values())


def _kind(one: CapacityReservation) -> int:
    if one.kind == "capacity-block":
        return _BLOCK
    return _INTERRUPTIBLE if one.interruptible else _PLAIN
