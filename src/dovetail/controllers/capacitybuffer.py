"""CapacityBuffer controller: virtual pods that reserve capacity, and the status."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.capacitybuffers import buffer_pods, capacitybuffer_status_patch
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import patch_if_exists
from dovetail.controllers.runtime.manager import Controller, is_unchanged
from dovetail.core.capacitybuffer import count_buffer_pods
from dovetail.core.conditions import CAPACITYBUFFER_CONDITIONS, ConditionOwner, set_condition
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer
from dovetail.model.karpenter.condition_types import READY_FOR_PROVISIONING
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DEPLOYMENTS,
    POD_TEMPLATES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import ApiError, NotFound
from dovetail.state.cluster.cache import ObjectChange

PROVISIONING: Final = "Provisioning"
_SCALABLE: Final = {resource.kind: resource for resource in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}


class _PodSource(msgspec.Struct, frozen=True):
    """The PodTemplate or workload that a buffer refers to."""

    resource: Resource
    namespace: str
    name: str


class _Resolved(msgspec.Struct, frozen=True):
    """Pod template and replicas that a buffer refers to."""

    source: _PodSource
    uid: str
    generation: int
    template: Mapping[str, Any]
    replicas: int = 1


class _Unresolved(msgspec.Struct, frozen=True):
    """Why a buffer's reference cannot be resolved."""

    reason: str
    message: str
    error: ApiError | None = None
    """Set if a retry may succeed."""


class CapacityBufferController(ControllerBase):
    """Reconciles one buffer when it, its pod template, or its place in the plan changes."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._capacity_buffers = context.capacity_buffers
        self._resolved: dict[str, _Resolved] = {}
        """Buffer → what it refers to, as last read."""

    def watch_plans(self, enqueue: Callable[[str], None]) -> None:
        """Source of keys: buffers whose pods fit since the last plan, or no longer fit."""
        self._capacity_buffers.subscribe_provisioned(enqueue)

    def handle_source(self, change: ObjectChange) -> Iterable[str]:
        """Reconcile the buffers that refer to a PodTemplate or workload that has changed."""
        if is_unchanged(change, lambda source: source.generation):
            return
        changed = _PodSource(change.resource, change.latest.namespace, change.latest.name)
        for buffer in self._cache.buffers():
            if _get_source(buffer) == changed:
                yield buffer.key

    async def reconcile(self, key: str) -> None:
        # Observe.
        buffer = self._cache.buffer(key)
        if buffer is None:
            self._resolved.pop(key, None)
            self._capacity_buffers.forget(key)
            return
        if buffer.deleting or buffer.strategy != ACTIVE_CAPACITY:
            self._capacity_buffers.remove(key)
            return
        resolved = await self._resolve(buffer)

        # Decide and act.
        if isinstance(resolved, _Unresolved):
            if resolved.error is None:
                # Otherwise the pods are as before: a failed request releases no nodes.
                self._capacity_buffers.remove(key)
            await self._write_status(buffer, None, resolved)
            if resolved.error is not None:
                raise resolved.error
            return
        (pod,) = buffer_pods(buffer, resolved.template, 1)
        count = count_buffer_pods(buffer, workload_pods=resolved.replicas, requests=pod.spec.requests)
        self._capacity_buffers.set_pods(key, tuple(buffer_pods(buffer, resolved.template, count)))
        await self._write_status(buffer, count, resolved)

    async def _resolve(self, buffer: CapacityBuffer) -> _Resolved | _Unresolved:
        """Return the workload or pod template that a buffer refers to."""
        source, ref = _get_source(buffer), buffer.scalable_ref
        if source is None:
            supported = ", ".join(f"apps/{kind}" for kind in sorted(_SCALABLE))
            return _Unresolved("ResolutionFailed", f"{ref} is not supported; use one of {supported}")
        known = self._resolved.get(buffer.key)
        if known is not None and known.source == source and self._is_current(known):
            return known
        try:
            obj = await self._kube.get(source.resource, source.name, source.namespace)
        except NotFound:
            missing = "PodTemplateNotFound" if ref is None else "ScalableRefNotFound"
            reference = f"{source.resource.kind} {source.namespace}/{source.name}"
            return _Unresolved(missing, f"{reference} not found")
        except ApiError as error:
            return _Unresolved("ResolutionFailed", str(error), error)
        meta, spec = obj["metadata"], obj if ref is None else obj["spec"]
        replicas = spec.get("replicas")
        resolved = _Resolved(
            source,
            meta["uid"],
            meta.get("generation", 0),
            spec["template"],
            1 if replicas is None else replicas,
        )
        self._resolved[buffer.key] = resolved
        return resolved

    def _is_current(self, resolved: _Resolved) -> bool:
        """Return True if the watch has reported no other version of an object."""
        source = resolved.source
        store = self._cache.stores[source.resource]
        cached = store.get(source.name, source.namespace)
        return (
            cached is not None
            and cached.generation == resolved.generation
            and store.uid(source.name, source.namespace) == resolved.uid
        )

    async def _write_status(
        self, buffer: CapacityBuffer, count: int | None, result: _Resolved | _Unresolved
    ) -> None:
        owner = ConditionOwner(
            condition_set=CAPACITYBUFFER_CONDITIONS, now=self._loop.now(), generation=buffer.generation
        )
        resolved = result if isinstance(result, _Resolved) else None
        if isinstance(result, _Unresolved):
            status, reason, message = FALSE, result.reason, result.message
        else:
            status, reason, message = TRUE, "Resolved", ""
        conditions = set_condition(
            buffer.conditions, owner, READY_FOR_PROVISIONING, status, reason=reason, message=message
        )
        provisioning = self._get_provisioning(buffer, count, resolved=resolved is not None)
        if provisioning is not None:
            conditions = set_condition(
                conditions, owner, PROVISIONING, provisioning[0], reason=provisioning[1]
            )
        template = resolved if buffer.scalable_ref is None else None
        after = msgspec.structs.replace(
            buffer,
            conditions=conditions,
            status_replicas=count,
            status_pod_template="" if template is None else template.source.name,
            status_pod_template_generation=None if template is None else template.generation,
            status_strategy=buffer.strategy,
        )
        await patch_if_exists(
            self._kube,
            CAPACITY_BUFFERS,
            buffer.name,
            capacitybuffer_status_patch(buffer, after),
            buffer.namespace,
            subresource="status",
        )

    def _get_provisioning(
        self, buffer: CapacityBuffer, count: int | None, *, resolved: bool
    ) -> tuple[str, str] | None:
        """Return status and reason of Provisioning; None before the first simulation."""
        if not resolved:
            return FALSE, "NotReadyForProvisioning"
        if not count:
            return FALSE, "BufferEmpty"
        is_provisioned = self._capacity_buffers.is_provisioned(buffer.key)
        if is_provisioned is None:
            return None
        return (TRUE, "FitsExistingCapacity") if is_provisioned else (FALSE, "RequiresNewCapacity")


def controller(context: ControllerContext) -> Controller | None:
    """Return the registration of this controller."""
    if not context.feature_gates.CapacityBuffer:
        return None
    reconciler = CapacityBufferController(context)
    return Controller(
        name="capacitybuffer",
        reconciler=reconciler,
        watches=[
            (CAPACITY_BUFFERS, lambda change: (change.latest.key,)),
            *((resource, reconciler.handle_source) for resource in (POD_TEMPLATES, *_SCALABLE.values())),
        ],
        sources=(reconciler.watch_plans,),
    )


def _get_source(buffer: CapacityBuffer) -> _PodSource | None:
    """Return what a buffer refers to; None if the kind is not supported."""
    ref = buffer.scalable_ref
    if ref is None:
        return _PodSource(POD_TEMPLATES, buffer.namespace, buffer.pod_template)
    if (ref.group or "apps") != "apps" or ref.kind not in _SCALABLE:
        return None
    return _PodSource(_SCALABLE[ref.kind], buffer.namespace, ref.name)
