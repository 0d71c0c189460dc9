"""EC2NodeClass controller: resolves selectors in AWS, sets status and readiness.

The finalizer keeps a deleted node class until no NodeClaim uses it, and until
its instance profile and launch templates are deleted.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.event_reasons import WAITING_ON_NODECLAIM_TERMINATION
from dovetail.controllers.runtime.manager import Controller, RequeueAfter, is_unchanged
from dovetail.core.nodeclass.readiness import compute_conditions
from dovetail.core.provisioning import format_names
from dovetail.model.karpenter.condition_types import (
    AMIS_READY,
    CAPACITY_RESERVATIONS_READY,
    INSTANCE_PROFILE_READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
)
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS
from dovetail.ports.cloudprovider import NodeClassStatus
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import NotFound
from dovetail.state.cluster.cache import ObjectChange

FINALIZER: Final = "karpenter.k8s.aws/termination"
_INTERVAL: Final = RequeueAfter(timedelta(minutes=1))
_UNKNOWN_RETRY: Final = RequeueAfter(timedelta(seconds=5))
"""After throttling or a connection error: without status, nothing can be launched."""
_DELETION_POLL: Final = RequeueAfter(timedelta(minutes=10))
_STATUS_FIELDS: Final = {
    SUBNETS_READY: "subnets",
    SECURITY_GROUPS_READY: "securityGroups",
    AMIS_READY: "amis",
    INSTANCE_PROFILE_READY: "instanceProfile",
    CAPACITY_RESERVATIONS_READY: "capacityReservations",
}
"""Condition → status field that it covers; an unknown condition keeps its field."""
_HASH_ANNOTATION: Final = "ec2nodeclass-hash"


class NodeClassController(ControllerBase):
    """Keeps the status of one node class, and its finalizer."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._reserved_capacity = context.scheduling_settings.reserved_capacity
        self._logged: dict[str, dict[str, tuple[str, str]]] = {}
        """Node class → problems that were logged, so that each is logged once."""
        self._settled: dict[str, tuple[Object, NodeClassStatus]] = {}
        """Node class → the object that already has the status of this resolution."""

    async def reconcile(self, name: str) -> RequeueAfter | None:
        node_class, raw = self._cache.node_class(name), self._cache.raw_node_class(name)
        if node_class is None or raw is None:
            self._logged.pop(name, None)
            self._settled.pop(name, None)
            return None
        try:
            if node_class.deleting:
                return await self._finalize(node_class, raw)
            return await self._resolve(node_class, raw)
        except NotFound:
            return None  # Deleted meanwhile.

    async def _resolve(self, node_class: EC2NodeClass, raw: Object) -> RequeueAfter:
        """Resolve the selectors, and write status and conditions."""
        if FINALIZER not in node_class.finalizers:
            await self._write_finalizers(node_class, [*node_class.finalizers, FINALIZER])

        # Observe. Resolution takes seconds: read the node class again after it.
        resolved = await self._cloud_provider.resolve_nodeclass(raw)
        current = self._cache.node_class(node_class.name)
        current_raw = self._cache.raw_node_class(node_class.name)
        if current is None or current_raw is None:
            return _INTERVAL
        settled = self._settled.get(node_class.name)
        if settled is not None and settled[0] is current_raw and settled[1] == resolved:
            return _INTERVAL

        # Decide.
        conditions = compute_conditions(
            current,
            self._loop.now(),
            problems=resolved.false_conditions,
            unknown=resolved.unknown_conditions,
            reserved_capacity=self._reserved_capacity,
        )
        status: dict[str, Any] = {
            field: resolved.status.get(field)
            for condition_type, field in _STATUS_FIELDS.items()
            if condition_type not in resolved.unknown_conditions
        }
        status["conditions"] = encode_conditions(conditions)
        previous = current_raw.get("status") or {}
        changed = {field: value for field, value in status.items() if previous.get(field) != value}

        # Report, then act: the write may fail.
        self._log_problems(current, resolved)
        self._settled.pop(node_class.name, None)
        if not changed and not resolved.unknown_conditions:
            self._settled[node_class.name] = (current_raw, resolved)
        elif changed:
            patch = {"metadata": {"resourceVersion": current.resource_version}, "status": changed}
            await self._kube.patch(EC2_NODE_CLASSES, node_class.name, patch, subresource="status")
        return _UNKNOWN_RETRY if resolved.unknown_conditions else _INTERVAL

    async def _finalize(self, node_class: EC2NodeClass, raw: Object) -> RequeueAfter | None:
        """Delete AWS resources and remove the finalizer once no NodeClaim is left."""
        if FINALIZER not in node_class.finalizers:
            return None
        claims = sorted(
            claim.name
            for claim in self._cache.claims()
            if claim.node_class.is_supported and claim.node_class.name == node_class.name
        )
        if claims:
            message = f"Waiting on NodeClaim termination for {format_names(claims)}"
            self._events.publish(
                node_class, WAITING_ON_NODECLAIM_TERMINATION, message, dedupe_key=(node_class.name,)
            )
            return _DELETION_POLL
        await self._cloud_provider.delete_nodeclass_resources(raw)
        remaining = [finalizer for finalizer in node_class.finalizers if finalizer != FINALIZER]
        await self._write_finalizers(node_class, remaining)
        return None

    async def _write_finalizers(self, node_class: EC2NodeClass, finalizers: list[str]) -> None:
        metadata = {"resourceVersion": node_class.resource_version, "finalizers": finalizers or None}
        await self._kube.patch(EC2_NODE_CLASSES, node_class.name, {"metadata": metadata})

    def _log_problems(self, node_class: EC2NodeClass, resolved: NodeClassStatus) -> None:
        """Log new problems, one line per cause: expired credentials fail every call."""
        problems = {**resolved.unknown_conditions, **resolved.false_conditions}
        logged = self._logged.get(node_class.name, {})
        types_by_cause: dict[str, list[str]] = {}
        for condition_type, problem in sorted(problems.items()):
            if logged.get(condition_type) != problem:
                types_by_cause.setdefault(_get_cause(problem[1]), []).append(condition_type)
        for condition_types in types_by_cause.values():
            reason, message = problems[condition_types[0]]
            self._log.error(
                "failed resolving nodeclass",
                nodeclass=node_class.name,
                condition=", ".join(condition_types),
                reason=reason,
                error=message,
            )
        self._logged[node_class.name] = problems

    def handle_nodeclass(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a node class unless only its status changed."""
        return () if is_unchanged(change, _get_state) else (change.latest.name,)

    def handle_claim(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile a deleted node class when one of its NodeClaims is gone."""
        if change.new is not None or not change.old.node_class.is_supported:
            return ()
        node_class = self._cache.node_class(change.old.node_class.name)
        return (node_class.name,) if node_class is not None and node_class.deleting else ()


def controller(context: ControllerContext) -> Controller:
    """Return the registration of this controller."""
    reconciler = NodeClassController(context)
    return Controller(
        name="nodeclass",
        reconciler=reconciler,
        watches=[(EC2_NODE_CLASSES, reconciler.handle_nodeclass), (NODE_CLAIMS, reconciler.handle_claim)],
        workers=10,
    )


def _get_cause(message: str) -> str:
    """Return an AWS error without the name of the call that failed."""
    call, _, cause = message.partition(": ")
    return cause if cause and " " not in call else message


def _get_state(node_class: EC2NodeClass) -> tuple[object, ...]:
    """Return the fields to resolve again for; users may set an annotation to force it."""
    annotations = {key: value for key, value in node_class.annotations.items() if _HASH_ANNOTATION not in key}
    return node_class.uid, node_class.generation, node_class.deleting, annotations
