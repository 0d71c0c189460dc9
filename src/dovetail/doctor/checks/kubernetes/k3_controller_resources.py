"""K3: the controller has too little memory or CPU for its cluster."""

from collections.abc import Iterator
from typing import Any, Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many
from dovetail.model.kube.quantity import parse_amount
from dovetail.ports.api_resources import NODES, PODS

_MIB: Final = 1 << 20
_LEAST: Final = 1024
"""MiB for a small cluster."""
_NODES_A_GIB: Final = 400
_WAITING_A_GIB: Final = 10_000
_LEAST_CPU: Final = 500
"""Millicores."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out limits below what so many nodes and waiting pods take."""
    found = controller_of(facts)
    if found is None:
        return
    waiting = sum(
        at(one, "status", "phase") == "Pending" and not at(one, "spec", "nodeName")
        for one in facts.of(PODS)
    )
    nodes = len(facts.of(NODES))
    gib = 1 + max(0, nodes - _NODES_A_GIB) / _NODES_A_GIB + waiting / _WAITING_A_GIB
    wanted = int(gib * _LEAST)
    memory = _amount("memory", at(found.container, "resources", "limits", "memory"))
    cpu = _amount("cpu", at(found.container, "resources", "limits", "cpu"))
    whys = []
    if memory is not None and memory < wanted * _MIB:
        whys.append(f"memory limit {memory // _MIB} MiB, about {wanted} MiB are needed")
    if cpu is not None and cpu < _LEAST_CPU:
        whys.append(f"cpu limit {cpu}m; 1 CPU is usual")
    killed = sum(
        at(status, "lastState", "terminated", "reason") == "OOMKilled"
        for pod in found.pods
        for status in many(pod, "status", "containerStatuses")
    )
    if killed:
        whys.append(f"{killed} replicas were last ended by OOMKilled")
    if whys:
        yield Symptom(
            about=found.about,
            seen=f"{nodes} nodes, {waiting} pods without a node; {'; '.join(whys)}",
            wrong="it is killed, or thinks too slowly, just when most pods wait",
            fix=f"kubectl set resources deployment {found.name} -n {found.namespace} "
            f"--requests=cpu=1,memory={wanted}Mi --limits=memory={wanted}Mi",
        )


def _amount(resource: str, text: Any) -> int | None:
    try:
        return None if text is None else parse_amount(resource, text)
    except ValueError:
        return None


CHECK = Check(
    code="K3",
    title="controller too small for the backlog",
    severity=Severity.RISK,
    how="limits of the controller against nodes and waiting pods; OOMKilled replicas",
    mend="raise the limits",
    needs=(Part.CONTROLLER, PODS, NODES),
    find=find,
)
