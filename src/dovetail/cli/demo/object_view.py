"""Views of Kubernetes objects, decoded from wire format."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.quantity import parse_quantity
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field

_TERMINAL_PHASES: Final = ("Succeeded", "Failed")


class PodState(StrEnum):
    """Lifecycle state of a pod."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """A pod."""

    workload: str
    state: PodState
    node: str = ""
    cpu: int = 0
    """Requests, in millicores."""


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node."""

    name: str
    provider_id: str
    is_ready: bool
    is_initialized: bool
    """Initialized, or not managed by Dovetail."""
    is_terminating: bool
    cpu: int
    """Allocatable, in millicores."""


class ClaimView(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim."""

    name: str
    provider_id: str
    is_terminating: bool


def view_pod(pod: Object) -> PodView | None:
    """Return the view of a pod; None if it has completed."""
    phase = get_field(pod, "status", "phase")
    if phase in _TERMINAL_PHASES:
        return None
    node = get_field(pod, "spec", "nodeName") or ""
    if pod["metadata"].get("deletionTimestamp"):
        state = PodState.STOPPING
    elif not node:
        state = PodState.WAITING
    else:
        ready = phase == "Running" and _is_true(pod, "Ready")
        state = PodState.RUNNING if ready else PodState.STARTING
    return PodView(workload=_workload(pod), state=state, node=node, cpu=_requested_cpu(pod))


def view_node(node: Object) -> NodeView:
    """Return the view of a node."""
    meta = node["metadata"]
    labels = meta.get("labels") or {}
    taints = get_field(node, "spec", "taints") or ()
    return NodeView(
        name=meta["name"],
        provider_id=get_field(node, "spec", "providerID") or "",
        is_ready=_is_true(node, "Ready"),
        is_initialized=label_keys.NODEPOOL not in labels or label_keys.INITIALIZED in labels,
        is_terminating=bool(meta.get("deletionTimestamp"))
        or any(taint["key"] == DISRUPTED_TAINT.key for taint in taints),
        cpu=_millicores(get_field(node, "status", "allocatable", "cpu") or 0),
    )


def view_claim(claim: Object) -> ClaimView:
    """Return the view of a NodeClaim."""
    return ClaimView(
        name=claim["metadata"]["name"],
        provider_id=get_field(claim, "status", "providerID") or "",
        is_terminating=bool(claim["metadata"].get("deletionTimestamp")),
    )


def _workload(pod: Object) -> str:
    """Return the name of the workload that owns a pod."""
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or ()
    template = (meta.get("labels") or {}).get("pod-template-hash", "")
    name: str = owners[0]["name"].removesuffix(f"-{template}") if owners else meta["name"]
    return name if meta["namespace"] == "default" else f"{meta['namespace']}/{name}"


def _requested_cpu(pod: Object) -> int:
    return sum(
        _millicores(get_field(container, "resources", "requests", "cpu") or 0)
        for container in pod["spec"]["containers"]
    )


def _millicores(quantity: Any) -> int:
    return round(parse_quantity(quantity) * 1000)


def _is_true(obj: Object, kind: str) -> bool:
    conditions = get_field(obj, "status", "conditions") or ()
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)
