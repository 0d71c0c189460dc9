"""Zonal shifts of ARC: read them, and leave instances in shifted zones alone."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from dovetail.aws.errors import AwsError
from dovetail.aws.session import AwsSession
from dovetail.errors import DovetailError
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.cloudprovider import CloudError, CloudProvider, Instance, InstanceTagger, NodeClassStatus
from dovetail.ports.event_loop import Clock
from dovetail.state.nodes.instances import InstanceCache


class ArcZonalShifts:
    """``ports.cloudprovider.ZonalShiftProvider`` with GetManagedResource.

    It caches the last response. ``zones`` is zone → zone id: zonal shifts name
    zone ids, everything else zone names.
    """

    def __init__(
        self, aws: AwsSession, *, cluster_arn: str, zones: Callable[[], Mapping[str, str]], clock: Clock
    ) -> None:
        self._aws = aws
        self._arn = cluster_arn
        self._zones = zones
        self._clock = clock
        self._shifted: frozenset[str] = frozenset()

    async def start(self) -> None:
        """Read the shifts once; raise if the cluster is not registered with ARC."""
        try:
            await self.list_shifted_zones()
        except AwsError as error:
            raise DovetailError(
                f"cannot read zonal shifts of {self._arn}: {error}; enable zonal shift"
                " for the cluster, or remove --enable-zonal-shift"
            ) from error

    def is_shifted(self, zone: str) -> bool:
        """Return True if a zone was shifted away from at the last read."""
        return zone in self._shifted

    async def list_shifted_zones(self) -> frozenset[str]:
        """Read the shifts and return the names of shifted zones."""
        client = self._aws.client("arc-zonal-shift")
        response = await self._aws.call(
            "GetManagedResource", lambda: client.get_managed_resource(resourceIdentifier=self._arn)
        )
        ids = set(shifted_zone_ids(response, now=self._clock.now()))
        self._shifted = frozenset(zone for zone, zone_id in self._zones().items() if zone_id in ids)
        return self._shifted


def shifted_zone_ids(response: Mapping[str, Any], *, now: datetime) -> Iterable[str]:
    """Yield the ids of zones with an applied zonal shift or autoshift.

    Shifts that have expired or are overridden by another do not count.
    """
    for shift in response.get("zonalShifts", ()):
        expiry = shift.get("expiryTime")
        if shift.get("appliedStatus") == "APPLIED" and (expiry is None or expiry > now):
            yield shift["awayFrom"]
    for shift in response.get("autoshifts", ()):
        if shift.get("appliedStatus") == "APPLIED":
            yield shift["awayFrom"]


class TaggingCloudProvider(CloudProvider, InstanceTagger, Protocol):
    """A cloud provider that can tag instances."""


class ZonalShiftCloudProvider:
    """``ports.cloudprovider.CloudProvider`` that wraps another.

    Instances in a shifted zone are returned from a cache and not changed: calls
    about them may hang, and an instance that EC2 omits may still be running.
    """

    def __init__(
        self, inner: TaggingCloudProvider, *, is_shifted: Callable[[str], bool], clock: Clock
    ) -> None:
        self._inner = inner
        self._is_shifted = is_shifted
        self._clock = clock
        self._cache = InstanceCache()

    async def create(self, claim: NodeClaim) -> Instance:
        instance = await self._inner.create(claim)
        self._cache.add(instance, now=self._clock.now())
        return instance

    async def delete(self, provider_id: str) -> None:
        self._require_unshifted(provider_id)
        await self._inner.delete(provider_id)

    async def get(self, provider_id: str) -> Instance:
        if not self._is_shifted(_zone_of(provider_id)):
            return await self._inner.get(provider_id)
        cached = self._cache.get(provider_id)
        if cached is None:
            raise _shifted_error(provider_id)
        return cached

    async def list(self) -> Sequence[Instance]:
        listed = await self._inner.list()
        ids = {instance.provider_id for instance in listed}
        cached = [
            instance
            for instance in self._cache.all()
            if instance.provider_id not in ids and self._is_shifted(instance.zone)
        ]
        instances = [*listed, *cached]
        self._cache.replace_all(instances, now=self._clock.now())
        return instances

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self._inner.instance_types(pool)

    def forget_deleted_nodeclasses(self, node_classes: Collection[str]) -> None:
        self._inner.forget_deleted_nodeclasses(node_classes)

    async def drift_reason(self, claim: NodeClaim) -> str | None:
        self._require_unshifted(claim.provider_id)
        return await self._inner.drift_reason(claim)

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        return await self._inner.resolve_nodeclass(node_class)

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        await self._inner.delete_nodeclass_resources(node_class)

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        self._require_unshifted(provider_id)
        await self._inner.tag(provider_id, node=node, claim=claim)

    def _require_unshifted(self, provider_id: str) -> None:
        if self._is_shifted(_zone_of(provider_id)):
            raise _shifted_error(provider_id)


def _zone_of(provider_id: str) -> str:
    return provider_id.rpartition("/")[0].rpartition("/")[2]


def _shifted_error(provider_id: str) -> CloudError:
    zone = _zone_of(provider_id)
    return CloudError(f"{provider_id} is not changed while zone {zone} is shifted away from; it is retried")
