"""Launch: one instance per NodeClaim, never two."""

from datetime import timedelta
from typing import Final

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import BURSTABLE_INSTANCE_TYPE, INSUFFICIENT_CAPACITY
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim
from dovetail.core.nodeclaim.lifecycle import LaunchResult, UnmetCondition, is_unlaunched, truncate_message
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import (
    CreateError,
    Instance,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)

_CACHE_TTL: Final = timedelta(hours=1)


class LaunchFailure(msgspec.Struct, frozen=True):
    """The launch failed and is retried: the condition to set, and the error to raise."""

    condition: UnmetCondition
    error: DovetailError


class NodeClaimDeleted(msgspec.Struct, frozen=True):
    """The launch failed, and a retry cannot succeed: the NodeClaim was deleted."""


class Launcher(ControllerBase):
    """Launches instances, and caches those whose NodeClaim has no provider ID yet.

    The cache saves a call if the status write fails. Without it, the cloud
    provider would return the same instance for the same NodeClaim.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._launched: dict[str, Instance] = {}
        """NodeClaim UID → instance, in launch order."""

    async def launch(self, claim: NodeClaim) -> LaunchResult | LaunchFailure | NodeClaimDeleted | None:
        """Return the new instance of a NodeClaim, None if it was launched before."""
        if not is_unlaunched(claim):
            self.forget(claim)
            return None
        instance = self._launched.get(claim.uid)
        if instance is None:
            try:
                instance = await self._cloud_provider.create(claim)
            except InsufficientCapacityError as error:
                message = f"NodeClaim {claim.name} event: {truncate_message(str(error))}"
                self._events.publish(claim, INSUFFICIENT_CAPACITY, message, dedupe_key=(claim.name,))
                return await self._delete(claim, "insufficient_capacity", error)
            except NodeClassNotReadyError as error:
                return await self._delete(claim, "nodeclass_not_ready", error)
            except DovetailError as error:
                reason = error.reason if isinstance(error, CreateError) else "LaunchFailed"
                return LaunchFailure(UnmetCondition(reason, truncate_message(str(error))), error)
            self._remember(claim.uid, instance)
            self._report_burstable(claim, instance)
        return LaunchResult(
            provider_id=instance.provider_id,
            image_id=instance.image_id,
            labels=instance.labels,
            annotations=instance.annotations,
            capacity=instance.capacity,
            allocatable=instance.allocatable,
        )

    def _report_burstable(self, claim: NodeClaim, instance: Instance) -> None:
        """Report the CPU that a burstable instance includes, and what more of it means."""
        pool, name = self._cache.pool(claim.pool), instance.labels.get(label_keys.INSTANCE_TYPE, "")
        types = self._cloud_provider.instance_types(pool) if pool is not None else ()
        instance_type = next((known for known in types if known.name == name), None)
        if instance_type is None or instance_type.cpu_credits is None:
            return
        description = instance_type.cpu_credits.describe([instance_type.expected_cpu(claim.requests)])
        self._log.info(
            "launched burstable instance type",
            nodeclaim=claim.name,
            instance_type=name,
            cpu_credits=description,
        )
        message = f"NodeClaim {claim.name} event: {name} is {description}"
        self._events.publish(claim, BURSTABLE_INSTANCE_TYPE, message, dedupe_key=(claim.name,))

    def get_provider_id(self, claim: NodeClaim) -> str:
        """Return the instance of a NodeClaim, also before the status write; or empty."""
        instance = self._launched.get(claim.uid)
        return claim.provider_id or ("" if instance is None else instance.provider_id)

    def forget(self, claim: NodeClaim) -> None:
        """Remove a NodeClaim from the cache."""
        self._launched.pop(claim.uid, None)

    def _remember(self, uid: str, instance: Instance) -> None:
        expired = self._loop.now() - _CACHE_TTL
        for cached_uid, cached in list(self._launched.items()):
            if cached.launch_time is not None and cached.launch_time > expired:
                break
            del self._launched[cached_uid]
        self._launched[uid] = instance

    async def _delete(self, claim: NodeClaim, reason: str, error: DovetailError) -> NodeClaimDeleted:
        self._log.error("failed launching nodeclaim", nodeclaim=claim.name, error=str(error))
        await delete_nodeclaim(self._context, claim, reason)
        return NodeClaimDeleted()
