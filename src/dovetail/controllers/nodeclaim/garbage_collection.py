"""Clears up in both directions: claims without a machine, machines without a claim."""

from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Final

from dovetail.controllers.nodeclaim_deletion import retire
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue
from dovetail.core.nodeclaim.garbage_collection import Seen, abandoned, orphans
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.api_resources import NODES
from dovetail.ports.cloudprovider import Cloud, InstanceNotFound
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Mirror

_EVERY: Final = Requeue(after=timedelta(minutes=2))
_UNSYNCED: Final = Requeue(after=timedelta(seconds=1))


class ClaimGarbage:
    """Deletes registered claims whose machine the cloud no longer has."""

    def __init__(
        self, *, mirror: Mirror, kube: Kube, cloud: Cloud, loop: Loop, log: Log, metrics: Metrics
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._loop = loop
        self._log = log
        self._metrics = metrics

    async def reconcile(self, _: object) -> Requeue:
        if not self._mirror.synced():
            return _UNSYNCED
        # Claims first: a machine bought in between belongs to no claim that we look at.
        claims = tuple(self._mirror.claims())
        machines = await _machines(self._cloud)
        lost = abandoned(claims, machines, self._mirror.nodes_of)
        await _all(self._loop, [self._retire(claim) for claim in lost])
        return _EVERY

    async def _retire(self, claim: NodeClaim) -> None:
        if await retire(claim, "garbage_collected", kube=self._kube, metrics=self._metrics):
            self._log.debug(
                "garbage collecting nodeclaim",
                nodeclaim=claim.name,
                provider_id=claim.provider_id,
            )


class MachineGarbage:
    """Gives back machines that no claim speaks for, and deletes their nodes."""

    def __init__(self, *, mirror: Mirror, kube: Kube, cloud: Cloud, loop: Loop, log: Log) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._loop = loop
        self._log = log

    async def reconcile(self, _: object) -> Requeue:
        if not self._mirror.synced():
            return _UNSYNCED
        # Machines first: see ``orphans``.
        machines = await _machines(self._cloud)
        left_over = orphans(machines, self._mirror.claims(), self._loop.now())
        await _all(self._loop, [self._give_back(one) for one in left_over])
        return _EVERY

    async def _give_back(self, one: Seen) -> None:
        try:
            await self._cloud.delete(one.provider_id)
        except InstanceNotFound:
            return  # Gone meanwhile; its node goes with it.
        self._log.debug("garbage collected cloudprovider instance", provider_id=one.provider_id)
        for node in self._mirror.nodes_of(one.provider_id):
            try:
                await self._kube.delete(NODES, node.name, uid=node.uid)
            except NotFound:
                continue
            self._log.debug("garbage collected node", node=node.name)


async def _all(loop: Loop, works: Sequence[Awaitable[None]]) -> None:
    """Do all at once, and only then complain about those that failed."""
    for outcome in await loop.together(works):
        if isinstance(outcome, Exception):
            raise outcome


async def _machines(cloud: Cloud) -> list[Seen]:
    return [
        Seen(provider_id=one.provider_id, claim=one.claim, launched=one.launched)
        for one in await cloud.list()
        if not one.terminating
    ]


def claims_registration(
    *, mirror: Mirror, kube: Kube, cloud: Cloud, loop: Loop, log: Log, metrics: Metrics
) -> Registration:
    """Return the controller that deletes claims without a machine."""
    return Registration(
        name="nodeclaim.garbagecollection",
        controller=ClaimGarbage(
            mirror=mirror, kube=kube, cloud=cloud, loop=loop, log=log, metrics=metrics
        ),
        at_start=[SINGLETON],
        workers=1,
    )


def machines_registration(
    *, mirror: Mirror, kube: Kube, cloud: Cloud, loop: Loop, log: Log
) -> Registration:
    """Return the controller that gives back machines without a claim."""
    return Registration(
        name="instance.garbagecollection",
        controller=MachineGarbage(mirror=mirror, kube=kube, cloud=cloud, loop=loop, log=log),
        at_start=[SINGLETON],
        workers=1,
    )
