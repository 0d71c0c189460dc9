"""CustomResourceDefinitions and stored versions of the controller's kinds."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.doctor.api_resources import CRDS
from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import Controller
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.object_fields import get_field, get_list, join_names, name_of
from dovetail.eks.desired.charts import CONTROLLERS
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS
from dovetail.ports.kube_client import Object

GROUPS = ("karpenter.sh", "karpenter.k8s.aws")


def definitions(facts: Facts) -> list[Object]:
    """Return the controller's CustomResourceDefinitions in the cluster."""
    return [crd for crd in facts.of(CRDS) if get_field(crd, "spec", "group") in GROUPS]


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
"""Version of Karpenter, CRD, and the field of spec that this version added."""
_OPTIONAL: Final = ("nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io")
"""CRDs that only feature gates need."""
_FIX: Final = {
    "karpenter": f"helm upgrade --install karpenter-crd {CONTROLLERS['karpenter'][1].chart} "
    "--version VERSION --namespace {namespace}",
    "dovetail": "dovetail crds | kubectl apply --server-side -f -",
}


@controller_check(
    code="K4",
    title="CRDs older than the controller",
    severity=Severity.BROKEN,
    detection="fields of the cluster's CustomResourceDefinitions against those of the controller's version",
    remedy="apply the CRDs of the controller's version (chart karpenter-crd)",
    needs=(Part.VERSION, CRDS),
)
def old_crds(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield CRDs that are missing or lack fields that the controller writes."""
    crds = {name_of(crd): crd for crd in facts.of(CRDS)}
    for name, fields in sorted(_required_fields(controller).items()):
        definition = crds.get(name)
        if definition is None:
            if name not in _OPTIONAL:
                yield _symptom(controller, name, "it does not exist")
            continue
        missing = sorted(fields - _fields(definition))
        if missing:
            yield _symptom(controller, name, f"v1 has no spec.{join_names(missing)}")


def _symptom(controller: Controller, name: str, evidence: str) -> Symptom:
    return Symptom(
        about=f"CustomResourceDefinition/{name}",
        seen=evidence,
        wrong="the API server drops these fields silently; Helm never updates CRDs",
        fix=_FIX[controller.kind].format(namespace=controller.namespace),
    )


def _required_fields(controller: Controller) -> dict[str, set[str]]:
    if controller.kind == "dovetail":
        return {definition.name: _fields(definition.encode()) for definition in DEFINITIONS}
    required: dict[str, set[str]] = {}
    for since, name, field in _SINCE:
        if controller.version >= since:
            required.setdefault(name, set()).add(field)
    return required


def _fields(definition: Object | Mapping[str, Any]) -> set[str]:
    """Return the fields of spec in all versions except v1beta1."""
    return {
        field
        for version in get_list(definition, "spec", "versions")
        if version.get("name") != "v1beta1"
        for field in get_field(version, "schema", "openAPIV3Schema", "properties", "spec", "properties") or {}
    }


_NAME, _NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


@check(
    code="K5",
    title="CRD owned by the other chart",
    severity=Severity.RISK,
    detection="Helm's annotations on the controller's CustomResourceDefinitions",
    remedy="label and annotate them for one release",
    needs=(CRDS,),
)
def crd_owner(facts: Facts) -> Iterator[Symptom]:
    """Yield CRDs of another Helm release than the others."""
    owners = {name_of(definition): _owner(definition) for definition in definitions(facts)}
    # Prefer the release of a CRD chart; else the most common owner.
    releases = sorted(
        set(owners.values()) - {""},
        key=lambda owner: (not owner.endswith("-crd"), -list(owners.values()).count(owner), owner),
    )
    if not releases:
        return
    expected = releases[0]
    namespace, _, release = expected.partition("/")
    for name, owner in sorted(owners.items()):
        if owner == expected:
            continue
        yield Symptom(
            about=f"CustomResourceDefinition/{name}",
            seen=f"owned by {owner or 'no release'}, others by {expected}",
            wrong="helm upgrade ends with 'invalid ownership metadata'",
            fix=f"kubectl label crd {name} --overwrite app.kubernetes.io/managed-by=Helm && "
            f"kubectl annotate crd {name} --overwrite {_NAME}={release} {_NAMESPACE}={namespace}",
        )


def _owner(definition: Object) -> str:
    annotations = get_field(definition, "metadata", "annotations") or {}
    if not annotations.get(_NAME):
        return ""
    return f"{annotations.get(_NAMESPACE, '')}/{annotations[_NAME]}"


@controller_check(
    code="K6",
    title="conversion webhook points nowhere",
    severity=Severity.BROKEN,
    detection="spec.conversion of the CustomResourceDefinitions against the controller's namespace",
    remedy="set the namespace, or drop the webhook from 1.1 on",
    needs=(Part.VERSION, CRDS),
)
def conversion_webhook(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield conversion webhooks of another namespace, and all from 1.1 on."""
    for definition in definitions(facts):
        if get_field(definition, "spec", "conversion", "strategy") != "Webhook":
            continue
        service = get_field(definition, "spec", "conversion", "webhook", "clientConfig", "service") or {}
        endpoint = f"{service.get('namespace')}/{service.get('name')}"
        is_removed = controller.version >= (1, 1)
        if not is_removed and service.get("namespace") == controller.namespace:
            continue
        name = name_of(definition)
        version = ".".join(map(str, controller.version)) if controller.kind == "karpenter" else "Dovetail"
        yield Symptom(
            about=f"CustomResourceDefinition/{name}",
            seen=f"conversion webhook {endpoint}; the controller is in {controller.namespace}"
            + (f", and {version} has none" if is_removed else ""),
            wrong="every list and write of this kind fails",
            fix=merge_patch(f"crd {name}", {"spec": {"conversion": {"strategy": "None", "webhook": None}}}),
        )


_KUBELET = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
_CLASS = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"


@check(
    code="K7",
    title="v1beta1 objects or kubelet settings left behind",
    severity=Severity.RISK,
    detection="storedVersions of the CRDs; conversion annotations of NodePools and NodeClaims",
    remedy="rewrite every object as v1 before 1.1",
    needs=(CRDS, NODE_POOLS, NODE_CLAIMS),
)
def old_objects(facts: Facts) -> Iterator[Symptom]:
    """Yield old stored versions, and leftover conversion annotations."""
    for definition in definitions(facts):
        old = [str(stored) for stored in get_list(definition, "status", "storedVersions") if "beta" in stored]
        if old:
            name = name_of(definition)
            yield Symptom(
                about=f"CustomResourceDefinition/{name}",
                seen=f"status.storedVersions has {', '.join(old)}",
                wrong="objects may be stored in a version that 1.1 and later cannot read",
                fix=f"kubectl get {name} -o json | kubectl replace -f - && "
                + merge_patch(f"crd {name} --subresource status", {"status": {"storedVersions": ["v1"]}}),
            )
    for kind in (NODE_POOLS, NODE_CLAIMS):
        for obj in facts.of(kind):
            annotations = [
                key for key in (_KUBELET, _CLASS) if key in (get_field(obj, "metadata", "annotations") or {})
            ]
            if annotations:
                yield Symptom(
                    about=f"{kind.kind}/{name_of(obj)}",
                    seen=f"annotations {', '.join(annotations)}",
                    wrong="kubelet settings in them are ignored from 1.1 on",
                    fix="move them to spec.kubelet of the EC2NodeClass, then: kubectl annotate "
                    f"{kind.kind.lower()} {name_of(obj)} " + " ".join(f"{key}-" for key in annotations),
                )
