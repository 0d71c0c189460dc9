"""A claim's way from wish to node, and back: launch, registration, initialization, the end."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from dovetail.codec.patches.nodeclaims import metadata_patch, status_patch
from dovetail.controllers.nodeclaim.lifecycle.finalizer import Finalizer
from dovetail.controllers.nodeclaim.lifecycle.initialization import Initializer
from dovetail.controllers.nodeclaim.lifecycle.launch import GivenUp, Launcher, NotLaunched
from dovetail.controllers.nodeclaim.lifecycle.partition_hook import Partitions
from dovetail.controllers.nodeclaim.lifecycle.registration import Hook, Registrar
from dovetail.controllers.nodepool.registration_outcomes import PoolHealth
from dovetail.controllers.pod.nomination import Nominating
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.core.nodeclaim.lifecycle import (
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Bought,
    launched,
    refreshed,
    unmet,
)
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.cloudprovider import Cloud
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import Conflict, NotFound
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.nodes.launch_outcomes import LaunchOutcomes
from dovetail.state.pods.assignments import Promises

_NEWS_ARE_COMING: Final = Requeue(after=timedelta(milliseconds=100))
_BACKOFF: Final = Backoff(first=timedelta(seconds=1), most=timedelta(seconds=60))


class Lifecycle:
    """Moves one claim on, as far as the world allows."""

    def __init__(
        self,
        *,
        launcher: Launcher,
        registrar: Registrar,
        initializer: Initializer,
        finalizer: Finalizer,
        health: PoolHealth,
        mirror: Mirror,
        kube: Kube,
        loop: Loop,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._launcher = launcher
        self._registrar = registrar
        self._initializer = initializer
        self._finalizer = finalizer
        self._health = health
        self._mirror = mirror
        self._kube = kube
        self._loop = loop
        self._log = log
        self._metrics = metrics

    async def reconcile(self, name: str) -> Requeue | None:
        claim = self._mirror.claim(name)
        if claim is None or not claim.node_class.supported:
            return None
        try:
            if claim.deleting:
                return await self._finalizer.finalize(claim)
            return await self._move_on(claim)
        except Conflict:
            return _NEWS_ARE_COMING  # Somebody wrote in between.
        except NotFound:
            return None  # Claim or node went meanwhile, which is told.

    async def _move_on(self, claim: NodeClaim) -> Requeue | None:
        # The finalizer first: a claim that could vanish would leave its machine behind.
        await self._hold(claim)
        outcome = await self._launcher.launch(claim)
        # Launching takes seconds; what was read before it is old now.
        before = self._mirror.claim(claim.name)
        if before is None or before.uid != claim.uid or isinstance(outcome, GivenUp):
            return None

        # Each step goes on from what the last one says; one write at the end.
        error: DovetailError | None = None
        now = self._loop.now()
        if isinstance(outcome, Bought):
            after = launched(before, outcome, now)
        elif isinstance(outcome, NotLaunched):
            after, error = unmet(before, now, LAUNCHED, outcome.why), outcome.error
        else:
            after = refreshed(before, now, LAUNCHED)
        step = await self._registrar.register(after)
        after = await self._initializer.initialize(step.claim)
        if _came_true(REGISTERED, before, after):
            await self._health.registered(after)
        await self._write(before, after)

        self._tell(before, after)
        error = error or step.error
        if error is not None:
            raise error
        return None if step.again_in is None else Requeue(after=step.again_in)

    async def _hold(self, claim: NodeClaim) -> None:
        if label_keys.TERMINATION_FINALIZER in claim.finalizers:
            return
        meta = {
            "resourceVersion": claim.resource_version,
            "finalizers": [*claim.finalizers, label_keys.TERMINATION_FINALIZER],
        }
        await self._kube.patch(NODE_CLAIMS, claim.name, {"metadata": meta})

    async def _write(self, before: NodeClaim, after: NodeClaim) -> None:
        version = before.resource_version
        patch = metadata_patch(before, after)
        if patch:
            answer = await self._kube.patch(NODE_CLAIMS, before.name, patch)
            version = answer["metadata"]["resourceVersion"]
        patch = status_patch(before, after, version)
        if patch:
            await self._kube.patch(NODE_CLAIMS, before.name, patch, subresource="status")

    def _tell(self, before: NodeClaim, after: NodeClaim) -> None:
        if _came_true(LAUNCHED, before, after):
            self._log.info(
                "launched nodeclaim",
                nodeclaim=after.name,
                provider_id=after.provider_id,
                instance_type=after.labels.get(label_keys.INSTANCE_TYPE, ""),
                zone=after.labels.get(label_keys.ZONE, ""),
                capacity_type=after.labels.get(label_keys.CAPACITY_TYPE, ""),
                allocatable=after.allocatable.spelled(),
            )
        if _came_true(REGISTERED, before, after):
            self._log.info(
                "registered nodeclaim",
                nodeclaim=after.name,
                provider_id=after.provider_id,
                node=after.node_name,
            )
            zone = after.labels.get(label_keys.ZONE, "")
            self._metrics.count("karpenter_nodes_created_total", nodepool=after.pool, zone=zone)
        if _came_true(INITIALIZED, before, after):
            self._log.info(
                "initialized nodeclaim",
                nodeclaim=after.name,
                provider_id=after.provider_id,
                node=after.node_name,
                allocatable=after.allocatable.spelled(),
            )


def _came_true(kind: str, before: NodeClaim, after: NodeClaim) -> bool:
    return is_true(after.conditions, kind) and not is_true(before.conditions, kind)


def _claim_itself(change: Change) -> Iterable[str]:
    """Name a claim when others changed it.

    Its finalizer and status come from here. To look again because of them would
    ask the cloud the same thing twice in a row.
    """
    if change.old is None or change.new is None:
        return (change.either.name,)
    before, after = (_stirring(one) for one in (change.old, change.new))
    return (change.new.name,) if before != after else ()


def _stirring(claim: NodeClaim) -> tuple[object, ...]:
    return claim.uid, claim.generation, claim.deleting


def registration(
    *,
    mirror: Mirror,
    kube: Kube,
    cloud: Cloud,
    loop: Loop,
    outcomes: LaunchOutcomes,
    log: Log,
    events: Events,
    metrics: Metrics,
    promises: Promises,
    gates: Gates = Gates(),  # noqa: B008 - frozen
    hooks: Sequence[Hook] = (),
) -> Registration:
    """Return the controller with all its steps."""
    hooks = (*hooks, Partitions(cloud=cloud))
    nominating = Nominating(mirror=mirror, promises=promises, kube=kube, loop=loop, log=log)
    launcher = Launcher(cloud=cloud, kube=kube, clock=loop, log=log, events=events, metrics=metrics)
    controller = Lifecycle(
        launcher=launcher,
        registrar=Registrar(
            mirror=mirror,
            kube=kube,
            loop=loop,
            log=log,
            events=events,
            hooks=hooks,
            nominating=nominating if gates.NominatedNodeName else None,
        ),
        initializer=Initializer(mirror=mirror, kube=kube, clock=loop),
        finalizer=Finalizer(
            mirror=mirror,
            kube=kube,
            cloud=cloud,
            clock=loop,
            purchases=launcher,
            log=log,
            events=events,
            metrics=metrics,
        ),
        health=PoolHealth(mirror=mirror, kube=kube, clock=loop, outcomes=outcomes),
        mirror=mirror,
        kube=kube,
        loop=loop,
        log=log,
        metrics=metrics,
    )

    def claims_of_node(change: Change) -> Iterable[str]:
        machines = {one.provider_id for one in (change.old, change.new) if one is not None}
        return [claim.name for machine in sorted(machines) for claim in mirror.claims_of(machine)]

    return Registration(
        name="nodeclaim.lifecycle",
        controller=controller,
        watches=[
            (NODE_CLAIMS, _claim_itself),
            (NODES, claims_of_node),
        ],
        backoff=_BACKOFF,
        workers=1000,
    )
