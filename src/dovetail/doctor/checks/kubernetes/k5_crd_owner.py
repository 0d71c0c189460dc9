"""K5: the definitions belong to different Helm releases, or some to none."""

from collections.abc import Iterator

from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.check import Check
from dovetail.doctor.crds import definitions
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, name_of
from dovetail.ports.kube_client import Object

_NAME, _NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out definitions whose owner is not that of the others."""
    owners = {name_of(one): _owner(one) for one in definitions(facts)}
    # The release that is made for definitions, where there is one; else the usual owner.
    known = sorted(
        set(owners.values()) - {""},
        key=lambda one: (not one.endswith("-crd"), -list(owners.values()).count(one), one),
    )
    if not known:
        return
    right = known[0]
    namespace, _, release = right.partition("/")
    for name, owner in sorted(owners.items()):
        if owner == right:
            continue
        yield Symptom(
            about=f"CustomResourceDefinition/{name}",
            seen=f"owned by {owner or 'no release'}, others by {right}",
            wrong="helm upgrade ends with 'invalid ownership metadata'",
            fix=f"kubectl label crd {name} --overwrite app.kubernetes.io/managed-by=Helm && "
            f"kubectl annotate crd {name} --overwrite {_NAME}={release} {_NAMESPACE}={namespace}",
        )


def _owner(definition: Object) -> str:
    annotations = at(definition, "metadata", "annotations") or {}
    if not annotations.get(_NAME):
        return ""
    return f"{annotations.get(_NAMESPACE, '')}/{annotations[_NAME]}"


CHECK = Check(
    code="K5",
    title="CRD owned by the other chart",
    severity=Severity.RISK,
    how="Helm's annotations on the controller's CustomResourceDefinitions",
    mend="label and annotate them for one release",
    needs=(CRDS,),
    find=find,
)
