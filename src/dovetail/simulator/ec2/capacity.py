"""How many machines EC2 has left of what."""

from datetime import datetime
from fnmatch import fnmatchcase

import msgspec


class Shortage(msgspec.Struct, kw_only=True):
    """Capacity that is limited: by glob, shared by all pools that it matches."""

    instance_type: str = "*"
    """``m5.large``, ``m5.*``, ``*.metal``."""
    zone: str = "*"
    capacity_type: str = "*"
    left: int = 0
    """How many more can be had."""
    until: datetime | None = None
    """When there is plenty again; None: never."""

    def concerns(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and fnmatchcase(capacity_type, self.capacity_type)
        )


class Stock:
    """Plenty of everything, but for the shortages."""

    def __init__(self) -> None:
        self._shortages: list[Shortage] = []
        self._taken: dict[str, list[Shortage]] = {}

    def run_short(self, shortage: Shortage) -> None:
        """Limit what can be had from now on; instances that run are not touched."""
        self._shortages.append(shortage)

    def plenty(self) -> None:
        """End all shortages."""
        self._shortages.clear()

    def has(self, instance_type: str, zone: str, capacity_type: str, *, now: datetime) -> bool:
        limits = self._limits(instance_type, zone, capacity_type, now)
        return all(one.left > 0 for one in limits)

    def take(
        self, instance_id: str, instance_type: str, zone: str, capacity_type: str, *, now: datetime
    ) -> None:
        """Hand out one machine."""
        limits = self._limits(instance_type, zone, capacity_type, now)
        for one in limits:
            one.left -= 1
        if limits:
            self._taken[instance_id] = limits

    def give_back(self, instance_id: str) -> None:
        """Take a machine back: someone else can have it."""
        for one in self._taken.pop(instance_id, ()):
            one.left += 1

    def _limits(
        self, instance_type: str, zone: str, capacity_type: str, now: datetime
    ) -> list[Shortage]:
        if any(one.until is not None and one.until <= now for one in self._shortages):
            self._shortages = [
                one for one in self._shortages if one.until is None or one.until > now
            ]
        return [one for one in self._shortages if one.concerns(instance_type, zone, capacity_type)]
