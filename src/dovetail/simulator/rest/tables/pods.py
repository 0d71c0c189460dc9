"""Printer columns of pods, as kubectl shows them."""

from datetime import datetime
from typing import Any, Final

from dovetail.simulator.apiserver.conditions import get_condition, is_condition_true
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.rest.tables.column import AGE, NAME, NONE, Cell, Column, print_text


def _print_ready(obj: Object, _: datetime) -> Cell:
    statuses = _container_statuses(obj)
    sidecars = [
        container for container in get_field(obj, "spec", "initContainers") or () if _is_sidecar(container)
    ]
    sidecar_names = {sidecar.get("name") for sidecar in sidecars}
    ready = sum(bool(status.get("ready")) for status in statuses)
    ready += sum(
        bool(status.get("ready"))
        for status in get_field(obj, "status", "initContainerStatuses") or ()
        if status.get("name") in sidecar_names
    )
    return f"{ready}/{len(get_field(obj, 'spec', 'containers') or ()) + len(sidecars)}"


def _is_sidecar(container: Object) -> bool:
    """Return True if an init container runs beside the others instead of before them."""
    return container.get("restartPolicy") == "Always"


def _print_status(obj: Object, _: datetime) -> Cell:
    if obj["metadata"].get("deletionTimestamp"):
        return "Unknown" if get_field(obj, "status", "reason") == "NodeLost" else "Terminating"
    gate = get_condition(obj, "PodScheduled") or {}
    return (
        _init_container_reason(obj)
        or _container_reason(obj)
        or get_field(obj, "status", "reason")
        or ("SchedulingGated" if gate.get("reason") == "SchedulingGated" else "")
        or get_field(obj, "status", "phase")
        or ""
    )


def _init_container_reason(obj: Object) -> str:
    """Return the progress of the init containers; empty if all are done."""
    containers = {
        container.get("name"): container for container in get_field(obj, "spec", "initContainers") or ()
    }
    statuses = get_field(obj, "status", "initContainerStatuses") or ()
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        terminated = state.get("terminated")
        if terminated and terminated.get("exitCode", 0) == 0:
            continue
        if _is_sidecar(containers.get(status.get("name")) or {}) and status.get("started"):
            continue
        if terminated:
            return f"Init:{_termination_reason(terminated)}"
        reason = (state.get("waiting") or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(containers)}"
    return ""


def _container_reason(obj: Object) -> str:
    """Return the reason of the first container that waits or has terminated."""
    has_running = False
    reason = ""
    for status in reversed(_container_statuses(obj)):
        state = status.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated:
            reason = _termination_reason(terminated)
        elif status.get("ready") and state.get("running") is not None:
            has_running = True
    if reason == "Completed" and has_running:
        return "Running" if is_condition_true(obj, "Ready") else "NotReady"
    return reason


def _termination_reason(terminated: Object) -> str:
    reason = terminated.get("reason")
    if reason:
        return str(reason)
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _print_readiness_gates(obj: Object, _: datetime) -> Cell:
    gates = [gate.get("conditionType") for gate in get_field(obj, "spec", "readinessGates") or ()]
    if not gates:
        return NONE
    conditions = get_field(obj, "status", "conditions") or ()
    true_types = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    return f"{sum(gate in true_types for gate in gates)}/{len(gates)}"


def _container_statuses(obj: Object) -> list[Any]:
    return get_field(obj, "status", "containerStatuses") or []


POD_COLUMNS: Final = (
    NAME,
    Column("Ready", _print_ready),
    Column("Status", _print_status),
    Column(
        "Restarts",
        lambda obj, _: str(sum(status.get("restartCount", 0) for status in _container_statuses(obj))),
    ),
    AGE,
    Column("IP", print_text("status", "podIP", missing=NONE), wide=True),
    Column("Node", print_text("spec", "nodeName", missing=NONE), wide=True),
    Column("Nominated Node", print_text("status", "nominatedNodeName", missing=NONE), wide=True),
    Column("Readiness Gates", _print_readiness_gates, wide=True),
)
