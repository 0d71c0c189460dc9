"""Says of claims whether their pool and class would still make them as they are."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.codec.patches.nodeclaims import status_patch
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.conditions import cleared
from dovetail.core.nodeclaim.drift import DRIFTED, pool_drift, type_drift
from dovetail.core.nodeclaim.lifecycle import LAUNCHED, stated
from dovetail.core.nodeclass.drift import DriftUnknown
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.cloudprovider import Cloud, CloudError, InstanceNotFound
from dovetail.ports.event_loop import Clock, Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.instancetypes.by_name import TypesByName

_LOOK_AGAIN: Final = Requeue(after=timedelta(minutes=5))
_SETTLING: Final = timedelta(hours=1)
"""What was bought a moment ago is sold: catalogues that come in parts are no drift."""
_TYPES_STAY: Final = timedelta(minutes=30)
"""For so long a type that was found is not looked for again."""
_POOL_STAMPS: Final = (label_keys.NODEPOOL_HASH, label_keys.NODEPOOL_HASH_VERSION)
_CLASS_STAMPS: Final = (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)


class Drift:
    """Sets and clears the condition. Acting on it is another's business."""

    def __init__(self, *, mirror: Mirror, kube: Kube, cloud: Cloud, clock: Clock, log: Log) -> None:
        self._mirror = mirror
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._log = log
        self._types = TypesByName()
        self._found: dict[str, datetime] = {}
        """Claim → when its type was last found in the catalogue."""

    async def reconcile(self, name: str) -> Requeue | None:
        # Observe.
        claim = self._mirror.claim(name)
        if claim is None or claim.deleting:
            self._found.pop(name, None)
            return None
        pool = self._mirror.pool(claim.pool)
        if pool is None or not claim.node_class.supported:
            return None

        # Decide.
        try:
            reason = await self._reason(claim, pool)
        except (DriftUnknown, CloudError) as error:
            # As it was. Whose fault it is, is told where classes are looked up: once, not by
            # every claim.
            self._log.debug("drift cannot be told", nodeclaim=name, error=str(error))
            return _LOOK_AGAIN
        after = _with(claim, reason, self._clock.now())

        # Act.
        patch = status_patch(claim, after)
        if patch:
            try:
                await self._kube.patch(NODE_CLAIMS, name, patch, subresource="status")
            except NotFound:
                return None
            self._tell(claim, reason)
        return _LOOK_AGAIN if is_true(claim.conditions, LAUNCHED) else None

    async def _reason(self, claim: NodeClaim, pool: NodePool) -> str | None:
        """Return the first reason that holds; the cheapest to find out come first."""
        if not is_true(claim.conditions, LAUNCHED):
            return None
        return (
            pool_drift(claim, pool)
            or self._type_drift(claim, pool)
            or await self._class_drift(claim)
        )

    def _type_drift(self, claim: NodeClaim, pool: NodePool) -> str | None:
        now = self._clock.now()
        found = self._found.get(claim.name)
        is_young = claim.created is None or now - claim.created < _SETTLING
        if is_young or (found is not None and now - found < _TYPES_STAY):
            return None
        types = self._types.of(pool.name, self._cloud.instance_types(pool))
        if not types:
            return None  # Nothing is known, which says nothing of this one.
        reason = type_drift(claim, types)
        if reason is None:
            self._found[claim.name] = now
        return reason

    async def _class_drift(self, claim: NodeClaim) -> str | None:
        if self._mirror.node_class(claim.node_class.name) is None:
            return None
        try:
            return await self._cloud.drift(claim)
        except InstanceNotFound:
            return None  # Then it will be collected.

    def _tell(self, before: NodeClaim, reason: str | None) -> None:
        if reason is not None:
            self._log.debug("marking drifted", nodeclaim=before.name, reason=reason)
        elif is_true(before.conditions, DRIFTED):
            self._log.debug("removing drifted status condition", nodeclaim=before.name)


def _with(claim: NodeClaim, reason: str | None, now: datetime) -> NodeClaim:
    if reason is not None:
        return stated(claim, now, DRIFTED, TRUE, reason, reason)
    return msgspec.structs.replace(claim, conditions=cleared(claim.conditions, DRIFTED))


def registration(*, mirror: Mirror, kube: Kube, cloud: Cloud, loop: Loop, log: Log) -> Registration:
    """Return the controller."""

    def claim_itself(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if old is not None and new is not None and _of_claim(old) == _of_claim(new):
            return ()
        return (change.either.name,)

    def claims_of_pool(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if new is None or (old is not None and _of_pool(old) == _of_pool(new)):
            return ()
        return [claim.name for claim in mirror.claims_in(new.name)]

    def claims_of_class(change: Change) -> Iterable[str]:
        old, new = change.old, change.new
        if new is None or (old is not None and _of_class(old) == _of_class(new)):
            return ()
        return [
            claim.name
            for pool in mirror.pools()
            if pool.template.node_class.name == new.name
            for claim in mirror.claims_in(pool.name)
        ]

    return Registration(
        name="nodeclaim.drift",
        controller=Drift(mirror=mirror, kube=kube, cloud=cloud, clock=loop, log=log),
        watches=[
            (NODE_CLAIMS, claim_itself),
            (NODE_POOLS, claims_of_pool),
            (EC2_NODE_CLASSES, claims_of_class),
        ],
    )


def _of_claim(claim: NodeClaim) -> tuple[object, ...]:
    """Return what drift depends on: most changes of a claim are of no interest."""
    return (
        claim.uid,
        claim.deleting,
        claim.labels,
        claim.annotations,
        claim.image_id,
        claim.provider_id,
        is_true(claim.conditions, LAUNCHED),
        is_true(claim.conditions, DRIFTED),
    )


def _of_pool(pool: NodePool) -> tuple[object, ...]:
    return (pool.template, *(pool.annotations.get(key) for key in _POOL_STAMPS))


def _of_class(node_class: NodeClass) -> tuple[object, ...]:
    """Leave out how subnets are ordered, which changes with every few addresses taken."""
    found = node_class.found
    return (
        frozenset(one.id for one in found.subnets),
        frozenset(found.security_groups),
        found.images,
        frozenset(one.id for one in node_class.reservations),
        node_class.ready,
        *(node_class.annotations.get(key) for key in _CLASS_STAMPS),
    )
