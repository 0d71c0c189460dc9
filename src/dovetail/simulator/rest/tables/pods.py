"""The columns of pods."""

from datetime import datetime
from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.rest.tables.column import AGE, NAME, NONE, Cell, Column, text


def _ready(obj: Object, _: datetime) -> Cell:
    statuses = _statuses(obj)
    helpers = [one for one in look(obj, "spec", "initContainers") or () if _stays(one)]
    names = {one.get("name") for one in helpers}
    ready = sum(bool(one.get("ready")) for one in statuses)
    ready += sum(
        bool(one.get("ready"))
        for one in look(obj, "status", "initContainerStatuses") or ()
        if one.get("name") in names
    )
    return f"{ready}/{len(look(obj, 'spec', 'containers') or ()) + len(helpers)}"


def _stays(container: Object) -> bool:
    """Tell whether an init container runs beside the others instead of before them."""
    return container.get("restartPolicy") == "Always"


def _status(obj: Object, _: datetime) -> Cell:
    if obj["metadata"].get("deletionTimestamp"):
        return "Unknown" if look(obj, "status", "reason") == "NodeLost" else "Terminating"
    return (
        _while_starting(obj)
        or _of_containers(obj)
        or look(obj, "status", "reason")
        or _gated(obj)
        or look(obj, "status", "phase")
        or ""
    )


def _while_starting(obj: Object) -> str:
    """Say how far the init containers are, while they are not done."""
    declared = {one.get("name"): one for one in look(obj, "spec", "initContainers") or ()}
    statuses = look(obj, "status", "initContainerStatuses") or ()
    for at, one in enumerate(statuses):
        state = one.get("state") or {}
        ended = state.get("terminated")
        if ended and ended.get("exitCode", 0) == 0:
            continue
        if _stays(declared.get(one.get("name")) or {}) and one.get("started"):
            continue
        if ended:
            return f"Init:{_ending(ended)}"
        reason = (state.get("waiting") or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{at}/{len(declared)}"
    return ""


def _of_containers(obj: Object) -> str:
    """Return the reason of the first container that waits or has ended."""
    running = False
    shown = ""
    for one in reversed(_statuses(obj)):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            shown = waiting["reason"]
        elif ended:
            shown = _ending(ended)
        elif one.get("ready") and state.get("running") is not None:
            running = True
    if shown == "Completed" and running:
        return "Running" if _is_ready(obj) else "NotReady"
    return shown


def _ending(ended: Object) -> str:
    reason = ended.get("reason")
    if reason:
        return str(reason)
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_ready(obj: Object) -> bool:
    conditions = look(obj, "status", "conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _gated(obj: Object) -> str:
    for one in look(obj, "status", "conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return ""


def _restarts(obj: Object, _: datetime) -> Cell:
    return str(sum(one.get("restartCount", 0) for one in _statuses(obj)))


def _gates(obj: Object, _: datetime) -> Cell:
    gates = [one.get("conditionType") for one in look(obj, "spec", "readinessGates") or ()]
    if not gates:
        return NONE
    conditions = look(obj, "status", "conditions") or ()
    met = {one.get("type") for one in conditions if one.get("status") == "True"}
    return f"{sum(gate in met for gate in gates)}/{len(gates)}"


def _statuses(obj: Object) -> list[Any]:
    return look(obj, "status", "containerStatuses") or []


POD_COLUMNS: Final = (
    NAME,
    Column("Ready", _ready),
    Column("Status", _status),
    Column("Restarts", _restarts),
    AGE,
    Column("IP", text("status", "podIP", missing=NONE), wide=True),
    Column("Node", text("spec", "nodeName", missing=NONE), wide=True),
    Column("Nominated Node", text("status", "nominatedNodeName", missing=NONE), wide=True),
    Column("Readiness Gates", _gates, wide=True),
)
