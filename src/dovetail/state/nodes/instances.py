"""Cache of instances, to save calls to the cloud API."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from dovetail.core.nodeclass.drift import InstanceFacts, get_nodeclass_drift_reason
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import Instance

_TTL: Final = timedelta(minutes=5)
"""Longer than the interval between two lists; security groups of an instance may change."""


class InstanceCache:
    """Instances by provider ID, from lists, lookups and launches; safe to lose."""

    def __init__(self) -> None:
        self._instances: dict[str, tuple[datetime, Instance]] = {}

    def replace_all(self, instances: Iterable[Instance], *, now: datetime) -> None:
        """Replace the cache by a list of all instances."""
        self._instances = {instance.provider_id: (now, instance) for instance in instances}

    def add(self, instance: Instance, *, now: datetime) -> None:
        """Add or update one instance."""
        self._instances[instance.provider_id] = (now, instance)

    def get(self, provider_id: str) -> Instance | None:
        """Return an instance, however old its entry is."""
        entry = self._instances.get(provider_id)
        return None if entry is None else entry[1]

    def all(self) -> list[Instance]:
        """Return all instances."""
        return [instance for _, instance in self._instances.values()]

    def get_fresh(self, provider_id: str, *, now: datetime) -> Instance | None:
        """Return an instance if its entry is not older than the TTL."""
        entry = self._instances.get(provider_id)
        return entry[1] if entry is not None and now - entry[0] < _TTL else None


def get_instance_drift(
    instance: Instance, claim: NodeClaim, node_class: EC2NodeClass, types: Mapping[str, InstanceType]
) -> str | None:
    """Return why a NodeClaim's instance has drifted from its node class, or None."""
    facts = InstanceFacts(
        subnet=instance.subnet_id,
        security_groups=frozenset(instance.security_group_ids),
        capacity_type=instance.capacity_type,
        reservation=instance.capacity_reservation_id,
    )
    return get_nodeclass_drift_reason(claim, node_class, facts, types)
