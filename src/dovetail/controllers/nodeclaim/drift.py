"""Drift: sets Drifted on NodeClaims that differ from NodePool or node class.

The disruption controller replaces drifted nodes.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import write_claim_status
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, is_unchanged
from dovetail.core.conditions import clear_condition
from dovetail.core.nodeclaim.drift import get_instance_type_drift_reason, get_nodepool_drift_reason
from dovetail.core.nodeclaim.lifecycle import set_claim_condition
from dovetail.core.nodeclass.drift import DriftUnknownError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import DRIFTED, LAUNCHED
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import TRUE, is_true
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.cloudprovider import CloudError, InstanceNotFoundError
from dovetail.state.cluster.cache import ObjectChange
from dovetail.state.instancetypes.by_name import InstanceTypeIndex

_INTERVAL: Final = RequeueAfter(timedelta(minutes=5))
_MIN_AGE: Final = timedelta(hours=1)
"""A younger NodeClaim has a current instance type; an incomplete catalog is no drift."""
_TYPE_CHECK_INTERVAL: Final = timedelta(minutes=30)
"""An instance type that was offered is checked again after this time."""
_NODEPOOL_HASH_KEYS: Final = (label_keys.NODEPOOL_HASH, label_keys.NODEPOOL_HASH_VERSION)
_NODECLASS_HASH_KEYS: Final = (label_keys.EC2_NODE_CLASS_HASH, label_keys.EC2_NODE_CLASS_HASH_VERSION)


class DriftController(ControllerBase):
    """Sets and clears the Drifted condition of a NodeClaim."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._types = InstanceTypeIndex()
        context.cache.subscribe(NODE_POOLS, self._types.handle_nodepool)
        self._type_checked: dict[str, datetime] = {}
        """NodeClaim → when its instance type was last offered."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        # Observe.
        claim = self._cache.claim(name)
        if claim is None or claim.deleting:
            self._type_checked.pop(name, None)
            return None
        pool = self._cache.pool(claim.pool)
        if pool is None or not claim.node_class.is_supported:
            return None

        # Decide.
        try:
            reason = await self._get_reason(claim, pool)
        except (DriftUnknownError, CloudError) as error:
            # The condition stays. The nodeclass controller logs the cause once, instead of
            # once per NodeClaim.
            self._log.debug("drift is unknown", nodeclaim=name, error=str(error))
            return _INTERVAL
        after = _with_drifted(claim, reason, self._loop.now())

        # Act.
        if not await write_claim_status(self._kube, claim, after):
            return None

        # Report.
        if reason is not None and claim.conditions != after.conditions:
            self._log.debug("marking drifted", nodeclaim=name, reason=reason)
        elif reason is None and is_true(claim.conditions, DRIFTED):
            self._log.debug("removing drifted status condition", nodeclaim=name)
        return _INTERVAL if is_true(claim.conditions, LAUNCHED) else None

    async def _get_reason(self, claim: NodeClaim, pool: NodePool) -> str | None:
        """Return the first drift reason, cheap checks first; None if not drifted."""
        if not is_true(claim.conditions, LAUNCHED):
            return None
        return (
            get_nodepool_drift_reason(claim, pool)
            or self._get_type_drift_reason(claim, pool)
            or await self._get_nodeclass_drift_reason(claim)
        )

    def _get_type_drift_reason(self, claim: NodeClaim, pool: NodePool) -> str | None:
        now = self._loop.now()
        checked_at = self._type_checked.get(claim.name)
        is_young = claim.created is None or now - claim.created < _MIN_AGE
        if is_young or (checked_at is not None and now - checked_at < _TYPE_CHECK_INTERVAL):
            return None
        types = self._types.by_name(pool.name, self._cloud_provider.instance_types(pool))
        if not types:
            return None  # The catalog is not loaded yet.
        reason = get_instance_type_drift_reason(claim, types)
        if reason is None:
            self._type_checked[claim.name] = now
        return reason

    async def _get_nodeclass_drift_reason(self, claim: NodeClaim) -> str | None:
        if self._cache.node_class(claim.node_class.name) is None:
            return None
        try:
            return await self._cloud_provider.drift_reason(claim)
        except InstanceNotFoundError:
            return None  # Garbage collection deletes the NodeClaim.

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a NodeClaim when a field that drift depends on changes."""
        return () if is_unchanged(change, _get_claim_state) else (change.latest.name,)

    def handle_nodepool(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile all NodeClaims of a NodePool when its template changes."""
        if change.new is None or is_unchanged(change, _get_pool_state):
            return ()
        return [claim.name for claim in self._cache.claims_in(change.new.name)]

    def handle_nodeclass(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile all NodeClaims of a node class when it resolves differently."""
        if change.new is None or is_unchanged(change, _get_class_state):
            return ()
        return [
            claim.name
            for pool in self._cache.pools()
            if pool.template.node_class.name == change.new.name
            for claim in self._cache.claims_in(pool.name)
        ]


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = DriftController(context)
    return Controller(
        name="nodeclaim.drift",
        reconciler=reconciler,
        watches=[
            (NODE_CLAIMS, reconciler.handle_claim),
            (NODE_POOLS, reconciler.handle_nodepool),
            (EC2_NODE_CLASSES, reconciler.handle_nodeclass),
        ],
    )


def _with_drifted(claim: NodeClaim, reason: str | None, now: datetime) -> NodeClaim:
    if reason is not None:
        return set_claim_condition(claim, now, DRIFTED, TRUE, reason, reason)
    return msgspec.structs.replace(claim, conditions=clear_condition(claim.conditions, DRIFTED))


def _get_claim_state(claim: NodeClaim) -> tuple[object, ...]:
    """Return the fields that drift depends on."""
    return (
        *(claim.uid, claim.deleting, claim.labels, claim.annotations, claim.image_id, claim.provider_id),
        *(is_true(claim.conditions, condition_type) for condition_type in (LAUNCHED, DRIFTED)),
    )


def _get_pool_state(pool: NodePool) -> tuple[object, ...]:
    return (pool.template, *(pool.annotations.get(key) for key in _NODEPOOL_HASH_KEYS))


def _get_class_state(node_class: EC2NodeClass) -> tuple[object, ...]:
    """Return the fields that drift depends on.

    The order of subnets is excluded: it changes with their free addresses.
    """
    resolved = node_class.resolved
    return (
        frozenset(subnet.id for subnet in resolved.subnets),
        frozenset(resolved.security_group_ids),
        resolved.amis,
        frozenset(reservation.id for reservation in node_class.capacity_reservations),
        node_class.ready,
        *(node_class.annotations.get(key) for key in _NODECLASS_HASH_KEYS),
    )
