"""P5: most workloads prefer to be spread, and preferences count as demands."""

from collections.abc import Iterator
from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of, namespace_of, shown
from dovetail.ports.api_resources import DEPLOYMENTS
from dovetail.ports.kube_client import Object

_FEWEST: Final = 5
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out that more than half of the Deployments prefer something."""
    found = controller_of(facts)
    if found is None or found.setting("PREFERENCE_POLICY") == "Ignore":
        return
    every = [one for one in facts.of(DEPLOYMENTS) if namespace_of(one) != "kube-system"]
    choosy = [f"{namespace_of(one)}/{name_of(one)}" for one in every if _prefers(one)]
    if len(choosy) < _FEWEST or 2 * len(choosy) <= len(every):
        return
    yield Symptom(
        about=found.about,
        seen=f"{len(choosy)} of {len(every)} Deployments prefer anti-affinity or spreading: "
        f"{shown(choosy)}; PREFERENCE_POLICY is Respect",
        wrong="more nodes are bought than are needed, fewer given back, and passes are slow",
        fix=f"kubectl set env deployment {found.name} -n {found.namespace} "
        "PREFERENCE_POLICY=Ignore",
    )


def _prefers(deployment: Object) -> bool:
    spec = at(deployment, "spec", "template", "spec")
    return bool(many(spec, "affinity", "podAntiAffinity", _PREFERRED)) or any(
        one.get("whenUnsatisfiable") == "ScheduleAnyway"
        for one in many(spec, "topologySpreadConstraints")
    )


CHECK = Check(
    code="P5",
    title="preferred anti-affinity or spread everywhere",
    severity=Severity.ADVICE,
    how="Deployments with preferred anti-affinity or ScheduleAnyway, and PREFERENCE_POLICY",
    mend="relax them, or PREFERENCE_POLICY=Ignore",
    needs=(Part.CONTROLLER, DEPLOYMENTS),
    find=find,
)
