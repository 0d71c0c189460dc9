"""CapacityBuffer controller: virtual pods that reserve capacity, and the status."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.capacitybuffers import buffer_pods, capacitybuffer_status_patch
from dovetail.controllers.context import ControllerBase, ControllerContext
from dovetail.controllers.patches import patch_if_exists
from dovetail.controllers.runtime.manager import Controller, RequeueAfter
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
)
from dovetail.ports.kube_errors import ApiError, NotFound

PROVISIONING: Final = "Provisioning"
_RESOLVE_INTERVAL: Final = RequeueAfter(timedelta(seconds=30))
_SCALABLE: Final = {resource.kind: resource for resource in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}


class _Workload(msgspec.Struct, frozen=True):
    """Pod template and replicas that a buffer refers to."""

    template: Mapping[str, Any]
    replicas: int = 1


class _Unresolved(msgspec.Struct, frozen=True):
    """Why a buffer's reference cannot be resolved."""

    reason: str
    message: str


class CapacityBufferController(ControllerBase):
    """Reconciles one buffer; periodically, because its workload is not watched."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._capacity_buffers = context.capacity_buffers

    async def reconcile(self, key: str) -> RequeueAfter | None:
        # Observe.
        buffer = self._cache.buffer(key)
        if buffer is None or buffer.deleting or buffer.strategy != ACTIVE_CAPACITY:
            self._capacity_buffers.remove(key)
            return None
        workload = await self._resolve(buffer)

        # Decide and act.
        if isinstance(workload, _Unresolved):
            self._capacity_buffers.remove(key)
            await self._write_status(buffer, None, workload)
            return _RESOLVE_INTERVAL
        (pod,) = buffer_pods(buffer, workload.template, 1)
        count = count_buffer_pods(buffer, workload_pods=workload.replicas, requests=pod.spec.requests)
        self._capacity_buffers.set_pods(key, tuple(buffer_pods(buffer, workload.template, count)))
        await self._write_status(buffer, count, None)
        return _RESOLVE_INTERVAL

    async def _resolve(self, buffer: CapacityBuffer) -> _Workload | _Unresolved:
        """Return the workload or pod template that a buffer refers to."""
        ref = buffer.scalable_ref
        if ref is None:
            resource, name, missing = POD_TEMPLATES, buffer.pod_template, "PodTemplateNotFound"
        elif (ref.group or "apps") != "apps" or ref.kind not in _SCALABLE:
            supported = ", ".join(f"apps/{kind}" for kind in sorted(_SCALABLE))
            kind = f"{ref.group}/{ref.kind}" if ref.group else ref.kind
            return _Unresolved("ResolutionFailed", f"{kind} is not supported; use one of {supported}")
        else:
            resource, name, missing = _SCALABLE[ref.kind], ref.name, "ScalableRefNotFound"
        try:
            obj = await self._kube.get(resource, name, buffer.namespace)
        except NotFound:
            reference = f"{resource.kind} {buffer.namespace}/{name}"
            return _Unresolved(missing, f"{reference} not found")
        except ApiError as error:
            return _Unresolved("ResolutionFailed", str(error))
        if ref is None:
            return _Workload(obj["template"])
        spec = obj["spec"]
        replicas = spec.get("replicas")
        return _Workload(spec["template"], 1 if replicas is None else replicas)

    async def _write_status(
        self, buffer: CapacityBuffer, count: int | None, error: _Unresolved | None
    ) -> None:
        owner = ConditionOwner(
            condition_set=CAPACITYBUFFER_CONDITIONS, now=self._loop.now(), generation=buffer.generation
        )
        if error is not None:
            status, reason, message = FALSE, error.reason, error.message
        else:
            status, reason, message = TRUE, "Resolved", ""
        conditions = set_condition(
            buffer.conditions, owner, READY_FOR_PROVISIONING, status, reason=reason, message=message
        )
        provisioning = self._get_provisioning(buffer, count, resolved=error is None)
        if provisioning is not None:
            conditions = set_condition(
                conditions, owner, PROVISIONING, provisioning[0], reason=provisioning[1]
            )
        after = msgspec.structs.replace(buffer, conditions=conditions, status_replicas=count)
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
    return Controller(
        name="capacitybuffer",
        reconciler=CapacityBufferController(context),
        watches=[(CAPACITY_BUFFERS, lambda change: (change.latest.key,))],
    )
