"""Counts what the nodes of each pool have together, when something about them changes."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.controllers.nodepool.status import write_status
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.nodeclaim.lifecycle import INSTANCE_TERMINATING
from dovetail.core.nodepool.status import usage
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.resources import CPU
from dovetail.model.node import Node, NodeObject
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.telemetry import Metrics
from dovetail.state.cluster.cache import Change, Mirror

AT_MOST_EVERY: Final = timedelta(seconds=1)
_UNSYNCED: Final = Requeue(after=timedelta(seconds=1))


class Counting:
    """Keeps ``status.resources`` and ``status.nodes`` of pools.

    A thousand nodes that come at once are a thousand changes and a few counts.
    """

    def __init__(self, *, mirror: Mirror, kube: Kube, clock: Clock, metrics: Metrics) -> None:
        self._mirror = mirror
        self._kube = kube
        self._clock = clock
        self._metrics = metrics
        self._counted: dict[str, datetime] = {}

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        pool = self._mirror.pool(name)
        if pool is None or not pool.template.node_class.supported:
            self._counted.pop(name, None)
            return None
        if not self._mirror.synced():
            return _UNSYNCED
        now = self._clock.now()
        again_at = self._counted.get(name, now) + AT_MOST_EVERY
        if name in self._counted and now < again_at:
            return Requeue(after=again_at - now)
        self._counted[name] = now

        # Decide.
        used, count = usage(self._nodes(name))

        # Act.
        await write_status(
            self._kube, pool, msgspec.structs.replace(pool, used=used, node_count=count)
        )

        # Tell.
        for resource, amount in used.items():
            # Metrics count CPU in cores.
            told = amount / 1000 if resource == CPU else amount
            self._metrics.gauge(
                "karpenter_nodepools_usage", told, nodepool=name, resource_type=resource
            )
        return None

    def _nodes(self, pool: str) -> Iterable[Node]:
        for claim in self._mirror.claims_in(pool):
            node = self._mirror.joined(claim.provider_id) if claim.provider_id else None
            if node is not None:
                yield node


def registration(*, mirror: Mirror, kube: Kube, loop: Loop, metrics: Metrics) -> Registration:
    """Return the controller."""

    def pool_of_claim(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if old is not None and new is not None and _worth(old) == _worth(new):
            return ()
        pools = {one.pool for one in (old, new) if one is not None}
        return sorted(pools - {""})

    def pool_of_node(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if old is not None and new is not None and _size(old) == _size(new):
            return ()  # A heartbeat.
        machines = {one.provider_id for one in (old, new) if one is not None}
        claims = [claim for one in sorted(machines) for claim in mirror.claims_of(one)]
        return sorted({claim.pool for claim in claims} - {""})

    def new_pool(change: Change) -> Iterable[str]:
        return (change.either.name,) if change.old is None or change.new is None else ()

    return Registration(
        name="nodepool.counter",
        controller=Counting(mirror=mirror, kube=kube, clock=loop, metrics=metrics),
        watches=[
            (NODE_POOLS, new_pool),
            (NODE_CLAIMS, pool_of_claim),
            (NODES, pool_of_node),
        ],
    )


def _worth(claim: NodeClaim) -> tuple[object, ...]:
    """Return what of a claim changes a count."""
    terminating = is_true(claim.conditions, INSTANCE_TERMINATING)
    return claim.pool, claim.provider_id, claim.capacity, claim.deleting, terminating


def _size(node: NodeObject) -> tuple[object, ...]:
    """Return what of a node changes a count."""
    return node.provider_id, node.capacity, node.deleting, node.labels
