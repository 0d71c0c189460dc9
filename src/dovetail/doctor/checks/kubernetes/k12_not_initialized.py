"""K12: a node is there and never counts as ready for pods."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import age, at, condition, many, name_of
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.ports.kube_client import Object

_LONG: Final = timedelta(minutes=10)


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out claims that registered long ago and are not initialised."""
    nodes = {name_of(one): one for one in facts.of(NODES)}
    for claim in facts.of(NODE_CLAIMS):
        registered = condition(claim, "Registered")
        since = age(facts, registered.get("lastTransitionTime"))
        if registered.get("status") != "True" or since < _LONG:
            continue
        told = condition(claim, "Initialized")
        if told.get("status") == "True":
            continue
        node = nodes.get(str(at(claim, "status", "nodeName") or ""), {})
        whys = list(_whys(claim, node)) or [str(told.get("message") or told.get("reason") or "")]
        yield Symptom(
            about=f"NodeClaim/{name_of(claim)}",
            seen=f"registered {int(since.total_seconds() // 60)} minutes ago, not initialised: "
            f"{'; '.join(whys)}",
            wrong="it is never given back or replaced, and pods may not use what it lacks",
            fix=f"kubectl describe node {name_of(node) or 'NODE'}  # install the device plugin, "
            "correct the CNI's flag (ENABLE_POD_ENI), or whoever should remove the taint",
        )


def _whys(claim: Object, node: Object) -> Iterator[str]:
    asked = at(claim, "spec", "resources", "requests") or {}
    there = at(node, "status", "allocatable") or {}
    for name in sorted(asked):
        if "/" in name and name not in there:
            yield f"the node has no {name}"
    left = {str(one.get("key")) for one in many(node, "spec", "taints")}
    for one in many(claim, "spec", "startupTaints"):
        if one.get("key") in left:
            yield f"startup taint {one.get('key')} is still there"


CHECK = Check(
    code="K12",
    title="node never initialised",
    severity=Severity.BROKEN,
    how="NodeClaims registered for 10 minutes without Initialized: missing resources, taints left",
    mend="install the device plugin, correct the CNI flag",
    needs=(NODE_CLAIMS, NODES),
    find=find,
)
