"""Metrics of cloud provider calls: durations and errors."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.cloudprovider import CloudProvider, CreateError, Instance, NodeClassStatus
from dovetail.ports.metrics import (
    CLOUDPROVIDER_DURATION,
    CLOUDPROVIDER_ERRORS,
    MethodErrorLabels,
    MethodLabels,
)
from dovetail.ports.telemetry import Metrics

T = TypeVar("T")


class MeteredCloudProvider:
    """``ports.cloudprovider.CloudProvider`` that measures another one."""

    def __init__(
        self, cloud: CloudProvider, *, metrics: Metrics, seconds: Callable[[], float], provider: str
    ) -> None:
        """``seconds`` is a monotonic clock."""
        self._cloud = cloud
        self._metrics = metrics
        self._seconds = seconds
        self._provider = provider

    async def create(self, claim: NodeClaim) -> Instance:
        return await self._timed("Create", self._cloud.create(claim))

    async def delete(self, provider_id: str) -> None:
        await self._timed("Delete", self._cloud.delete(provider_id))

    async def get(self, provider_id: str) -> Instance:
        return await self._timed("Get", self._cloud.get(provider_id))

    async def list(self) -> Sequence[Instance]:
        return await self._timed("List", self._cloud.list())

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self._cloud.instance_types(pool)

    def forget_deleted_nodeclasses(self, node_classes: Collection[str]) -> None:
        self._cloud.forget_deleted_nodeclasses(node_classes)

    async def drift_reason(self, claim: NodeClaim) -> str | None:
        return await self._timed("IsDrifted", self._cloud.drift_reason(claim))

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        return await self._timed("Resolve", self._cloud.resolve_nodeclass(node_class))

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        await self._timed("Forget", self._cloud.delete_nodeclass_resources(node_class))

    async def _timed(self, method: str, work: Awaitable[T]) -> T:
        since = self._seconds()
        labels = MethodLabels(method=method, provider=self._provider)
        try:
            return await work
        except Exception as error:
            self._metrics.inc(
                CLOUDPROVIDER_ERRORS,
                MethodErrorLabels(method=method, provider=self._provider, error=_name(error)),
            )
            raise
        finally:
            took = self._seconds() - since
            self._metrics.observe(CLOUDPROVIDER_DURATION, took, labels)


def _name(error: Exception) -> str:
    """Return a bounded set of names: each value is a time series."""
    return error.reason if isinstance(error, CreateError) else type(error).__name__
