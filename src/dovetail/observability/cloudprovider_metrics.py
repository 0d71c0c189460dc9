"""A cloud that tells how long it took, and what it was asked in vain."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.cloudprovider import ClassStatus, Cloud, CreateFailed, Instance
from dovetail.ports.telemetry import Metrics

T = TypeVar("T")


class MeteredCloud:
    """``ports.cloudprovider.Cloud``, passed on to another."""

    def __init__(
        self, cloud: Cloud, *, metrics: Metrics, seconds: Callable[[], float], provider: str
    ) -> None:
        """``seconds`` counts from an arbitrary start and never goes back."""
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

    async def drift(self, claim: NodeClaim) -> str | None:
        return await self._timed("IsDrifted", self._cloud.drift(claim))

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return await self._timed("Resolve", self._cloud.resolve(node_class))

    async def forget(self, node_class: dict[str, Any]) -> None:
        await self._timed("Forget", self._cloud.forget(node_class))

    async def _timed(self, method: str, work: Awaitable[T]) -> T:
        since, labels = self._seconds(), {"method": method, "provider": self._provider}
        try:
            return await work
        except Exception as error:
            self._metrics.count(
                "karpenter_cloudprovider_errors_total", 1, error=_name(error), **labels
            )
            raise
        finally:
            took = self._seconds() - since
            self._metrics.observe("karpenter_cloudprovider_duration_seconds", took, **labels)


def _name(error: Exception) -> str:
    """Return one of few names: each is a series for ever."""
    return error.reason if isinstance(error, CreateFailed) else type(error).__name__
