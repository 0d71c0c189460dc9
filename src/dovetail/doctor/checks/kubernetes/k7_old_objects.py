"""K7: objects are stored in a version that the controller does not know any more."""

from collections.abc import Iterator

from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.check import Check
from dovetail.doctor.crds import definitions
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS

_KUBELET = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
_CLASS = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out old stored versions, and what conversion has left on objects."""
    for one in definitions(facts):
        old = [str(stored) for stored in many(one, "status", "storedVersions") if "beta" in stored]
        if old:
            name = name_of(one)
            yield Symptom(
                about=f"CustomResourceDefinition/{name}",
                seen=f"status.storedVersions has {', '.join(old)}",
                wrong="objects may be stored in a version that 1.1 and later cannot read",
                fix=f"kubectl get {name} -o json | kubectl replace -f - && kubectl patch crd "
                f"{name} --subresource status --type merge "
                '-p \'{"status":{"storedVersions":["v1"]}}\'',
            )
    for kind in (NODE_POOLS, NODE_CLAIMS):
        for one in facts.of(kind):
            left = [
                key
                for key in (_KUBELET, _CLASS)
                if key in (at(one, "metadata", "annotations") or {})
            ]
            if left:
                yield Symptom(
                    about=f"{kind.kind}/{name_of(one)}",
                    seen=f"annotations {', '.join(left)}",
                    wrong="kubelet settings in them count no more from 1.1 on",
                    fix="move them to spec.kubelet of the EC2NodeClass, then: kubectl annotate "
                    f"{kind.kind.lower()} {name_of(one)} " + " ".join(f"{key}-" for key in left),
                )


CHECK = Check(
    code="K7",
    title="v1beta1 objects or kubelet settings left behind",
    severity=Severity.RISK,
    how="storedVersions of the definitions; conversion annotations of pools and claims",
    mend="store every object anew as v1 before 1.1",
    needs=(CRDS, NODE_POOLS, NODE_CLAIMS),
    find=find,
)
