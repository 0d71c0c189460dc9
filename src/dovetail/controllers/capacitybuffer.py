"""Works out for which pods CapacityBuffers want room, and says how that stands."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.capacitybuffers import buffer_status_patch, virtual_pods
from dovetail.controllers.runtime.manager import Registration, Requeue
from dovetail.core.capacitybuffer import room_for
from dovetail.core.conditions import BUFFER, Subject, changed
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY, CapacityBuffer
from dovetail.model.kube.conditions import FALSE, TRUE
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DEPLOYMENTS,
    POD_TEMPLATES,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import ApiError, NotFound
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Mirror

READY: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"
_AGAIN: Final = Requeue(after=timedelta(seconds=30))
_SCALABLE: Final = {one.kind: one for one in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)}


class _Source(msgspec.Struct, frozen=True):
    """Whose pods room is kept for, and how many of them there are."""

    template: Mapping[str, Any]
    replicas: int = 1


class _Unresolved(msgspec.Struct, frozen=True):
    """Why it is not known for whom room is to be kept."""

    reason: str
    message: str


class Buffering:
    """Looks at each buffer now and again: workloads grow, and templates change."""

    def __init__(
        self, *, mirror: Mirror, buffers: Buffers, kube: Kube, loop: Loop, gates: Gates
    ) -> None:
        self._mirror = mirror
        self._buffers = buffers
        self._kube = kube
        self._loop = loop
        self._gates = gates

    def registration(self) -> Registration | None:
        """Have it told of buffers, if they are switched on."""
        if not self._gates.CapacityBuffer:
            return None
        return Registration(
            name="capacitybuffer",
            controller=self,
            watches=[(CAPACITY_BUFFERS, lambda change: (change.either.key,))],
        )

    async def reconcile(self, key: str) -> Requeue | None:
        # Observe.
        buffer = self._mirror.buffer(key)
        if buffer is None or buffer.deleting or buffer.strategy != ACTIVE_CAPACITY:
            self._buffers.drop(key)
            return None
        source = await self._source(buffer)

        # Decide and act.
        if isinstance(source, _Unresolved):
            self._buffers.drop(key)
            await self._write(buffer, None, source)
            return _AGAIN
        (one,) = virtual_pods(buffer, source.template, 1)
        count = room_for(buffer, workload=source.replicas, requests=one.spec.requests)
        self._buffers.keep(key, tuple(virtual_pods(buffer, source.template, count)))
        await self._write(buffer, count, None)
        return _AGAIN

    async def _source(self, buffer: CapacityBuffer) -> _Source | _Unresolved:
        """Find the pod template that a buffer names."""
        ref = buffer.scalable
        if ref is None:
            resource, name, missing = POD_TEMPLATES, buffer.pod_template, "PodTemplateNotFound"
        elif (ref.group or "apps") != "apps" or ref.kind not in _SCALABLE:
            known = ", ".join(f"apps/{one}" for one in sorted(_SCALABLE))
            what = f"{ref.group}/{ref.kind}" if ref.group else ref.kind
            return _Unresolved("ResolutionFailed", f"{what} is none of {known}")
        else:
            resource, name, missing = _SCALABLE[ref.kind], ref.name, "ScalableRefNotFound"
        try:
            found = await self._kube.get(resource, name, buffer.namespace)
        except NotFound:
            where = f"{resource.kind} {buffer.namespace}/{name}"
            return _Unresolved(missing, f"there is no {where}")
        except ApiError as error:
            return _Unresolved("ResolutionFailed", str(error))
        if ref is None:
            return _Source(found["template"])
        spec = found["spec"]
        wanted = spec.get("replicas")
        return _Source(spec["template"], 1 if wanted is None else wanted)

    async def _write(
        self, buffer: CapacityBuffer, count: int | None, wrong: _Unresolved | None
    ) -> None:
        who = Subject(family=BUFFER, now=self._loop.now(), generation=buffer.generation)
        if wrong is not None:
            told = (FALSE, wrong.reason, wrong.message)
        else:
            told = (TRUE, "Resolved", "")
        status, reason, message = told
        conditions = changed(buffer.conditions, who, READY, status, reason=reason, message=message)
        stands = self._standing(buffer, count, resolved=wrong is None)
        if stands is not None:
            conditions = changed(conditions, who, PROVISIONING, stands[0], reason=stands[1])
        after = msgspec.structs.replace(buffer, conditions=conditions, room_for=count)
        patch = buffer_status_patch(buffer, after)
        if patch:
            try:
                await self._kube.patch(
                    CAPACITY_BUFFERS, buffer.name, patch, buffer.namespace, subresource="status"
                )
            except NotFound:
                return  # It went meanwhile.

    def _standing(
        self, buffer: CapacityBuffer, count: int | None, *, resolved: bool
    ) -> tuple[str, str] | None:
        """Return status and reason of Provisioning; None while nobody has looked for room."""
        if not resolved:
            return FALSE, "NotReadyForProvisioning"
        if not count:
            return FALSE, "BufferEmpty"
        fits = self._buffers.fits(buffer.key)
        if fits is None:
            return None
        return (TRUE, "FitsExistingCapacity") if fits else (FALSE, "RequiresNewCapacity")
