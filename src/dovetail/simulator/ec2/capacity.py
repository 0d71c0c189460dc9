"""EC2 capacity: unlimited, except where a scenario limits it."""

from datetime import datetime
from fnmatch import fnmatchcase

import msgspec


class CapacityLimit(msgspec.Struct, kw_only=True):
    """Limit on capacity, by globs; shared by all pools that they match."""

    instance_type: str = "*"
    """``m5.large``, ``m5.*``, ``*.metal``."""
    zone: str = "*"
    capacity_type: str = "*"
    remaining: int = 0
    """Number of instances that can still be launched."""
    until: datetime | None = None
    """When the limit ends; None: never."""

    def matches(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        return (
            fnmatchcase(instance_type, self.instance_type)
            and fnmatchcase(zone, self.zone)
            and fnmatchcase(capacity_type, self.capacity_type)
        )


class CapacityPools:
    """Capacity pools, unlimited except for the limits."""

    def __init__(self) -> None:
        self._capacity_limits: list[CapacityLimit] = []
        self._allocations: dict[str, list[CapacityLimit]] = {}

    def add_limit(self, limit: CapacityLimit) -> None:
        """Limit new launches from now on; running instances are not affected."""
        self._capacity_limits.append(limit)

    def clear_limits(self) -> None:
        """Remove all limits."""
        self._capacity_limits.clear()

    def has_capacity(self, instance_type: str, zone: str, capacity_type: str, *, now: datetime) -> bool:
        limits = self._limits(instance_type, zone, capacity_type, now)
        return all(limit.remaining > 0 for limit in limits)

    def allocate(
        self, instance_id: str, instance_type: str, zone: str, capacity_type: str, *, now: datetime
    ) -> None:
        """Take the capacity for one instance."""
        limits = self._limits(instance_type, zone, capacity_type, now)
        for limit in limits:
            limit.remaining -= 1
        if limits:
            self._allocations[instance_id] = limits

    def release(self, instance_id: str) -> None:
        """Return the capacity of an instance to its pools."""
        for limit in self._allocations.pop(instance_id, ()):
            limit.remaining += 1

    def _limits(
        self, instance_type: str, zone: str, capacity_type: str, now: datetime
    ) -> list[CapacityLimit]:
        if any(limit.until is not None and limit.until <= now for limit in self._capacity_limits):
            self._capacity_limits = [
                limit for limit in self._capacity_limits if limit.until is None or limit.until > now
            ]
        return [limit for limit in self._capacity_limits if limit.matches(instance_type, zone, capacity_type)]
