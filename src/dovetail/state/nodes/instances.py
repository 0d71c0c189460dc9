"""Machines as the cloud last showed them, so that few questions need a call."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from dovetail.core.nodeclass.drift import Machine, class_drift
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import Instance

_FRESH: Final = timedelta(minutes=5)
"""Longer than between two listings, shorter than anybody minds: groups of a machine may change."""


class Sightings:
    """Remembers what was listed, found or bought lately; nothing is lost with it."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[datetime, Instance]] = {}

    def listed(self, machines: Iterable[Instance], *, now: datetime) -> None:
        """Take all that are there now; others are forgotten."""
        self._seen = {one.provider_id: (now, one) for one in machines}

    def saw(self, machine: Instance, *, now: datetime) -> None:
        """Take one more."""
        self._seen[machine.provider_id] = (now, machine)

    def ever(self, provider_id: str) -> Instance | None:
        """Return a machine as it was last seen, however long ago."""
        seen = self._seen.get(provider_id)
        return None if seen is None else seen[1]

    def all(self) -> list[Instance]:
        """Return all that were seen and not forgotten."""
        return [one for _, one in self._seen.values()]

    def recent(self, provider_id: str, *, now: datetime) -> Instance | None:
        """Return a machine that was seen within a few minutes."""
        seen = self._seen.get(provider_id)
        return seen[1] if seen is not None and now - seen[0] < _FRESH else None


def drift_of(
    seen: Instance, claim: NodeClaim, node_class: NodeClass, types: Mapping[str, InstanceType]
) -> str | None:
    """Return why a class would not launch a claim's machine as it was seen, or None."""
    machine = Machine(
        subnet=seen.subnet,
        security_groups=frozenset(seen.security_groups),
        capacity_type=seen.capacity_type,
        reservation=seen.reservation,
    )
    return class_drift(claim, node_class, machine, types)
