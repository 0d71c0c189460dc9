"""Garbage collection: NodeClaims without instance, and instances without NodeClaim."""

from datetime import timedelta
from typing import Final

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.nodeclaim_deletion import delete_nodeclaim
from dovetail.controllers.runtime.manager import SINGLETON, SYNC_POLL, Controller, RequeueAfter, raise_first
from dovetail.core.nodeclaim.garbage_collection import (
    RunningInstance,
    find_claims_without_instance,
    find_orphaned_instances,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODES
from dovetail.ports.cloudprovider import CloudProvider, InstanceNotFoundError
from dovetail.ports.kube_errors import NotFound

_INTERVAL: Final = RequeueAfter(timedelta(minutes=2))


class NodeClaimGarbageCollector(ControllerBase):
    """Deletes registered NodeClaims whose instance is gone."""

    async def reconcile(self, _: object) -> RequeueAfter:
        # Observe. NodeClaims first: an instance launched after that belongs to none of them.
        if not self._cache.has_synced():
            return SYNC_POLL
        claims = tuple(self._cache.claims())
        instances = await _list_running(self._cloud_provider)

        # Decide.
        garbage = find_claims_without_instance(claims, instances, self._cache.nodes_of)

        # Act and report.
        raise_first(await self._loop.gather([self._delete(claim) for claim in garbage]))
        return _INTERVAL

    async def _delete(self, claim: NodeClaim) -> None:
        if await delete_nodeclaim(self._context, claim, "garbage_collected"):
            self._log.debug(
                "garbage collecting nodeclaim", nodeclaim=claim.name, provider_id=claim.provider_id
            )


class InstanceGarbageCollector(ControllerBase):
    """Terminates instances without NodeClaim, and deletes their Nodes."""

    async def reconcile(self, _: object) -> RequeueAfter:
        # Observe. Instances first: see ``find_orphaned_instances``.
        if not self._cache.has_synced():
            return SYNC_POLL
        instances = await _list_running(self._cloud_provider)

        # Decide.
        orphans = find_orphaned_instances(instances, self._cache.claims(), self._loop.now())

        # Act and report.
        raise_first(await self._loop.gather([self._terminate(instance) for instance in orphans]))
        return _INTERVAL

    async def _terminate(self, instance: RunningInstance) -> None:
        try:
            await self._cloud_provider.delete(instance.provider_id)
        except InstanceNotFoundError:
            return  # Terminated meanwhile; the cloud controller manager deletes its Node.
        self._log.debug("garbage collected cloudprovider instance", provider_id=instance.provider_id)
        for node in self._cache.nodes_of(instance.provider_id):
            try:
                await self._kube.delete(NODES, node.name, uid=node.uid)
            except NotFound:
                continue
            self._log.debug("garbage collected node", node=node.name)


async def _list_running(cloud_provider: CloudProvider) -> list[RunningInstance]:
    return [
        RunningInstance(
            provider_id=instance.provider_id, claim=instance.nodeclaim, launched=instance.launch_time
        )
        for instance in await cloud_provider.list()
        if not instance.terminating
    ]


def nodeclaim_controller(context: ControllerContext) -> Controller:
    """Return the registration that deletes NodeClaims without instance."""
    reconciler = NodeClaimGarbageCollector(context)
    return Controller(
        name="nodeclaim.garbagecollection", reconciler=reconciler, initial_keys=[SINGLETON], workers=1
    )


def instance_controller(context: ControllerContext) -> Controller:
    """Return the registration that terminates instances without NodeClaim."""
    reconciler = InstanceGarbageCollector(context)
    return Controller(
        name="instance.garbagecollection", reconciler=reconciler, initial_keys=[SINGLETON], workers=1
    )
