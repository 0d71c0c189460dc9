"""Keeps pools with a fixed number of nodes at that number."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import ClassVar, Final

from dovetail.codec.karpenter.nodeclaims import encode_node_claim
from dovetail.controllers.nodeclaim_deletion import retire
from dovetail.controllers.runtime.manager import Keys, Registration, Requeue, raise_first
from dovetail.core.nodepool.static import Tenant, granted, missing, standing, surplus
from dovetail.core.provisioning import claim_of_template, is_buyable
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, Resource
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Log, Metrics
from dovetail.state.cluster.cache import Change, Mirror

_AGAIN: Final = Requeue(after=timedelta(minutes=1))
_NO_ROOM: Final = Requeue(after=timedelta(seconds=30))
_UNSYNCED: Final = Requeue(after=timedelta(seconds=1))


def _pool_that_may_lack(change: Change) -> Iterable[str]:
    old, new = change.old, change.new
    if new is None or new.replicas is None:
        return ()
    if old is None or old.replicas != new.replicas or (is_buyable(new) and not is_buyable(old)):
        return (new.name,)
    return ()


def _pool_that_was_resized(change: Change) -> Iterable[str]:
    old, new = change.old, change.new
    if new is None or new.replicas is None or (old is not None and old.replicas == new.replicas):
        return ()
    return (new.name,)


def _pool_that_loses(change: Change) -> Iterable[str]:
    old, new = change.old, change.new
    begins = new is not None and new.deleting and old is not None and not old.deleting
    return (old.pool,) if old is not None and (new is None or begins) else ()


def _pool_that_gains(change: Change) -> Iterable[str]:
    return (change.new.pool,) if change.old is None else ()


class _Sizing(ABC):
    """What both controllers are made of. They are there only if static capacity is switched on."""

    NAME: ClassVar[str]
    WATCHES: ClassVar[Sequence[tuple[Resource, Keys]]]

    def __init__(
        self,
        *,
        mirror: Mirror,
        kube: Kube,
        loop: Loop,
        chance: Chance,
        log: Log,
        metrics: Metrics,
        gates: Gates,
    ) -> None:
        self._mirror = mirror
        self._kube = kube
        self._loop = loop
        self._chance = chance
        self._log = log
        self._metrics = metrics
        self._gates = gates

    def registration(self) -> Registration | None:
        """Have it told of what concerns it, if it is switched on."""
        if not self._gates.StaticCapacity:
            return None
        return Registration(name=self.NAME, controller=self, watches=self.WATCHES)

    @abstractmethod
    async def reconcile(self, name: str) -> Requeue | None: ...


class Filling(_Sizing):
    """Asks for the nodes that a static pool lacks."""

    NAME = "static.provisioning"
    WATCHES = ((NODE_POOLS, _pool_that_may_lack), (NODE_CLAIMS, _pool_that_loses))

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        pool = self._mirror.pool(name)
        if pool is None or pool.replicas is None or not is_buyable(pool):
            return None
        if not self._mirror.synced():
            return _UNSYNCED
        there = standing(self._mirror.claims_in(name))

        # Decide.
        lacking = missing(pool, there)
        if lacking <= 0:
            return _AGAIN
        count = granted(pool, there, lacking)
        if count == 0:
            self._log.info("nodepool has reached its limit", nodepool=name, nodes_missing=lacking)
            return _NO_ROOM

        # Act.
        raise_first(await self._loop.together([self._create(pool) for _ in range(count)]))
        return _AGAIN

    async def _create(self, pool: NodePool) -> None:
        claim = claim_of_template(pool, name=f"{pool.name}-{self._chance.letters(5)}")
        await self._kube.create(NODE_CLAIMS, encode_node_claim(claim))
        self._log.info("created nodeclaim", nodepool=pool.name, nodeclaim=claim.name)
        self._metrics.count(
            "karpenter_nodeclaims_created_total",
            reason="provisioned",
            nodepool=pool.name,
            min_values_relaxed="false",
        )


class Trimming(_Sizing):
    """Gives back the nodes that a static pool has too many."""

    NAME = "static.deprovisioning"
    WATCHES = ((NODE_POOLS, _pool_that_was_resized), (NODE_CLAIMS, _pool_that_gains))

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        pool = self._mirror.pool(name)
        if pool is None or pool.replicas is None or not pool.template.node_class.supported:
            return None
        tenants = [
            Tenant(claim, self._mirror.pods_on(claim.node_name))
            for claim in standing(self._mirror.claims_in(name)).active
        ]

        # Decide.
        going = surplus(pool, tenants, self._loop.now())

        # Act.
        raise_first(
            await self._loop.together(
                [
                    retire(one, "scaled_down", kube=self._kube, metrics=self._metrics)
                    for one in going
                ]
            )
        )

        # Tell.
        if going:
            self._log.info(
                "deleting surplus nodeclaim(s)",
                nodepool=name,
                nodeclaims=", ".join(one.name for one in going),
            )
        return _AGAIN
