"""What is shown of Kubernetes objects, read from their wire format."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.kube.taints import DISRUPTED
from dovetail.simulator.apiserver.storage.frozen_object import Object, look

_OVER: Final = ("Succeeded", "Failed")


class PodState(StrEnum):
    """Where a pod is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod."""

    workload: str
    state: PodState
    node: str = ""
    cpu: int = 0
    """Requested, in thousandths."""


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A node."""

    name: str
    provider_id: str
    is_ready: bool
    is_joined: bool
    """Dovetail is done with it, or it is none of Dovetail's."""
    is_leaving: bool
    cpu: int
    """To be had, in thousandths."""


class ClaimSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim."""

    name: str
    provider_id: str
    is_leaving: bool


def pod_seen(pod: Object) -> PodSeen | None:
    """Read a pod; None if it has ended."""
    phase = look(pod, "status", "phase")
    if phase in _OVER:
        return None
    node = look(pod, "spec", "nodeName") or ""
    if pod["metadata"].get("deletionTimestamp"):
        state = PodState.STOPPING
    elif not node:
        state = PodState.WAITING
    else:
        ready = phase == "Running" and _is_true(pod, "Ready")
        state = PodState.RUNNING if ready else PodState.STARTING
    return PodSeen(workload=_workload(pod), state=state, node=node, cpu=_requested_cpu(pod))


def node_seen(node: Object) -> NodeSeen:
    """Read a node."""
    meta = node["metadata"]
    labels = meta.get("labels") or {}
    taints = look(node, "spec", "taints") or ()
    return NodeSeen(
        name=meta["name"],
        provider_id=look(node, "spec", "providerID") or "",
        is_ready=_is_true(node, "Ready"),
        is_joined=label_keys.NODEPOOL not in labels or label_keys.INITIALIZED in labels,
        is_leaving=bool(meta.get("deletionTimestamp"))
        or any(taint["key"] == DISRUPTED.key for taint in taints),
        cpu=_thousandths(look(node, "status", "allocatable", "cpu") or 0),
    )


def claim_seen(claim: Object) -> ClaimSeen:
    """Read a NodeClaim."""
    return ClaimSeen(
        name=claim["metadata"]["name"],
        provider_id=look(claim, "status", "providerID") or "",
        is_leaving=bool(claim["metadata"].get("deletionTimestamp")),
    )


def _workload(pod: Object) -> str:
    """Return what a person calls it: the Deployment's name rather than the pod's."""
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or ()
    template = (meta.get("labels") or {}).get("pod-template-hash", "")
    name: str = owners[0]["name"].removesuffix(f"-{template}") if owners else meta["name"]
    return name if meta["namespace"] == "default" else f"{meta['namespace']}/{name}"


def _requested_cpu(pod: Object) -> int:
    return sum(
        _thousandths(look(container, "resources", "requests", "cpu") or 0)
        for container in pod["spec"]["containers"]
    )


def _thousandths(spelled: Any) -> int:
    return round(parse_quantity(spelled) * 1000)


def _is_true(obj: Object, kind: str) -> bool:
    conditions = look(obj, "status", "conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)
