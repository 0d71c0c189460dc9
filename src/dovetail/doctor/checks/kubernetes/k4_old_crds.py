"""K4: the definitions of the kinds are older than the controller."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import Controller, controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of, shown
from dovetail.eks.desired.charts import CONTROLLERS
from dovetail.ports.kube_client import Object

_POOLS: Final = "nodepools.karpenter.sh"
_CLAIMS: Final = "nodeclaims.karpenter.sh"
_CLASSES: Final = "ec2nodeclasses.karpenter.k8s.aws"
_SINCE: Final = (
    ((1, 0), _POOLS, "template"),
    ((1, 0), _CLAIMS, "requirements"),
    ((1, 0), _CLASSES, "subnetSelectorTerms"),
    ((1, 3), _CLASSES, "capacityReservationSelectorTerms"),
    ((1, 8), _POOLS, "replicas"),
    ((1, 11), _CLASSES, "placementGroupSelector"),
)
"""Since this version of Karpenter the specification of a kind has this field."""
_OPTIONAL: Final = ("nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io")
"""Kinds that only those need who switch a feature on."""
_FIX: Final = {
    "karpenter": f"helm upgrade --install karpenter-crd {CONTROLLERS['karpenter'][1].chart} "
    "--version VERSION --namespace {namespace}",
    "dovetail": "dovetail crds | kubectl apply --server-side -f -",
}


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out definitions that are missing or lack fields which the controller writes."""
    found = controller_of(facts)
    if found is None:
        return
    there = {name_of(one): one for one in facts.of(CRDS)}
    for name, fields in sorted(_wanted(found).items()):
        definition = there.get(name)
        if definition is None:
            if name not in _OPTIONAL:
                yield _symptom(found, name, "there is no such definition")
            continue
        missing = sorted(fields - _fields(definition))
        if missing:
            yield _symptom(found, name, f"v1 has no spec.{shown(missing)}")


def _symptom(found: Controller, name: str, seen: str) -> Symptom:
    return Symptom(
        about=f"CustomResourceDefinition/{name}",
        seen=seen,
        wrong="the API server drops such fields without a word; Helm never updates definitions",
        fix=_FIX[found.kind].format(namespace=found.namespace),
    )


def _wanted(found: Controller) -> dict[str, set[str]]:
    if found.kind == "dovetail":
        return {one.name: _fields(one.written()) for one in DEFINITIONS}
    wanted: dict[str, set[str]] = {}
    for since, name, field in _SINCE:
        if found.version >= since:
            wanted.setdefault(name, set()).add(field)
    return wanted


def _fields(definition: Object | Mapping[str, Any]) -> set[str]:
    """Return the fields of the specification in all served versions but the old ones."""
    return {
        field
        for version in many(definition, "spec", "versions")
        if version.get("name") != "v1beta1"
        for field in at(version, "schema", "openAPIV3Schema", "properties", "spec", "properties")
        or {}
    }


CHECK = Check(
    code="K4",
    title="CRDs older than the controller",
    severity=Severity.BROKEN,
    how="fields in the cluster's CustomResourceDefinitions against those of the version",
    mend="apply the definitions that belong to the controller (chart karpenter-crd)",
    needs=(Part.CONTROLLER, Part.VERSION, CRDS),
    find=find,
)
